"""Loading: each cell becomes what the schema says it is, row by row, by public rules that never fail.

NaN and whatever cannot be read become NULL, infinities are clamped, levels become their positions (an
undeclared level is NULL), dates become days. Neighbouring tables therefore load to neighbouring tables.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.loading.cells import cells_of, coded_cells
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import NUMBER, has_codes, level_text, levels
from shoal.dp.meaning.relation import CELL, UNIT
from shoal.dp.unit import Protected
from shoal.errors import SchemaError
from shoal.schema import Column, Schema, decode_missing

# Columns that answering adds to a table.
RESERVED = (UNIT, CELL, "shoal:key", "shoal:time", "shoal:hash", "shoal:member")
_HUGE = 1e308
_EPOCH = 719_163  # ordinal of 1970-01-01
_LAST = 3_652_059  # ordinal of 9999-12-31


def load(data: Any, schema: Schema) -> pl.DataFrame:
    """The declared columns of a table as the engine keeps them.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema

    Returns
    -------
    polars.DataFrame
        Numbers and dates as Float64, levels as Int32 positions, other columns as text.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.loading.load import load
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 99)), "sex": Column("sex", kind="category", levels=("f", "m"))})
    >>> load(pl.DataFrame({"age": ["40", "x"], "sex": ["m", "?"]}), schema).rows()
    [(40.0, 1), (None, None)]
    """
    loaded = decode(data, schema)
    # Rows of our own: polars shares memory with numpy and pandas, and what the caller does to a table later must
    # not change what was fingerprinted and is asked about.
    return loaded[np.arange(loaded.height)]


def check_names(schema: Schema) -> None:
    """Raise `SchemaError` for columns with names of the program's own, or names that polars takes for patterns."""
    for name in schema.columns:
        if name in RESERVED:
            raise SchemaError(
                f"The names {', '.join(RESERVED)} are the program's own. Got the column {name!r}."
            )
        if name == "*" or (name.startswith("^") and name.endswith("$")):
            raise SchemaError(
                f"A column that is asked about may not be called '*' or '^...$', which means several. Got {name!r}."
            )


def decode(data: Any, schema: Schema) -> pl.DataFrame:
    """What `load` gives, which may share memory with the table."""
    check_names(schema)
    coded = coded_cells(data, schema.columns)
    native = cells_of(data, [name for name in schema.columns if name not in coded])
    missing = [name for name in schema.columns if name not in coded and name not in native.columns]
    if missing:
        raise SchemaError(
            f"The schema declares column {missing[0]!r}, which the table does not have. (Of a text file, [file] of the "
            "schema declares encoding, separator and decimal mark.)"
        )
    columns = {}
    for name, column in schema.columns.items():
        try:
            if name in coded:
                texts, places = coded[name]
                columns[name] = _column(texts, column).gather(places)
            else:
                columns[name] = _each_once(native[name], column)
        except pl.exceptions.PolarsError:  # by its type, never by a value: casts are not strict
            raise SchemaError(f"Column {name!r} cannot be read as a {column.kind}.") from None
    return pl.DataFrame(columns)


def protect_rows(
    frame: pl.DataFrame, data: Any, schema: Schema, protected: Protected, model: Any = None
) -> pl.DataFrame:
    """The loaded table with its units: rows without one dropped, in an order that is each row's own affair.

    Ids are opaque (see `ids_of`); rows without one are dropped. Sorting by a public hash of the row makes "the first
    m rows of a unit" a function of that unit's rows alone.
    """
    if protected.kind not in ("column", "cell"):
        return frame
    return in_order(with_units(frame, data, schema, protected, model))


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows in an order that is each row's own affair."""
    return frame[np.argsort(row_hashes(frame), kind="stable")]


def with_units(
    frame: pl.DataFrame, data: Any, schema: Schema, protected: Protected, model: Any = None
) -> pl.DataFrame:
    """Loaded rows with their units, in the order in which they came; rows without one dropped."""
    if protected.kind == "column":
        name = protected.column or ""
        native = cells_of(data, [name])
        if name not in native.columns:
            raise SchemaError(f"The unit is column {name!r}, which the table does not have.")
        unit = ids_of(native[name], schema.columns.get(name, Column(name, kind="category")))
        return frame.with_columns(unit.alias(UNIT)).drop_nulls(UNIT)
    if protected.kind == "cell":
        cells = np.asarray(model.cell(frame), dtype=np.int64)
        return frame.with_columns(pl.Series(CELL, np.clip(cells, 0, model.n_cells - 1)))
    return frame


def ids_of(series: pl.Series, column: Column) -> pl.Series:
    """Ids as texts, each by itself: opaque, unless the schema declares them numbers or has them normalised.

    NaN, blank cells and declared missing codes are no ids. Whole numbers are one id whether stored as 7 or 7.0, since
    a table that lacks one id stores the others as floats; a text is never read as a number unless `numeric_id` says so.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.loading.load import ids_of
    >>> from shoal.schema import Column
    >>> cells = pl.Series("who", ["007", "7", "12E1", "120", " ", "nan"])
    >>> ids_of(cells, Column("who", kind="category")).to_list()
    ['007', '7', '12E1', '120', None, 'nan']
    >>> ids_of(cells, Column("who", kind="category", numeric_id=True)).to_list()
    ['7', '7', '120', '120', None, None]
    """
    known = _known(series, column)
    if known.dtype == pl.Boolean or known.dtype.is_numeric():
        text = canonical(known.fill_nan(None) if known.dtype.is_float() else known)
    else:
        text = known.cast(pl.String, strict=False)
    text = text.set(text.str.strip_chars() == "", None)
    if column.normalize:
        text = text.str.normalize("NFC")
    if column.numeric_id:
        different = text.unique().to_list()
        text = text.replace_strict(
            different, [_number_id(each) for each in different], return_dtype=pl.String
        )
    return text


