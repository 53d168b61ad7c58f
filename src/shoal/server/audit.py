"""The auditor over HTTP: two servers on loopback over two files that differ by one unit, and all that is seen of them.

An analyst sees answers, costs, what is left, refusals and times; an auditor sees the log. Each run asks one question that
nobody asked before, on one of the two servers, and the distinguishing game is played on what comes back.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from shoal.audit import FILES, FilePair, Mechanism, Report, as_number, audit_mechanisms
from shoal.errors import InternalError, MissingExtraError
from shoal.server.accounts import Accounts

try:
    import httpx
except ImportError:
    raise MissingExtraError("httpx", "server") from None

STAGES = (60, 240)
PATIENCE = 180.0
SERVE = (sys.executable, "-m", "shoal", "serve")
_COLUMNS = (
    "charged",
    "left less",
    "cost before",
    "cost after",
    "refusal",
    "refused kind",
    "headers",
    "log",
    "seconds",
)


@dataclass(frozen=True)
class Seen:
    """A server of one file as the audit reaches it."""

    folder: Path
    port: int
    tokens: dict[str, str]
    process: subprocess.Popen[bytes]

    @cached_property
    def clients(self) -> dict[str, httpx.Client]:
        """A client for each role, with its token; made once, since making one takes longer than a question."""
        return {role: self._client(role) for role in self.tokens}

    def _client(self, role: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {self.tokens[role]}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}/api/v1", headers=headers, timeout=60)


def audit_http(epsilon: float = 1.0, stages: Sequence[int] = STAGES) -> Report:
    """Try to refute what a server claims, from its files to its log.

    Parameters
    ----------
    epsilon : float
    stages : sequence of int
        Runs to explore and as many to confirm; each takes some tenths of a second.

    Returns
    -------
    Report
    """
    with contextlib.ExitStack() as stack:
        games = [stack.enter_context(served(pair, epsilon)) for pair in (FILES[0], *PERSONS)]
        return audit_mechanisms("http", games, stages)


@contextlib.contextmanager
def served(
    pair: FilePair, epsilon: float, command: Sequence[str] = SERVE, settings: Sequence[str] = ()
) -> Iterator[Mechanism]:
    """The game on two servers, which run as long as it is played.

    Parameters
    ----------
    pair : FilePair
    epsilon : float
    command : sequence of str
        Words that start a server; the path of its configuration follows them.
    settings : sequence of str
        Further lines of the section `[server]`.
    """
    with tempfile.TemporaryDirectory(prefix="shoal-audit-") as name, contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(_server(Path(name) / str(side), data, pair, (command, settings)))
            for side, data in enumerate((pair.before, pair.after))
        ]
        for side in sides:  # they start at the same time
            _wait_for(side)
        number = itertools.count(1)
        width = len(_once(sides[0], pair, epsilon, next(number))) - len(_COLUMNS)
        for side in sides:
            _once(side, pair, epsilon, next(number))  # whatever is made once is made

        def sample(side: int, draws: int) -> np.ndarray:
            return np.array([_once(sides[side], pair, epsilon, next(number)) for _ in range(draws)])

        columns = (*(f"figure {each}" for each in range(width)), *_COLUMNS)
        yield Mechanism(f"over HTTP: {pair.name}", epsilon, sample, columns, interleaved=True)


def _once(side: Seen, pair: FilePair, epsilon: float, number: int) -> list[float]:
    """Ask one question, and look at everything."""
    joined = "AND" if " WHERE " in pair.sql else "WHERE"
    question = {"sql": f"{pair.sql} {joined} (x > -{number} OR x IS NULL)", "epsilon": epsilon}
    path = f"/datasets/{pair.schema.id}"
    analyst, auditor = side.clients["analyst"], side.clients["auditor"]
    left = analyst.get(f"{path}/budget").json()["remaining"]
    before = analyst.post(f"{path}/cost", json=question).json()["epsilon"]
    started = time.perf_counter()
    told = analyst.post(f"{path}/ask", json=question)
    seconds = time.perf_counter() - started
    answer = told.json()
    after = analyst.post(f"{path}/cost", json=question).json()["epsilon"]
    refusal = analyst.post(f"{path}/ask", json=question | {"epsilon": 1_000_000.0})
    log = auditor.get("/log", params={"last": 3}).json()
    less = round(left - answer["remaining"], 6)
    refused = refusal.json()["error"].replace(str(answer["remaining"]), "LEFT")
    names = json.dumps(sorted(told.headers))
    entries = [[each[name] for name in ("kind", "unit", "analyst", "micro", "body")] for each in log]
    shown = json.dumps(entries).replace(f"-{number}", "-N").replace(str(answer["remaining"]), "LEFT")
    texts = (refused, str((refusal.status_code, sorted(refusal.headers))), names, shown)
    figures = answer["value"] if isinstance(answer["value"], dict) else {"": answer["value"]}
    return [
        *(float(each) for each in figures.values()),
        answer["epsilon"],
        less,
        before,
        after,
        *(as_number(each) for each in texts),
        seconds,
    ]


@contextlib.contextmanager
def _server(
    folder: Path, data: bytes, pair: FilePair, how: tuple[Sequence[str], Sequence[str]]
) -> Iterator[Seen]:
    command, settings = how
    folder.mkdir()
    (folder / "table.csv").write_bytes(data)
    (folder / "schema.toml").write_text(pair.schema.to_toml(), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    lines = [
        "[server]",
        f"port = {port}",
        "requests_per_minute = 60000",
        "refusals_per_hour = 1000000",
        "publish = false",
    ]
    lines += [
        *settings,
        "[datasets.table]",
        'file = "table.csv"',
        'schema = "schema.toml"',
        "budget = 1000000",
    ]
    (folder / "shoal.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    book = Accounts(folder / "accounts.db")
    tokens = {role: book.add(role, role) for role in ("analyst", "auditor")}
    book.close()
    words = [*command, str(folder / "shoal.toml")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            words, stdout=log, stderr=log, start_new_session=True
        )
    seen = Seen(folder, port, tokens, process)
    try:
        yield seen
    finally:
        for client in seen.clients.values():
            client.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(seen: Seen) -> None:
    until, client = time.monotonic() + PATIENCE, seen.clients["analyst"]
    while time.monotonic() < until and seen.process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if client.get(f"http://127.0.0.1:{seen.port}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.1)
    raise InternalError(f"The audited server did not start: {(seen.folder / 'log').read_text()[-300:]}")


def _person(count: int) -> list[str]:
    return [f"p,{each / 10}" for each in range(count)]


def _persons() -> tuple[FilePair, ...]:
    from shoal.schema import Column, Schema, Unit

    schema = Schema(
        {"who": Column("who", kind="category"), "x": Column("x", bounds=(0, 100))},
        id="people",
        unit=Unit("who", 100),
    )
    rows = [f"q{each},50" for each in range(40)]
    before, after = ("\n".join(["who,x", *each, ""]).encode() for each in (rows, rows + _person(90)))
    return (FilePair("a person with ninety values", before, after, schema, "SELECT MEDIAN(x) FROM t"),)


PERSONS = _persons()
