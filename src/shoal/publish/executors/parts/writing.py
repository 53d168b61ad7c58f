"""What would be published, batch by batch: written to a file without a name, and counted while it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from shoal import io
from shoal.engine.compile import kernel
from shoal.engine.levels import texts
from shoal.errors import InputError
from shoal.publish.earlier import RowClasses
from shoal.publish.executors import Progress
from shoal.publish.executors.parts.source import BatchFiles, in_threads
from shoal.publish.executors.parts.spilling import SpillTask, read_result, read_spill
from shoal.publish.stages.check import added, class_rows
from shoal.publish.stages.identification import is_measured, keys_of
from shoal.publish.stages.measure import Tally
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.release import published_names, released, shuffled
from shoal.publish.stages.solve import Solved
from shoal.publish.stages.survey import ROW

KINDS = (".parquet", ".arrow", ".feather", ".ipc", *io.TEXT)
# Rows, the group of each, and the values of all groups and where they are missing.
Batch = tuple[pl.DataFrame, np.ndarray, np.ndarray, np.ndarray | None]
# Classes are added up whenever this many entries are waiting.
WAITING = 4_000_000


def check_kind(output: Path) -> None:
    """Raise a sentence where a large table cannot be written to a file of this name."""
    if output.suffix.lower() not in KINDS:
        raise InputError(
            f"A large table is written as .parquet, .arrow, .feather, .ipc, .csv or .tsv. Got {output.suffix!r}."
        )


class BatchWriter:
    """Appends batches to a file of one kind, by a thread while the next one is made."""

    def __init__(self, path: Path, kind: str, source: BatchFiles) -> None:
        self._path, self._kind = path, kind
        self._text = io.TextWriter(io.written_marks(kind, source.file, source.came))
        self._sink: Any = None
        self._schema: pa.Schema | None = None
        self._thread = ThreadPoolExecutor(1)
        self._waiting: Future[None] | None = None

    def write(self, batch: pl.DataFrame) -> None:
        """Append one batch when the one before is written."""
        if self._waiting is not None:
            self._waiting.result()
        self._waiting = self._thread.submit(self._append, batch)

    def _append(self, batch: pl.DataFrame) -> None:
        if self._kind in io.TEXT:
            if self._sink is None:
                self._sink = self._path.open("wb")
            self._sink.write(self._text.bytes_of(batch))
            return
        table = texts(batch).to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._sink is None:
            self._schema = table.schema
            if self._kind == ".parquet":
                # Means seldom repeat within a batch, so that a dictionary of them only costs time.
                listed = [each.name for each in table.schema if not pa.types.is_floating(each.type)]
                self._sink = pq.ParquetWriter(
                    self._path, table.schema, compression="zstd", use_dictionary=listed or False
                )
            else:
                self._sink = pa.ipc.new_file(str(self._path), table.schema)
        self._sink.write_table(table.cast(self._schema))

    def close(self) -> None:
        """Finish the file."""
        try:
            if self._waiting is not None:
                self._waiting.result()
        finally:
            self._thread.shutdown()
            if self._sink is not None:
                self._sink.close()


class ClassCounter:
    """Counts the classes of batches, added up from time to time."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._waiting = 0

    def add(self, classes: pl.DataFrame) -> None:
        """Add the classes of a batch."""
        self._frames.append(classes)
        self._waiting += classes.height
        if self._waiting > WAITING:
            self._frames = [added(self._frames)]
            self._waiting = self._frames[0].height // 2

    def all(self) -> pl.DataFrame:
        """The classes of all batches."""
        return added(self._frames)


@dataclass(frozen=True)
class Written:
    """What was counted while rows were written.

    Attributes
    ----------
    classes : polars.DataFrame
    tally : Tally
    labels : array of int64 or None
        The group of each row, where that was asked for.
    keys : polars.DataFrame or None
        What the risk of being found is measured on, where the table is not too large for it.
    beside : RowClasses or None
        The class of each row, where it is laid beside an earlier release.
    """

    classes: pl.DataFrame
    tally: Tally
    labels: np.ndarray | None
    keys: pl.DataFrame | None
    beside: RowClasses | None = None