def _number_id(text: str | None) -> str | None:
    """A number in its shortest digits, whatever its length; None for what is none."""
    if text is None or len(text) > 400 or not re.fullmatch(NUMBER, text.strip()):
        return None
    value = Decimal(text.strip())
    if not value.is_finite() or abs(value.adjusted()) > 400:
        return None
    if value == value.to_integral_value():
        return f"{value.to_integral_value():f}".removeprefix("-") if not value else f"{int(value)}"
    return f"{value:f}".rstrip("0")


def canonical(series: pl.Series) -> pl.Series:
    """Cells as canonical text (see `shoal.dp.sql.query.level_text`), so that 1, 1.0 and " 1" are one level."""
    name = series.name
    if series.dtype == pl.Boolean:
        return (
            series.cast(pl.Int8).replace_strict([0, 1], ["false", "true"], return_dtype=pl.String).alias(name)
        )
    if series.dtype.is_numeric():
        text, value = pl.col(name).cast(pl.String), pl.col(name).cast(pl.Float64, strict=False)
    else:
        text = pl.col(name).cast(pl.String, strict=False).str.strip_chars()
        looks = text.str.contains(f"^{NUMBER}$")
        value = pl.when(looks).then(text).cast(pl.Float64, strict=False)
    whole = value.is_finite() & (value.abs() < 2.0**53) & (value == value.floor())
    number = pl.when(whole).then(value).cast(pl.Int64, strict=False).cast(pl.String)
    return _frame(series).select(pl.coalesce(number, text).alias(name)).to_series()


def _known(series: pl.Series, column: Column) -> pl.Series:
    """The column with its missing cells as NULL."""
    return decode_missing(_frame(series).to_series(), column)


def _each_once(series: pl.Series, column: Column) -> pl.Series:
    """A column, each different text read once where few are declared: a cell is read by itself, so nothing else changes."""
    if series.dtype != pl.String or column.kind in ("number", "date") or not has_codes(column):
        return _column(series, column)
    different = series.unique().drop_nulls()
    places = _column(different, column)
    return series.replace_strict(different, places, default=None, return_dtype=places.dtype)


def _column(series: pl.Series, column: Column) -> pl.Series:
    known = _known(series, column).to_frame()
    if column.kind == "number":
        return _numbers(known, column)
    if column.kind == "date":
        return _days(known, series.name)
    text = canonical(known.to_series())
    if not has_codes(column):
        return text
    places = {level_text(each): position for position, each in enumerate(levels(column) or ())}
    if column.kind == "boolean":
        text, places = text.str.to_lowercase(), {"false": 0, "true": 1, "0": 0, "1": 1}
    return text.replace_strict(list(places), list(places.values()), default=None, return_dtype=pl.Int32)


def _numbers(frame: pl.DataFrame, column: Column) -> pl.Series:
    name = column.name
    series = frame.to_series()
    raw = (
        pl.col(name)
        if series.dtype.is_numeric() and not series.dtype.is_decimal()
        else pl.col(name)
        .cast(pl.String, strict=False)
        .str.strip_chars()  # decimals too: their texts are exact
    )
    if series.dtype == pl.Boolean:
        raw = pl.col(name).cast(pl.Int8)
    low, high = finite_bounds(column) if column.bounds is not None else (-_HUGE, _HUGE)
    value = raw.cast(pl.Float64, strict=False).fill_nan(None)
    clamped = pl.when(value.is_infinite()).then(pl.when(value > 0).then(high).otherwise(low)).otherwise(value)
    return frame.select(clamped.alias(name)).to_series()


def _days(frame: pl.DataFrame, name: str) -> pl.Series:
    dtype = frame.to_series().dtype
    if dtype in (pl.Date, pl.Datetime):
        day = pl.col(name).cast(pl.Date)
    else:
        day = (
            pl.col(name).cast(pl.String, strict=False).str.strip_chars().str.to_date("%Y-%m-%d", strict=False)
        )
    days = day.cast(pl.Int64) + _EPOCH
    known = pl.when(days.is_between(1, _LAST)).then(
        days
    )  # databases have days before the year 1, and infinite ones
    return frame.select(known.cast(pl.Float64).alias(name)).to_series()


def _frame(series: pl.Series) -> pl.DataFrame:
    if series.dtype.is_nested() or series.dtype == pl.Object:
        raise SchemaError(f"Column {series.name!r} must hold plain values. Got {series.dtype}.")
    return series.to_frame()


def row_hashes(frame: pl.DataFrame) -> np.ndarray:
    """A public hash of each row, by which rows are ordered."""
    if frame.width == 0:
        return np.zeros(frame.height, dtype=np.uint64)
    return frame.hash_rows(seed=1).to_numpy()
