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
    Known,
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
    Calls from many threads are written in one transaction where they meet. A charge is on the disk when it
    returns; the answer stored after it reaches the disk with the next charge at the latest.

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
        self._turn, self._writing = threading.Condition(), False
        self._waiting: list[_Job] = []
        in_memory = isinstance(self._engine.pool, sa.StaticPool)  # one connection for all threads
        self._alone: Any = threading.Lock() if in_memory else contextlib.nullcontext()
        self._known = Known()
        driver: Any = self._engine.dialect.loaded_dbapi
        self._errors: tuple[type[Exception], ...] = (sa.exc.SQLAlchemyError, driver.Error)
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
        """Store the answer of a charge.

        Every other process sees it when this returns. A power cut can still take it, until the next charge is
        made: then the answer is lost, as if it had never been stored, and the charge stands.
        """
        claim = charge.claim

        def write(writer: Writer) -> None:
            self._hook("settle-begun")
            last = writer.last(claim.dataset, claim.analyst)
            writer.add(last, "settle", claim.analyst, claim.key, refers=charge.seq, body=body)
            self._hook("settle-written")

        self._write(write, durable=False)
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
                row = LAST_OF_DATASET.run(connection, {"d": dataset})
                return 0 if row is None else int(row[1])
            row = LAST_OF_ANALYST.run(connection, {"d": dataset, "a": analyst})
            return 0 if row is None else int(row[3])

    def unit(self, dataset: str) -> str | None:
        """The unit a data set is kept in for life, if it has one yet."""
        with self._reading() as connection:
            row = LAST_OF_DATASET.run(connection, {"d": dataset})
            return None if row is None or row[0] in ("", NO_UNIT) else str(row[0])

    def ended(self, dataset: str) -> bool:
        """Whether the total of a data set has ended."""
        with self._reading() as connection:
            row = LAST_OF_DATASET.run(connection, {"d": dataset})
            return row is not None and bool(row[2])

    def has_received(self, dataset: str, analyst: str, key: str) -> bool:
        """Whether this analyst already holds the stored answer to a question."""
        with self._reading() as connection:
            return OWN.run(connection, {"d": dataset, "a": analyst, "k": key}) is not None

    def stored(self, dataset: str, key: str) -> str | None:
        """The stored answer to a question, for the owner's own bookkeeping."""
        with self._reading() as connection:
            row = STORED.run(connection, {"d": dataset, "k": key})
            return None if row is None else str(row[1])

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
            row = READ_HEAD.run(connection)
            return (0, START) if row is None else (int(row[0]), str(row[1]))

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
            with self._alone, self._engine.connect() as connection:
                yield connection.execution_options(shoal_reads=True)
        except self._errors as error:
            raise LedgerError(f"The ledger cannot be read: {_reason(error)}.") from None

    def _write(self, work: Callable[[Writer], Any], *, durable: bool = True) -> Any:
        """Run one piece of work in a transaction, together with all that are waiting at that moment."""
        job = _Job(work, durable)
        with self._turn:
            self._waiting.append(job)
            while self._writing and not job.done:
                self._turn.wait()
            batch: list[_Job] = []
            if not job.done:
                self._writing = True
                batch, self._waiting = self._waiting, []
        if batch:
            try:
                self._run(batch)
            finally:
                with self._turn:
                    self._writing = False
                    self._turn.notify_all()
        if job.error is not None:
            raise job.error
        return job.result

    def _run(self, batch: list[_Job]) -> None:
        lost: Exception | None = LedgerError("The ledger was interrupted; what it had not confirmed is lost.")
        durable = any(job.durable for job in batch)
        try:
            with self._alone, self._engine.connect() as connection, _transaction(connection, durable):
                writer = Writer(connection, self._hook, self._known)
                for job in batch:
                    job.attempt(writer)
                writer.finish()
                self._hook("before-commit")
            writer.committed()
            lost = None
        except self._errors as error:
            lost = LedgerError(f"The ledger cannot be written: {_reason(error)}.")
        except LedgerError as error:
            lost = error
        finally:
            for job in batch:
                job.error, job.done = lost or job.error, True


@contextlib.contextmanager
def _transaction(connection: sa.Connection, durable: bool) -> Iterator[None]:
    """One transaction; unless it is durable, the disk is not waited for, and the next durable one brings it there.

    Both databases write their logs in order, so that a power cut takes the end of the chain, never a link of it.
    """
    if connection.dialect.name == "sqlite":
        raw: Any = connection.connection.dbapi_connection
        raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        with connection.begin():
            yield
    else:
        with connection.begin():
            connection.exec_driver_sql(f"SET LOCAL synchronous_commit = {'on' if durable else 'off'}")
            yield


class _Job:
    """One caller's work, and what became of it."""

    def __init__(self, work: Callable[[Writer], Any], durable: bool) -> None:
        self.work, self.durable, self.done = work, durable, False
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
    """Take SQLite's write lock when a transaction that writes begins."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode = WAL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.execute("BEGIN" if connection.get_execution_options().get("shoal_reads") else "BEGIN IMMEDIATE")

    return engine


def _reason(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0].rstrip(".")
