"""Tables in and out, by the ending of their path."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from shoal.engine.frame import refuse_control
from shoal.errors import InputError, ShoalError
from shoal.io._files import atomic, check_folder, first_line
from shoal.io._folder import common_types, in_types
from shoal.io._foreign import lost_in, read_excel, read_statistical, write_foreign
from shoal.io._text import TextWriter, read_text, written_marks
from shoal.schema import FileFormat
from shoal.typing import Json

TEXT = (".csv", ".tsv", ".txt")
STATISTICAL = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
FORMATS = (*TEXT, ".parquet", ".arrow", ".feather", ".ipc", ".xlsx", *STATISTICAL)


@dataclass(frozen=True)
class ReadTable:
    r"""A table as read, and what there is to say about its file.

    Attributes
    ----------
    frame : polars.DataFrame
    format : str
        The file's ending, such as ".csv".
    notes : tuple of str
        What was guessed, one sentence each.
    labels : mapping
        Variable and value labels of SPSS, Stata and SAS files, written back on output.
    file : FileFormat or None
        How the bytes of a text file were read; the output is written with the same marks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from shoal.io import read_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("name;weight\na;1,5\nb;2,5\n")
    >>> source = read_source(path)
    >>> source.format, source.notes
    ('.csv', ("Columns are separated by ';'.", 'Decimals are written with a comma.'))
    """

    frame: pl.DataFrame
    format: str
    notes: tuple[str, ...] = ()
    labels: Json = field(default_factory=dict)
    file: FileFormat | None = None

    def labelled(self) -> list[str]:
        """Columns whose values all have labels: numbers that stand for words."""
        found = []
        for name, words in self.labels.get("variable_value_labels", {}).items():
            if name in self.frame.columns and words:
                values = self.frame[name].drop_nulls().unique().to_list()
                if values and all(value in words for value in values):
                    found.append(name)
        return found


def read_table(
    path: str | Path, file: FileFormat | None = None, coded: Collection[str] = (), exact: Collection[str] = (), *,
    published: bool = False,
) -> pl.DataFrame:  # fmt: skip
    r"""Read a table by its ending: CSV, Parquet, Arrow, Excel, SPSS, Stata or SAS; `-` is CSV on a pipe.

    A folder of Parquet files, as Spark writes them, is one table. `read_source` says what the arguments are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shoal.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("a;b\n1;x\n2;y\n")
    >>> read_table(path).shape
    (2, 2)
    """
    return read_source(path, file, coded, exact, published=published).frame


def read_source(
    path: str | Path, file: FileFormat | None = None, coded: Collection[str] = (), exact: Collection[str] = (), *,
    published: bool = False,
) -> ReadTable:  # fmt: skip
    r"""Read a table together with what is to be said about its file.

    Parameters
    ----------
    path : str or Path
    file : FileFormat, optional
        How the bytes of a text file are read, as a schema declares it; left open, it is found and said.
    coded : collection of str, optional
        Columns of an SPSS file that keep the codes which the file declares as missing; elsewhere these are missing cells.
    exact : collection of str, optional
        Columns of a text file that stay texts where a number would be written back otherwise: 250.10 as 250.1.
    published : bool, default False
        Whether it is a published table: its rows without anything are records all of which was suppressed. In other text
        files such rows are left out, and a note says so: spreadsheet programs leave them at the end.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from shoal.io import read_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("name;weight\na;1,5\nb;2,5\n")
    >>> source = read_source(path)
    >>> source.frame["weight"].to_list(), source.file.separator, source.file.decimal
    ([1.5, 2.5], ';', ',')
    """
    if str(path) == "-":
        data = sys.stdin.buffer.read()
        return _text(data, "on the standard input", ".csv", file, exact, published=published)
    path = Path(path)
    ending = path.suffix.lower()
    if not path.exists():
        raise InputError(f"No file {str(path)!r}.")
    if path.is_dir():
        return _folder(path)
    check_ending(path)
    try:
        if ending in TEXT:
            source = _text(path.read_bytes(), repr(str(path)), ending, file, exact, published=published)
        else:
            source = _read_binary(path, ending, coded)
    except PermissionError:
        raise InputError(f"The file {str(path)!r} cannot be read: no permission.") from None
    if source.frame.width == 0 or source.frame.height == 0:
        raise InputError(
            f"The table {str(path)!r} must have rows and columns. Got {source.frame.height} rows."
        )
    refuse_control(source.frame.columns)
    return source


def check_ending(path: Path) -> None:
    """Raise a sentence if the ending of a file is none that can be read."""
    if path.suffix.lower() in COMPRESSED:
        raise InputError(
            f"The file {path.name!r} is compressed. Unpack it first: a file ending in one of {', '.join(FORMATS)} was "
            "expected."
        )
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"The file must end in one of {', '.join(FORMATS)}. Got {path.name!r}.")


def _folder(path: Path) -> ReadTable:
    """The Parquet files of a folder as one table, in the order of their names: what Spark writes."""
    files = sorted(each for each in path.iterdir() if each.is_file() and each.name[0] not in "._")
    if not files or any(each.suffix.lower() != ".parquet" for each in files):
        raise InputError(f"A file was expected, or a folder of Parquet files. Got the folder {str(path)!r}.")
    read = [(each.name, _read_binary(each, ".parquet").frame) for each in files]
    read = [each for each in read if each[1].height] or read[:1]
    types = common_types([(name, each.schema) for name, each in read])
    frame = pl.concat([in_types(each, types) for _, each in read])
    if frame.width == 0 or frame.height == 0:
        raise InputError(f"The table {str(path)!r} must have rows and columns. Got {frame.height} rows.")
    return ReadTable(frame, ".parquet")


def lost_in_writing(frame: pl.DataFrame, path: str | Path, source: ReadTable) -> tuple[str, ...]:
    """What the format of a path cannot hold of a table and of what its source knows of its variables."""
    return lost_in(frame, Path(path).suffix.lower(), source.labels)


def write_table(frame: pl.DataFrame, path: str | Path, source: ReadTable | None = None) -> None:
    """Write a table by the ending of its path; `-` is CSV on a pipe.

    Parameters
    ----------
    frame : polars.DataFrame
    path : str or Path
    source : ReadTable, optional
        Where the table came from: a text file is written in the same encoding, with the same marks between cells and
        before decimals, a file of a statistical program with the same labels.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import polars as pl
    >>> from shoal.io import read_table, write_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ages.csv"
    >>> write_table(pl.DataFrame({"age": [31, 45]}), path)
    >>> read_table(path)["age"].to_list()
    [31, 45]
    """
    if str(path) == "-":
        sys.stdout.buffer.write(TextWriter(_marks(".csv", source)).bytes_of(frame))
        return
    path = Path(path)
    ending = path.suffix.lower()
    check_writable(path)
    with atomic(path) as temporary:
        if ending in TEXT:
            temporary.write_bytes(TextWriter(_marks(ending, source)).bytes_of(frame))
        elif ending == ".parquet":
            frame.write_parquet(temporary)
        elif ending in (".arrow", ".feather", ".ipc"):
            frame.write_ipc(temporary)
        else:
            try:
                write_foreign(frame, temporary, ending, {} if source is None else source.labels)
            except (ShoalError, OSError):
                raise
            except Exception as error:  # each library has errors of its own for what its format cannot hold
                raise InputError(
                    f"The table cannot be written to {path.name!r}: {first_line(error)}"
                ) from None


def check_writable(path: str | Path) -> None:
    """Raise a sentence if a file of this name cannot be written, before any work is done."""
    path = Path(path)
    if str(path) == "-":
        if sys.__stdout__ is None:
            raise InputError("The output '-' is the standard output, which is closed.")
        return
    ending = path.suffix.lower()
    if ending not in FORMATS or ending in (".sas7bdat",):
        writable = [each for each in FORMATS if each != ".sas7bdat"]
        raise InputError(f"The output must end in one of {', '.join(writable)}. Got {path.name!r}.")
    check_folder(path)


def _text(
    data: bytes,
    name: str,
    ending: str,
    declared: FileFormat | None,
    exact: Collection[str],
    *,
    published: bool,
) -> ReadTable:
    frame, marks, notes = read_text(data, name, ending, declared, exact, published=published)
    return ReadTable(frame, ending, notes, file=marks)


def _marks(ending: str, source: ReadTable | None) -> FileFormat:
    return written_marks(
        ending, None if source is None else source.file, "" if source is None else source.format
    )


def _read_binary(path: Path, ending: str, coded: Collection[str] = ()) -> ReadTable:
    try:
        if ending == ".parquet":
            return ReadTable(pl.read_parquet(path), ending)
        if ending in (".arrow", ".feather", ".ipc"):
            return ReadTable(pl.read_ipc(path), ending)
        if ending == ".xlsx":
            sheet, notes = read_excel(path)
            return ReadTable(sheet, ending, notes)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        if isinstance(error, (PermissionError, InputError)):
            raise
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {first_line(error)}") from None
    frame, labels, notes = read_statistical(path, ending, coded)
    return ReadTable(frame, ending, notes, labels)
