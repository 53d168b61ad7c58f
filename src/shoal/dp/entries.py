"""Entries of the ledger: their tables, how one is chained to the next, and when a charge is refused."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shoal.dp.budget import epsilon
from shoal.errors import BudgetError, MissingExtraError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

START = "0" * 64
_REMEMBERED = 100_000  # analysts whose totals are kept in memory
NO_UNIT = "none yet"
METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "shoal_entries",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # charge, settle, receipt, refusal, end
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("micro", sa.BigInteger, nullable=False),
    sa.Column("dataset_total", sa.BigInteger, nullable=False),
    sa.Column("analyst_total", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Integer, nullable=False),
    sa.Column("refers", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Index("shoal_by_analyst", "dataset", "analyst", "seq"),
    sa.Index("shoal_by_dataset", "dataset", "seq"),
    sa.Index("shoal_by_key", "dataset", "key", "kind", "seq"),
)
HEAD = sa.Table(
    "shoal_head",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)


class Statement:
    """A statement compiled once for each kind of database and run on the driver itself.

    Compiling, binding and wrapping cost several times what the statement does.
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def run(self, connection: sa.Connection, values: dict[str, Any] | None = None) -> Any:
        """Execute it in the connection's transaction and give the first row, if it has any, as a tuple."""
        name = connection.dialect.name
        if name not in self._compiled:
            made = self._statement.compile(dialect=connection.dialect)
            own = {each: value for each, value in made.params.items() if value is not None}
            self._compiled[name] = made.string, made.positiontup, own
        text, order, own = self._compiled[name]
        bound = {**own, **(values or {})}
        driver: Any = connection.connection.dbapi_connection
        cursor = driver.execute(text, bound if order is None else [bound[each] for each in order])
        return None if cursor.description is None else cursor.fetchone()


def _is_of(**names: str) -> list[Any]:
    return [ENTRIES.c[column] == sa.bindparam(bound) for column, bound in names.items()]


_FIELDS = tuple(column.name for column in ENTRIES.columns)
_HEAD = sa.select(HEAD.c.seq, HEAD.c.hash).where(HEAD.c.id == 1)
_TOTALS = sa.select(ENTRIES.c.unit, ENTRIES.c.dataset_total, ENTRIES.c.ended, ENTRIES.c.analyst_total)
_LAST = _TOTALS.where(*_is_of(dataset="d")).order_by(ENTRIES.c.seq.desc()).limit(1)
_OF_KEY = sa.select(ENTRIES.c.seq, ENTRIES.c.body).where(*_is_of(dataset="d", key="k"))
READ_HEAD = Statement(_HEAD)
_LOCK_HEAD = Statement(_HEAD.with_for_update())
_MOVE_HEAD = Statement(
    HEAD.update().where(HEAD.c.id == 1).values(seq=sa.bindparam("s"), hash=sa.bindparam("h"))
)
_ADD = Statement(ENTRIES.insert())
LAST_OF_DATASET = Statement(_LAST)
LAST_OF_ANALYST = Statement(_LAST.where(*_is_of(analyst="a")))
STORED = Statement(_OF_KEY.where(ENTRIES.c.kind == "settle").order_by(ENTRIES.c.seq).limit(1))
OWN = Statement(
    _OF_KEY.where(
        sa.or_(ENTRIES.c.kind == "settle", ENTRIES.c.kind == "receipt"), *_is_of(analyst="a")
    ).limit(1)
)


@dataclass(frozen=True)
class Claim:
    """What a charge asks for.

    Parameters
    ----------
    dataset, analyst : str
    key : str
        Names the question on this state of the data; equal keys share one stored answer.
    micro : int
    cap : int
        Micro-epsilon that the data set may spend in all.
    analyst_cap : int
        Micro-epsilon that this analyst may spend on it.
    unit : str
        The unit a new data set is kept in for life.
    times : callable
        How often this answer's epsilon counts in the unit that the ledger keeps; 0 if it promises nothing there.
    text : str
        The canonical question, for the record.
    """

    dataset: str
    analyst: str
    key: str
    micro: int
    cap: int
    analyst_cap: int
    unit: str
    times: Callable[[str], int] = field(compare=False)
    text: str = ""


@dataclass(frozen=True)
class Charge:
    """A committed charge, or a stored answer that came in its place.

    Parameters
    ----------
    seq : int
        The entry that settles must refer to.
    claim : Claim
    charged : int
        Micro-epsilon taken from the analyst, 0 for an answer already received.
    remaining : int
        Micro-epsilon this analyst can still spend.
    ended : bool
        Whether the data set's total has ended.
    stored : str, optional
        The body of the stored answer; nothing may be drawn then.
    """

    seq: int
    claim: Claim
    charged: int
    remaining: int
    ended: bool
    stored: str | None = None


@dataclass(frozen=True)
class Check:
    """What `Ledger.verify` found: whether the chain holds, its length, its last hash, and the first problem."""

    holds: bool
    entries: int
    head: str
    problem: str = ""


@dataclass(frozen=True)
class Last:
    """Where a data set and one of its analysts stand."""

    dataset: str
    unit: str
    dataset_total: int
    analyst_total: int
    ended: int


@dataclass
class Known:
    """Where data sets and analysts stand, remembered from one transaction to the next.

    Right as long as the ledger's head is the one remembered: another process that wrote has moved it.
    """

    head: tuple[int, str] = (-1, "")
    datasets: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    analysts: dict[tuple[str, str], int] = field(default_factory=dict)

    def forget(self) -> None:
        """Read everything anew next time."""
        self.head = (-1, "")
        self.datasets.clear()
        self.analysts.clear()


