"""What a stream must not forget: exact figures, noise, rows counted of each unit, and what was told.

All of it changes in one transaction for each period, before anything is told. Who reads this file reads private figures:
only its owner can.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.dp.budget import MICRO
from shoal.dp.ledger.database import own_only
from shoal.errors import LedgerError, ParameterError
from shoal.typing import Record

if TYPE_CHECKING:
    from shoal.dp.ledger.ledger import Ledger


_TABLES = """
CREATE TABLE IF NOT EXISTS streams (id TEXT PRIMARY KEY, facts TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS periods (id TEXT, period INTEGER, numbers TEXT, PRIMARY KEY (id, period));
CREATE TABLE IF NOT EXISTS noise (id TEXT, node TEXT, drawn TEXT, PRIMARY KEY (id, node));
CREATE TABLE IF NOT EXISTS used (id TEXT, unit TEXT, n INTEGER, PRIMARY KEY (id, unit));
"""


def state_of(ledger: Ledger, path: str | Path | State | None = None) -> State:
    """The streams of a ledger: kept beside its file, in memory where it is, else where the caller says."""
    if isinstance(path, State):
        return path
    if path is not None:
        return State(Path(path))
    url = ledger.store.engine.url
    if url.get_backend_name() != "sqlite":
        raise ParameterError("'state' must name a file for the streams of a ledger that is a database.")
    return State(Path(f"{url.database}.streams") if url.database else None)


@dataclass(frozen=True)
class Period:
    """The numbers of one period, each a number per group.

    Parameters
    ----------
    exact : list of int
        Private: of this period alone.
    released : list of int
        What noise was added to, with its noise.
    totals : list of int
        Running totals made of all releases so far.
    told : list of dict
        The totals with labels and intervals.
    word : str, default ""
        Drawn for this period; the ledger keeps it too, so that another copy of this file is noticed.
    """

    exact: list[int]
    released: list[int]
    totals: list[int]
    told: list[Record]
    word: str = ""


@dataclass(frozen=True)
class OpenedStream:
    """What a stream was opened with.

    Parameters
    ----------
    name : str
    dataset : str
    question : str
    periods : int
        How many there may be.
    millionths : int
        What all periods together cost, in millionths of the currency.
    currency : str
    guarantee : str
    mode : str
    schema : str
        The public facts under which its rows are read.
    key : str
        Of its charge in the ledger.
    """

    name: str
    dataset: str
    question: str
    periods: int
    millionths: int
    currency: str
    guarantee: str
    mode: str
    schema: str
    key: str

    @property
    def spent(self) -> float:
        """What all periods together cost."""
        return self.millionths / MICRO


class State:
    """The streams of one ledger.

    Parameters
    ----------
    path : Path, optional
        In memory if left open.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.RLock()
        try:
            if path is not None:
                own_only(path)
            self._base = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=60,
                isolation_level=None,
                check_same_thread=False,
            )
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.executescript(_TABLES)
        except sqlite3.Error as error:
            raise LedgerError(f"The state of streams {str(path)!r} cannot be opened: {error}.") from None

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """One transaction, alone among all processes: everything in it is kept, or nothing."""
        with self._lock:
            try:
                self._base.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise LedgerError(f"The state of streams cannot be written: {error}.") from None
            try:
                yield
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    def begin(self, stream: str, opened: OpenedStream) -> None:
        """Make a stream known."""
        self._do("INSERT INTO streams VALUES (?, ?)", stream, json.dumps(dataclasses.asdict(opened)))

    def forget(self, stream: str) -> None:
        """A stream that was never charged."""
        self._do("DELETE FROM streams WHERE id = ?", stream)

    def opened(self, stream: str) -> OpenedStream | None:
        """What a stream was opened with; None where it is not known."""
        row = self._do("SELECT facts FROM streams WHERE id = ?", stream).fetchone()
        return None if row is None else OpenedStream(**json.loads(row[0]))

    def all_opened(self) -> dict[str, OpenedStream]:
        """All streams."""
        return {
            name: OpenedStream(**json.loads(facts))
            for name, facts in self._do("SELECT id, facts FROM streams ORDER BY rowid")
        }

    def periods(self, stream: str) -> list[Period]:
        """The periods so far."""
        rows = self._do("SELECT numbers FROM periods WHERE id = ? ORDER BY period", stream)
        return [Period(*json.loads(row[0])) for row in rows]

    def add_period(self, stream: str, period: int, numbers: Period) -> None:
        """Keep the numbers of a period."""
        self._do(
            "INSERT INTO periods VALUES (?, ?, ?)", stream, period, json.dumps(dataclasses.astuple(numbers))
        )

    def noise(self, stream: str, node: str) -> list[int] | None:
        """What was drawn for a node."""
        row = self._do("SELECT drawn FROM noise WHERE id = ? AND node = ?", stream, node).fetchone()
        return None if row is None else json.loads(row[0])

    def keep_noise(self, stream: str, node: str, drawn: Sequence[int]) -> None:
        """Keep what was drawn for a node."""
        self._do("INSERT INTO noise VALUES (?, ?, ?)", stream, node, json.dumps(list(drawn)))

    def used(self, stream: str, units: Sequence[str]) -> list[int]:
        """Rows of each unit that were counted so far."""
        found = []
        for unit in units:
            row = self._do("SELECT n FROM used WHERE id = ? AND unit = ?", stream, unit).fetchone()
            found.append(0 if row is None else int(row[0]))
        return found

    def keep_used(self, stream: str, counts: Mapping[str, int]) -> None:
        """Add rows that were counted of each unit."""
        self._base.executemany(
            "INSERT INTO used VALUES (?, ?, ?) ON CONFLICT (id, unit) DO UPDATE SET n = n + excluded.n",
            [(stream, unit, n) for unit, n in counts.items()],
        )

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()

    def _do(self, text: str, *words: Any) -> sqlite3.Cursor:
        with self._lock:
            return self._base.execute(text, words)
