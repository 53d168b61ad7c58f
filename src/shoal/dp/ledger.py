"""The ledger: who was charged what, on SQLite or PostgreSQL, so that no crash and no race loses a charge.

Entries are only ever added. Each carries the running totals of its data set and analyst and the hash of the
entry before it, so that one look at the last entry decides, and `verify` can replay the whole. A charge is
committed before the data is touched; `settle` adds the answer. What happens in between can lose an answer,
never a charge.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.dp.budget import epsilon
from shoal.errors import BudgetError, LedgerError, MissingExtraError

START = "0" * 64
NO_UNIT = "none yet"
_metadata = sa.MetaData()
ENTRIES = sa.Table(
    "shoal_entries",
    _metadata,
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
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
_READ_HEAD = sa.select(HEAD.c.seq, HEAD.c.hash).where(HEAD.c.id == 1)
_LOCK_HEAD = _READ_HEAD.with_for_update()
_MOVE_HEAD = HEAD.update().where(HEAD.c.id == 1).values(seq=sa.bindparam("s"), hash=sa.bindparam("h"))
_ADD = ENTRIES.insert()
_FIELDS = tuple(column.name for column in ENTRIES.columns)
_LAST = sa.select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(1)
_LAST_OF_DATASET = _LAST.where(ENTRIES.c.dataset == sa.bindparam("d"))
_LAST_OF_ANALYST = _LAST_OF_DATASET.where(ENTRIES.c.analyst == sa.bindparam("a"))
_STORED = (
    sa.select(ENTRIES.c.seq, ENTRIES.c.body)
    .where(
        ENTRIES.c.dataset == sa.bindparam("d"), ENTRIES.c.key == sa.bindparam("k"), ENTRIES.c.kind == "settle"
    )
    .order_by(ENTRIES.c.seq)
    .limit(1)
)
_OWN = (
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


class Ledger:
    """An append-only, hash-chained ledger of privacy charges.

    Parameters
    ----------
    where : str or Path, optional
        A SQLite file, or a URL such as ``postgresql://user@host/db``; None keeps it in memory.

    Notes
    -----
    Calls from many threads are written in one transaction where they meet; each is durable when it returns.

    Examples
    --------
    >>> from shoal.dp import Ledger
    >>> from shoal.dp.ledger import Claim
    >>> ledger = Ledger()
    >>> claim = Claim("survey", "ann", "q1", 300_000, 500_000, 500_000, "record", lambda kept: True)
    >>> ledger.settle(ledger.charge(claim), "12")
    >>> ledger.spent("survey", "ann"), ledger.charge(claim).stored, ledger.verify().holds
    (300000, '12', True)
    """

    def __init__(self, where: str | Path | None = None, _hook: Callable[[str], None] | None = None) -> None:
        self._hook = _hook or (lambda step: None)
        self._engine = _engine(where)
        self._gate, self._list = threading.Lock(), threading.Lock()
        self._waiting: list[_Job] = []
        try:
            with self._engine.begin() as connection:
                _metadata.create_all(connection)
                if connection.execute(sa.select(HEAD.c.seq)).first() is None:
                    connection.execute(HEAD.insert().values(id=1, seq=0, hash=START))
        except sa.exc.IntegrityError:
            pass  # another process made it at the same moment
        except sa.exc.SQLAlchemyError as error:
            raise LedgerError(f"The ledger cannot be opened: {_reason(error)}.") from None

    def charge(self, claim: Claim) -> Charge:
        """Take a charge, committed when this returns, or hand out the stored answer; raise `BudgetError`."""
        charge: Charge = self._write(lambda writer: _charge(writer, claim))
        self._hook("charge-committed")
        return charge

    def settle(self, charge: Charge, body: str) -> None:
        """Store the answer of a charge."""
        claim = charge.claim

        def write(writer: _Writer) -> None:
            self._hook("settle-begun")
            last = writer.last(claim.dataset, claim.analyst)
            writer.add(last, "settle", claim.analyst, claim.key, refers=charge.seq, body=body)
            self._hook("settle-written")

        self._write(write)
        self._hook("settle-committed")

    def end_total(self, dataset: str, reason: str, analyst: str = "", unit: str = NO_UNIT) -> None:
        """Say for life that this data set's total no longer bounds what is known (heuristic answers, releases)."""

        def write(writer: _Writer) -> None:
            last = writer.last(dataset, analyst)
            writer.add(last, "end", analyst, "", body=reason, unit=last.unit or unit, ended=1)

        self._write(write)

    def spent(self, dataset: str, analyst: str | None = None) -> int:
        """Micro-epsilon spent on a data set, in all or by one analyst."""
        with self._reading() as connection:
            if analyst is None:
                row = connection.execute(_LAST_OF_DATASET, {"d": dataset}).first()
                return 0 if row is None else int(row.dataset_total)
            row = connection.execute(_LAST_OF_ANALYST, {"d": dataset, "a": analyst}).first()
            return 0 if row is None else int(row.analyst_total)

    def ended(self, dataset: str) -> bool:
        """Whether the total of a data set has ended."""
        with self._reading() as connection:
            row = connection.execute(_LAST_OF_DATASET, {"d": dataset}).first()
            return row is not None and bool(row.ended)

    def has_received(self, dataset: str, analyst: str, key: str) -> bool:
        """Whether this analyst already holds the stored answer to a question."""
        with self._reading() as connection:
            return connection.execute(_OWN, {"d": dataset, "a": analyst, "k": key}).first() is not None

    def stored(self, dataset: str, key: str) -> str | None:
        """The stored answer to a question, for the owner's own bookkeeping."""
        with self._reading() as connection:
            row = connection.execute(_STORED, {"d": dataset, "k": key}).first()
            return None if row is None else str(row.body)

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries in order."""
        with self._reading() as connection:
            rows = connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.seq)).all()
        for row in rows:
            yield dict(row._mapping)

    def head(self) -> tuple[int, str]:
        """Number of entries and last hash as the ledger states them."""
        with self._reading() as connection:
            row = connection.execute(_READ_HEAD).first()
            return (0, START) if row is None else (int(row.seq), str(row.hash))

    def verify(self) -> Check:
        """Replay the chain: hashes, order and totals."""
        from shoal.dp.chain import replay

        return replay(self.entries(), self.head())

    def close(self) -> None:
        """Let go of the file or server."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self._gate, self._engine.connect() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise LedgerError(f"The ledger cannot be read: {_reason(error)}.") from None

    def _write(self, work: Callable[[_Writer], Any]) -> Any:
        """Run one piece of work in a transaction, together with all that are waiting at that moment."""
        job = _Job(work)
        with self._list:
            self._waiting.append(job)
        with self._gate:
            if not job.done:
                with self._list:
                    batch, self._waiting = self._waiting, []
                self._run(batch)
        if job.error is not None:
            raise job.error
        return job.result

    def _run(self, batch: list[_Job]) -> None:
        lost: Exception = LedgerError("The ledger was interrupted; what it had not confirmed is lost.")
        try:
            with self._engine.begin() as connection:
                writer = _Writer(connection, self._hook)
                for job in batch:
                    job.attempt(writer)
                self._hook("before-commit")
            lost = None  # type: ignore[assignment]
        except sa.exc.SQLAlchemyError as error:
            lost = LedgerError(f"The ledger cannot be written: {_reason(error)}.")
        except LedgerError as error:
            lost = error
        finally:
            for job in batch:
                job.error, job.done = lost or job.error, True


