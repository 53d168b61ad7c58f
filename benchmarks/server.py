"""Load and faults of the server on loopback: `make bench-server`.

One row of figures each: answers a second with committed charges, races at a cap, the timing attack beside guessing,
kills, a database and a disk that fail, clients that misbehave. The tests run the same in small.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[0:1] = [
    str(ROOT / "tests"),
    str(ROOT / "src"),
]  # `server` below is the folder of tests, not this file

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

from dp.conftest import BIN, Cluster, system_user  # noqa: E402
from server import abuse, pressure  # noqa: E402
from server.conftest import LiveServer  # noqa: E402
from server.timing import timing_attack  # noqa: E402
from shoal import Session  # noqa: E402
from shoal.dp import col, count  # noqa: E402
from shoal.dp.mechanisms.discrete_laplace import laplace  # noqa: E402
from shoal.schema import Column, Schema  # noqa: E402

CAPS = {"survey": (1e5, 1e5), "last": (1.0, 1.0)}
Row = tuple[str, Callable[[], dict[str, Any]]]


def rows(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    """What to measure, each with a fresh server."""
    yield "a private COUNT through a session", lambda: private_count(folder / "count.db")
    for workers in given.workers:
        yield (
            f"load, SQLite, {workers} workers",
            lambda n=workers: _served(
                [LiveServer(folder / f"load-{n}", datasets=CAPS, workers=n)],
                lambda servers: pressure.load(servers[0], given.clients, given.seconds),
            ),
        )
    yield (
        "race for the last 1 % of a cap",
        lambda: _served(
            [LiveServer(folder / "race", datasets=CAPS)],
            lambda servers: pressure.race(servers, given.analysts, servers[0].folder / "ledger.db"),
        ),
    )
    for slot in (None, 0.0):
        yield (
            f"timing attack, {'slots as they come' if slot is None else 'no slots'}",
            lambda slot=slot: timing_attack(folder / f"timing-{slot}", slot, given.people, given.questions),
        )
    yield "kill -9 under load", lambda: pressure.killed_under_load(folder / "kills", given.kills)
    yield (
        "disk full",
        lambda: pressure.full_disk(LiveServer(folder / "disk", datasets=CAPS), given.seconds / 5),
    )
    yield (
        "slow and malformed clients",
        lambda: _served(
            [LiveServer(folder / "slow", datasets=CAPS)],
            lambda servers: pressure.slow_clients(servers[0], 350, given.seconds / 4),
        ),
    )
    for place, each in enumerate((None, *abuse.ABUSES)):
        yield (
            f"a calm analyst beside {each or 'nobody'}",
            lambda place=place, each=each: _served(
                [abuse.wide_server(folder / f"abuse-{place}")],
                lambda servers: abuse.beside(servers[0], each, 4, given.seconds / 2),
            ),
        )
    if (BIN / "initdb").exists():
        yield from _with_postgresql(folder, given)


def private_count(where: Path, asked: int = 300) -> dict[str, Any]:
    """CPU of a COUNT with its charge on the disk, beside the call of the noise alone; the goal is 5 ms over it."""
    schema = Schema({"age": Column("age", bounds=(0, 110))}, id="count")
    table = pl.DataFrame({"age": np.arange(1000) % 90})
    with Session(table, schema, budget=1e5, ledger=where) as session:
        scale = session._plan(count(), 100_000).releases[0].scale()
        for i in range(20):
            session.ask(count().where(col("age") > -i), 0.1)
        start = time.process_time()
        for i in range(asked):
            session.ask(count().where(col("age") > i), 0.1)
        middle = time.process_time()
        for _ in range(asked):
            laplace(np.array([5]), scale)
        end = time.process_time()
    return {
        "CPU ms/answer": round(1000 * (middle - start) / asked, 2),
        "CPU ms of the noise alone": round(1000 * (end - middle) / asked, 2),
    }


def _with_postgresql(folder: Path, given: argparse.Namespace) -> Iterator[Row]:
    cluster = Cluster(system_user())
    try:
        # Servers of one ledger have one secret, wherever their folders are.
        facts = {"ledger": cluster.url, "datasets": CAPS, "extra": f'secret = "{folder / "pg.secret"}"'}
        one = LiveServer(folder / "pg", workers=2, **facts)
        yield (
            "load, PostgreSQL, 2 workers",
            lambda: _served([one], lambda h: pressure.load(h[0], given.clients, given.seconds, cluster.url)),
        )
        two = [LiveServer(folder / f"pg-{i}", workers=2, **facts) for i in (1, 2)]
        yield (
            "race, 2 servers x 2 workers, PostgreSQL",
            lambda: _served(two, lambda servers: pressure.race(servers, given.analysts, cluster.url)),
        )
        yield (
            "PostgreSQL crashed and restarted under load",
            lambda: _served(
                two,
                lambda servers: pressure.restarted_under_load(
                    servers, cluster.crash, cluster.start, cluster.url, given.seconds / 4
                ),
            ),
        )
    finally:
        cluster.remove()


def _served(
    servers: list[LiveServer], measure: Callable[[list[LiveServer]], dict[str, Any]]
) -> dict[str, Any]:
    try:
        for each in servers:
            each.start()
        return measure(servers)
    finally:
        for each in servers:
            if each.process is not None:
                each.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of load")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--analysts", type=int, default=50, help="who race")
    parser.add_argument("--people", type=int, default=20, help="of the timing attack, half of them held out")
    parser.add_argument("--questions", type=int, default=30, help="about each of them, present and absent")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--json", action="store_true", help="one object per row")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as name:
        for title, measure in rows(Path(name), given):
            if given.only not in title:
                continue
            started = time.monotonic()
            found = measure() | {"seconds": round(time.monotonic() - started)}
            if given.json:
                print(json.dumps({"row": title, **found}), flush=True)
            else:
                print(f"\n{title}", flush=True)
                for key, value in found.items():
                    print(f"  {key:<32}{value}", flush=True)


if __name__ == "__main__":
    main()
