"""What leaves the house, batch by batch: written to one file and checked while it is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from shoal import io
from shoal.engine.compile import kernel
from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import GuaranteeError, InputError
from shoal.privacy import Verdict
from shoal.scale.figures import Figures
from shoal.scale.plan import Plan
from shoal.scale.solving import Solved, replaced
from shoal.scale.source import Source, in_threads
from shoal.scale.spilling import Task, read_result, read_spill
from shoal.scale.survey import ROW

# Rows, the group of each, and the values of all groups and where they are missing.
Batch = tuple[pl.DataFrame, np.ndarray, np.ndarray, np.ndarray | None]
# Classes are added up whenever this many entries are waiting.
WAITING = 4_000_000


class Writer:
    """Appends batches to a file of the kind its name says, by a thread while the next one is made."""

    def __init__(self, path: Path, kind: str) -> None:
        if kind not in (".parquet", ".arrow", ".feather", ".ipc", *io.TEXT):
            raise InputError(
                f"A large table is written as .parquet, .arrow, .feather, .ipc, .csv or .tsv. Got {kind!r}."
            )
        self._path, self._kind = path, kind
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
                header = True
            else:
                header = False
            separator = "\t" if self._kind == ".tsv" else ","
            self._sink.write(batch.write_csv(separator=separator, include_header=header).encode())
            return
        table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
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


class Classes:
    """Counts equivalence classes over batches: one entry of 16 bytes per class, whatever the rows.

    Classes are told apart by a 64-bit hash of their published values.
    """

    def __init__(self, quasi: list[str]) -> None:
        self.quasi = quasi
        self._frames: list[pl.DataFrame] = []
        self._waiting = 0

    def of(self, batch: pl.DataFrame) -> pl.DataFrame:
        """The class of each row of a batch; nothing is added yet."""
        return batch.select(
            pl.struct(self.quasi).hash(seed=7).alias("class"), pl.lit(1, pl.UInt32).alias("rows")
        )

    def add(self, batch: pl.DataFrame) -> None:
        """Add the classes of the rows of one batch."""
        self._frames.append(batch)
        self._waiting += batch.height
        if self._waiting > WAITING:
            self._compact()

    def _compact(self) -> None:
        self._frames = [pl.concat(self._frames).group_by("class").agg(pl.col("rows").sum())]
        self._waiting = self._frames[0].height // 2

    def verdict(self, k: int) -> Verdict:
        """The verdict on k-anonymity of all rows so far."""
        self._compact()
        sizes = self._frames[0]["rows"]
        smallest = int(sizes.min())  # type: ignore[arg-type]
        return Verdict(
            model="k-anonymity",
            quasi=tuple(self.quasi),
            sensitive=None,
            value=smallest,
            limit=k,
            holds=smallest >= k,
            n_records=int(sizes.sum()),
            n_classes=sizes.len(),
            worst=(),
            records_at_risk=int(sizes.filter(sizes < k).sum()),
            notes=("Counted while the file was written, classes told apart by a 64-bit hash.",),
        )


def write(
    source: Source,
    plan: Plan,
    tasks: list[Task],
    folder: Path,
    output: Path,
    *,
    any_order: bool,
    key: bytes | None,
    memory: int,
) -> dict[str, Any]:
    """Write and check the protected table; its figures.

    Parameters
    ----------
    memory : int
        Bytes within which the groups' values are held in memory; beyond it they lie in a file.
    """
    classes = Classes([*(fact.name for fact in plan.roles.quasi), *plan.roles.strata])
    figures = Figures(plan)
    hidden = plan.roles.identifiers if key is None else ()
    names = [name for name in source.schema.names if name not in hidden]

    def made(each: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        """A batch as published, and its classes."""
        batch, groups, values, gone = each
        here = np.zeros((groups.size, values.shape[1]), bool) if gone is None else _rows_of(gone, groups)
        published = replaced(batch, plan, _rows_of(values, groups), here)
        if key is not None:
            published = published.with_columns(
                pseudonyms(batch[name], key) for name in plan.roles.identifiers
            )
        return published.select(names), classes.of(published)

    if any_order:
        batches = _by_part(tasks, figures)
    else:
        reread = [name for name in names if name not in {each.name for each in plan.templates}]
        batches = _in_order(
            source.numbered(reread), _Groups(plan, source.n_rows, folder, memory), tasks, figures
        )
    with io.atomic(output) as temporary:
        writer = Writer(temporary, output.suffix.lower())
        try:
            for published, hashes in in_threads(made, batches):
                classes.add(hashes)
                writer.write(published)
        finally:
            writer.close()
        verdict = classes.verdict(plan.method.k)
        if not verdict.holds:
            raise GuaranteeError(
                f"The protected table does not keep its promise, so it is not given out: {verdict}"
            )
    return figures.facts() | {"verdicts": [verdict]}


class _Groups:
    """The group of every row and the values of every group: in memory, or in files where there is no room.

    Rows ask for groups all over the table, which in a file takes five times as long.
    """

    def __init__(self, plan: Plan, n_rows: int, folder: Path, memory: int) -> None:
        self._folder, self._left = folder, memory
        self._shape = (n_rows // plan.method.k + 1, len(plan.templates))
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
    numbered: Iterator[pl.DataFrame], groups: _Groups, tasks: list[Task], figures: Figures
) -> Iterator[Batch]:
    """Batches as they came in."""
    for solved, spilled in in_threads(_read, tasks):
        figures.add(solved, spilled)
        groups.add(solved, spilled[ROW].to_numpy())
    for batch in numbered:
        start = batch[ROW][0]
        here = np.asarray(groups.of[start : start + batch.height])
        kept = here >= 0
        yield batch.filter(pl.Series(kept)), here[kept], groups.values, groups.gone


def _by_part(tasks: list[Task], figures: Figures) -> Iterator[Batch]:
    """Part after part."""
    for solved, spilled in in_threads(_read, tasks):
        figures.add(solved, spilled)
        yield spilled, solved.labels, solved.values, solved.gone


def _read(task: Task) -> tuple[Solved, pl.DataFrame]:
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
