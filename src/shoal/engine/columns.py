"""Columns with a meaning: values as numbers or codes, missing cells apart.

A `TypedColumn` is what the encoders, the imputation and the aggregation work on. Categories are codes into
their levels, ordered kinds keep the order of the levels, dates are days since 1970 (or microseconds).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from shoal.errors import InputError
from shoal.schema import Column, decode_missing

THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class TypedColumn:
    """One column, ready for computing.

    Attributes
    ----------
    facts : Column
    values : array of float64
        Numbers, or codes of levels; arbitrary where `missing`.
    missing : array of bool
    levels : polars.Series or None
        What the codes stand for.
    dtype : polars data type
        Of the column as it came.
    """

    facts: Column
    values: np.ndarray
    missing: np.ndarray
    levels: pl.Series | None
    dtype: Any

    @property
    def name(self) -> str:
        """The column's name."""
        return self.facts.name

    @property
    def is_coded(self) -> bool:
        """Whether the values are codes of levels without arithmetic."""
        return self.facts.kind in ("category", "boolean")

    def taken(self, rows: np.ndarray) -> TypedColumn:
        """The column restricted to some rows."""
        return replace(self, values=self.values[rows], missing=self.missing[rows])

    def native(self, values: np.ndarray, missing: np.ndarray, *, round_integers: bool) -> pl.Series:
        """Turn numbers or codes back into cells of the column's own type.

        Integers come back as floats unless they are to be rounded: a mean seldom is an integer.
        """
        kind = self.facts.kind
        if self.levels is not None:
            codes = pl.Series(np.where(missing, 0, np.rint(values)).astype(np.int64))
            cells = self.levels.gather(codes)
        elif kind == "date":
            cells = pl.Series(np.rint(np.where(missing, 0.0, values)).astype(np.int64)).cast(
                pl.Int32 if self.dtype == pl.Date else pl.Int64
            )
            cells = (
                cells.cast(pl.Date)
                if self.dtype == pl.Date
                else cells.cast(pl.Datetime("us")).cast(self.dtype)
            )
        elif self.dtype.is_integer() and round_integers:
            whole = np.rint(np.where(missing, 0.0, values))
            # Beyond 64 bits whole numbers stay floats, which hold them.
            holds = np.abs(whole).max(initial=0.0) < 2.0**63
            cells = pl.Series(whole.astype(np.int64)).cast(self.dtype) if holds else pl.Series(whole)
        else:
            cells = pl.Series(values).cast(pl.Float32 if self.dtype == pl.Float32 else pl.Float64)
        cells = cells.alias(self.name)
        return cells.set(pl.Series(missing), None) if missing.any() else cells


def read_column(series: pl.Series, facts: Column, levels: pl.Series | None = None) -> TypedColumn:
    """Read a column by its facts: declared codes become missing cells, texts become what they mean."""
    series = decode_missing(series, facts)
    if facts.kind == "number":
        return _number(series, facts)
    if facts.kind == "date":
        return _date(series, facts)
    return _levels(series, facts, levels)


def _number(series: pl.Series, facts: Column) -> TypedColumn:
    dtype = series.dtype
    if dtype == pl.String:
        parsed = parse_numbers(series)
        odd = series.filter(parsed.is_null() & series.is_not_null())
        if odd.len():
            raise InputError(
                f"Column {facts.name!r} must hold numbers. Got {odd[0]!r} ({_cells(odd)}; "
                "values that mean 'missing' are declared in the schema)."
            )
        whole = parsed.drop_nulls()
        series, dtype = parsed, pl.Int64() if whole.len() and (whole == whole.round()).all() else pl.Float64()
    if not (dtype.is_numeric() or dtype == pl.Boolean):
        raise InputError(f"Column {facts.name!r} must hold numbers. Got cells of type {dtype}.")
    values = series.cast(pl.Float64).fill_null(np.nan).to_numpy().astype(np.float64, copy=True)
    missing = np.isnan(values)
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise InputError(f"Numbers must be finite. Got infinite cells in {facts.name!r} ({infinite}).")
    values[missing] = 0.0
    return TypedColumn(facts, values, missing, None, dtype)


