"""Audits from the outside: two files that differ by one row or one person, and all that can be seen of them.

What an analyst sees (answers, costs, what is left, refusals, times) and what an auditor sees (the log with its keys
and hashes) is turned into numbers, and the distinguishing game is played on these. A `Deployment` says how files
become answers: the product's own way unless it is told otherwise.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.dp.answering.noise import distances
from shoal.dp.answering.releases import Candidates, Limit, Ranks
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.loading.sources import read_private
from shoal.dp.mechanisms.selection import permute_and_flip
from shoal.dp.session import Session
from shoal.dp.sql.expressions import Compare
from shoal.dp.sql.query import Aggregate, Query
from shoal.errors import ShoalError
from shoal.schema import Column, Schema, Unit

EPSILON = 1.0
_RATE_STEPS = 4000
_AT = 1_000_000.0  # hashes as numbers below this


@dataclass(frozen=True)
class Deployment:
    """How a file becomes answers.

    Parameters
    ----------
    read : callable
        Path and schema to table.
    version : callable
        Table to the word under which its answers are stored; None lets the session draw one.
    key_of : callable, optional
        In place of the ledger's keyed hash.
    own_caps : bool, default False
        The session's budget counts, whatever the ledger holds.
    """

    read: Callable[[Path, Schema], Any] = read_private
    version: Callable[[Any], str | None] = field(default=lambda table: None)
    key_of: Callable[[str], str] | None = None
    own_caps: bool = False

    def ledger(self) -> Ledger:
        """A ledger for this deployment, in memory."""
        made = Ledger()
        if self.key_of is not None:
            made._secret.key_of = self.key_of  # type: ignore[method-assign,assignment]
        return made

    def session(self, table: Any, schema: Schema, ledger: Ledger, budget: float) -> Session:
        """A session over a table that was read."""
        if self.own_caps:
            ledger.set_caps(schema.id, round(budget * 1_000_000))
        return Session(table, schema, budget=budget, ledger=ledger, data_version=self.version(table))


@dataclass(frozen=True)
class FilePair:
    r"""Two neighbouring files and what is asked of them.

    Parameters
    ----------
    name : str
    before, after : bytes
        Of CSV files that differ by the rows of one unit.
    schema : Schema
    sql : str

    Examples
    --------
    >>> from shoal.audit import FilePair
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> sql = "SELECT COUNT(*) FROM t"
    >>> pair = FilePair("one row more", b"age\n31\n", b"age\n31\n62\n", schema, sql)
    >>> len(pair.after.splitlines()) - len(pair.before.splitlines())
    1
    """

    name: str
    before: bytes
    after: bytes
    schema: Schema
    sql: str


def _csv(header: str, rows: list[str]) -> bytes:
    return "\n".join([header, *rows, ""]).encode("utf-8", "surrogateescape")


def _pair(name: str, header: str, rows: list[str], more: list[str], schema: Schema, sql: str) -> FilePair:
    return FilePair(name, _csv(header, rows), _csv(header, rows + more), schema, sql)


_CODES = Schema({"dx": Column("dx", kind="category"), "x": Column("x", bounds=(0, 100))}, id="codes")
_PEOPLE = Schema(
    {"who": Column("who", kind="category"), "x": Column("x", bounds=(0, 100))},
    id="people",
    unit=Unit("who", 1),
)
_MANY = ["250.10,41.5"] * 60
FILES = (
    _pair(
        "a code with a letter among codes like numbers",
        "dx,x",
        _MANY,
        ["V45.01,7"],
        _CODES,
        "SELECT COUNT(*) FROM t WHERE dx = '250.10'",
    ),
    _pair(
        "one row in another encoding",
        "dx,x",
        _MANY,
        ["caf\udce9,7"],
        _CODES,
        "SELECT COUNT(*), SUM(x) FROM t",
    ),
    _pair("one decimal comma", "dx,x", _MANY, ['250.10,"7,5"'], _CODES, "SELECT SUM(x), COUNT(x) FROM t"),
    _pair("one text among numbers", "dx,x", _MANY, ["250.10,many"], _CODES, "SELECT AVG(x) FROM t"),
    _pair(
        "an id like a number among numbers",
        "who,x",
        [f"{each},1" for each in range(100, 140)],
        ["12E1,1"],
        _PEOPLE,
        "SELECT COUNT(*) FROM t",
    ),
    _pair(
        "a row without an id",
        "who,x",
        [f"p{each},1" for each in range(40)],
        [",1"],
        _PEOPLE,
        "SELECT COUNT(*) FROM t",
    ),
)


def seen(pair: FilePair, deployment: Deployment | None = None, epsilon: float = EPSILON) -> Mechanism:
    """The game on everything that a first question to a fresh ledger shows."""
    deployment = deployment or Deployment()
    tables = [_read(deployment, data, pair.schema) for data in (pair.before, pair.after)]

    def once(side: int) -> list[float]:
        with deployment.ledger() as ledger:
            session = deployment.session(tables[side], pair.schema, ledger, 2 * epsilon)
            shown = [_cost(session, pair.sql, epsilon)]
            answer = session.ask(pair.sql, epsilon)
            shown += [answer.epsilon or 0.0, answer.remaining or 0.0, _cost(session, pair.sql, epsilon)]
            shown.append(as_number(_refusal(session, pair.sql, 50 * epsilon)))
            log = [entry.shown() for entry in session.ledger.entries() if entry.kind != "secret"]
            keys = [as_number(entry.key) for entry in log[-2:]]
            facts = [as_number(str((each.kind, each.body, each.micro, each.unit))) for each in log[-2:]]
            return [*_figures(answer.value), *shown, *keys, *facts]

    width = len(_figures(_first(deployment, tables[0], pair)))
    names = [f"figure {each}" for each in range(width)]
    names += ["cost before", "charged", "remaining", "cost after", "refusal"]
    names += ["key of the answer", "key of the refusal", "entry of the answer", "entry of the refusal"]
    return _mechanism(pair.name, epsilon, once, names)


def yesterday(pair: FilePair, deployment: Deployment | None = None, epsilon: float = EPSILON) -> Mechanism:
    """The game on what a later `cost` shows, free of charge, about whether the table has changed."""
    deployment = deployment or Deployment()
    tables = [_read(deployment, data, pair.schema) for data in (pair.before, pair.after)]

    def once(side: int) -> list[float]:
        with deployment.ledger() as ledger:
            deployment.session(tables[0], pair.schema, ledger, 2 * epsilon).ask(pair.sql, epsilon)
            session = deployment.session(tables[side], pair.schema, ledger, 2 * epsilon)
            return [_cost(session, pair.sql, epsilon), session.remaining()]

    return _mechanism(f"the day after: {pair.name}", epsilon, once, ["cost", "remaining"])


def beyond_the_cap(deployment: Deployment | None = None, epsilon: float = EPSILON) -> Mechanism:
    """The game against a ledger that allows epsilon once, by somebody who opens sessions with ten times as much."""
    deployment = deployment or Deployment()
    schema = Schema({"x": Column("x", bounds=(0, 1))}, id="capped")
    tables = [pl.DataFrame({"x": ["1"] * rows}) for rows in (3, 4)]

    more = Query((Aggregate("count"),), Compare("x", ">=", -1))

    def once(side: int) -> list[float]:
        with deployment.ledger() as ledger:
            session = deployment.session(tables[side], schema, ledger, epsilon)
            answer, refusal = float(session.ask("SELECT COUNT(*) FROM t", epsilon).value), ""
            try:
                session = deployment.session(tables[side], schema, ledger, 10 * epsilon)
                answer = float(session.ask(more, 8 * epsilon).value)
            except ShoalError as refused:
                refusal = str(refused)
            return [answer, as_number(refusal)]

    return _mechanism("a session with a larger budget", epsilon, once, ["answer", "refusal"])


def timed(
    draw: Callable[[int], Any], name: str, epsilon: float = EPSILON, clock: Callable[[], float] | None = None
) -> Mechanism:
    """The game on the CPU time of a draw on table 0 or 1; the least of three, since a machine only ever adds."""
    tick = clock or time.process_time

    def once(side: int) -> list[float]:
        taken = []
        for _ in range(3):
            start = tick()
            draw(side)
            taken.append(tick() - start)
        return [min(taken)]

    for side in (0, 1):
        draw(side)  # whatever is made once is made
    return replace(_mechanism(name, epsilon, once, ["CPU seconds"]), interleaved=True)


def _quantile_tables() -> list[np.ndarray]:
    """Distances of a median's candidates, without and with a person whose 300 rows all differ."""
    release = Ranks("quantile", 1_000_000, "x", Candidates(0.0, 1.0, 1001), Limit(300), 1, Fraction(1, 2))
    heap, spread = np.zeros(1001, dtype=np.int64), np.zeros(1001, dtype=np.int64)
    heap[500] = 2000
    spread[np.arange(300) * 3] = 1
    return [distances(release, each) for each in (heap, heap + spread)]


