"""Tables too large for memory, read batch by batch: Parquet, Arrow and CSV files, or a folder of one kind.

Text is turned into an Arrow file once, so that every later pass reads typed batches.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from shoal import io
from shoal.engine.frame import refuse_control
from shoal.errors import InputError
from shoal.publish.executors.parts.text import converted
from shoal.publish.stages.survey import ROW
from shoal.schema import FileFormat

ENDINGS = (".parquet", ".arrow", ".feather", ".ipc", ".csv", ".tsv", ".txt")
BATCH_ROWS = 1 << 16
# Threads that work on batches: each holds one.
MOST_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class BatchFiles:
    """Files that hold the batches of one table, in order.

    Attributes
    ----------
    files : tuple of Path
    inputs : tuple of Path
        The files as they came, which are others where text was converted.
    types : mapping of str to polars.DataType
        The type of each column over all files.
    n_rows : int
    notes : tuple of str
        What was guessed about the files.
    came : str
        The ending of the files as they came.
    file : FileFormat or None
        How the bytes of text files were read; of several files, the first.
    """

    files: tuple[Path, ...]
    inputs: tuple[Path, ...]
    types: Mapping[str, pl.DataType]
    n_rows: int
    notes: tuple[str, ...] = ()
    came: str = ""
    file: FileFormat | None = None

    def batches(self, columns: list[str] | None = None, rows: int = BATCH_ROWS) -> Iterator[pl.DataFrame]:
        """The table's batches in order, restricted to some columns."""
        for file in self.files:
            try:
                for batch in _batches(file, columns, rows):
                    yield io.in_types(batch, self.types)
            except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
                raise InputError(
                    f"A batch of the file {str(file)!r} cannot be read: {io.first_line(error)}"
                ) from None

    def numbered(self, columns: list[str] | None = None, rows: int = BATCH_ROWS) -> Iterator[pl.DataFrame]:
        """The batches with their row numbers in the whole table; without columns nothing is read for them."""
        start = 0
        if columns == []:
            for start in range(0, self.n_rows, rows):
                yield pl.DataFrame({ROW: np.arange(start, min(start + rows, self.n_rows))})
            return
        for batch in _ahead(self.batches(columns, rows)):
            yield batch.with_columns(pl.Series(ROW, np.arange(start, start + batch.height)))
            start += batch.height


def open_source(
    path: str | Path, work: Path, declared: FileFormat | None = None, exact: Collection[str] = (), *,
    published: bool = False,
) -> BatchFiles:  # fmt: skip
    """Open a file or a folder of files of one kind; text files are converted into the work folder.

    Text is read as `declared`, or as found in each file, and by the rules by which `io.read_source` reads it.
    Raises `InputError` where a file cannot be read, or where the columns differ between files.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"No file {str(path)!r}.")
    if not (path.is_dir() or path.is_file()):
        raise InputError(
            f"A table in parts is read several times: a file was expected. Got the pipe or device {str(path)!r}."
        )
    files = _listed(path) if path.is_dir() else [path]
    endings = {file.suffix.lower() for file in files}
    if len(endings) == 1:
        io.check_ending(files[0])
    if len(endings) > 1 or not endings <= set(ENDINGS):
        raise InputError(
            f"A large table must be one file, or a folder of files of one kind, ending in one of "
            f"{', '.join(ENDINGS)}. Got {', '.join(sorted(endings))}."
        )
    notes: list[str] = []
    inputs, marks = tuple(files), None
    if endings & set(io.TEXT):
        files, marks = converted(files, work, declared, notes, exact, published=published)
    described = [_described(file) for file in files]
    n_rows = sum(count for _, count in described)
    held = [(file, types) for file, (types, count) in zip(files, described, strict=True) if count]
    if n_rows == 0 or not held[0][1]:
        raise InputError(f"The table {str(path)!r} must have rows and columns. Got {n_rows} rows.")
    types = io.common_types([(file.name, found) for file, found in held])
    refuse_control(types)
    kept = tuple(file for file, _ in held)
    return BatchFiles(kept, inputs, types, n_rows, tuple(dict.fromkeys(notes)), endings.pop(), marks)


def _ahead(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The batches, the next one read by a thread while one is worked on."""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = thread.submit(next, batches, None)
            yield batch


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What `work` makes of the items, in their order, by a thread for each core while one result is used.

    Arrays are worked on outside the interpreter's lock, so that threads are enough.
    """
    threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def _listed(folder: Path) -> list[Path]:
    files = sorted(each for each in folder.iterdir() if each.is_file() and each.name[0] not in "._")
    if not files:
        raise InputError(f"The folder {str(folder)!r} must hold table files. It is empty.")
    return files


def _described(file: Path) -> tuple[dict[str, pl.DataType], int]:
    """The types of a file's columns, and its number of rows."""
    try:
        schema, count = _describe(file)
        if len(set(schema.names)) < len(schema.names):
            raise InputError(f"Column names must differ. Got {', '.join(schema.names)}.")
        if "" in schema.names:
            raise InputError(f"Every column must have a name. Column {schema.names.index('') + 1} has none.")
        return dict(_frame(schema.empty_table()).schema), count
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"The file {str(file)!r} cannot be read: {io.first_line(error)}") from None


def _describe(file: Path) -> tuple[pa.Schema, int]:
    if file.suffix.lower() == ".parquet":
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            return parquet.schema_arrow.remove_metadata(), parquet.metadata.num_rows
    with pa.memory_map(str(file)) as data, pa.ipc.open_file(data) as reader:
        count = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        return reader.schema.remove_metadata(), count


def _batches(file: Path, columns: list[str] | None, rows: int) -> Iterator[pl.DataFrame]:
    if file.suffix.lower() == ".parquet":
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            for batch in parquet.iter_batches(rows, columns=columns):
                yield _frame(batch)
        return
    with pa.memory_map(str(file)) as data, pa.ipc.open_file(data) as reader:
        for i in range(reader.num_record_batches):
            batch = reader.get_batch(i)
            for at in range(0, batch.num_rows, rows):
                part = batch.slice(at, rows)
                yield _frame(part if columns is None else part.select(columns))


def _frame(batch: Any) -> pl.DataFrame:
    frame = pl.from_arrow(batch)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()