def write(
    source: BatchFiles,
    plan: PublishPlan,
    tasks: list[SpillTask],
    folder: Path,
    path: Path,
    *,
    kind: str,
    key: bytes | None,
    memory: int,
    tell: Progress,
) -> Written:
    """Write the protected table and count what it tells.

    Parameters
    ----------
    memory : int
        Bytes within which the groups' values are held in memory; beyond it they lie in a file.
    """
    classes, tally, done = ClassCounter(), Tally(plan), 0
    mix = plan.request.order == "shuffle"
    wanted = plan.request.labels is not None
    measured = is_measured(plan.n_rows, plan)
    labels: list[np.ndarray] = []
    keys: list[pl.DataFrame] = []
    beside: list[RowClasses] = []
    if mix:
        batches = _by_part(tasks, tally, plan)
    else:
        groups = _Groups(plan, source.n_rows, folder, memory)
        batches = _in_order(source, plan, groups, tasks, tally)

    def made(each: Batch) -> tuple[pl.DataFrame, _Counted, np.ndarray]:
        """A batch as published, what was counted of it, and the group of each row."""
        batch, of_row, values, gone = each
        lack = np.zeros((of_row.size, values.shape[1]), bool) if gone is None else _rows_of(gone, of_row)
        new = released(batch, plan, _rows_of(values, of_row), lack, key)
        home = None if plan.roles.household is None else batch[plan.roles.household]
        counted = _Counted(
            class_rows(new, plan, home),
            keys_of(new, plan, home) if measured else None,
            RowClasses.of(batch[ROW], new, plan.roles.open) if plan.request.earlier is not None else None,
        )
        if mix:
            order = shuffled(new)
            new, of_row = new[order], of_row[order]
        return new, counted, of_row

    writer = BatchWriter(path, kind, source)
    try:
        following = 0
        for published, counted, of_row in in_threads(made, batches):
            classes.add(counted.classes)
            keys += [] if counted.keys is None else [counted.keys]
            beside += [] if counted.beside is None else [counted.beside]
            tally.show(published, done)
            writer.write(published)
            if wanted:
                labels.append(of_row + (following if mix else 0))
                following += int(of_row.max()) + 1 if of_row.size else 0
            done += published.height
            tell("writing and checking", done, plan.n_rows)
    finally:
        writer.close()
    return Written(
        classes.all(),
        tally,
        np.concatenate(labels).astype(np.int64) if wanted else None,
        pl.concat(keys) if keys else None,
        RowClasses.joined(beside) if beside else None,
    )


@dataclass(frozen=True)
class _Counted:
    """What was counted of a batch: its classes, its keys, and the class of each row."""

    classes: pl.DataFrame
    keys: pl.DataFrame | None
    beside: RowClasses | None


class _Groups:
    """The group of every row and the values of every group: in memory, or in files where there is no room.

    Rows ask for groups all over the table, which in a file takes five times as long.
    """

    def __init__(self, plan: PublishPlan, n_rows: int, folder: Path, memory: int) -> None:
        self._folder, self._left = folder, memory
        n_values = len(plan.templates) + (plan.roles.weight is not None)
        self._shape = (n_rows // plan.method.k + 1, n_values)
        self.of = self._array("groups", np.int32 if n_rows < 1 << 31 else np.int64, (n_rows,))
        self.of[:] = -1
        self.values = self._array("values", np.float64, self._shape)
        self.gone: np.ndarray | None = None
        self._following = 0

    def add(self, solved: Solved, rows: np.ndarray) -> None:
        """Add the groups of a part."""
        here = slice(self._following, self._following + solved.values.shape[0])
        self.of[rows] = self._following + solved.labels
        self.values[here] = solved.values
        if self.gone is None and solved.gone.any():
            self.gone = self._array("gone", np.bool_, self._shape)
            self.gone[:] = False
        if self.gone is not None:
            self.gone[here] = solved.gone
        self._following = here.stop

    def _array(self, name: str, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
        self._left -= int(np.prod(shape)) * np.dtype(kind).itemsize
        return (
            np.zeros(shape, kind) if self._left >= 0 else _mapped(self._folder / f"{name}.npy", kind, shape)
        )


def _in_order(
    source: BatchFiles, plan: PublishPlan, groups: _Groups, tasks: list[SpillTask], tally: Tally
) -> Iterator[Batch]:
    """Batches as they came in; the columns that are replaced are not read again."""
    for solved, spilled in in_threads(_read, tasks):
        _count(tally, plan, solved, spilled)
        groups.add(solved, spilled[ROW].to_numpy())
    made = {each.name for each in plan.templates}
    home = [plan.roles.household] if plan.roles.household else []
    names = list(dict.fromkeys(name for name in [*published_names(plan), *home] if name not in made))
    for batch in source.numbered(names):
        start = batch[ROW][0]
        here = np.asarray(groups.of[start : start + batch.height])
        kept = here >= 0
        yield plan.roles.decoder(batch.filter(pl.Series(kept))), here[kept], groups.values, groups.gone


def _by_part(tasks: list[SpillTask], tally: Tally, plan: PublishPlan) -> Iterator[Batch]:
    """Part after part."""
    for solved, spilled in in_threads(_read, sorted(tasks, key=lambda task: task.number)):
        _count(tally, plan, solved, spilled)
        yield spilled, solved.labels, solved.values, solved.gone


def _count(tally: Tally, plan: PublishPlan, solved: Solved, spilled: pl.DataFrame) -> None:
    """Add a part to the figures, with a selection of its rows before and after."""
    chosen = tally.chosen(tally.n)
    before, of_row = spilled[chosen], solved.labels[chosen]
    tally.add(np.bincount(solved.labels), solved.sums)
    tally.keep(before, released(before, plan, solved.values[of_row], solved.gone[of_row], None))


def _read(task: SpillTask) -> tuple[Solved, pl.DataFrame]:
    return read_result(task), read_spill(task)


def _mapped(path: Path, kind: Any, shape: tuple[int, ...]) -> np.memmap:
    """An array in a file whose room on disk is taken at once: a full disk is told, not met in the middle."""
    array = np.lib.format.open_memmap(path, "w+", kind, shape)
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return array


# Kernels


@kernel()
def _rows_of(values, rows):
    """Rows of a matrix, each column of the result in one piece."""
    taken = np.empty((values.shape[1], rows.size), values.dtype)
    for i in range(rows.size):
        for j in range(values.shape[1]):
            taken[j, i] = values[rows[i], j]
    return taken.T