class _Job:
    """One caller's work, and what became of it."""

    def __init__(self, work: Callable[[_Writer], Any]) -> None:
        self.work, self.done = work, False
        self.result: Any = None
        self.error: Exception | None = None

    def attempt(self, writer: _Writer) -> None:
        try:
            self.result = self.work(writer)
        except BudgetError as error:  # the refusal itself is an entry, so the transaction goes on
            self.error = error


@dataclass(frozen=True)
class _Last:
    dataset: str
    unit: str
    dataset_total: int
    analyst_total: int
    ended: int


class _Writer:
    """Adds entries within one transaction that holds the ledger's only write lock."""

    def __init__(self, connection: sa.Connection, hook: Callable[[str], None]) -> None:
        self.connection, self.hook = connection, hook
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
        head = connection.execute(_LOCK_HEAD).one()
        self._seq, self._hash = int(head.seq), str(head.hash)

    def last(self, dataset: str, analyst: str) -> _Last:
        row = self.connection.execute(_LAST_OF_DATASET, {"d": dataset}).first()
        if row is None:
            return _Last(dataset, "", 0, 0, 0)
        own = row
        if row.analyst != analyst:
            own = self.connection.execute(_LAST_OF_ANALYST, {"d": dataset, "a": analyst}).first()
        return _Last(dataset, row.unit, row.dataset_total, 0 if own is None else own.analyst_total, row.ended)

    def add(
        self,
        last: _Last,
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
        entry = {
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


def _charge(writer: _Writer, claim: Claim) -> Charge:
    writer.hook("charge-begun")
    last = writer.last(claim.dataset, claim.analyst)
    names = {"d": claim.dataset, "k": claim.key}
    stored = writer.connection.execute(_STORED, names).first()
    if (
        stored is not None
        and writer.connection.execute(_OWN, {**names, "a": claim.analyst}).first() is not None
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


def _refusal(claim: Claim, last: _Last, to_dataset: int) -> str:
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


def _left(claim: Claim, last: _Last, to_dataset: int, to_analyst: int) -> int:
    dataset, analyst = (
        claim.cap - last.dataset_total - to_dataset,
        claim.analyst_cap - last.analyst_total - to_analyst,
    )
    return max(0, min(dataset, analyst))


def entry_hash(entry: dict[str, Any]) -> str:
    """The hash that chains an entry to the one before it."""
    plain = json.dumps([entry[name] for name in _FIELDS if name != "hash"], ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def _engine(where: str | Path | None) -> sa.Engine:
    if where is None:
        pool = {
            "poolclass": sa.StaticPool,
            "connect_args": {"check_same_thread": False, "isolation_level": None},
        }
        return _immediate(sa.create_engine("sqlite://", **pool))
    text = str(where)
    if "://" not in text or text.startswith("sqlite"):
        url = text if "://" in text else f"sqlite:///{Path(text).absolute()}"
        return _immediate(sa.create_engine(url, connect_args={"timeout": 60, "isolation_level": None}))
    if text.startswith(("postgresql://", "postgres://")):
        text = "postgresql+psycopg://" + text.split("://", 1)[1]
    try:
        return sa.create_engine(text, pool_pre_ping=True)
    except ModuleNotFoundError:
        raise MissingExtraError("psycopg", "dp") from None
    except sa.exc.ArgumentError:
        raise LedgerError(f"A ledger must be a file or a database URL. Got {text!r}.") from None


def _immediate(engine: sa.Engine) -> sa.Engine:
    """Take SQLite's write lock when a transaction begins, and reach the disk before it is done."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0].rstrip(".")
