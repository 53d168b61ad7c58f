"""Columns of a release as whole numbers between zero and a declared top, by public rules row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.loading.load import load
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import has_codes, levels
from shoal.errors import SchemaError
from shoal.schema import Column, Schema

_MOST = 2**30  # of one cell: 2^32 rows add up within int64
_RELEASED = ("quasi", "sensitive", "stratum", "household")


@dataclass(frozen=True)
class Coded:
    """How the cells of a column become whole numbers in [0, top] and come back.

    Parameters
    ----------
    column : Column
    low : float
        What zero stands for.
    quantum : Fraction
        What a step of one stands for.
    top : int
        The largest whole number: the declared range in quanta.
    nominal : bool
        Whether the numbers are mere names of levels.
    """

    column: Column
    low: float
    quantum: Fraction
    top: int
    nominal: bool

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def middle(self) -> int:
        """What a missing cell counts as: the middle of the range, or the first level."""
        return 0 if self.nominal else self.top // 2

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Whole numbers of cells as loaded (NaN where missing)."""
        gone = np.isnan(values)
        whole = np.rint((np.where(gone, self.low, values) - self.low) / float(self.quantum))
        codes = np.clip(whole, 0, self.top).astype(np.int64)
        return np.where(gone, self.middle, codes)

    def decode(self, values: np.ndarray) -> np.ndarray:
        """Numbers in the column's own measure, clamped to the range and put on its declared grid."""
        inside = np.clip(values, 0, self.top)
        if self.nominal or self.column.kind in ("ordered", "boolean", "date") or self.column.step is not None:
            inside = np.rint(inside)
        high = float(self.top) if has_codes(self.column) else finite_bounds(self.column)[1]
        return np.minimum(self.low + inside * float(self.quantum), high)

    def cells(self, numbers: np.ndarray) -> pl.Series:
        """Numbers from `decode` as the cells of a file."""
        if self.column.kind == "date":
            days = pl.Series(self.name, numbers.astype(np.int64) - 719_163)  # days since 1970-01-01
            return days.cast(pl.Int32).cast(pl.Date)
        if has_codes(self.column):
            names: Sequence[Any] = (
                (False, True) if self.column.kind == "boolean" else tuple(levels(self.column) or ())
            )
            return pl.Series(self.name, [names[int(each)] for each in numbers], strict=False)
        if self.column.step is not None and self.quantum.denominator == 1 and self.low == int(self.low):
            return pl.Series(self.name, numbers.astype(np.int64))
        return pl.Series(self.name, numbers)


def code(column: Column) -> Coded:
    """The code of a column, from what is declared about it alone.

    Examples
    --------
    >>> from shoal.release._columns import code
    >>> from shoal.schema import Column
    >>> age = code(Column("age", bounds=(0, 110), step=1))
    >>> age.top, age.encode(np.array([31.0, 500.0, np.nan])).tolist()
    (110, [31, 110, 55])
    """
    if has_codes(column):
        size = 2 if column.kind == "boolean" else len(levels(column) or ())
        if size < 2:
            raise SchemaError(f"Column {column.name!r} must declare two levels or more to be released.")
        return Coded(column, 0.0, Fraction(1), size - 1, column.kind == "category")
    if column.kind == "category":
        raise SchemaError(f"Column {column.name!r} must declare its levels to be released.")
    if column.bounds is None:
        raise SchemaError(
            f"Column {column.name!r} must declare its bounds to be released: a range is never read from the data."
        )
    low, high = finite_bounds(column)
    span = Fraction(high) - Fraction(low)
    quantum = Fraction(1) if column.kind == "date" else Fraction(str(column.step or 0))
    if not quantum or span / quantum > _MOST:
        quantum = Fraction(1)
        while span / quantum > _MOST:
            quantum *= 2
        while span / quantum < _MOST / 4:
            quantum /= 2
    return Coded(column, low, quantum, max(1, -(-span // quantum)), False)


def coded_table(
    frame: Any, schema: Schema, names: Sequence[str] | None
) -> tuple[list[Coded], np.ndarray, pl.DataFrame]:
    """The columns to release, their whole numbers (records in rows), and the loaded table.

    Without `names` every quasi-identifying and sensitive column is taken; ids, weights and columns left as they are
    are never released.
    """
    if names is None:
        names = [name for name, each in schema.columns.items() if each.effective_role in _RELEASED]
    if not names:
        raise SchemaError(
            "No column is to be released: declare roles 'quasi' or 'sensitive', or name columns."
        )
    for name in names:
        if name not in schema.columns:
            raise SchemaError(f"A released column must be declared in the schema. Got {name!r}.")
        if schema.columns[name].effective_role in ("identifier", "weight"):
            raise SchemaError(
                f"Column {name!r} is an {schema.columns[name].effective_role} and is not released."
            )
    codes = [code(schema.columns[name]) for name in dict.fromkeys(names)]
    loaded = load(frame, Schema({each.name: each.column for each in codes}, id=schema.id))
    table = np.column_stack(
        [each.encode(loaded[each.name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for each in codes]
    )
    return codes, np.ascontiguousarray(table, dtype=np.int64), loaded
