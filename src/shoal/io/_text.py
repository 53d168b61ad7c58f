"""Text files: encoding, delimiter, header and decimals are found, and said where they are unusual."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator

import polars as pl

from shoal.engine.frame import refuse_control
from shoal.errors import InputError
from shoal.io._cells import typed
from shoal.io._files import first_line, left_out
from shoal.schema import FileFormat

SAMPLE_BYTES = 1 << 16
# A first line by which spreadsheet programs name the mark between cells.
_NAMED_MARK = re.compile(r'"?sep=([,;|:\t])"?\r?(?:\n|\Z)', re.IGNORECASE)
# The first bytes of compressed files.
_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def read_text(
    data: bytes, name: str, ending: str, declared: FileFormat | None = None, exact: Collection[str] = (), *,
    published: bool = False,
) -> tuple[pl.DataFrame, FileFormat, tuple[str, ...]]:  # fmt: skip
    """A table, how its bytes were read, and what had to be guessed for it.

    The columns named in `exact` are texts where a number or truth value would be written back otherwise. Where the table
    is a `published` one, rows without anything are records.
    """
    if not data.strip():
        raise InputError(f"The file {name} is empty. A header line and rows were expected.")
    refuse_compressed(data, name)
    notes: list[str] = []
    if declared is None:
        encoding = found_encoding(data[:SAMPLE_BYTES], name, lambda: _is(data, "utf-8"), notes)
        text = decoded(data, encoding, name, declared=False)
    else:
        text = decoded(data, declared.encoding, name, declared=True)
    if "\n" not in text:
        text = text.replace("\r", "\n")  # lines as old Macs ended them
    named, rest = named_mark(text)
    text = text[rest:]
    marks = declared or found_marks(text, encoding, ending, notes, named)
    names = header(text, marks.separator, name, notes)
    if len(names) > 1 and has_blank_lines(text, marks.separator):
        lines = RecordLines(io.StringIO(text, newline="\n"), marks.separator, published=published)
        text = "".join(lines)
        notes += left_out(lines.empty)
    _refuse_ragged(text, marks.separator, len(names), name)
    try:
        frame = pl.read_csv(
            io.BytesIO(text.encode()), separator=marks.separator, new_columns=names, infer_schema=False
        )
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise unreadable(name, error) from None
    frame = with_empty_records(frame)
    cells = (typed(each, marks.decimal, exact=each.name in exact) for each in frame.iter_columns())
    return frame.with_columns(cells), marks, tuple(notes)


def unreadable(name: str, error: Exception) -> InputError:
    """What is said of text that is no table; the library's own words for it speak of its inside."""
    said = str(error)
    if "malformed" in said or "more fields" in said:
        return InputError(
            f"The file {name} cannot be read as a table: a quotation mark inside a cell must be doubled and the cell quoted, "
            "and lines must end alike."
        )
    return InputError(f"The file {name} cannot be read as a table: {first_line(error)}")


def named_mark(text: str) -> tuple[str | None, int]:
    r"""The mark between cells that a first line `sep=;` names, as spreadsheet programs write it, and where the table begins.

    Examples
    --------
    >>> from shoal.io import named_mark
    >>> named_mark("sep=;\na;b\n"), named_mark("a;b\n")
    ((';', 6), (None, 0))
    """
    found = _NAMED_MARK.match(text)
    return (found[1], found.end()) if found else (None, 0)


def has_blank_lines(text: str, separator: str) -> bool:
    """Whether a text may have lines that hold nothing but marks between cells."""
    mark = re.escape(separator)
    return text.startswith(("\n", "\r\n", separator)) or bool(
        "\n\n" in text or "\n\r\n" in text or re.search(f"\n{mark}+\r?(?:\n|\\Z)", text)
    )


