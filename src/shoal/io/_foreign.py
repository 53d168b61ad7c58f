"""Formats of other programs: Excel, SPSS, Stata, SAS."""

from __future__ import annotations

import datetime
import io
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from shoal.errors import InputError, MissingExtraError
from shoal.io._files import first_line, left_out
from shoal.typing import Json, Keywords

LARGEST_WORKBOOK = 10**15
"""Whole numbers of a workbook are exact below it: Excel keeps 15 digits."""
LARGEST_XPORT = 7.2e75
"""Numbers of a SAS transport file end here."""


def write_foreign(frame: pl.DataFrame, path: Path, ending: str, labels: Mapping[str, Any]) -> None:
    """Write a workbook, or a table of SPSS, Stata or SAS with its labels; raises what the library raises."""
    if ending == ".xlsx":
        _write_excel(frame, path)
    else:
        _write_statistical(frame, path, ending, labels)


def read_excel(path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The first sheet of a workbook, and what may not be as it was meant."""
    try:
        import fastexcel
    except ImportError:
        raise MissingExtraError("fastexcel", "stat") from None
    try:
        cells = pl.read_excel(path, engine="calamine", drop_empty_rows=False)
    except fastexcel.FastExcelError as error:
        raise InputError(f"The file {str(path)!r} cannot be read as .xlsx: {first_line(error)}") from None
    sheet = cells.filter(~pl.all_horizontal(pl.all().is_null())) if cells.width else cells
    inexact = tuple(
        f"Column {name!r} has whole numbers of more than 15 digits, which a workbook does not keep exactly: different ones "
        "may have become one. Store such numbers as texts."
        for name in _beyond(sheet, LARGEST_WORKBOOK)
    )
    return sheet, (*left_out(cells.height - sheet.height), *inexact)


def _beyond(frame: pl.DataFrame, most: int) -> list[str]:
    """Columns of whole numbers, some of them larger."""
    whole = [name for name, dtype in frame.schema.items() if dtype.is_integer()]
    ends = frame.select(pl.col(whole).cast(pl.Int128).abs().max()) if whole else pl.DataFrame()
    return [name for name in whole if (ends[name].item() or 0) >= most]


def _write_excel(frame: pl.DataFrame, path: Path) -> None:
    try:
        from openpyxl import Workbook
    except ImportError:
        raise MissingExtraError("openpyxl", "stat") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("protected")
    sheet.append([_plain_cell(sheet, name) for name in frame.columns])
    utc = [pl.col(name).dt.convert_time_zone("UTC").dt.replace_time_zone(None) for name in _zoned(frame)]
    early = [pl.col(name).cast(pl.String) for name in _early(frame)]
    for row in frame.with_columns(utc).with_columns(early).iter_rows():
        sheet.append([_plain_cell(sheet, cell) for cell in row])
    whole = (
        io.BytesIO()
    )  # on a full disk a workbook that is written as it grows complains when it is forgotten
    book.save(whole)
    path.write_bytes(whole.getvalue())


def _plain_cell(sheet: Any, cell: Any) -> Any:
    """A cell of a workbook; a text that begins like a formula stays a text, which nobody computes."""
    if not (isinstance(cell, str) and cell.startswith("=")):
        return cell
    from openpyxl.cell import WriteOnlyCell

    text = WriteOnlyCell(sheet, cell)
    text.data_type = "s"
    return text


def statistical_reader(path: Path, ending: str, coded: Collection[str] = ()) -> tuple[Keywords, Any]:
    """The columns of an SPSS, Stata or SAS file as stored, and its metadata.

    Codes declared as missing become missing cells, but for the columns `coded` of SPSS, which can write them again.
    """
    pyreadstat = _pyreadstat()
    reader = {
        ".sav": pyreadstat.read_sav, ".zsav": pyreadstat.read_sav, ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta, ".sas7bdat": pyreadstat.read_sas7bdat, ".xpt": pyreadstat.read_xport,
    }[ending]  # fmt: skip
    # Codes declared as missing are told apart only when they are asked for.
    options = {"user_missing": True} if ending in (".sav", ".zsav", ".dta", ".sas7bdat") else {}
    try:
        data, meta = reader(str(path), output_format="dict", **options)
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {first_line(error)}") from None
    stay = set(coded) if ending in (".sav", ".zsav") else set()
    gone = {
        name: [] if name in stay else _declared_missing(name, values, meta) for name, values in data.items()
    }
    meta.declared_missing = {name: sum(flags) for name, flags in gone.items() if any(flags)}
    cells = {
        name: [None if flag else value for value, flag in zip(values, gone[name], strict=True)]
        if name in meta.declared_missing
        else values
        for name, values in data.items()
    }
    return cells, meta


def _declared_missing(name: str, values: Iterable[Any], meta: Any) -> list[bool]:
    """Which cells hold a code that their file declares as missing: SPSS's ranges, Stata's and SAS's letters."""
    ranges = meta.missing_ranges.get(name, [])
    letters = set(meta.missing_user_values.get(name, []))
    if not ranges and not letters:
        return []
    return [_is_declared(value, ranges, letters) for value in values]


def _is_declared(value: Any, ranges: Iterable[Mapping[str, Any]], letters: set[str]) -> bool:
    if value is None or value in letters:
        return value is not None
    for each in ranges:
        low, high = each["lo"], each["hi"]
        if isinstance(value, str) == isinstance(low, str) and (
            low == value
            if isinstance(value, str)
            else isinstance(value, (int, float)) and low <= value <= high
        ):
            return True
    return False


def read_statistical(
    path: Path, ending: str, coded: Collection[str] = ()
) -> tuple[pl.DataFrame, Json, tuple[str, ...]]:
    """A table of SPSS, Stata or SAS, what is known of its variables, and what could not be kept apart."""
    data, meta = statistical_reader(path, ending, coded)
    labels = {
        "column_labels": {name: text for name, text in meta.column_names_to_labels.items() if text},
        "variable_value_labels": dict(meta.variable_value_labels),
        "missing_ranges": dict(meta.missing_ranges),
        "measures": {name: word for name, word in meta.variable_measure.items() if word != "unknown"},
        "formats": {name: shown for name, shown in meta.original_variable_types.items() if shown},
        "format": ending,
        "file_label": meta.file_label or "",
    }
    frame = pl.DataFrame([_cells(name, values) for name, values in data.items()])
    if ending in _BLANK_IS_MISSING:
        frame = frame.with_columns(pl.col(pl.String).replace("", None))
    said = tuple(
        f"Column {name!r} has {count:,} cells with codes that its file declares as missing; they are read as missing cells, "
        "whichever code they have."
        for name, count in meta.declared_missing.items()
        if meta.missing_ranges.get(name) != [_BLANK]
    )
    if meta.notes:
        said += ("The notes inside the file are left out: they are free text and may be about people.",)
    return frame, labels, said


def _cells(name: str, values: Iterable[Any]) -> pl.Series:
    """A column in the type of its cells: dates, times and moments stay what they are."""
    cells = list(values)
    kinds = {type(value) for value in cells if value is not None}
    if kinds and kinds <= {datetime.date, datetime.datetime} and len(kinds) == 2:
        cells = [datetime.datetime(v.year, v.month, v.day) if type(v) is datetime.date else v for v in cells]
    if kinds <= {datetime.timedelta, datetime.time} and datetime.timedelta in kinds:
        return pl.Series(
            name, [None if v is None else _as_duration(v) for v in cells], dtype=pl.Duration("us")
        )
    return _whole(pl.Series(name, cells, strict=False))


def _as_duration(value: datetime.time | datetime.timedelta) -> datetime.timedelta:
    if isinstance(value, datetime.timedelta):
        return value
    return datetime.timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )


