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
READ_HEAD = sa.select(HEAD.c.seq, HEAD.c.hash).where(HEAD.c.id == 1)
_LOCK_HEAD = READ_HEAD.with_for_update()
_MOVE_HEAD = HEAD.update().where(HEAD.c.id == 1).values(seq=sa.bindparam("s"), hash=sa.bindparam("h"))
_ADD = ENTRIES.insert()
_FIELDS = tuple(column.name for column in ENTRIES.columns)
_LAST = sa.select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(1)
LAST_OF_DATASET = _LAST.where(ENTRIES.c.dataset == sa.bindparam("d"))
LAST_OF_ANALYST = LAST_OF_DATASET.where(ENTRIES.c.analyst == sa.bindparam("a"))
STORED = (
    sa.select(ENTRIES.c.seq, ENTRIES.c.body)
    .where(
        ENTRIES.c.dataset == sa.bindparam("d"), ENTRIES.c.key == sa.bindparam("k"), ENTRIES.c.kind == "settle"
    )
    .order_by(ENTRIES.c.seq)
    .limit(1)
)
OWN = (
    sa.select(ENTRIES.c.seq)
    .where(
        ENTRIES.c.dataset == sa.bindparam("d"),
        ENTRIES.c.key == sa.bindparam("k"),
        ENTRIES.c.kind.in_(("settle", "receipt")),
        ENTRIES.c.analyst == sa.bindparam("a"),
    )
    .limit(1)
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
    covers : callable
        Whether this answer's guarantee covers the unit that the ledger keeps.
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
    covers: Callable[[str], bool] = field(compare=False)
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


class Writer:
    """Adds entries within one transaction that holds the ledger's only write lock."""

    def __init__(self, connection: sa.Connection, hook: Callable[[str], None]) -> None:
        self.connection, self.hook = connection, hook
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
        head = connection.execute(_LOCK_HEAD).one()
        self._seq, self._hash = int(head.seq), str(head.hash)

    def last(self, dataset: str, analyst: str) -> Last:
        """Where they stand now."""
        row = self.connection.execute(LAST_OF_DATASET, {"d": dataset}).first()
        if row is None:
            return Last(dataset, "", 0, 0, 0)
        own: Any = row
        if row.analyst != analyst:
            own = self.connection.execute(LAST_OF_ANALYST, {"d": dataset, "a": analyst}).first()
        return Last(dataset, row.unit, row.dataset_total, 0 if own is None else own.analyst_total, row.ended)

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
        self.connection.execute(_ADD, entry)
        self._seq, self._hash = entry["seq"], entry["hash"]
        self.connection.execute(_MOVE_HEAD, {"s": self._seq, "h": self._hash})
        return self._seq


def take_charge(writer: Writer, claim: Claim) -> Charge:
    """Charge a claim, or hand out what is stored; raises `BudgetError` after adding the refusal."""
    writer.hook("charge-begun")
    last = writer.last(claim.dataset, claim.analyst)
    names = {"d": claim.dataset, "k": claim.key}
    stored = writer.connection.execute(STORED, names).first()
    if (
        stored is not None
        and writer.connection.execute(OWN, {**names, "a": claim.analyst}).first() is not None
    ):
        return Charge(stored.seq, claim, 0, _left(claim, last, 0, 0), bool(last.ended), stored.body)
    to_dataset = 0 if stored is not None else claim.micro
    refusal = _refusal(claim, last, to_dataset)
    if refusal:
        writer.add(last, "refusal", claim.analyst, claim.key, body=refusal, unit=last.unit or NO_UNIT)
        raise BudgetError(refusal)
    kind = "charge" if stored is None else "receipt"
    seq = writer.add(
        last,
        kind,
        claim.analyst,
        claim.key,
        micro=claim.micro,
        refers=0 if stored is None else stored.seq,
        body=claim.text,
        unit=claim.unit if last.unit in ("", NO_UNIT) else last.unit,
    )
    writer.hook("charge-written")
    left = _left(claim, last, to_dataset, claim.micro)
    return Charge(seq, claim, claim.micro, left, bool(last.ended), None if stored is None else stored.body)


def _refusal(claim: Claim, last: Last, to_dataset: int) -> str:
    if last.unit not in ("", NO_UNIT) and not claim.covers(last.unit):
        return (
            f"The ledger keeps data set {claim.dataset!r} in the unit {last.unit!r} for life; "
            "an answer in a weaker or different unit is refused."
        )
    for owner, spent, asked, cap in (
        ("data set", last.dataset_total, to_dataset, claim.cap),
        ("analyst", last.analyst_total, claim.micro, claim.analyst_cap),
    ):
        if spent + asked > cap:
            return (
                f"The budget of this {owner} does not allow epsilon {epsilon(asked)}: "
                f"{epsilon(max(0, cap - spent))} of {epsilon(cap)} is left."
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
