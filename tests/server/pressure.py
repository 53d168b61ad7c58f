"""Load, races and faults on a real server, each giving figures: small in the tests, in full in `make bench-server`."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import resource
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shoal.dp import Ledger

from .conftest import LiveServer, question

Answered = list[tuple[str, str]]  # the number in the question, and the value that came back


class Pounders:
    """Analysts who ask new questions, one after the other, until told to stop or the server is gone.

    Parameters
    ----------
    servers : list of LiveServer
        Asked in turn, analyst by analyst.
    analysts : int
    stay : bool, default False
        Whether to come back when the connection breaks.
    """

    def __init__(self, servers: list[LiveServer], analysts: int, *, stay: bool = False) -> None:
        self.servers, self.stay = servers, stay
        name = time.monotonic_ns()
        self.tokens = [
            servers[i % len(servers)].book.add(f"pounder-{name}-{i}", "analyst") for i in range(analysts)
        ]
        self.answered: Answered = []
        self.refused: dict[int, int] = {}
        self._on = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self) -> None:
        """Start asking."""
        self._on.set()
        first = time.monotonic_ns() // 1000 % 10**9 * 10**6
        self._threads = [
            threading.Thread(
                target=self._ask, args=(self.servers[i % len(self.servers)], token, first + i * 10**4)
            )
            for i, token in enumerate(self.tokens)
        ]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Stop asking and wait for the last answers."""
        self._on.clear()
        for each in self._threads:
            each.join()

    def _ask(self, live: LiveServer, token: str, place: int) -> None:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        client = http.client.HTTPConnection("127.0.0.1", live.port, timeout=60)
        while self._on.is_set():
            place += 1
            path, body = question(place)
            try:
                client.request("POST", path, json.dumps(body), headers)
                got = client.getresponse()
                text = got.read()
            except (OSError, http.client.HTTPException):
                client.close()
                if not self.stay:
                    return
                time.sleep(0.05)
                continue
            if got.status == 200:
                self.answered.append((str(place), json.loads(text)["value"]))
            else:
                self.refused[got.status] = self.refused.get(got.status, 0) + 1
                if got.status == 429:  # too many tokens that are new at once
                    time.sleep(0.5)
        client.close()


def uncharged(where: str | Path, answered: Answered) -> tuple[int, Any]:
    """How many of these answers have no charge in the ledger, and the check of its chain."""
    ledger = Ledger(where)
    charged = {
        entry.body.split("> ")[1].rstrip(")")
        for entry in ledger.entries()
        if entry.kind == "charge" and "> " in entry.body
    }
    check = ledger.verify()
    ledger.close()
    return sum(place not in charged for place, _ in answered), check


def load(live: LiveServer, analysts: int, seconds: float, where: str | Path | None = None) -> dict[str, Any]:
    """Sustained answers a second, once every analyst is known; each answer is looked up in the ledger."""
    pounders = Pounders([live], analysts)
    pounders.begin()
    until = time.monotonic() + 60
    while len({place[:-4] for place, _ in pounders.answered}) < analysts and time.monotonic() < until:
        time.sleep(0.05)  # until all are known
    first, used, started = len(pounders.answered), cpu(live), time.monotonic()
    time.sleep(seconds)
    answers, used, took = len(pounders.answered) - first, cpu(live) - used, time.monotonic() - started
    pounders.end()
    missing, check = uncharged(where or live.folder / "ledger.db", pounders.answered)
    return {
        "answers/s": round(answers / took, 1),
        "answers": answers,
        "server CPU ms/answer": round(1000 * used / max(1, answers), 2),
        "refused": pounders.refused,
        "answers without charge": missing,
        "ledger holds": check.holds,
    }


def killed_under_load(folder: Path, times: int, workers: int = 1) -> dict[str, Any]:
    """kill -9 of the whole server under load, again and again; after each the ledger must hold all that left."""
    live = LiveServer(folder, workers=workers)
    answered: Answered = []
    missing = broken = 0
    for _ in range(times):
        live.start()
        pounders = Pounders([live], 6)
        pounders.begin()
        until = time.monotonic() + 120
        while len(pounders.answered) < 25 and time.monotonic() < until:
            time.sleep(0.02)
        live.kill()
        pounders.end()
        answered += pounders.answered
        lost, check = uncharged(live.folder / "ledger.db", answered)
        missing, broken = missing + lost, broken + (not check.holds)
    return {
        "kills": times,
        "answers": len(answered),
        "answers without charge": missing,
        "broken ledgers": broken,
    }


def race(servers: list[LiveServer], analysts: int, where: str | Path) -> dict[str, Any]:
    """Analysts, at several servers, racing for the last 1 % of the cap of the data set "last"."""
    name = time.monotonic_ns()
    at = [servers[i % len(servers)] for i in range(analysts)]
    tokens = [live.book.add(f"racer-{name}-{i}", "analyst") for i, live in enumerate(at)]

    def ask(who: int, place: int, epsilon: float) -> int:
        path, body = question(place, epsilon, "last")
        with at[who].http(tokens[who]) as client:
            return client.post(path, json=body).status_code

    assert ask(0, 0, 0.99) == 200
    with ThreadPoolExecutor(analysts) as pool:
        rows = pool.map(lambda who: [ask(who, 100 + 10 * who + i, 0.0011) for i in range(3)], range(analysts))
        statuses = [each for row in rows for each in row]
    ledger = Ledger(where)
    spent, check = ledger.spent("last"), ledger.verify()
    ledger.close()
    return {
        "analysts": analysts,
        "answered": statuses.count(200),
        "refused": statuses.count(403),
        "other": len(statuses) - statuses.count(200) - statuses.count(403),
        "micro-epsilon spent of 1000000": spent,
        "ledger holds": check.holds,
    }