def _whole(series: pl.Series) -> pl.Series:
    """Statistical formats store whole numbers as floats: give them back as integers."""
    series = series.fill_nan(None) if series.dtype.is_float() else series
    if series.dtype.is_float():
        present = series.drop_nulls()
        if present.len() and (present == present.round()).all() and present.abs().max() < 2**53:  # type: ignore[operator]
            return series.cast(pl.Int64)
    return series


def lost_in(frame: pl.DataFrame, ending: str, labels: Mapping[str, Any]) -> tuple[str, ...]:
    """What a format cannot hold of a table and of what is known of its variables, one sentence each."""
    said = []
    kept = {
        key: _fitting(frame, labels, key, ending)
        for key in ("variable_value_labels", "missing_ranges", "measures")
    }
    for key, words in _WORDS.items():
        had = [name for name in labels.get(key, {}) if name in frame.columns]
        gone = had if ending not in _HOLDS[key] else [name for name in had if name not in kept[key]]
        if gone and ending not in _HOLDS[key]:
            said.append(f"A {ending} file cannot hold {words}: those of {', '.join(gone)} are not written.")
        elif gone:
            said.append(f"The cells of {', '.join(gone)} are no longer numbers: {words} are not written.")
    fewer = [
        name
        for name, each in kept["variable_value_labels"].items()
        if len(each) < len(labels["variable_value_labels"][name])
    ]
    if fewer and ending in _HOLDS["variable_value_labels"]:
        said.append(f"Labels of values that occur in no row are not written: some of {', '.join(fewer)}.")
    if ending not in (".xlsx", ".sav", ".zsav", ".dta", ".sas7bdat", ".xpt", ".por"):
        return tuple(said)
    said += [f"A {ending} file has no time zones: {name!r} is written in UTC." for name in _zoned(frame)]
    if ending == ".xlsx":
        said += [
            f"A .xlsx file has no dates before 1900: {name!r} is written as texts." for name in _early(frame)
        ]
    digits = "15 digits, which is what Excel keeps" if ending == ".xlsx" else "the precision of 64-bit floats"
    most = LARGEST_WORKBOOK if ending == ".xlsx" else 2**53 + 1
    said += [f"Column {name!r} is written to {digits}." for name in _beyond(frame, most)]
    return tuple(said) if ending == ".xlsx" else (*said, *_lost_texts(frame, ending))


