"""Rows in parts, each with all rows of its units: in memory while they are few, then in files without a name."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Generator, Sequence
from typing import IO, Any

import polars as pl
import pyarrow as pa

from shoal.errors import InputError

PARTS = 64
MOST_HELD = 1 << 22  # rows of a table that stay in memory
_BYTES = 1 << 26  # of rows that wait to be written
_FULL = "The tables do not fit in memory, and the temporary folder (TMPDIR) has no room for their rows."


class UnitParts:
    """Rows that are taken in batch by batch and given back part by part, by a hash of some columns.

    Parameters
    ----------
    by : sequence of str
        Rows that are alike in these columns are in the same part; all columns if left empty.
    most : int, optional
        Rows that stay in memory.

    Notes
    -----
    The files have no name, so that nothing is left of them when the process ends, however it ends. They lie where
    ``TMPDIR`` says.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.loading.parts import UnitParts
    >>> rows = UnitParts(["who"], most=2)
    >>> rows.add(pl.DataFrame({"who": ["a", "b", "a"], "x": [1, 2, 3]}))
    >>> rows.spilled, sorted(part.height for part in rows.parts())[-2:]
    (True, [1, 2])
    """

    def __init__(self, by: Sequence[str], most: int | None = None) -> None:
        self.by, self._most = list(by), MOST_HELD if most is None else most
        self._held: list[pl.DataFrame] = []
        self._rows = self._bytes = 0
        self._written: list[_Written] = []

    @property
    def spilled(self) -> bool:
        """Whether there were too many rows for memory."""
        return self._rows > self._most

    def add(self, rows: pl.DataFrame) -> None:
        """Take rows in."""
        self._held.append(rows)
        self._rows += rows.height
        self._bytes += int(rows.estimated_size())
        if self.spilled and (not self._written or self._bytes > _BYTES):
            self._write()

    def whole(self) -> pl.DataFrame:
        """All rows in memory; in the order in which they came, unless they are in files."""
        if not self.spilled:
            return pl.concat(self._held)
        return pl.concat(list(self.parts()))

    def parts(self) -> Generator[pl.DataFrame]:
        """The rows of one part after the other, each in the order in which they came."""
        if not self.spilled:
            yield from _split(self.whole(), self.by)
            return
        if self._held:
            self._write()
        for each in self._written:
            yield each.read()

    def sort(self, ordered: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Put the rows of each part in an order, given as a function of the part."""
        if not self.spilled:
            self._held = [ordered(self.whole())]
            return
        for at, rows in enumerate(self.parts()):
            self._written[at] = _Written()
            self._written[at].write(ordered(rows))
            self._written[at].done()

    def _write(self) -> None:
        self._written = self._written or [_Written() for _ in range(PARTS)]
        while self._held:
            for each, rows in zip(self._written, _split(self._held.pop(0), self.by), strict=True):
                each.write(rows)
        self._bytes = 0


def _split(rows: pl.DataFrame, by: list[str]) -> list[pl.DataFrame]:
    """Rows by the part that they are in, every part with its columns."""
    place = (rows.select(by or pl.all()).hash_rows(seed=2) % PARTS).alias("shoal:part")
    found = rows.with_columns(place).partition_by("shoal:part", as_dict=True, include_key=False)
    return [found.get((at,), rows.clear()) for at in range(PARTS)]


class _Written:
    """Rows in a file without a name, as Arrow's stream."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the rows are asked about
        self._writer: Any = None
        self._map: mmap.mmap | None = None

    def write(self, rows: pl.DataFrame) -> None:
        table = rows.rechunk().to_arrow()
        try:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._file, table.schema)
            self._writer.write_table(table)
        except OSError:
            raise InputError(_FULL) from None

    def done(self) -> mmap.mmap:
        """Nothing more is written."""
        if self._map is None:
            try:
                self._writer.close()
                self._file.flush()
            except OSError:
                raise InputError(_FULL) from None
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def read(self) -> pl.DataFrame:
        with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(self.done()))) as reader:
            return pl.DataFrame(pl.from_arrow(reader.read_all()))
