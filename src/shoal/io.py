"""Files in, files out: the only place that knows formats.

Reading says what it had to guess (encoding, delimiter). Writing goes to a temporary file beside the target
which is renamed when complete, so that nothing is ever half-written.
"""

from __future__ import annotations

import contextlib
import contextvars
import csv
import io as _io
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from shoal.errors import InputError, MissingExtraError, ShoalError

TEXT = (".csv", ".tsv", ".txt")
STATISTICAL = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
FORMATS = (*TEXT, ".parquet", ".arrow", ".feather", ".ipc", ".xlsx", *STATISTICAL)
SAMPLE_BYTES = 1 << 16

_temporaries: set[Path] = set()
_waiting: contextvars.ContextVar[dict[Path, Path] | None] = contextvars.ContextVar("waiting", default=None)


@dataclass(frozen=True)
class Source:
    """A table as read, and what there is to say about its file.

    Attributes
    ----------
    frame : polars.DataFrame
    format : str
        The file's ending, such as ".csv".
    notes : tuple of str
        What was guessed, one sentence each.
    labels : mapping
        Variable and value labels of SPSS, Stata and SAS files, written back on output.
    """

    frame: pl.DataFrame
    format: str
    notes: tuple[str, ...] = ()
    labels: dict[str, Any] = field(default_factory=dict)

    def labelled(self) -> list[str]:
        """Columns whose values all have labels: numbers that stand for words."""
        found = []
        for name, words in self.labels.get("variable_value_labels", {}).items():
            if name in self.frame.columns and words:
                values = self.frame[name].drop_nulls().unique().to_list()
                if values and all(value in words for value in values):
                    found.append(name)
        return found


def read_table(path: str | Path) -> pl.DataFrame:
    r"""Read a table by its ending: CSV, Parquet, Arrow, Excel, SPSS, Stata or SAS; `-` is CSV on a pipe.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from shoal.io import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("a;b\n1;x\n2;y\n")
    >>> read_table(path).shape
    (2, 2)
    """
    return read_source(path).frame


def read_source(path: str | Path) -> Source:
    """Read a table together with what is to be said about its file."""
    if str(path) == "-":
        return _read_text(sys.stdin.buffer.read(), "the standard input", ".csv")
    path = Path(path)
    ending = path.suffix.lower()
    if not path.exists():
        raise InputError(f"No file {str(path)!r}.")
    if path.is_dir():
        raise InputError(f"A file was expected. Got the folder {str(path)!r}.")
    if ending not in FORMATS:
        raise InputError(f"The file must end in one of {', '.join(FORMATS)}. Got {path.name!r}.")
    try:
        if ending in TEXT:
            source = _read_text(path.read_bytes(), repr(str(path)), ending)
        else:
            source = _read_binary(path, ending)
    except PermissionError:
        raise InputError(f"The file {str(path)!r} cannot be read: no permission.") from None
    if source.frame.width == 0 or source.frame.height == 0:
        raise InputError(
            f"The table {str(path)!r} must have rows and columns. Got {source.frame.height} rows."
        )
    return source


def write_table(frame: pl.DataFrame, path: str | Path, source: Source | None = None) -> None:
    """Write a table by the ending of its path; `-` is CSV on a pipe.

    Parameters
    ----------
    frame : polars.DataFrame
    path : str or Path
    source : Source, optional
        Where the table came from, for labels of statistical formats.
    """
    if str(path) == "-":
        sys.stdout.buffer.write(frame.write_csv().encode())
        return
    path = Path(path)
    ending = path.suffix.lower()
    check_writable(path)
    with atomic(path) as temporary:
        if ending in TEXT:
            frame.write_csv(temporary, separator="\t" if ending == ".tsv" else ",")
        elif ending == ".parquet":
            frame.write_parquet(temporary)
        elif ending in (".arrow", ".feather", ".ipc"):
            frame.write_ipc(temporary)
        else:
            try:
                _write_foreign(frame, temporary, ending, source)
            except (ShoalError, OSError):
                raise
            except Exception as error:  # each library has errors of its own for what its format cannot hold
                raise InputError(
                    f"The table cannot be written to {path.name!r}: {_first_line(error)}"
                ) from None


def _write_foreign(frame: pl.DataFrame, path: Path, ending: str, source: Source | None) -> None:
    if ending == ".xlsx":
        _write_excel(frame, path)
    else:
        _write_statistical(frame, path, ending, source)


def write_text(text: str, path: str | Path) -> None:
    """Write a page or a picture as UTF-8; a character that has no place there becomes a question mark."""
    check_folder(path)
    with atomic(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))


