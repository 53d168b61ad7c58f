"""Text files: encoding, delimiter, header and decimals are found, and said where they are unusual."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import polars as pl

from shoal.errors import InputError
from shoal.io._files import first_line
from shoal.schema import FileFormat

SAMPLE_BYTES = 1 << 16


def read_text(
    data: bytes, name: str, ending: str, declared: FileFormat | None = None
) -> tuple[pl.DataFrame, FileFormat, tuple[str, ...]]:
    """A table, how its bytes were read, and what had to be guessed for it."""
    if not data.strip():
        raise InputError(f"The file {name} is empty. A header line and rows were expected.")
    if declared is None:
        text, encoding, notes = _decode(data, name)
        separator = "\t" if ending == ".tsv" else delimiter(text)
        if separator not in (",", "\t"):
            notes.append(f"Columns are separated by {separator!r}.")
        decimal = "," if separator == ";" and has_decimal_commas(text) else "."
        if decimal == ",":
            notes.append("Decimals are written with a comma.")
        marks = FileFormat(encoding, separator, decimal)
    else:
        text, notes, marks = _decode_as(data, name, declared.encoding), [], declared
    names = header(text, marks.separator, name, notes)
    _refuse_ragged(text, marks.separator, len(names), name)
    try:
        frame = pl.read_csv(
            io.BytesIO(text.encode()), separator=marks.separator, new_columns=names, infer_schema=False
        )
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"The file {name} cannot be read as a table: {first_line(error)}") from None
    return (
        frame.with_columns(typed(column, marks.decimal) for column in frame.iter_columns()),
        marks,
        tuple(notes),
    )


def typed(texts: pl.Series, decimal: str = ".") -> pl.Series:
    """Cells of a text file as whole numbers, numbers or truth values where all of them are; else as texts.

    Digits with a leading zero stay texts: a postcode or the code of a trade is no quantity, and 01067 is not 1067.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.io import typed
    >>> typed(pl.Series(["7", None, "12"])).to_list(), typed(pl.Series(["07", "12"])).to_list()
    ([7, None, 12], ['07', '12'])
    """
    cells = texts.replace("", None) if (texts == "").any() else texts
    present = cells.drop_nulls()
    if present.len() == 0:
        return texts
    if present.str.contains(r"^[+-]?\d+$").all():
        whole = None if present.str.contains(r"^[+-]?0\d").any() else cells.cast(pl.Int64, strict=False)
        return whole if whole is not None and whole.null_count() == cells.null_count() else texts
    mark = "," if decimal == "," else r"\."
    if present.str.contains(rf"^[+-]?(\d+({mark}\d*)?|{mark}\d+)([eE][+-]?\d+)?$|^[+-]?inf$|^NaN$").all():
        if present.str.contains(r"^[+-]?0\d+$").any():
            return texts
        points = cells.str.replace(",", ".", literal=True) if decimal == "," else cells
        return points.cast(pl.Float64)
    if present.str.contains(r"^(?i:true|false)$").all():
        return cells.str.to_lowercase() == "true"
    return texts


def _decode_as(data: bytes, name: str, encoding: str) -> str:
    """The text in its declared encoding; a mark of the byte order is no part of it."""
    try:
        return data.decode("utf-8-sig" if encoding.lower().replace("_", "-") == "utf-8" else encoding)
    except (UnicodeDecodeError, UnicodeError):
        raise InputError(
            f"The file {name} must be text in {encoding}, as the schema declares. It is not."
        ) from None


def _decode(data: bytes, name: str) -> tuple[str, str, list[str]]:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    elif b"\x00" in data[:SAMPLE_BYTES]:
        raise InputError(f"The file {name} must be text. It holds zero bytes: is its ending right?")
    else:
        encodings = ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\n" not in text:
            text = text.replace("\r", "\n")  # lines as old Macs ended them
        if encoding == "utf-8-sig":
            return text, "utf-8", []
        return text, encoding, [f"The text was read as {encoding}, since it is not UTF-8."]
    raise InputError(f"The file {name} must be text in UTF-8, UTF-16 or Windows-1252. It is none of them.")


def delimiter(text: str) -> str:
    """The mark between cells, found from the first lines."""
    lines = [line for line in text[:SAMPLE_BYTES].splitlines()[:50] if line.strip()]
    try:
        return csv.Sniffer().sniff("\n".join(lines[:20]), delimiters=",;\t|").delimiter
    except csv.Error:
        counts = {mark: lines[0].count(mark) for mark in ",;\t|"}
        return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def header(text: str, separator: str, name: str, notes: list[str]) -> list[str]:
    """The names of the columns; one without a name is called by its place, and a note says so."""
    try:
        names = next(row for row in csv.reader(io.StringIO(text), delimiter=separator) if row)
    except (csv.Error, StopIteration):
        raise InputError(f"The file {name} must begin with a line that names its columns.") from None
    repeated = [each for each in names if each.strip() and names.count(each) > 1]
    if repeated:
        raise InputError(f"Column names must differ. The file {name} has {repeated[0]!r} more than once.")
    for place, each in enumerate(names, 1):
        if not each.strip():
            names[place - 1] = called = f"column_{place}"
            notes.append(f"Column {place} has no name; it is called {called!r}.")
    return names


def _refuse_ragged(text: str, separator: str, width: int, name: str) -> None:
    # Only where quotes or numbers of separators make it needful are the rows read one by one.
    lines = text.count("\n") + (not text.endswith("\n"))
    if '"' in text or text.count(separator) != lines * (width - 1):
        refuse_ragged(io.StringIO(text), separator, width, name)


def refuse_ragged(lines: Iterable[str], separator: str, width: int, name: str) -> None:
    """Raise a sentence that names the first row with more or fewer cells than the header."""
    rows = csv.reader(lines, delimiter=separator)
    try:
        for row in rows:
            if row and len(row) != width:
                raise InputError(
                    f"Every row of {name} must have the {width} cells of the header. "
                    f"Got {len(row)} at line {rows.line_num}."
                )
    except csv.Error:
        return  # a cell too long for this reader; the table's own reader decides


def has_decimal_commas(text: str) -> bool:
    """Whether numbers between semicolons are written with a comma."""
    cells = [cell.strip() for line in text[:SAMPLE_BYTES].splitlines()[1:50] for cell in line.split(";")]
    with_comma = [
        cell for cell in cells if cell.count(",") == 1 and cell.replace(",", "").lstrip("-+").isdigit()
    ]
    with_point = [
        cell for cell in cells if cell.count(".") == 1 and cell.replace(".", "").lstrip("-+").isdigit()
    ]
    return len(with_comma) > len(with_point)
