"""Large text files, turned once into Arrow files of typed columns by the rules by which small ones are read."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from shoal import io
from shoal.errors import InputError
from shoal.schema import FileFormat

BLOCK = 1 << 22  # bytes of text looked at in one go


@dataclass(frozen=True)
class _Text:
    """A text file as UTF-8, how it was read, and the names of its columns."""

    file: Path
    utf8: Path
    marks: FileFormat
    names: tuple[str, ...]


def converted(
    files: list[Path], work: Path, declared: FileFormat | None, notes: list[str], exact: Collection[str] = (), *,
    published: bool = False,
) -> tuple[list[Path], FileFormat]:  # fmt: skip
    """Text files as Arrow files in the work folder, each column of one type over all of them."""
    cells, texts = [], []
    for number, file in enumerate(files):
        text = _opened(file, work / f"input-{number:05d}.csv", declared, notes, published=published)
        _refuse_ragged(text)
        target = work / f"texts-{number:05d}.arrow"
        _write_cells(text, target)
        if text.utf8 != file:
            text.utf8.unlink()
        texts.append(text)
        cells.append(target)
    kinds: dict[str, io.CellKind] = {}
    for text, source in zip(texts, cells, strict=True):
        for batch in _batches(source):
            for name in batch.columns:
                found = io.CellKind.of(batch[name], text.marks.decimal, exact=name in exact)
                kinds[name] = kinds[name].joined(found) if name in kinds else found
    made = [work / f"input-{number:05d}.arrow" for number in range(len(files))]
    for text, source, target in zip(texts, cells, made, strict=True):
        _write_typed(source, target, text, kinds)
        source.unlink()
    return made, texts[0].marks


def _opened(
    file: Path, utf8: Path, declared: FileFormat | None, notes: list[str], *, published: bool
) -> _Text:
    """A file with its encoding, marks and header; rewritten where it is not UTF-8 with ordinary line ends."""
    name = repr(str(file))
    head = _head(file)
    if not head.strip():
        raise InputError(f"The file {name} is empty. A header line and rows were expected.")
    io.refuse_compressed(head, name)
    if declared is None:
        encoding = io.found_encoding(head, name, lambda: _is_utf8(file), notes)
    else:
        encoding = declared.encoding
    old_mac = b"\n" not in head and b"\r" in head
    text = file
    if encoding != "utf-8" or old_mac or (declared is not None and not _is_utf8(file)):
        text = utf8
        try:
            _rewrite(file, text, io.codec(encoding), old_mac=old_mac)
        except UnicodeError:
            raise io.wrong_encoding(encoding, name, declared=declared is not None) from None
    with text.open(encoding="utf-8-sig", newline="") as lines:
        sample = lines.read(io.SAMPLE_BYTES)
        sample += lines.readline()
    named, rest = io.named_mark(sample)
    marks = declared or io.found_marks(sample[rest:], encoding, file.suffix.lower(), notes, named)
    names = tuple(io.header(sample[rest:], marks.separator, name, notes))
    several = len(names) > 1
    if rest or (several and _has_blank_lines(text, marks.separator)):
        with text.open(encoding="utf-8-sig", newline="\n") as lines:
            lines.read(rest)
            records = io.RecordLines(lines, marks.separator, published=published)
            _replace(utf8, records if several else lines)
        notes += io.left_out(records.empty)
        text = utf8
    return _Text(file, text, marks, names)


def _has_blank_lines(file: Path, separator: str) -> bool:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        while block := lines.read(BLOCK):
            block += lines.readline()
            if io.has_blank_lines(block, separator):
                return True
    return False


def _replace(file: Path, lines: Iterable[str]) -> None:
    """Write lines to a file that may be the one they come from."""
    whole = file.with_suffix(".lines")
    with whole.open("w", encoding="utf-8", newline="") as sink:
        sink.writelines(lines)
    whole.replace(file)


def _head(file: Path) -> bytes:
    with file.open("rb") as handle:
        return handle.read(io.SAMPLE_BYTES)


def _rewrite(file: Path, target: Path, encoding: str, *, old_mac: bool) -> None:
    with (
        file.open(encoding=encoding, newline="") as source,
        target.open("w", encoding="utf-8", newline="") as sink,
    ):
        while block := source.read(1 << 20):
            sink.write(block.replace("\r", "\n") if old_mac else block)


def _is_utf8(file: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with file.open("rb") as handle:
            while block := handle.read(BLOCK):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_ragged(text: _Text) -> None:
    """Raise a sentence where rows and header have different numbers of cells."""
    lines, marks, last, quoted = 0, 0, b"\n", False
    with text.utf8.open("rb") as handle:
        while not quoted and (block := handle.read(BLOCK)):
            quoted = b'"' in block
            lines, marks = lines + block.count(b"\n"), marks + block.count(text.marks.separator.encode())
            last = block[-1:]
    # Only where quotes or numbers of separators make it needful are the rows read one by one.
    if quoted or marks != (lines + (last != b"\n")) * (len(text.names) - 1):
        with text.utf8.open(encoding="utf-8-sig", newline="") as rows:
            io.refuse_ragged(rows, text.marks.separator, len(text.names), repr(str(text.file)))


def _write_cells(text: _Text, target: Path) -> None:
    """The cells as texts."""
    try:
        pl.scan_csv(
            text.utf8, separator=text.marks.separator, new_columns=list(text.names), infer_schema=False
        ).sink_ipc(target, compression="uncompressed")
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise io.unreadable(repr(str(text.file)), error) from None


def _write_typed(source: Path, target: Path, text: _Text, kinds: dict[str, io.CellKind]) -> None:
    def typed(batch: pl.DataFrame) -> pa.Table:
        columns = (
            kinds[each.name].read(each, text.marks.decimal) if each.name in kinds else each for each in batch
        )
        return batch.with_columns(columns).to_arrow(compat_level=pl.CompatLevel.oldest())

    empty = typed(pl.DataFrame(schema=dict.fromkeys(text.names, pl.String)))
    with pa.ipc.new_file(str(target), empty.schema) as sink:
        for batch in _batches(source):
            sink.write_table(typed(batch))


def _batches(file: Path) -> Iterator[pl.DataFrame]:
    with pa.memory_map(str(file)) as data, pa.ipc.open_file(data) as reader:
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            if batch.num_rows:
                frame = pl.from_arrow(batch)
                yield io.with_empty_records(frame if isinstance(frame, pl.DataFrame) else frame.to_frame())
