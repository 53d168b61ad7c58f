"""The cells of a table of any kind, as stored or as texts; what a cell means is left to the schema."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engine.frame import Frame

_FIRST_DAY, _LAST_DAY = (
    (each - datetime.date(1970, 1, 1)).days for each in (datetime.date.min, datetime.date.max)
)
_STEPS = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}  # of a day
_WIDEST = 2**63 - 1


def cells_of(data: Any, names: Collection[str]) -> pl.DataFrame:
    """The named columns of a table of any kind, each cell as stored or, where a column mixes types, as its text."""
    if isinstance(data, pl.DataFrame):
        return pl.DataFrame([_plain(data[name]) for name in data.columns if name in names])
    frame = Frame(spelled_out(data, names)).narwhals
    columns = []
    for name in frame.columns:
        if name in names:
            series = frame[name]
            mixed = series.dtype in (nw.Object, nw.Unknown)
            columns.append(
                _texts(name, series.to_list()) if mixed else _plain(series.to_polars().alias(name))
            )
    return pl.DataFrame(columns)


def coded_cells(data: Any, names: Collection[str]) -> dict[str, tuple[pl.Series, pl.Series]]:
    """Columns that an Arrow table stores as different texts and the place of each cell among them."""
    found = {}
    for name in data.column_names if isinstance(data, pa.Table) else ():
        cells = data.column(name)
        if name in names and _is_coded(cells.type):
            whole = cells.unify_dictionaries().combine_chunks()
            if isinstance(whole, pa.ChunkedArray):  # of no rows, in some versions
                whole = whole.chunk(0) if whole.num_chunks else pa.array([], cells.type)
            found[name] = (
                pl.Series(name, whole.dictionary, pl.String),
                pl.Series(whole.indices, dtype=pl.UInt32),
            )
    return found


def _is_coded(kind: Any) -> bool:
    return pa.types.is_dictionary(kind) and (
        pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)
    )


def spelled_out(data: Any, names: Collection[str]) -> Any:
    """An Arrow table with its coded columns as texts: polars would keep them in a list that the whole process shares.

    Days that are stored in milliseconds become days.
    """
    if not isinstance(data, pa.Table):
        return data
    chosen = data.select([name for name in data.column_names if name in names])
    for at, field in enumerate(chosen.schema):
        if pa.types.is_dictionary(field.type):
            kind = pa.large_string() if _is_coded(field.type) else field.type.value_type
            chosen = chosen.set_column(at, field.name, chosen.column(at).cast(kind))
        if pa.types.is_date64(field.type):
            chosen = chosen.set_column(at, field.name, _whole_days(chosen.column(at)))
    return chosen


def _whole_days(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    days = pc.divide(cells.cast(pa.int64()), _STEPS["ms"])
    known = pc.and_(pc.greater_equal(days, _FIRST_DAY), pc.less_equal(days, _LAST_DAY))
    return pc.if_else(known, days, None).cast(pa.int32()).cast(pa.date32())


def _plain(series: pl.Series) -> pl.Series:
    """Cells that polars can cast one by one: mixed ones as their texts, bytes as the texts that they encode.

    Times outside the years 1 to 9999 are NULL: databases have them, infinite ones too, and polars breaks off at their texts.
    """
    if series.dtype == pl.Binary:
        return pl.Series(series.name, [_decoded(each) for each in series], dtype=pl.String)
    if series.dtype in (pl.Date, pl.Datetime):
        return _in_calendar(series)
    return _texts(series.name, series.to_list()) if series.dtype == pl.Object else series


def _in_calendar(series: pl.Series) -> pl.Series:
    steps = 1 if series.dtype == pl.Date else _STEPS[str(getattr(series.dtype, "time_unit", "us"))]
    first, end = _FIRST_DAY * steps, (_LAST_DAY + 1) * steps
    number = series.to_physical()
    return series.set((number < max(first, -_WIDEST)) | (number > min(end - 1, _WIDEST)), None)


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _texts(name: str, cells: Sequence[Any]) -> pl.Series:
    return pl.Series(name, [_cell_text(each) for each in cells], dtype=pl.String)


def _cell_text(cell: Any) -> str | None:
    """One cell of a mixed column as text; what is no plain value is NULL. No error may quote it."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(cell, str):
        return cell if cell.isprintable() or _encodes(cell) else None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and math.isfinite(cell) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    if isinstance(cell, (int, float, Decimal)):
        return None if math.isnan(cell) else _digits(cell)
    if isinstance(cell, datetime.datetime):
        cell = cell.date()
    return cell.isoformat() if type(cell) is datetime.date else None  # NaT is a date of its own kind


def _digits(cell: float | Decimal) -> str | None:
    try:
        return str(cell)
    except ValueError:  # more digits than Python prints
        return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
