"""The one decoder of missing cells: publishing, checking, comparing and answering all read by it.

A cell is missing if it is empty (NULL), not a number (NaN), or one of the column's declared codes. Nothing else is.
Codes and cells are compared as texts without outer blanks; where cells are numbers, or the column is declared a
number, -9, "-9" and "-9.0" are one code. The rule looks at one cell at a time and never fails on a value.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from shoal.schema.checks import as_date

if TYPE_CHECKING:
    from shoal.schema.column import Column
    from shoal.schema.model import Schema


def decode_missing(series: pl.Series, column: Column) -> pl.Series:
    """The cells with those that mean "missing" as NULL.

    Parameters
    ----------
    series : polars.Series
        Cells as texts or as stored.
    column : Column

    Returns
    -------
    polars.Series
        Of the same type and length.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Column, decode_missing
    >>> decode_missing(pl.Series(["41", "-9.0", "NA"]), Column("age", missing_codes=(-9, "NA"))).to_list()
    ['41', None, None]
    """
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if not column.missing_codes or series.dtype == pl.Null:
        return series
    mask = _means_missing(series, column).fill_null(value=False)
    return series.set(mask, None) if mask.any() else series


def decode_table(table: pl.DataFrame, schema: Schema | None) -> pl.DataFrame:
    """A table with the missing cells of all its declared columns as NULL.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Column, Schema, decode_table
    >>> schema = Schema({"age": Column("age", missing_codes=(-9,))})
    >>> decode_table(pl.DataFrame({"age": [31, -9]}), schema)["age"].to_list()
    [31, None]
    """
    if schema is None:
        return table
    return table.with_columns(
        decode_missing(table[name], column)
        for name, column in schema.columns.items()
        if name in table.columns and not table[name].dtype.is_nested() and table[name].dtype != pl.Object
    )


def _means_missing(series: pl.Series, column: Column) -> pl.Series:
    codes = column.missing_codes
    if series.dtype.is_integer():
        return series.is_in(_integers(series.dtype, codes))
    if series.dtype.is_numeric():
        return series.cast(pl.Float64).is_in(_numbers(codes))
    if series.dtype in (pl.Date, pl.Datetime):
        return _same_moment(series, codes)
    texts = [_text(code) for code in codes]
    cells = series.cast(pl.String, strict=False).str.strip_chars()
    found = cells.is_in(texts)
    if column.kind != "number":
        return found
    return found | cells.cast(pl.Float64, strict=False).is_in(_numbers(codes))


def _text(code: Any) -> str:
    if isinstance(code, bool):
        return str(code).lower()
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    return str(code).strip()


def _numbers(codes: Sequence[Any]) -> list[float]:
    found = []
    for code in codes:
        try:
            found.append(float(code))
        except (TypeError, ValueError, OverflowError):
            continue
    return found


def _integers(dtype: Any, codes: Sequence[Any]) -> list[int]:
    """Codes that are whole numbers, exactly: 2^53 + 1 is not 2^53."""
    found = []
    for code in codes:
        try:
            found.append(int(_text(code)))
        except ValueError:
            found += [int(each) for each in _numbers([code]) if each.is_integer()]
    return pl.Series(found, dtype=pl.Int128).cast(dtype, strict=False).drop_nulls().to_list()


def _same_moment(series: pl.Series, codes: Sequence[Any]) -> pl.Series:
    moments = [moment for moment in map(as_date, codes) if moment is not None]
    cells = series.cast(pl.Datetime("us"))
    if series.dtype == pl.Date:
        moments = [each for each in moments if each.time() == datetime.time()]
    return cells.is_in(moments)
