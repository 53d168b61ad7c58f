"""Formats of other programs: Excel, SPSS, Stata, SAS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from shoal.errors import InputError, MissingExtraError
from shoal.io._files import first_line


def write_foreign(frame: pl.DataFrame, path: Path, ending: str, labels: Mapping[str, Any]) -> None:
    """Write a workbook, or a table of SPSS, Stata or SAS with its labels; raises what the library raises."""
    if ending == ".xlsx":
        _write_excel(frame, path)
    else:
        _write_statistical(frame, path, ending, labels)


def read_excel(path: Path) -> pl.DataFrame:
    """The first sheet of a workbook."""
    try:
        import fastexcel
    except ImportError:
        raise MissingExtraError("fastexcel", "stat") from None
    try:
        return pl.read_excel(path, engine="calamine")
    except fastexcel.FastExcelError as error:
        raise InputError(f"The file {str(path)!r} cannot be read as .xlsx: {first_line(error)}") from None


def _write_excel(frame: pl.DataFrame, path: Path) -> None:
    try:
        from openpyxl import Workbook
    except ImportError:
        raise MissingExtraError("openpyxl", "stat") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("protected")
    sheet.append(frame.columns)
    for row in frame.iter_rows():
        sheet.append(row)
    book.save(path)


def statistical_reader(path: Path, ending: str) -> tuple[dict[str, Any], Any]:
    """The columns of an SPSS, Stata or SAS file as stored, and its metadata."""
    pyreadstat = _pyreadstat()
    reader = {
        ".sav": pyreadstat.read_sav, ".zsav": pyreadstat.read_sav, ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta, ".sas7bdat": pyreadstat.read_sas7bdat, ".xpt": pyreadstat.read_xport,
    }[ending]  # fmt: skip
    try:
        data, meta = reader(str(path), output_format="dict")
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {first_line(error)}") from None
    return data, meta


def read_statistical(path: Path, ending: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """A table of SPSS, Stata or SAS, and its labels."""
    data, meta = statistical_reader(path, ending)
    labels = {
        "column_labels": dict(meta.column_names_to_labels),
        "variable_value_labels": dict(meta.variable_value_labels),
    }
    frame = pl.DataFrame(
        {name: _whole(pl.Series(name, values, strict=False)) for name, values in data.items()}
    )
    return frame, labels


def _whole(series: pl.Series) -> pl.Series:
    """Statistical formats store whole numbers as floats: give them back as integers."""
    series = series.fill_nan(None) if series.dtype.is_float() else series
    if series.dtype.is_float():
        present = series.drop_nulls()
        if present.len() and (present == present.round()).all() and present.abs().max() < 2**53:  # type: ignore[operator]
            return series.cast(pl.Int64)
    return series


def _write_statistical(frame: pl.DataFrame, path: Path, ending: str, labels: Mapping[str, Any]) -> None:
    pyreadstat = _pyreadstat()
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("pandas", "stat") from None
    names = {
        name: label
        for name, label in labels.get("column_labels", {}).items()
        if name in frame.columns and label
    }
    values = {
        name: each for name, each in labels.get("variable_value_labels", {}).items() if name in frame.columns
    }
    data = pd.DataFrame({name: frame[name].to_numpy(allow_copy=True) for name in frame.columns})
    if ending in (".sav", ".zsav"):
        pyreadstat.write_sav(
            data, str(path), column_labels=names, variable_value_labels=values, compress=ending == ".zsav"
        )
    elif ending == ".dta":
        pyreadstat.write_dta(data, str(path), column_labels=names, variable_value_labels=values)
    elif ending == ".por":
        pyreadstat.write_por(data, str(path), column_labels=names)
    else:
        pyreadstat.write_xport(data, str(path), column_labels=names)


def _pyreadstat() -> Any:
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtraError("pyreadstat", "stat") from None
    return pyreadstat