class RecordLines:
    r"""The lines of a text file without those that hold nothing, or nothing but marks between cells: they are no records.

    Spreadsheet programs leave such lines at the end of a table. Inside quotes they belong to a cell. In a `published` table
    marks between cells alone are a record all of which is suppressed.

    Attributes
    ----------
    empty : int
        Lines left out so far that held marks between cells.

    Examples
    --------
    >>> from shoal.io import RecordLines
    >>> lines = RecordLines(['a,b\n', '\n', '1,"x\n', ',\n', 'y"\n', ',\n'], ",")
    >>> list(lines), lines.empty
    (['a,b\n', '1,"x\n', ',\n', 'y"\n'], 1)
    """

    def __init__(self, lines: Iterable[str], separator: str, *, published: bool = False) -> None:
        self._lines, self._separator = lines, "" if published else separator
        self.empty = 0

    def __iter__(self) -> Iterator[str]:
        inside = False
        for line in self._lines:
            cells = line.rstrip("\r\n")
            if inside or cells.strip(self._separator):
                yield line
            elif cells:
                self.empty += 1
            inside ^= line.count('"') % 2 == 1


def with_empty_records(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells of a text file, a record without any value as `TextWriter` writes it being one of missing cells."""
    if frame.width < 2 or not (first := frame.to_series(0) == "").any():
        return frame
    empty = first & frame.select(pl.all_horizontal(pl.nth(range(1, frame.width)).is_null())).to_series()
    name = frame.columns[0]
    return frame.with_columns(pl.when(~empty.fill_null(value=False)).then(pl.col(name)).alias(name))


def refuse_compressed(head: bytes, name: str) -> None:
    """Raise a sentence if a file that should be text begins as compressed files do.

    It is not unpacked here: how large it becomes cannot be told, and memory is planned by the size of the file.

    Examples
    --------
    >>> import gzip
    >>> from shoal.io import refuse_compressed
    >>> refuse_compressed(gzip.compress(b"a,b"), "'t.csv'")
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: The file 't.csv' is compressed (gzip). Unpack it first: the text itself was expected.
    """
    for mark, kind in _COMPRESSED.items():
        if head.startswith(mark):
            raise InputError(
                f"The file {name} is compressed ({kind}). Unpack it first: the text itself was expected."
            )


def found_encoding(head: bytes, name: str, is_utf8: Callable[[], bool], notes: list[str]) -> str:
    """The encoding of a file, from its first bytes and whether all of it is UTF-8."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\x00" in head:
        raise InputError(f"The file {name} must be text. It holds zero bytes: is its ending right?")
    else:
        encoding = "utf-8" if is_utf8() else "cp1252"
    if encoding != "utf-8":
        notes.append(f"The text was read as {encoding}, since it is not UTF-8.")
    return encoding


def found_marks(
    sample: str, encoding: str, ending: str, notes: list[str], named: str | None = None
) -> FileFormat:
    """The marks between cells and before decimals, from the first lines; a mark that the file names is believed."""
    separator = named or ("\t" if ending == ".tsv" else delimiter(sample))
    if separator not in (",", "\t"):
        notes.append(f"Columns are separated by {separator!r}.")
    decimal = "," if has_decimal_commas(sample, separator) else "."
    if decimal == ",":
        notes.append("Decimals are written with a comma.")
    return FileFormat(encoding, separator, decimal)


def codec(encoding: str) -> str:
    """The codec that reads an encoding: a mark of the byte order is no part of UTF-8 text."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") == "utf-8" else encoding


def decoded(data: bytes, encoding: str, name: str, *, declared: bool) -> str:
    """The text of a file; raises a sentence where it is in another encoding."""
    try:
        return data.decode(codec(encoding))
    except UnicodeError:
        raise wrong_encoding(encoding, name, declared=declared) from None


def wrong_encoding(encoding: str, name: str, *, declared: bool) -> InputError:
    """What is said of text in another encoding than was declared or found."""
    if declared:
        return InputError(f"The file {name} must be text in {encoding}, as the schema declares. It is not.")
    return InputError(f"The file {name} must be text in UTF-8, UTF-16 or Windows-1252. It is none of them.")


def written_marks(ending: str, file: FileFormat | None, came: str) -> FileFormat:
    """How a text file is written: as the input was, as far as its ending allows.

    Parameters
    ----------
    ending, came : str
        The endings of the output and of the input, such as ".csv".
    file : FileFormat or None
        How the input was read; None where it was no text.

    Examples
    --------
    >>> from shoal.io import written_marks
    >>> from shoal.schema import FileFormat
    >>> written_marks(".csv", FileFormat("cp1252", ";", ","), ".csv")
    FileFormat(encoding='cp1252', separator=';', decimal=',')
    """
    separator = "\t" if ending == ".tsv" else "," if file is None or came == ".tsv" else file.separator
    decimal = "." if file is None or file.decimal == separator else file.decimal
    return FileFormat("utf-8" if file is None else file.encoding, separator, decimal)


class TextWriter:
    """Turns frames into the bytes of one text file, the header first.

    A record without any value begins with two quotes, so that it is told apart from a row that a spreadsheet left over.
    """

    def __init__(self, marks: FileFormat) -> None:
        self._marks = marks
        self._encoder = codecs.getincrementalencoder(marks.encoding)()
        self._begun = False

    def bytes_of(self, frame: pl.DataFrame) -> bytes:
        """The next rows."""
        text = frame.write_csv(
            separator=self._marks.separator,
            decimal_comma=self._marks.decimal == ",",
            include_header=not self._begun,
        )
        self._begun = True
        if frame.width > 1 and frame.select(pl.all_horizontal(pl.all().is_null()).any()).item():
            text = "".join(_empty_records_marked(text, self._marks.separator))
        try:
            return self._encoder.encode(text)
        except UnicodeError:
            raise InputError(
                f"The output is written in {self._marks.encoding}, as the input is, and holds a character that this "
                "encoding lacks: give it the ending .parquet, or read the input as utf-8."
            ) from None


def _empty_records_marked(text: str, separator: str) -> Iterator[str]:
    inside = False
    for line in io.StringIO(text, newline="\n"):
        yield line if inside or line.strip(separator) != "\n" else '""' + line
        inside ^= line.count('"') % 2 == 1


def _is(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


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
        lines = RecordLines(io.StringIO(text), separator)
        names = next(row for row in csv.reader(lines, delimiter=separator) if row)
    except (csv.Error, StopIteration):
        raise InputError(f"The file {name} must begin with a line that names its columns.") from None
    refuse_control(names)
    repeated = [each for each in names if each.strip() and names.count(each) > 1]
    if repeated:
        raise InputError(f"Column names must differ. The file {name} has {repeated[0]!r} more than once.")
    for place, each in enumerate(names, 1):
        if not each.strip():
            names[place - 1] = called = f"column_{place}"
            notes.append(f"Column {place} has no name; it is called {called!r}.")
    if len(set(names)) < len(names):
        raise InputError(
            f"The column without a name is called {called!r}, and another has that name in {name}."
        )
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


def records_over_lines(data: bytes, marks: FileFormat) -> int:
    r"""How many records of a text file hold ends of lines inside quotes.

    Examples
    --------
    >>> from shoal.io import records_over_lines
    >>> from shoal.schema import FileFormat
    >>> records_over_lines(b'a,b\n1,"two\nlines"\n2,x\n', FileFormat())
    1
    """
    text = data.decode(codec(marks.encoding), "replace")
    if '"' not in text:
        return 0
    rows, found, before = csv.reader(io.StringIO(text, newline=""), delimiter=marks.separator), 0, 0
    try:
        for _ in rows:
            found += rows.line_num > before + 1
            before = rows.line_num
    except csv.Error:
        pass  # a cell too long for this reader: what was seen until there is told
    return found


def has_decimal_commas(text: str, separator: str) -> bool:
    """Whether numbers are written with a comma: between semicolons more of them than with a point.

    Between tabs or bars 1,007 may well be a thousand and seven, so that some comma must stand before other than three
    digits.
    """
    if separator == ",":
        return False
    lines = text[:SAMPLE_BYTES].splitlines()[1:50]
    cells = [cell.strip().lstrip("-+") for line in lines for cell in line.split(separator)]
    with_comma = [cell for cell in cells if cell.count(",") == 1 and cell.replace(",", "").isdigit()]
    with_point = [cell for cell in cells if cell.count(".") == 1 and cell.replace(".", "").isdigit()]
    sure = separator == ";" or any(len(cell.partition(",")[2]) != 3 for cell in with_comma)
    return sure and len(with_comma) > len(with_point)
