"""The parts as files in the work folder: rows waiting to be solved, and groups found."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.publish.executors.parts.source import BatchFiles, in_threads
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.routing import added_spread, merged_parts, route, spread_of
from shoal.publish.stages.solve import LEFT, Solved, left_codes

# Rows routed at a time: enough that each part's share is worth a write.
SPILLED_ROWS = 1 << 17
# Parts in which linkage is measured, about.
MEASURED_PARTS = 8


@dataclass(frozen=True)
class SpillTask:
    """A part to be solved: its spill files and where the result goes."""

    number: int
    spills: tuple[Path, ...]
    result: Path
    measured: bool = True


def spill(
    source: BatchFiles, plan: PublishPlan, folder: Path, *, everything: bool
) -> tuple[np.ndarray, pl.DataFrame | None]:
    """Route all rows to one file per part.

    Returns
    -------
    sizes : array of int64
        Rows of each part.
    spread : polars.DataFrame or None
        For each part and sensitive value its rows, where closeness was asked for.
    """
    sizes = np.zeros(plan.n_parts, np.int64)
    sinks: dict[int, Any] = {}
    spread: list[pl.DataFrame] = []
    names = (
        None if everything else list(dict.fromkeys([*plan.roles.needed, *plan.roles.left, *plan.roles.ruled]))
    )
    try:
        batches = source.numbered(names, SPILLED_ROWS)
        for table, edges, values in in_threads(partial(_by_part, plan=plan, everything=everything), batches):
            spread += values
            for part in np.flatnonzero(np.diff(edges)).tolist():
                piece = table.slice(edges[part], edges[part + 1] - edges[part])
                if part not in sinks:
                    sinks[part] = pa.ipc.new_stream(str(_spill_path(folder, part)), table.schema)
                sinks[part].write_table(piece)
                sizes[part] += piece.num_rows
    finally:
        for sink in sinks.values():
            sink.close()
    return sizes, added_spread(spread) if spread else None


def _by_part(
    batch: pl.DataFrame, plan: PublishPlan, everything: bool
) -> tuple[pa.Table, np.ndarray, list[pl.DataFrame]]:
    """The rows of a batch sorted by part, and where each part begins; dropped rows stand before the first."""
    batch = plan.roles.decoder(batch)
    if plan.roles.left:
        batch = batch.with_columns(left_codes(batch, plan).alias(LEFT))
        unread = [name for name in plan.roles.left if name not in plan.roles.ruled]
        batch = batch if everything else batch.drop(unread)
    parts = route(batch, plan)
    # Few parts fit into 16 bits, which are sorted without comparing.
    order = np.argsort((parts + 1).astype(np.uint16 if plan.n_parts < 1 << 16 else np.uint64), kind="stable")
    edges = np.searchsorted(parts[order], np.arange(plan.n_parts + 1))
    values = spread_of(batch, parts, plan)
    return batch[order].to_arrow(compat_level=pl.CompatLevel.oldest()), edges, values


def tasks_of(
    plan: PublishPlan, sizes: np.ndarray, spread: pl.DataFrame | None, folder: Path
) -> list[SpillTask]:
    """The parts to be solved, small ones merged, largest first."""
    into = merged_parts(sizes, plan, spread)
    tasks: list[tuple[int, SpillTask]] = []
    for part in np.unique(into):
        members = np.flatnonzero((into == part) & (sizes > 0))
        if members.size:
            spills = tuple(_spill_path(folder, each) for each in members.tolist())
            result = folder / f"solved-{part:05d}.pickle"
            measured = len(tasks) % max(1, plan.n_parts // MEASURED_PARTS) == 0
            tasks.append((int(sizes[members].sum()), SpillTask(int(part), spills, result, measured)))
    return [task for _, task in sorted(tasks, key=lambda each: (-each[0], each[1].number))]


def read_spill(task: SpillTask) -> pl.DataFrame:
    """The rows of a part."""
    tables = []
    for path in task.spills:
        with pa.memory_map(str(path)) as data, pa.ipc.open_stream(data) as reader:
            tables.append(reader.read_all())
    frame = pl.from_arrow(pa.concat_tables(tables), rechunk=False)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def write_result(task: SpillTask, solved: Solved) -> None:
    """Leave the groups of a part beside its spill."""
    temporary = task.result.with_suffix(".tmp")
    temporary.write_bytes(pickle.dumps(solved, protocol=5))
    temporary.replace(task.result)


def read_result(task: SpillTask) -> Solved:
    """The groups of a solved part, its rows in the order of the spill."""
    solved: Solved = pickle.loads(task.result.read_bytes())  # noqa: S301 (our own folder, mode 700)
    return solved


def _spill_path(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05d}.arrow"