class Writer:
    """Adds entries within one transaction that holds the ledger's only write lock."""

    def __init__(self, connection: sa.Connection, hook: Callable[[str], None], known: Known) -> None:
        self.connection, self.hook, self._known = connection, hook, known
        self._seq, self._hash = _LOCK_HEAD.run(connection)
        if known.head != (self._seq, self._hash) or len(known.analysts) > _REMEMBERED:
            known.forget()
        known.head = (-1, "")  # until this transaction is through

    def last(self, dataset: str, analyst: str) -> Last:
        """Where they stand now."""
        known, owner = self._known, (dataset, analyst)
        if dataset not in known.datasets:
            row = LAST_OF_DATASET.run(self.connection, {"d": dataset})
            if row is None:
                return Last(dataset, "", 0, 0, 0)
            known.datasets[dataset] = row[:3]
        if owner not in known.analysts:
            row = LAST_OF_ANALYST.run(self.connection, {"d": dataset, "a": analyst})
            known.analysts[owner] = 0 if row is None else row[3]
        unit, total, ended = known.datasets[dataset]
        return Last(dataset, unit, total, known.analysts[owner], ended)

    def restore(self, entries: list[dict[str, Any]]) -> None:
        """Take over a whole chain into an empty ledger, as it stands."""
        for entry in entries:
            _ADD.run(self.connection, entry)
            self._seq, self._hash = entry["seq"], entry["hash"]

    def finish(self) -> None:
        """Move the head to the last entry added; what is known then holds once the transaction is through."""
        _MOVE_HEAD.run(self.connection, {"s": self._seq, "h": self._hash})

    def committed(self) -> None:
        """The transaction is through."""
        self._known.head = (self._seq, self._hash)

    def add(
        self,
        last: Last,
        kind: str,
        analyst: str,
        key: str,
        *,
        micro: int = 0,
        refers: int = 0,
        body: str = "",
        unit: str = "",
        ended: int = 0,
    ) -> int:
        """Add an entry and give its number; totals follow from its kind."""
        entry: dict[str, Any] = {
            "seq": self._seq + 1,
            "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "kind": kind,
            "dataset": last.dataset,
            "unit": unit or last.unit,
            "analyst": analyst,
            "key": key,
            "micro": micro,
            "dataset_total": last.dataset_total + (micro if kind == "charge" else 0),
            "analyst_total": last.analyst_total + (micro if kind in ("charge", "receipt") else 0),
            "ended": max(last.ended, ended),
            "refers": refers,
            "body": body,
            "previous": self._hash,
        }
        entry["hash"] = entry_hash(entry)
        _ADD.run(self.connection, entry)
        self._seq, self._hash = entry["seq"], entry["hash"]
        self._known.datasets[last.dataset] = (entry["unit"], entry["dataset_total"], entry["ended"])
        self._known.analysts[last.dataset, analyst] = entry["analyst_total"]
        return self._seq


def take_charge(writer: Writer, claim: Claim) -> Charge:
    """Charge a claim, or hand out what is stored; raises `BudgetError` after adding the refusal."""
    writer.hook("charge-begun")
    last = writer.last(claim.dataset, claim.analyst)
    names = {"d": claim.dataset, "k": claim.key}
    refers, body = STORED.run(writer.connection, names) or (0, None)
    if refers and OWN.run(writer.connection, {**names, "a": claim.analyst}) is not None:
        return Charge(refers, claim, 0, _left(claim, last, 0, 0), bool(last.ended), body)
    new = last.unit in ("", NO_UNIT)
    times = 1 if new else int(claim.times(last.unit))
    asked = claim.micro * times
    to_dataset = 0 if refers else asked
    refusal = _refusal(claim, last, times, to_dataset)
    if refusal:
        writer.add(last, "refusal", claim.analyst, claim.key, body=refusal, unit=last.unit or NO_UNIT)
        raise BudgetError(refusal)
    seq = writer.add(
        last,
        "receipt" if refers else "charge",
        claim.analyst,
        claim.key,
        micro=asked,
        refers=refers,
        body=claim.text,
        unit=claim.unit if new else last.unit,
    )
    writer.hook("charge-written")
    left = _left(claim, last, to_dataset, asked)
    return Charge(seq, claim, asked, left, bool(last.ended), body)


def _refusal(claim: Claim, last: Last, times: int, to_dataset: int) -> str:
    if times == 0:
        return (
            f"The ledger keeps data set {claim.dataset!r} in the unit {last.unit!r} for life; "
            "an answer in a weaker or different unit is refused."
        )
    for owner, spent, asked, cap in (
        ("data set", last.dataset_total, to_dataset, claim.cap),
        ("analyst", last.analyst_total, claim.micro * times, claim.analyst_cap),
    ):
        if spent + asked > cap:
            return (
                f"The budget of this {owner} does not allow epsilon {epsilon(asked)}: "
                f"{epsilon(max(0, cap - spent))} of {epsilon(cap)} is left."
                + (f" In this ledger's unit, {last.unit!r}, it counts {times} times." if times > 1 else "")
            )
    return ""


def _left(claim: Claim, last: Last, to_dataset: int, to_analyst: int) -> int:
    dataset, analyst = (
        claim.cap - last.dataset_total - to_dataset,
        claim.analyst_cap - last.analyst_total - to_analyst,
    )
    return max(0, min(dataset, analyst))


def entry_hash(entry: dict[str, Any]) -> str:
    """The hash that chains an entry to the one before it."""
    plain = json.dumps([entry[name] for name in _FIELDS if name != "hash"], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()