def check_writable(path: str | Path) -> None:
    """Raise a sentence if a file of this name cannot be written, before any work is done."""
    path = Path(path)
    if str(path) == "-":
        return
    ending = path.suffix.lower()
    if ending not in FORMATS or ending in (".sas7bdat",):
        writable = [each for each in FORMATS if each != ".sas7bdat"]
        raise InputError(f"The output must end in one of {', '.join(writable)}. Got {path.name!r}.")
    check_folder(path)


def check_apart(written: Mapping[str, str | Path | None], read: Iterable[str | Path | None] = ()) -> None:
    """Raise a sentence if a file would be written over one that is read, or over another that is written.

    Parameters
    ----------
    written : mapping of str to path
        The option that names each file to be written; None where it is not given, `-` for a pipe.
    read : paths
        The files that are read.

    Examples
    --------
    >>> from shoal.io import check_apart
    >>> check_apart({"--output": "protected.csv", "--report": "protected.csv"}, ["survey.csv"])
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: '--report' must name a file of its own. Got 'protected.csv', which is '--output'.
    """
    taken = {_place(path): "a file that is read" for path in read if path is not None and str(path) != "-"}
    for option, path in written.items():
        if path is None or str(path) == "-":
            continue
        other = taken.setdefault(_place(path), repr(option))
        if other != repr(option):
            raise InputError(f"{option!r} must name a file of its own. Got {str(path)!r}, which is {other}.")


def _place(path: str | Path) -> str:
    """The file itself, whatever way leads to it."""
    return os.path.realpath(path)