def sampled(sampler: Callable[..., Any], name: str, epsilon: float) -> Mechanism:
    """The timing game on one sampler."""
    tables, rate = _quantile_tables(), Fraction(1, _RATE_STEPS)
    return timed(lambda side: sampler(tables[side], rate), name, epsilon)


def _mechanism(name: str, epsilon: float, once: Callable[[int], list[float]], names: list[str]) -> Mechanism:
    def sample(side: int, draws: int) -> np.ndarray:
        return np.array([once(side) for _ in range(draws)], dtype=np.float64).reshape(draws, len(names))

    return Mechanism(name, epsilon, sample, tuple(names))


def _read(deployment: Deployment, data: bytes, schema: Schema) -> Any:
    with tempfile.TemporaryDirectory(prefix="shoal-audit-") as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(data)
        return deployment.read(path, schema)


def _first(deployment: Deployment, table: Any, pair: FilePair) -> Any:
    with deployment.ledger() as ledger:
        return deployment.session(table, pair.schema, ledger, EPSILON).ask(pair.sql, EPSILON).value


def _cost(session: Session, sql: str, epsilon: float) -> float:
    return session.cost(sql, epsilon).epsilon


def _refusal(session: Session, sql: str, epsilon: float) -> str:
    try:
        session.ask(sql, epsilon)
    except ShoalError as refused:
        return str(refused)
    return ""


def _figures(value: Any) -> list[float]:
    return [float(each) for each in value.values()] if isinstance(value, dict) else [float(value)]


def as_number(text: str) -> float:
    """A text as a number: the same for the same text, and otherwise without meaning.

    Examples
    --------
    >>> from shoal.audit import as_number
    >>> as_number("refused") == as_number("refused"), as_number("refused") == as_number("answered")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") % _AT


OUTSIDE: tuple[Callable[[float], Mechanism], ...] = (
    *(lambda e, pair=pair: seen(pair, None, e) for pair in FILES),
    lambda e: yesterday(FILES[0], None, e),
    lambda e: beyond_the_cap(None, e),
    lambda e: sampled(permute_and_flip, "permute-and-flip on a grid of a thousand", e),
)