def _lost_texts(frame: pl.DataFrame, ending: str) -> list[str]:
    """What a format cannot hold of texts: missing ones beside empty ones, and blanks at the end."""
    texts = [cells for cells in frame if cells.dtype in (pl.String, pl.Categorical, pl.Enum)]
    texts = [cells.cast(pl.String) for cells in texts]
    empty = [cells.name for cells in texts if (cells == "").any()]
    missing = [cells.name for cells in texts if cells.null_count()]
    said = []
    merged = empty if ending in _BLANK_IS_MISSING else [name for name in empty if name in missing]
    if merged and ending != ".por":
        said.append(
            f"A {ending} file writes missing texts as empty ones: those of {', '.join(merged)} are missing."
        )
    if missing and ending == ".por":
        said.append(
            f"A .por file has no missing texts: those of {', '.join(missing)} are written as empty ones."
        )
    cut = [cells.name for cells in texts if ending != ".dta" and cells.str.ends_with(" ").any()]
    if cut:
        said.append(
            f"A {ending} file drops blanks at the end of texts: those of {', '.join(cut)} are not written."
        )
    return said


def _zoned(frame: pl.DataFrame) -> list[str]:
    """Columns of moments that state their time zone."""
    return [
        name
        for name, dtype in frame.schema.items()
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    ]


def _early(frame: pl.DataFrame) -> list[str]:
    """Columns of dates that begin before those of a workbook, which counts them from 1900 with a day too many."""
    moments = [name for name, dtype in frame.schema.items() if dtype in (pl.Date, pl.Datetime)]
    first = pl.datetime(1900, 3, 1)
    early = frame.select((pl.col(name).cast(pl.Datetime("us")) < first).any() for name in moments)
    return [name for name in moments if early[name].item()]


_WORDS = {
    "variable_value_labels": "labels of values",
    "missing_ranges": "codes declared as missing",
    "measures": "levels of measurement",
}
# Formats whose own word for a missing text is an empty one.
_BLANK_IS_MISSING = (".dta", ".sas7bdat", ".xpt")
# What SPSS is told to take as missing where texts are.
_BLANK = {"lo": "", "hi": ""}
_HOLDS = {
    "variable_value_labels": (".sav", ".zsav", ".dta"),
    "missing_ranges": (".sav", ".zsav"),
    "measures": (".sav", ".zsav"),
}


def _fitting(frame: pl.DataFrame, labels: Mapping[str, Any], key: str, ending: str) -> Json:
    """What is known of variables that are still there, of those whose cells became texts only what suits texts."""
    found = {}
    for name, each in labels.get(key, {}).items():
        if name not in frame.columns:
            continue
        text = frame.schema[name] in (pl.String, pl.Categorical, pl.Enum)
        if key == "variable_value_labels" and text != all(isinstance(value, str) for value in each):
            if text and ending in (".sav", ".zsav") and (worded := _text_labels(frame[name], each)):
                found[name] = worded
            continue
        if key == "missing_ranges" and any(isinstance(part["lo"], str) != text for part in each):
            continue
        if key == "measures" and text and each == "scale":
            continue
        missing = labels.get("missing_ranges", {}).get(name, [])
        found[name] = _present(frame[name], each, missing) if key == "variable_value_labels" else each
    return found


