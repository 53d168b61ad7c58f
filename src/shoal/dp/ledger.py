"""The ledger: who was charged what, on SQLite or PostgreSQL, so that no crash and no race loses a charge.

Entries are only ever added. Each carries the running totals of its data set and analyst and the hash of the
entry before it, so that one look at the last entry decides, and `verify` can replay the whole. A charge is
committed before the data is touched; `settle` adds the answer. What happens in between can lose an answer,
never a charge.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.dp.entries import (
    ENTRIES,
    HEAD,
    LAST_OF_ANALYST,
    LAST_OF_DATASET,
    METADATA,
    NO_UNIT,
    OWN,
    READ_HEAD,
    START,
    STORED,
    Charge,
    Check,
    Claim,
    Writer,
    take_charge,
)
from shoal.errors import BudgetError, LedgerError, MissingExtraError


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
    >>> from shoal.dp.entries import Claim
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
                METADATA.create_all(connection)
                if connection.execute(sa.select(HEAD.c.seq)).first() is None:
                    connection.execute(HEAD.insert().values(id=1, seq=0, hash=START))
        except sa.exc.IntegrityError:
            pass  # another process made it at the same moment
        except sa.exc.SQLAlchemyError as error:
            raise LedgerError(f"The ledger cannot be opened: {_reason(error)}.") from None

    def charge(self, claim: Claim) -> Charge:
        """Take a charge, committed when this returns, or hand out the stored answer; raise `BudgetError`."""
        charge: Charge = self._write(lambda writer: take_charge(writer, claim))
        self._hook("charge-committed")
        return charge

    def settle(self, charge: Charge, body: str) -> None:
        """Store the answer of a charge."""
        claim = charge.claim

        def write(writer: Writer) -> None:
            self._hook("settle-begun")
            last = writer.last(claim.dataset, claim.analyst)
            writer.add(last, "settle", claim.analyst, claim.key, refers=charge.seq, body=body)
            self._hook("settle-written")

        self._write(write)
        self._hook("settle-committed")

    def end_total(self, dataset: str, reason: str, analyst: str = "", unit: str = NO_UNIT) -> None:
        """Say for life that this data set's total no longer bounds what is known (heuristic answers, releases)."""

        def write(writer: Writer) -> None:
            last = writer.last(dataset, analyst)
            writer.add(last, "end", analyst, "", body=reason, unit=last.unit or unit, ended=1)

        self._write(write)

    def spent(self, dataset: str, analyst: str | None = None) -> int:
        """Micro-epsilon spent on a data set, in all or by one analyst."""
        with self._reading() as connection:
            if analyst is None:
                row = connection.execute(LAST_OF_DATASET, {"d": dataset}).first()
                return 0 if row is None else int(row.dataset_total)
            row = connection.execute(LAST_OF_ANALYST, {"d": dataset, "a": analyst}).first()
            return 0 if row is None else int(row.analyst_total)

    def ended(self, dataset: str) -> bool:
        """Whether the total of a data set has ended."""
        with self._reading() as connection:
            row = connection.execute(LAST_OF_DATASET, {"d": dataset}).first()
            return row is not None and bool(row.ended)

    def has_received(self, dataset: str, analyst: str, key: str) -> bool:
        """Whether this analyst already holds the stored answer to a question."""
        with self._reading() as connection:
            return connection.execute(OWN, {"d": dataset, "a": analyst, "k": key}).first() is not None

    def stored(self, dataset: str, key: str) -> str | None:
        """The stored answer to a question, for the owner's own bookkeeping."""
        with self._reading() as connection:
            row = connection.execute(STORED, {"d": dataset, "k": key}).first()
            return None if row is None else str(row.body)

    def entries(
        self, *, dataset: str | None = None, analyst: str | None = None, last: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Entries in order: all, or those of a data set or an analyst, or only the last ones."""
        select = sa.select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(last)
        if dataset is not None:
            select = select.where(ENTRIES.c.dataset == dataset)
        if analyst is not None:
            select = select.where(ENTRIES.c.analyst == analyst)
        with self._reading() as connection:
            rows = connection.execute(select).all()[::-1]
        for row in rows:
            yield dict(row._mapping)

    def head(self) -> tuple[int, str]:
        """Number of entries and last hash as the ledger states them."""
        with self._reading() as connection:
            row = connection.execute(READ_HEAD).first()
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

    def _write(self, work: Callable[[Writer], Any]) -> Any:
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
                writer = Writer(connection, self._hook)
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

    def __init__(self, work: Callable[[Writer], Any]) -> None:
        self.work, self.done = work, False
        self.result: Any = None
        self.error: Exception | None = None

    def attempt(self, writer: Writer) -> None:
        try:
            self.result = self.work(writer)
        except BudgetError as error:  # the refusal itself is an entry, so the transaction goes on
            self.error = error


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
