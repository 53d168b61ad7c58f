"""The parts as files in the work folder: rows waiting to be solved, and groups found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.scale.plan import Plan
from shoal.scale.routing import merged_parts, route
from shoal.scale.solving import Solved
from shoal.scale.source import Source, in_threads

# Rows routed at a time: enough that each part's share is worth a write.
SPILLED_ROWS = 1 << 17
# Parts in which linkage is measured, about.
MEASURED_PARTS = 8


@dataclass(frozen=True)
class Task:
    """A part to be solved: its spill files and where the result goes."""

    number: int
    spills: tuple[Path, ...]
    result: Path
    measured: bool = True


def spill(source: Source, plan: Plan, folder: Path, everything: bool) -> np.ndarray:
    """Route all rows to one file per part; the size of each part."""
    sizes = np.zeros(plan.n_parts, np.int64)
    sinks: dict[int, Any] = {}
    try:
        batches = source.numbered(None if everything else plan.roles.needed, SPILLED_ROWS)
        for table, edges in in_threads(partial(_by_part, plan=plan), batches):
            for part in np.flatnonzero(np.diff(edges)).tolist():
                piece = table.slice(edges[part], edges[part + 1] - edges[part])
                if part not in sinks:
                    sinks[part] = pa.ipc.new_stream(str(_spill_path(folder, part)), table.schema)
                sinks[part].write_table(piece)
                sizes[part] += piece.num_rows
    finally:
        for sink in sinks.values():
            sink.close()
    return sizes


def _by_part(batch: pl.DataFrame, plan: Plan) -> tuple[pa.Table, np.ndarray]:
    """The rows of a batch sorted by part, and where each part begins; dropped rows stand before the first."""
    parts = route(batch, plan)
    # Few parts fit into 16 bits, which are sorted without comparing.
    order = np.argsort((parts + 1).astype(np.uint16 if plan.n_parts < 1 << 16 else np.uint64), kind="stable")
    edges = np.searchsorted(parts[order], np.arange(plan.n_parts + 1))
    return batch[order].to_arrow(compat_level=pl.CompatLevel.oldest()), edges


def tasks_of(plan: Plan, sizes: np.ndarray, folder: Path) -> list[Task]:
    """The parts to be solved, small ones merged, largest first."""
    into = merged_parts(sizes, plan)
    tasks: list[tuple[int, Task]] = []
    for part in np.unique(into):
        members = np.flatnonzero((into == part) & (sizes > 0))
        if members.size:
            spills = tuple(_spill_path(folder, each) for each in members.tolist())
            result = folder / f"solved-{part:05d}.npz"
            measured = len(tasks) % max(1, plan.n_parts // MEASURED_PARTS) == 0
            tasks.append((int(sizes[members].sum()), Task(int(part), spills, result, measured)))
    return [task for _, task in sorted(tasks, key=lambda each: (-each[0], each[1].number))]


def read_spill(task: Task) -> pl.DataFrame:
    """The rows of a part."""
    tables = []
    for path in task.spills:
        with pa.memory_map(str(path)) as data, pa.ipc.open_stream(data) as reader:
            tables.append(reader.read_all())
    frame = pl.from_arrow(pa.concat_tables(tables), rechunk=False)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def write_result(task: Task, solved: Solved) -> None:
    """Leave the groups of a part beside its spill."""
    temporary = task.result.with_suffix(".tmp.npz")
    np.savez(
        temporary,
        labels=solved.labels,
        values=solved.values,
        gone=solved.gone,
        figures=np.array([solved.loss, solved.total, solved.linked]),
    )
    temporary.replace(task.result)


def read_result(task: Task) -> Solved:
    """The groups of a solved part, its rows in the order of the spill."""
    with np.load(task.result) as data:
        loss, total, linked = data["figures"]
        return Solved(data["labels"], data["values"], data["gone"], float(loss), float(total), float(linked))


def _spill_path(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05d}.arrow"
