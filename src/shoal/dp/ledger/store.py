"""The store under a ledger: entries read piece by piece, and written in transactions that callers share."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.dp.ledger import layout
from shoal.dp.ledger.database import file_of, identity, make_engine, reason_of, transaction
from shoal.dp.ledger.entries import ENTRIES, START, Entry, Head
from shoal.dp.ledger.statements import READ_HEAD, BoundValues, PreparedStatement
from shoal.dp.ledger.writer import Standings, Writer
from shoal.errors import BudgetError, LedgerError

_PIECE = 10_000
SHARE, LONGEST = 20, 0.005  # part of a slot, and seconds, that a transaction waits for more work


class Store:
    """Reads and adds entries.

    Parameters
    ----------
    where : str, Path or None
    hook : callable
        Told each step; for tests.
    slot : float
        Times of entries are whole slots.
    before : callable
        Given the head that a transaction found, before anything is added to it, and what gives the hash of an entry.
    after : callable
        Called when a transaction is through; given the ledger's head if that is on the disk for certain.
    """

    def __init__(
        self,
        where: str | Path | None,
        hook: Callable[[str], None],
        slot: float,
        before: Callable[[Head, Callable[[int], str | None]], None],
        after: Callable[[Head | None], None],
    ) -> None:
        self._hook, self._slot, self._before, self._after = hook, slot, before, after
        self.engine = make_engine(where)
        self._lock, self._writing = threading.Lock(), False
        self._gather = min(slot / SHARE, LONGEST)  # who waits for a slot can wait for company
        self._waiting: list[_Job] = []
        in_memory = isinstance(self.engine.pool, sa.StaticPool)  # one connection for all threads
        self._alone: Any = threading.Lock() if in_memory else contextlib.nullcontext()
        self._known = Standings()
        driver: Any = self.engine.dialect.loaded_dbapi
        self._errors: tuple[type[Exception], ...] = (sa.exc.SQLAlchemyError, driver.Error)
        self._prepare()
        self._file = file_of(where)
        self._opened = identity(self._file)

    def first(self, statement: PreparedStatement, **values: Any) -> Any:
        """The first row that a statement finds."""
        with self._cursor(statement, values) as cursor:
            return cursor.fetchone()

    def found(self, statement: PreparedStatement, **values: Any) -> list[Any]:
        """All rows that a statement finds."""
        with self._cursor(statement, values) as cursor:
            return list(cursor.fetchall())

    def head(self) -> Head:
        """Number of entries and last hash as the ledger states them."""
        self._require_same_file()
        row = self.first(READ_HEAD)
        return Head(0, START) if row is None else Head(int(row[0]), str(row[1]))

    def after(self, seq: int, most: int | None = None) -> Iterator[Entry]:
        """Entries with a larger number, in order, piece by piece."""
        while True:
            select = sa.select(ENTRIES).where(ENTRIES.c.seq > seq).order_by(ENTRIES.c.seq).limit(_PIECE)
            if most is not None:
                select = select.where(ENTRIES.c.seq <= most)
            rows = self.all(select)
            yield from (Entry(*row) for row in rows)
            if len(rows) < _PIECE:
                return
            seq = rows[-1][0]

    def newest(self, dataset: str | None, analyst: str | None, last: int | None) -> Iterator[Entry]:
        """The last entries of a data set or an analyst, in order."""
        select = sa.select(ENTRIES).order_by(ENTRIES.c.seq.desc()).limit(last)
        for column, wanted in ((ENTRIES.c.dataset, dataset), (ENTRIES.c.analyst, analyst)):
            select = select if wanted is None else select.where(column == wanted)
        yield from (Entry(*row) for row in self.all(select)[::-1])

    def write(self, work: Callable[[Writer], Any], *, durable: bool = True) -> Any:
        """Run one piece of work in a transaction, together with all that are waiting at that moment."""
        job = _Job(work, durable)
        with self._lock:
            self._waiting.append(job)
            leads, self._writing = not self._writing, True
        if not leads:
            self._await(job)
        if not job.done:
            self._lead()
        if job.error is not None:
            raise job.error
        return job.result

    def _await(self, job: _Job) -> None:
        """Wait until the job was done by another caller, or is the first of those to be done next."""
        try:
            job.turn.acquire()
        except BaseException:  # interrupted: whoever else waits must not wait for this caller
            with self._lock:
                waiting = job in self._waiting
                if waiting:
                    self._waiting.remove(job)
            if waiting and job.leads:
                self._pass_on()
            raise

    def _lead(self) -> None:
        """Do all that is waiting, wake those whose work it was, and let the next caller lead."""
        batch: list[_Job] = []
        try:
            if self._gather:
                time.sleep(self._gather)
            with self._lock:
                batch, self._waiting = self._waiting, []
            self._run(batch)
        finally:
            self._pass_on()
            for job in batch:
                job.turn.release()

    def _pass_on(self) -> None:
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            self._writing = following is not None
            if following is not None:
                following.leads = True
                following.turn.release()

    def all(self, select: sa.Select[Any]) -> list[Any]:
        """All rows that a statement finds."""
        with self._reading() as connection:
            return list(connection.execute(select).all())

    @contextlib.contextmanager
    def _cursor(self, statement: PreparedStatement, values: BoundValues) -> Iterator[Any]:
        """A prepared statement on a connection of the pool: a connection of SQLAlchemy's own costs twice the statement."""
        try:
            with self._alone, contextlib.closing(self.engine.raw_connection()) as lent:
                yield statement.on_driver(lent.dbapi_connection, self.engine.dialect, values)
        except self._errors as error:
            raise LedgerError(f"The ledger cannot be read: {reason_of(error)}.") from None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        try:
            with self._alone, self.engine.connect() as connection:
                yield connection.execution_options(shoal_reads=True)
        except self._errors as error:
            raise LedgerError(f"The ledger cannot be read: {reason_of(error)}.") from None

    def _require_same_file(self) -> None:
        """Connections that are open hold on to a file that was moved away: what they write is charged to nobody."""
        if self._opened is not None and identity(self._file) != self._opened:
            raise LedgerError(
                f"The ledger's file {str(self._file)!r} was replaced or removed while it was in use, so nothing is answered: "
                "put it back, or start again."
            )

    def _prepare(self) -> None:
        try:
            with self._alone, self.engine.connect() as connection:
                version = layout.version_of(connection.execution_options(shoal_reads=True))
            layout.check(version)
            if version < layout.LATEST:
                with self._alone, self.engine.begin() as connection:
                    layout.prepare(connection)
        except sa.exc.IntegrityError:
            pass  # another process made it at the same moment
        except self._errors as error:
            raise LedgerError(f"The ledger cannot be opened: {reason_of(error)}.") from None

    def _run(self, batch: list[_Job]) -> None:
        lost: Exception | None = LedgerError("The ledger was interrupted; what it had not confirmed is lost.")
        durable = any(job.durable for job in batch)
        try:
            self._require_same_file()
            with self._alone, self.engine.connect() as connection, transaction(connection, durable):
                writer = Writer(connection, self._hook, self._known, self._slot)
                self._before(writer.head, writer.hash_of)
                for job in batch:
                    job.attempt(writer)
                writer.finish()
                self._hook("before-commit")
            writer.committed()
            lost = None
            self._after(writer.head if durable else None)
        except self._errors as error:
            lost = LedgerError(f"The ledger cannot be written: {reason_of(error)}.")
        except LedgerError as error:
            lost = error
        finally:
            for job in batch:
                job.error, job.done = lost or job.error, True


class _Job:
    """One caller's work, and what became of it."""

    def __init__(self, work: Callable[[Writer], Any], durable: bool) -> None:
        self.work, self.durable, self.done = work, durable, False
        self.leads, self.turn = False, threading.Lock()
        self.turn.acquire()  # released when the work is done, or is next
        self.result: Any = None
        self.error: Exception | None = None

    def attempt(self, writer: Writer) -> None:
        try:
            self.result = self.work(writer)
        except BudgetError as error:  # the refusal itself is an entry, so the transaction goes on
            self.error = error


class Turns:
    """Lets equal questions in one after another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def of(self, key: str) -> Iterator[None]:
        """A turn of one's own."""
        with self._lock:
            lock, users = self._turns.get(key, (threading.Lock(), 0))
            self._turns[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._turns[key]
                self._turns[key] = (lock, users - 1)
                if users == 1:
                    del self._turns[key]
