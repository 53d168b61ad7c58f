"""A well-behaved analyst beside others who take what they can: small in the tests, in full in `make bench-server`.

Bounded, on loopback, against a server of our own: what is measured is how long a small question waits meanwhile.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from .conftest import LiveServer, question

GROUPS = 64_288
_REGIONS = GROUPS // 14  # times two sexes and seven diseases
Abuse = Callable[[LiveServer, str, int], int]


def wide_server(folder: Any, extra: str = "") -> LiveServer:
    """A server with a data set whose levels multiply to 64,288 groups, one with hardly any budget, and a plain one."""
    live = LiveServer(folder, extra, {"survey": (1e5, 1e4), "wide": (1e5, 1e4), "spent": (0.001, 0.001)})
    path = live.folder / "wide.toml"
    levels = ", ".join(f'"r{each}"' for each in range(_REGIONS))
    text = path.read_text().replace(
        'levels = ["north", "east", "south", "west", "capital"]', f"levels = [{levels}]"
    )
    assert "r4591" in text
    path.write_text(text)
    return live


def beside(live: LiveServer, abuse: str | None, abusers: int, seconds: float) -> dict[str, Any]:
    """Seconds that small questions of one analyst take while others do what their name says."""
    token = live.book.add(f"calm-{time.monotonic_ns()}", "analyst")
    others = [
        live.book.add(f"{(abuse or 'none').split()[-1]}-{time.monotonic_ns()}-{each}", "analyst")
        for each in range(abusers)
    ]
    on, told = threading.Event(), {}
    on.set()

    def work(place: int) -> None:
        while on.is_set():
            try:
                status = str(ABUSES[abuse](live, others[place], place))
            except httpx.TransportError:
                status = "broken"
            told[status] = 1 + told.get(status, 0)

    threads = [threading.Thread(target=work, args=(each,)) for each in range(abusers if abuse else 0)]
    times, first = [], time.monotonic_ns() // 1000
    with live.http(token) as client:
        path, body = question(first)
        # The token is proven; guesses that another abuse made from this address count against it for a while.
        for _ in range(600):
            if client.post(path, json=body).status_code != 429:
                break
            time.sleep(0.2)
        for each in threads:
            each.start()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            path, body = question(first + len(times) + 1)
            begun = time.monotonic()
            got = client.post(path, json=body)
            times.append(time.monotonic() - begun)
            assert got.status_code == 200, got.text
            time.sleep(0.02)
    on.clear()
    for each in threads:
        each.join()
    times.sort()
    return {
        "abusers": len(threads),
        "answers": len(times),
        "median ms": round(1000 * times[len(times) // 2]),
        "p99 ms": round(1000 * times[min(len(times) - 1, int(len(times) * 0.99))]),
        "told the abusers": dict(sorted(told.items())),
    }


_numbers = itertools.count(1)


def _wrong_token(live: LiveServer, _token: str, place: int) -> int:
    with live.http(f"shoal-{place:012x}-{next(_numbers)}") as client:
        return client.get("/api/v1/me").status_code


def _group_by(columns: str) -> Abuse:
    def ask(live: LiveServer, token: str, _place: int) -> int:
        sql = f"SELECT COUNT(*), AVG(age) FROM t WHERE age > -{next(_numbers)} GROUP BY {columns}"
        with live.http(token) as client:
            return client.post("/api/v1/datasets/wide/ask", json={"sql": sql, "epsilon": 0.01}).status_code

    return ask


def _refused(live: LiveServer, token: str, _place: int) -> int:
    path, body = question(next(_numbers), 1.0, "spent")
    with live.http(token) as client:
        return client.post(path, json=body).status_code


def _long_list(live: LiveServer, token: str, _place: int) -> int:
    with live.http(token) as client:
        return client.get("/api/v1/datasets/survey/answers", params={"last": 1000}).status_code


def _long_text(live: LiveServer, token: str, _place: int) -> int:
    sql = "SELECT COUNT(*) FROM t WHERE " + " OR ".join(f"age = {each}" for each in range(1200))
    with live.http(token) as client:
        return client.post("/api/v1/datasets/survey/cost", json={"sql": sql, "epsilon": 0.01}).status_code


def _asked_together(live: LiveServer, token: str, _place: int) -> int:
    first = next(_numbers)
    queries = [
        f"SELECT COUNT(*) FROM t WHERE age > {each % 90} AND age < {91 + (first + each) % 9}"
        for each in range(500)
    ]
    with live.http(token) as client:
        body = {"queries": queries, "epsilon": 0.01}
        return client.post("/api/v1/datasets/survey/workload/cost", json=body, timeout=120).status_code


ABUSES: dict[str | None, Abuse] = {
    "wrong tokens": _wrong_token,
    "GROUP BY over all 64,288 groups": _group_by("region, sex, disease"),
    "GROUP BY over 9,184 groups": _group_by("region, sex"),
    "questions beyond the budget": _refused,
    "long lists": _long_list,
    "long texts": _long_text,
    "costs of 500 questions asked together": _asked_together,
}
