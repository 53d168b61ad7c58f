"""Two tables of the same records as coordinates in which all columns count, categories as well as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, parse_dates, parse_numbers, read_column
from shoal.engine.encode import Encoder
from shoal.schema import Column


def coordinates(
    before: pl.DataFrame, after: pl.DataFrame, columns: Iterable[Column]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of both tables in the coordinates in which `protect` measures distances, learned from the first.

    A protected cell that is no value of its original column (suppressed, recoded) lies in the middle of it.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.measures import coordinates
    >>> from shoal.schema import Column
    >>> table = pl.DataFrame({"age": [30.0, 40.0, 50.0]})
    >>> first, second = coordinates(table, table, [Column("age", kind="number")])
    >>> bool((first == second).all()), first.shape
    (True, (3, 1))
    """
    firsts, seconds = [], []
    for column in columns:
        # An order is declared; the levels of a category are those that occur.
        facts = column if column.kind == "ordered" else replace(column, levels=None)
        first = read_column(before[facts.name], facts)
        firsts.append(first)
        seconds.append(read_column(_comparable(after[facts.name], first), facts, first.levels))
    encoder = Encoder.fit(firsts)
    return encoder.transform(firsts), encoder.transform(seconds)


def _comparable(series: pl.Series, first: TypedColumn) -> pl.Series:
    """Cells in the type of the original column; those that are none of its values are missing."""
    if first.levels is not None:
        plain = series.cast(pl.String) if series.dtype in (pl.Categorical, pl.Enum) else series
        cells = plain.cast(first.levels.dtype, strict=False)
        return cells.set(~cells.is_in(first.levels.implode()), None)
    if first.facts.kind == "date":
        days = parse_dates(series) if series.dtype == pl.String else series
        return days.cast(first.dtype, strict=False)
    return parse_numbers(series) if series.dtype == pl.String else series