def _present(
    cells: pl.Series, labels: Mapping[Any, str], ranges: Iterable[Mapping[str, Any]]
) -> dict[Any, str]:
    """Labels of values that occur, and of codes declared as missing: others may tell what was protected."""
    present = set(cells.unique().to_list())
    return {
        code: label for code, label in labels.items() if code in present or _is_declared(code, ranges, set())
    }


def _text_labels(cells: pl.Series, labels: Mapping[Any, str]) -> dict[str, str]:
    """Labels of the codes that are still there as texts: a coarsened column holds codes beside groups of them."""
    written = {
        f"{code:.15g}" if isinstance(code, float) else str(code): label for code, label in labels.items()
    }
    present = set(cells.cast(pl.String).unique().to_list())
    return {code: label for code, label in written.items() if code in present}


def _formats(frame: pl.DataFrame, labels: Mapping[str, Any], ending: str) -> dict[str, str]:
    """How values are shown, where the format is the one they came from and the cells still suit it."""
    came = labels.get("format", "")
    same = came == ending or {came, ending} in ({".sav", ".zsav"}, {".sas7bdat", ".xpt"})
    found = {}
    for name, shown in labels.get("formats", {}).items():
        if not same or name not in frame.columns:
            continue
        dtype, moment = frame.schema[name], _is_moment(shown)
        text = shown.startswith(("A", "%-", "$")) or (
            shown.startswith("%") and shown.endswith("s") and "t" not in shown
        )
        if (dtype.is_temporal() and moment) or (dtype.is_numeric() and not moment and not text):
            found[name] = shown
    return found


def _is_moment(shown: str) -> bool:
    names = (
        "DATE",
        "ADATE",
        "EDATE",
        "JDATE",
        "SDATE",
        "TIME",
        "DTIME",
        "MTIME",
        "DATETIME",
        "YMDHMS",
        "MOYR",
        "QYR",
        "WKYR",
        "%t",
    )
    return shown.upper().startswith(names) or shown.startswith("%t")


def _pandas_cells(series: pl.Series) -> Any:
    """Cells as pyreadstat takes them: dates and times as Python's own, since its arrays of days become 1970."""
    if series.dtype in (pl.Date, pl.Time):
        import pandas as pd

        return pd.Series(series.to_list(), dtype=object)
    if series.dtype == pl.Duration:
        return series.dt.total_seconds().to_numpy()
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    return series.to_numpy(allow_copy=True)


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
    values = _fitting(frame, labels, "variable_value_labels", ending)
    data = pd.DataFrame({name: _pandas_cells(frame[name]) for name in frame.columns})
    common: Keywords = {"column_labels": names, "variable_format": _formats(frame, labels, ending)}
    if ending in (".sav", ".zsav"):
        pyreadstat.write_sav(
            data, str(path), variable_value_labels=values, compress=ending == ".zsav",
            missing_ranges=_with_blanks(frame, _fitting(frame, labels, "missing_ranges", ending)),
            variable_measure=_fitting(frame, labels, "measures", ending),
            file_label=labels.get("file_label", ""), **common,
        )  # fmt: skip
    elif ending == ".dta":
        pyreadstat.write_dta(
            data, str(path), variable_value_labels=values, file_label=labels.get("file_label", ""), **common
        )
    elif ending == ".por":
        pyreadstat.write_por(data, str(path), **common)
    else:
        _refuse_beyond_xport(frame)
        pyreadstat.write_xport(data, str(path), **common)


def _with_blanks(frame: pl.DataFrame, ranges: Json) -> Json:
    """Codes declared as missing, and empty texts where texts are missing: SPSS has no other word for that."""
    missing = [
        cells.name
        for cells in frame
        if cells.dtype in (pl.String, pl.Categorical, pl.Enum) and cells.null_count()
    ]
    return ranges | {name: [_BLANK, *ranges.get(name, [])][:3] for name in missing}


def _refuse_beyond_xport(frame: pl.DataFrame) -> None:
    """Raise a sentence for numbers that a SAS transport file would hold as infinite."""
    for name, dtype in frame.schema.items():
        largest = frame[name].fill_nan(None).abs().max() if dtype.is_float() else None
        if isinstance(largest, float) and largest > LARGEST_XPORT:
            raise InputError(
                f"A .xpt file holds numbers up to {LARGEST_XPORT:.1e}. The column {name!r} has larger ones: write another format."
            )


def _pyreadstat() -> Any:
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtraError("pyreadstat", "stat") from None
    return pyreadstat