def _date(series: pl.Series, facts: Column) -> TypedColumn:
    if series.dtype == pl.String:
        parsed = parse_dates(series)
        odd = series.filter(parsed.is_null() & series.is_not_null())
        if odd.len():
            raise InputError(
                f"Column {facts.name!r} must hold dates like 2020-12-31 or 2020-12-31T08:00. Got {odd[0]!r}."
            )
        series = parsed
    if series.dtype not in (pl.Date, pl.Datetime):
        raise InputError(f"Column {facts.name!r} must hold dates. Got cells of type {series.dtype}.")
    units = series if series.dtype == pl.Date else series.cast(pl.Datetime("us"))
    numbers = units.to_physical().cast(pl.Float64)
    missing = series.is_null().to_numpy()
    return TypedColumn(facts, numbers.fill_null(0.0).to_numpy().copy(), missing, None, series.dtype)


def parse_numbers(texts: pl.Series) -> pl.Series:
    """Texts as numbers, with or without commas between thousands ("1,007"); NULL where a text is none."""
    plain = texts.str.strip_chars()
    plain = pl.select(
        pl.when(plain.str.contains(THOUSANDS))
        .then(plain.str.replace_all(",", "", literal=True))
        .otherwise(plain)
    ).to_series()
    return plain.cast(pl.Float64, strict=False).alias(texts.name)


def parse_dates(texts: pl.Series) -> pl.Series:
    """ISO texts as dates, or as date-times (in UTC where they name their zone); NULL where a text is neither."""
    plain = texts.str.strip_chars()
    days = plain.str.to_date("%Y-%m-%d", strict=False)
    if days.null_count() == texts.null_count():
        return days
    moments = plain.str.replace(" ", "T", literal=True).str.replace(r"Z$", "+00:00")
    moments = moments.str.replace(r"([+-]\d{2})(\d{2})$", "${1}:${2}")
    moments = moments.str.replace(r"^(\d{4}-\d{2}-\d{2})$", "${1}T00:00").str.replace(
        r"(T\d{2}:\d{2})($|[+-])", "${1}:00${2}"
    )
    if moments.str.contains(r"[+-]\d{2}:\d{2}$").any():
        return moments.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", strict=False, time_unit="us")
    return moments.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us")


def _levels(series: pl.Series, facts: Column, levels: pl.Series | None) -> TypedColumn:
    dtype = series.dtype
    if dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if levels is None:
        levels = _declared(series, facts) if facts.levels is not None else series.drop_nulls().unique().sort()
    missing = series.is_null().to_numpy()
    if levels.len() == 0:
        return TypedColumn(facts, np.zeros(series.len()), missing, pl.Series(["" for _ in range(1)]), dtype)
    codes = series.replace_strict(
        levels, pl.Series(np.arange(levels.len())), default=None, return_dtype=pl.Int64
    )
    odd = series.filter(codes.is_null() & series.is_not_null())
    if odd.len():
        raise InputError(
            f"Column {facts.name!r} must hold one of its declared levels. Got {odd[0]!r} ({_cells(odd)})."
        )
    return TypedColumn(facts, codes.fill_null(0).cast(pl.Float64).to_numpy().copy(), missing, levels, dtype)


def _cells(odd: pl.Series) -> str:
    return f"{odd.len()} such cell{'s' if odd.len() != 1 else ''}"


def _declared(series: pl.Series, facts: Column) -> pl.Series:
    """The declared levels in the type of the column."""
    levels = pl.Series([_text_or_value(level, series.dtype) for level in facts.levels or ()])
    try:
        return levels.cast(series.dtype)
    except pl.exceptions.PolarsError:
        raise InputError(
            f"The declared levels of column {facts.name!r} do not fit its cells of type {series.dtype}."
        ) from None


def _text_or_value(level: Any, dtype: Any) -> Any:
    if dtype == pl.String and not isinstance(level, (datetime.date, datetime.datetime)):
        return str(level)
    return level
