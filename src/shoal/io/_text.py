"""Text files: encoding, delimiter, header and decimals are found, and said where they are unusual."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import polars as pl

from shoal.errors import InputError
from shoal.io._files import first_line

SAMPLE_BYTES = 1 << 16


def read_text(data: bytes, name: str, ending: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """A table and what had to be guessed about it."""
    if not data.strip():
        raise InputError(f"The file {name} is empty. A header line and rows were expected.")
    text, notes = _decode(data, name)
    separator = "\t" if ending == ".tsv" else delimiter(text)
    if separator not in (",", "\t"):
        notes.append(f"Columns are separated by {separator!r}.")
    decimal_comma = separator == ";" and has_decimal_commas(text)
    if decimal_comma:
        notes.append("Decimals are written with a comma.")
    names = header(text, separator, name, notes)
    _refuse_ragged(text, separator, len(names), name)
    try:
        frame = pl.read_csv(
            io.BytesIO(text.encode()),
            separator=separator,
            new_columns=names,
            infer_schema_length=None,
            decimal_comma=decimal_comma,
            try_parse_dates=False,
        )
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"The file {name} cannot be read as a table: {first_line(error)}") from None
    return frame, tuple(notes)


def _decode(data: bytes, name: str) -> tuple[str, list[str]]:
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
        return text, [] if encoding == "utf-8-sig" else [
            f"The text was read as {encoding}, since it is not UTF-8."
        ]
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