def check_folder(path: str | Path) -> None:
    """Raise a sentence if the folder of a file to be written is absent or may not be written to."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"A file was expected for the output. Got the folder {str(path)!r}.")
    if not path.parent.is_dir():
        raise InputError(f"The folder of {str(path)!r} does not exist.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"The file {str(path)!r} cannot be written: no permission.")


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside the target; rename it when the block ends well, else remove it."""
    path = Path(path)
    temporary = path.parent / f".{path.stem}-{secrets.token_hex(6)}{path.suffix}"
    _temporaries.add(temporary)
    waiting = _waiting.get()
    try:
        yield temporary
        mode = path.stat().st_mode if path.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
        if waiting is None:
            temporary.replace(path)
        else:
            waiting[path] = temporary
    except OSError as error:
        raise InputError(f"The file {str(path)!r} cannot be written: {error.strerror or error}.") from None
    except pl.exceptions.PolarsError as error:
        raise InputError(f"The file {str(path)!r} cannot be written: {_first_line(error)}") from None
    finally:
        if waiting is None or waiting.get(path) != temporary:
            _remove(temporary)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Files written in this block get their names together when it ends well, the last written first; else none does."""
    waiting: dict[Path, Path] = {}
    token = _waiting.set(waiting)
    try:
        yield
        for path, temporary in reversed(waiting.items()):
            temporary.replace(path)
    except OSError as error:
        raise InputError(f"A file cannot be written: {error.strerror or error}.") from None
    finally:
        _waiting.reset(token)
        for temporary in waiting.values():
            _remove(temporary)


def _remove(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
    _temporaries.discard(temporary)


def remove_temporaries() -> None:
    """Remove files that are being written, before the process ends without a word."""
    for each in list(_temporaries):
        with contextlib.suppress(OSError):
            each.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read_text(data: bytes, name: str, ending: str) -> Source:
    if not data.strip():
        raise InputError(f"The file {name} is empty. A header line and rows were expected.")
    text, notes = _decode(data, name)
    separator = "\t" if ending == ".tsv" else _delimiter(text)
    if separator not in (",", "\t"):
        notes.append(f"Columns are separated by {separator!r}.")
    decimal_comma = separator == ";" and _has_decimal_commas(text)
    if decimal_comma:
        notes.append("Decimals are written with a comma.")
    header = _header(text, separator, name, notes)
    _refuse_ragged(text, separator, len(header), name)
    try:
        frame = pl.read_csv(
            _io.BytesIO(text.encode()),
            separator=separator,
            new_columns=header,
            infer_schema_length=None,
            decimal_comma=decimal_comma,
            try_parse_dates=False,
        )
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise InputError(f"The file {name} cannot be read as a table: {_first_line(error)}") from None
    return Source(frame, ending, tuple(notes))


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


def _delimiter(text: str) -> str:
    lines = [line for line in text[:SAMPLE_BYTES].splitlines()[:50] if line.strip()]
    try:
        return csv.Sniffer().sniff("\n".join(lines[:20]), delimiters=",;\t|").delimiter
    except csv.Error:
        counts = {mark: lines[0].count(mark) for mark in ",;\t|"}
        return max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","


def _header(text: str, separator: str, name: str, notes: list[str]) -> list[str]:
    """The names of the columns; one without a name is called by its place, and a note says so."""
    names = next(row for row in csv.reader(_io.StringIO(text), delimiter=separator) if row)
    repeated = [each for each in names if each.strip() and names.count(each) > 1]
    if repeated:
        raise InputError(f"Column names must differ. The file {name} has {repeated[0]!r} more than once.")
    for place, each in enumerate(names, 1):
        if not each.strip():
            names[place - 1] = called = f"column_{place}"
            notes.append(f"Column {place} has no name; it is called {called!r}.")
    return names


def _refuse_ragged(text: str, separator: str, width: int, name: str) -> None:
    """Raise a sentence that names the first row with more or fewer cells than the header."""
    # Only where quotes or numbers of separators make it needful are the rows read one by one.
    lines = text.count("\n") + (not text.endswith("\n"))
    if '"' not in text and text.count(separator) == lines * (width - 1):
        return
    rows = csv.reader(_io.StringIO(text), delimiter=separator)
    try:
        for row in rows:
            if row and len(row) != width:
                raise InputError(
                    f"Every row of {name} must have the {width} cells of the header. "
                    f"Got {len(row)} at line {rows.line_num}."
                )
    except csv.Error:
        return  # a cell too long for this reader; the table's own reader decides


def _has_decimal_commas(text: str) -> bool:
    cells = [cell.strip() for line in text[:SAMPLE_BYTES].splitlines()[1:50] for cell in line.split(";")]
    with_comma = [
        cell for cell in cells if cell.count(",") == 1 and cell.replace(",", "").lstrip("-+").isdigit()
    ]
    with_point = [
        cell for cell in cells if cell.count(".") == 1 and cell.replace(".", "").lstrip("-+").isdigit()
    ]
    return len(with_comma) > len(with_point)


def _read_binary(path: Path, ending: str) -> Source:
    try:
        if ending == ".parquet":
            return Source(pl.read_parquet(path), ending)
        if ending in (".arrow", ".feather", ".ipc"):
            return Source(pl.read_ipc(path), ending)
        if ending == ".xlsx":
            return _read_excel(path)
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        if isinstance(error, (PermissionError, InputError)):
            raise
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {_first_line(error)}") from None
    return _read_statistical(path, ending)


def _read_excel(path: Path) -> Source:
    try:
        import fastexcel
    except ImportError:
        raise MissingExtraError("fastexcel", "stat") from None
    try:
        return Source(pl.read_excel(path, engine="calamine"), ".xlsx")
    except fastexcel.FastExcelError as error:
        raise InputError(f"The file {str(path)!r} cannot be read as .xlsx: {_first_line(error)}") from None


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


def _read_statistical(path: Path, ending: str) -> Source:
    pyreadstat = _pyreadstat()
    reader = {
        ".sav": pyreadstat.read_sav, ".zsav": pyreadstat.read_sav, ".por": pyreadstat.read_por,
        ".dta": pyreadstat.read_dta, ".sas7bdat": pyreadstat.read_sas7bdat, ".xpt": pyreadstat.read_xport,
    }[ending]  # fmt: skip
    try:
        data, meta = reader(str(path), output_format="dict")
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError) as error:
        raise InputError(f"The file {str(path)!r} cannot be read as {ending}: {_first_line(error)}") from None
    labels = {
        "column_labels": dict(meta.column_names_to_labels),
        "variable_value_labels": dict(meta.variable_value_labels),
    }
    frame = pl.DataFrame(
        {name: _whole(pl.Series(name, values, strict=False)) for name, values in data.items()}
    )
    return Source(frame, ending, (), labels)


def _whole(series: pl.Series) -> pl.Series:
    """Statistical formats store whole numbers as floats: give them back as integers."""
    series = series.fill_nan(None) if series.dtype.is_float() else series
    if series.dtype.is_float():
        present = series.drop_nulls()
        if present.len() and (present == present.round()).all() and present.abs().max() < 2**53:  # type: ignore[operator]
            return series.cast(pl.Int64)
    return series


def _write_statistical(frame: pl.DataFrame, path: Path, ending: str, source: Source | None) -> None:
    pyreadstat = _pyreadstat()
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("pandas", "stat") from None
    labels = source.labels if source is not None else {}
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


def _first_line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text if text.endswith(".") else text + "."
