"""Tables as their files store them, cell by cell: no type is inferred from a column."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import polars as pl

from shoal.errors import InputError, MissingExtraError
from shoal.io._files import first_line
from shoal.io._foreign import statistical_reader


def read_stored(path: Path, ending: str) -> pl.DataFrame:
    """A Parquet, Arrow, Excel, SPSS, Stata or SAS table.

    Excel stores a type with each cell, so its cells come as texts, and a row without any is no record; the statistical
    formats store one with each column, and whole numbers in them stay the floats that they are.
    """
    try:
        if ending == ".parquet":
            return pl.read_parquet(path)
        if ending in (".arrow", ".feather", ".ipc"):
            return pl.read_ipc(path)
        return _excel(path) if ending == ".xlsx" else _statistical(path, ending)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        if isinstance(error, (PermissionError, InputError)):
            raise
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {first_line(error)}") from None


def _excel(path: Path) -> pl.DataFrame:
    try:
        import fastexcel
    except ImportError:
        raise MissingExtraError("fastexcel", "stat") from None
    try:
        sheet = fastexcel.read_excel(path).load_sheet(0, dtypes="string").to_polars()
    except fastexcel.FastExcelError as error:
        raise InputError(f"The file {str(path)!r} cannot be read as .xlsx: {first_line(error)}") from None
    # The library leaves out such rows at the end of a sheet, so that one more record would bring them back.
    return sheet.filter(~pl.all_horizontal(pl.all().fill_null("") == "")) if sheet.width else sheet


def _statistical(path: Path, ending: str) -> pl.DataFrame:
    data, meta = statistical_reader(path, ending)
    kinds: dict[str, str] = meta.readstat_variable_types
    return pl.DataFrame([_column(name, values, kinds.get(name, "")) for name, values in data.items()])


def _column(name: str, values: Any, kind: str) -> pl.Series:
    """A column by the type that its file states: texts, or numbers; dates, which are stored as numbers, as ISO texts."""
    if kind == "string":
        texts = [None if each is None else str(each) for each in values]
        return pl.Series(name, texts, dtype=pl.String)
    cells = list(values)
    if any(isinstance(each, (datetime.date, datetime.time)) for each in cells):
        return pl.Series(name, [_moment(each) for each in cells], dtype=pl.String)
    numbers = [float(each) if isinstance(each, (int, float)) else None for each in cells]
    return pl.Series(name, numbers, dtype=pl.Float64)


def _moment(value: Any) -> str | None:
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if value.time() == datetime.time() else value.isoformat()
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else None
