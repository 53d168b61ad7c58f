"""Whole columns replaced in parts: those a run looks at are held in memory, all others go from file to file in batches."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import polars as pl

from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import InputError
from shoal.publish.earlier import RowClasses
from shoal.publish.executors import Progress, ReplacedDraft, Replacement
from shoal.publish.executors.parts.source import BatchFiles
from shoal.publish.executors.parts.writing import BatchWriter, ClassCounter
from shoal.publish.stages import check
from shoal.publish.stages.measure import MEASURED_RECORDS
from shoal.publish.stages.release import hidden, original_cells
from shoal.publish.stages.roles import DecidedRoles, Roles
from shoal.publish.stages.survey import ROW, kept_rows


def whole_columns(source: BatchFiles, roles: Roles, names: Collection[str], memory: int) -> pl.DataFrame:
    """The decoded columns of all kept rows, rows numbered."""
    wanted = [name for name in roles.names if name in names]
    batches, size = [], 0.0
    for batch in source.numbered(wanted):
        batches.append(kept_rows(roles.decoder(batch), roles.quasi))
        size += batches[-1].estimated_size()
        if size > memory:
            raise InputError(
                f"The columns {', '.join(wanted[:8])} need more than the {memory / 1e9:.3g} GB allowed. Raise "
                "--memory, or recode columns with very many values."
            )
    return pl.concat(batches)


def write(
    source: BatchFiles, decided: DecidedRoles, replacement: Replacement, key: bytes | None, path: Path, kind: str,
    tell: Progress,
) -> tuple[ReplacedDraft, RowClasses | None]:  # fmt: skip
    """Write the table with its new columns and count what it tells.

    The class of each row comes too where an earlier release is laid beside this one.
    """
    roles, table = decided.roles, replacement.table
    gone = hidden(roles) if decided.request.identifiers == "drop" else []
    names = [name for name in roles.names if name not in gone]
    step = max(1, -(-table.height // MEASURED_RECORDS))
    place = np.full(source.n_rows, -1, np.int64)
    place[table[ROW].to_numpy()] = np.arange(table.height)
    classes, before, after = ClassCounter(), [], []
    beside: list[RowClasses] = []
    writer = BatchWriter(path, kind, source)
    try:
        for batch in source.numbered(None):
            here = place[batch[ROW].to_numpy()]
            kept = here >= 0
            decoded, here = roles.decoder(batch.filter(pl.Series(kept))), here[kept]
            cells = [series.gather(here) for series in replacement.new.values()]
            cells += [] if key is None else [pseudonyms(decoded[name], key) for name in hidden(roles)]
            made = decoded.with_columns(cells)
            homes = None if replacement.households is None else replacement.households.gather(here)
            classes.add(check.class_rows(made, decided, homes))
            if decided.request.earlier is not None:
                beside.append(RowClasses.of(made[ROW], made, roles.open))
            chosen = np.flatnonzero(here % step == 0)
            before.append(original_cells(decoded, roles)[chosen])
            after.append(made.select(n for n in roles.names if n not in hidden(roles))[chosen])
            writer.write(made.select(names))
            tell("writing and checking", int(here[-1]) + 1 if here.size else 0, table.height)
    finally:
        writer.close()
    draft = ReplacedDraft(classes.all(), pl.concat(before), pl.concat(after))
    return draft, RowClasses.joined(beside) if beside else None
