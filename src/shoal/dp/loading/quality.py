"""What loading made of a table: cells that are missing, could not be read, or lie outside what was declared.

For the data owner alone: these are exact counts of private cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from shoal.dp.loading.cells import cells_of
from shoal.dp.loading.load import load
from shoal.dp.loading.sources import Source
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import has_codes
from shoal.schema import Column, Schema, decode_missing


@dataclass(frozen=True)
class ColumnQuality:
    """How the cells of one column were understood.

    Parameters
    ----------
    name : str
    rows : int
    missing : int
        Empty cells, and those with a declared missing code.
    unread : int
        Cells with something in them that became missing: no number, no date, no declared level.
    outside : int
        Numbers and dates beyond the declared bounds, which are counted at the bound.
    """

    name: str
    rows: int
    missing: int
    unread: int
    outside: int

    @property
    def fine(self) -> bool:
        """Whether every cell that holds something counts as what it is."""
        return self.unread == 0 and self.outside == 0

    def sentence(self) -> str:
        """What the owner should know, as one sentence."""
        parts = []
        if self.unread:
            parts.append(f"{self.unread:,} could not be read or are no declared level and count as missing")
        if self.outside:
            parts.append(f"{self.outside:,} lie outside the bounds and count at the bound")
        said = " and ".join(parts) or "all were understood"
        return f"column {self.name!r}: of {self.rows:,} cells {self.missing:,} are missing; {said}."


def quality(data: Any, schema: Schema) -> tuple[ColumnQuality, ...]:
    """How each declared column of a private table was understood; to be shown to its owner only.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame, pyarrow.Table or Source
        As `shoal.dp.loading.load.load` takes it.
    schema : Schema

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.loading.quality import quality
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 99))})
    >>> print(quality(pl.DataFrame({"age": ["40", "x", "", "120"]}), schema)[0].sentence())
    column 'age': of 4 cells 1 are missing; 1 could not be read or are no declared level and count as missing and 1 lie outside the bounds and count at the bound.
    """
    if isinstance(data, Source):
        return _of_batches(data, schema)
    loaded, native = load(data, schema), cells_of(data, schema.columns)
    return tuple(_of(native[name], loaded[name], column) for name, column in schema.columns.items())


def _of_batches(source: Source, schema: Schema) -> tuple[ColumnQuality, ...]:
    """The same, added up over the batches of a source."""
    found = {name: ColumnQuality(name, 0, 0, 0, 0) for name in schema.columns}
    for batch in source.batches(list(schema.columns)):
        for each in quality(batch, schema):
            held = found[each.name]
            counts = (
                getattr(held, name) + getattr(each, name) for name in ("rows", "missing", "unread", "outside")
            )
            found[each.name] = ColumnQuality(each.name, *counts)
    return tuple(found.values())


def _of(cells: pl.Series, loaded: pl.Series, column: Column) -> ColumnQuality:
    known = decode_missing(cells, column)
    empty = known.is_null()
    if known.dtype == pl.String:
        empty = empty | (known.str.strip_chars() == "").fill_null(value=True)
    elif known.dtype.is_float():
        empty = empty | known.is_nan().fill_null(value=True)
    unread = int((loaded.is_null() & ~empty).sum())
    outside = 0
    if column.bounds is not None and loaded.dtype == pl.Float64 and not has_codes(column):
        low, high = finite_bounds(column)
        outside = int(((loaded < low) | (loaded > high)).sum())
    return ColumnQuality(column.name, len(loaded), int(empty.sum()), unread, outside)