def restarted_under_load(servers: list[LiveServer], crash: Callable[[], None], start: Callable[[], None],
                         where: str, seconds: float) -> dict[str, Any]:  # fmt: skip
    """A database that crashes under load and comes back: refusals in between, no loss."""
    pounders = Pounders(servers, 6, stay=True)
    pounders.begin()
    time.sleep(seconds)
    before = len(pounders.answered)
    crash()
    time.sleep(min(seconds, 2))
    down = len(pounders.answered)
    start()
    until = time.monotonic() + 120
    while len(pounders.answered) < down + 20 and time.monotonic() < until:
        time.sleep(0.05)
    pounders.end()
    missing, check = uncharged(where, pounders.answered)
    return {
        "answers before": before,
        "answers after": len(pounders.answered) - down,
        "refused": pounders.refused,
        "answers without charge": missing,
        "ledger holds": check.holds,
    }


def full_disk(live: LiveServer, seconds: float) -> dict[str, Any]:
    """A disk that fills up under load: refusals, and answers again once there is room; no loss."""
    with _small_disk(live) as make_room:
        pounders = Pounders([live], 4, stay=True)
        pounders.begin()
        until = time.monotonic() + 30 + 10 * seconds
        while not pounders.refused.get(503) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(seconds)
        before = len(pounders.answered)
        make_room()
        until = time.monotonic() + 60
        while len(pounders.answered) < before + 10 and time.monotonic() < until:
            time.sleep(0.05)
        pounders.end()
        live.kill()
        missing, check = uncharged(live.folder / "ledger.db", pounders.answered)
    return {
        "answers before": before,
        "answers after": len(pounders.answered) - before,
        "refused": pounders.refused,
        "answers without charge": missing,
        "ledger holds": check.holds,
    }


@contextlib.contextmanager
def _small_disk(live: LiveServer) -> Iterator[Callable[[], None]]:
    """Start a server whose disk is nearly full: a small tmpfs if we may mount one, else a limit on file sizes."""
    mounted = os.getuid() == 0 and _mount(live.folder)
    if mounted:
        live.refill()
    live.start()
    try:
        if mounted:
            ballast = live.folder / "ballast"
            room = os.statvfs(live.folder)
            ballast.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - (192 << 10))))
            yield ballast.unlink
        else:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            size = (live.folder / "ledger.db-wal").stat().st_size + (64 << 10)
            resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (size, hard))
            yield lambda: resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        live.kill()
        live.book.close()
        if mounted:
            subprocess.run(["umount", "-l", str(live.folder)], check=True)


def _mount(folder: Path) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def slow_clients(live: LiveServer, slow: int, seconds: float) -> dict[str, Any]:
    """Answers a second while others send half requests, garbage, endless heads, and read nothing."""
    alone = load(live, 4, seconds)
    token = live.book.add(f"slow-{time.monotonic_ns()}", "analyst")
    held = [socket.create_connection(("127.0.0.1", live.port)) for _ in range(slow)]
    for place, each in enumerate(held):
        with contextlib.suppress(OSError):
            each.sendall(_TRICKS[place % len(_TRICKS)].replace(b"TOKEN", token.encode()))
    beset = load(live, 4, seconds)
    for each in held:
        each.close()
    return {
        "slow clients": slow,
        "answers/s alone": alone["answers/s"],
        "answers/s beset": beset["answers/s"],
        "refused": beset["refused"],
        "answers without charge": alone["answers without charge"] + beset["answers without charge"],
        "ledger holds": beset["ledger holds"],
    }


_ASK = b"POST /api/v1/datasets/survey/ask HTTP/1.1\r\nHost: x\r\n"
_TRICKS = (
    b"",  # says nothing
    _ASK,  # a head that never ends
    _ASK + b"Content-Length: 100\r\nAuthorization: Bearer TOKEN\r\n\r\n{",  # a body that never ends
    b"\x00\xff\x16\x03 not http\r\n\r\n",
    _ASK + b"X: " + b"y" * 100_000,  # an endless head
    b"GET /api/v1/datasets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n" * 50,  # reads nothing
    _ASK + b"Transfer-Encoding: chunked\r\nAuthorization: Bearer TOKEN\r\n\r\nffffffffffffffff\r\n",
)


def cpu(live: LiveServer) -> float:
    """Seconds of processor that a server and its workers have used."""
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            facts = stat.read_text().rpartition(")")[2].split()
            if live.process.pid in (int(stat.parent.name), int(facts[1])):
                found += int(facts[11]) + int(facts[12])
    return found / os.sysconf("SC_CLK_TCK")
