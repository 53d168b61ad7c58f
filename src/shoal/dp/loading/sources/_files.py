"""Private files, read row by row: what one row becomes depends on the bytes of that row and on the schema.

Nothing is inferred from the table. Texts are read as texts, in the encoding and with the marks that the schema's
``[file]`` declares; other formats give their cells as stored. One line of a text file is one row: quotes may enclose a
separator, not the end of a line. A line that holds nothing, or nothing but separators, is no row; one with more or fewer
cells than the header is a row of NULLs, and so is a cell whose bytes cannot be decoded a NULL.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from shoal.errors import InputError
from shoal.io import TEXT, check_ending, first_line, named_mark, read_stored
from shoal.schema import FileFormat, Schema

_ODD = "\udfff"  # stands where bytes could not be decoded; no text can hold it
# What makes a line be read by itself. The library that splits the others drops the mark of a byte order at the head of the
# first, which another row would bring to the second.
_SEEN_TO = ('"', _ODD, "\r", "\x00", "\ufeff")
codecs.register_error("shoal-odd", lambda error: (_ODD, getattr(error, "end", 0)))


def read_private(path: str | Path, schema: Schema, *, also: bool = False) -> pl.DataFrame:
    r"""The cells of a private file, as texts or as stored.

    Parameters
    ----------
    path : str or Path
        CSV, Parquet, Arrow, Excel, SPSS, Stata or SAS.
    schema : Schema
        Its ``[file]`` says how a text file is read: UTF-8, commas and decimal points if left open (tabs in ``.tsv``).
    also : bool, default False
        Read the other columns as well: a table that is linked to others may have keys that its schema does not declare.

    Returns
    -------
    polars.DataFrame
        Only the columns that the schema declares or names as unit or group.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shoal.dp.loading.sources import read_private
    >>> from shoal.schema import Column, Schema
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_bytes(b"dx,age\n250.10,41\nV45.01,7\n\xff,9\n")
    >>> read_private(path, Schema({"dx": Column("dx", kind="category"), "age": Column("age")})).rows()
    [('250.10', '41'), ('V45.01', '7'), (None, '9')]
    """
    path = Path(path)
    ending = path.suffix.lower()
    if not path.exists():
        raise InputError(f"No file {str(path)!r}.")
    if path.is_dir():
        raise InputError(f"A file was expected. Got the folder {str(path)!r}.")
    check_ending(path)
    wanted = wanted_columns(schema)
    try:
        if ending not in TEXT:
            stored = read_stored(path, ending)
            return stored if also else stored.select(name for name in stored.columns if name in wanted)
        data = path.read_bytes()
    except PermissionError:
        raise InputError(f"The file {str(path)!r} cannot be read: no permission.") from None
    except pl.exceptions.PolarsError as error:
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {first_line(error)}") from None
    file = _format(schema, ending)
    cells = read_cells(data, file, None if also else wanted, repr(str(path)))
    return cells if file.decimal == "." else _with_points(cells, schema)


def wanted_columns(schema: Schema) -> set[str]:
    """The columns that a session may need."""
    units = [schema.unit, schema.group]
    named = [getattr(each, "column", None) for each in units]
    return {*schema.columns, *(name for name in named if name)}


def read_cells(data: bytes, file: FileFormat, wanted: set[str] | None, name: str) -> pl.DataFrame:
    """The wanted columns of a text file, or all, every cell a text or NULL."""
    lines = (line for line in _lines(data, file.encoding) if line.strip(file.separator))
    first = next((line for line in lines if line.strip() and named_mark(line)[0] is None), "")
    names = _header(first, file.separator, name)
    rows = list(lines)
    plain = [at for at, line in enumerate(rows) if _is_plain(line, file.separator, len(names))]
    columns = _split([rows[at] for at in plain], file.separator, names)
    if len(plain) < len(rows):
        columns = _with_odd(columns, rows, plain, file.separator, names)
    chosen = columns.select(each for each in names if wanted is None or each in wanted)
    return chosen.with_columns(pl.all().replace({"": None}))


def _with_points(cells: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Numbers written with a decimal comma; one written with a point is none."""
    numbers = [
        name for name in cells.columns if name in schema.columns and schema.columns[name].kind == "number"
    ]
    return cells.with_columns(
        pl.when(~pl.col(name).str.contains(".", literal=True)).then(
            pl.col(name).str.replace(",", ".", literal=True)
        )
        for name in numbers
    )


def _format(schema: Schema, ending: str) -> FileFormat:
    if schema.file is not None:
        return schema.file
    return FileFormat(separator="\t") if ending == ".tsv" else FileFormat()


def _lines(data: bytes, encoding: str) -> Iterator[str]:
    """The lines as texts. Where bytes below 128 are ASCII, lines are cut before they are decoded, each by itself."""
    marks = '\n\r",;\t|'
    if marks.encode(encoding, "replace") == marks.encode("ascii"):
        if codecs.lookup(encoding).name == "utf-8":
            data = data.removeprefix(codecs.BOM_UTF8)
        for line in data.split(b"\n"):
            yield line.removesuffix(b"\r").decode(encoding, "shoal-odd")
    else:
        for text in data.decode(encoding, "shoal-odd").removeprefix("\ufeff").split("\n"):
            yield text.removesuffix("\r")


def _header(line: str, separator: str, name: str) -> list[str]:
    if _ODD in line:
        raise InputError(
            f"The header of {name} cannot be decoded: declare 'encoding' in [file] of the schema."
        )
    names = _cells(line, separator) or []
    if not any(each.strip() for each in names):
        raise InputError(f"The file {name} must begin with a line that names its columns.")
    repeated = [each for each in names if each.strip() and names.count(each) > 1]
    if repeated:
        raise InputError(f"Column names must differ. The file {name} has {repeated[0]!r} more than once.")
    return [each if each.strip() else f"column_{place}" for place, each in enumerate(names, 1)]


def _is_plain(line: str, separator: str, width: int) -> bool:
    """Whether a line is cut at its separators and nothing else is to be seen to."""
    return line.count(separator) == width - 1 and not any(mark in line for mark in _SEEN_TO)


def _split(lines: list[str], separator: str, names: list[str]) -> pl.DataFrame:
    if not lines:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    return pl.read_csv(
        io.BytesIO("\n".join(lines).encode()),
        has_header=False,
        new_columns=names,
        separator=separator,
        quote_char=None,
        infer_schema=False,
    )


def _with_odd(
    columns: pl.DataFrame, rows: list[str], plain: list[int], separator: str, names: list[str]
) -> pl.DataFrame:
    """The rows in order, those among them that had to be read one by one."""
    taken = set(plain)
    odd = [at for at in range(len(rows)) if at not in taken]
    read: list[tuple[Any, ...]] = [_row(rows[at], separator, len(names)) for at in odd]
    apart = pl.DataFrame(read, schema=dict.fromkeys(names, pl.String), orient="row")
    place = pl.Series("shoal:place", [*plain, *odd], dtype=pl.Int64)
    return pl.concat([columns, apart]).with_columns(place).sort("shoal:place").drop("shoal:place")


def _row(line: str, separator: str, width: int) -> tuple[str | None, ...]:
    found = _cells(line, separator)
    if found is None or len(found) != width:
        return (None,) * width
    return tuple(None if _ODD in each else each for each in found)


def _cells(line: str, separator: str) -> list[str] | None:
    """The cells of one line; None where its quotes do not close."""
    try:
        rows = list(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
