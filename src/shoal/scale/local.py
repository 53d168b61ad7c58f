"""Out of core on one machine: survey, route to spill files, solve parts in a pool of processes, write.

Everything waits in a work folder beside the output: spilled parts, solved parts, and the plan, so that an
interrupted run goes on from the parts already solved. The output appears by renaming, whole or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal import io
from shoal.errors import InputError
from shoal.microaggregation import Microaggregator
from shoal.scale import output as out
from shoal.scale import pool, resuming, spilling
from shoal.scale.figures import facts_of
from shoal.scale.plan import Plan, draft_plan, make_plan, refuse_small, small_strata
from shoal.scale.roles import GUESSED_ROWS, Roles, settle_roles
from shoal.scale.routing import stratum_sums
from shoal.scale.source import Source, in_threads, open_source
from shoal.scale.survey import Survey, survey, survey_batch

SAMPLE_ROWS = 60_000
# Open spill files at a time.
MOST_PARTS = 512
LARGEST_PART = 100_000
# Bytes of memory per byte of a part while it is solved (coordinates, copies, blocks, linkage).
COPIES = 10


def run_local(
    path: Path,
    output: Path,
    estimator: Microaggregator,
    asked: dict[str, Any],
    workers: int | None,
    resume: bool,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Protect a file on this machine; the facts of the run."""
    io.check_writable(output)
    n_workers, begun = pool.workers_of(workers), time.process_time()
    with resuming.work_folder(output, resume) as folder:
        say(f"opening {path}")
        source = open_source(path, folder)
        roles, notes = settle_roles(
            _head(source),
            asked["schema"],
            asked["columns"],
            asked["strata"],
            asked["weights"],
            asked["missing"],
        )
        mark = resuming.fingerprint(
            [(str(file), file.stat().st_size) for file in source.files],
            path.stat().st_mtime_ns, roles, estimator.name, estimator.get_params(),
            sorted((name, each) for name, each in asked.items() if name not in ("secret", "schema")),
        )  # fmt: skip
        known = resuming.recall(folder, mark) if resume else None
        if known is None:
            resuming.forget(folder)
            say("looking through the table")
            rows = part_rows(asked["memory"], n_workers, len(roles.needed), source.n_rows)
            if n_workers > 1 and source.n_rows > rows:
                pool.start()
            limit = asked["time_limit"]
            plan, _ = plan_source(
                source, roles, estimator, rows, asked["small"], round_integers=asked["round"],
                share_of_time=None if limit is None else limit * n_workers / source.n_rows,
            )  # fmt: skip
            say(f"spilling {source.n_rows:,} rows to {plan.n_parts} parts")
            sizes = spilling.spill(source, plan, folder, everything=asked["any_order"])
            resuming.remember(folder, mark, plan, sizes)
        else:
            plan, sizes = known
        tasks = spilling.tasks_of(plan, sizes, folder)
        peak, spent = pool.solve(tasks, plan, n_workers, say)
        together = peak + pool.peak_memory()  # the workers have ended when writing begins
        say("writing and checking")
        figures = out.write(
            source,
            plan,
            tasks,
            folder,
            output,
            any_order=asked["any_order"],
            key=asked["secret"],
            memory=asked["memory"] // 4,
        )
        figures["peak_memory"] = max(together, pool.peak_memory())
        figures["cpu_seconds"] = spent + time.process_time() - begun
    dropped = source.n_rows - plan.n_rows
    said = [f"{dropped} rows with missing cells were dropped."] if dropped else []
    if roles.identifiers:
        what = "dropped" if asked["secret"] is None else "replaced by keyed hashes"
        said.append(f"Identifiers {what}: {', '.join(roles.identifiers)}.")
    return facts_of(plan, figures, [*source.notes, *notes, *said])


def part_rows(memory: int, workers: int, n_columns: int, n_rows: int) -> int:
    """Records of a part, so that all workers together stay within half of the memory."""
    fits = memory // 2 // max(1, workers) // (8 * COPIES * max(1, n_columns))
    return int(max(2_000, min(fits, max(LARGEST_PART, n_rows // (MOST_PARTS // 2)))))


def survey_source(source: Source, roles: Roles) -> Survey:
    """One pass over all batches."""
    share = min(1.0, SAMPLE_ROWS / source.n_rows)
    look = partial(
        survey_batch, facts=roles.quasi, strata=list(roles.strata), weights=roles.weight, share=share
    )
    found = survey(in_threads(look, source.numbered(roles.needed)))
    if not found.weighted:
        raise InputError(
            f"The weights {roles.weight!r} must be finite numbers of at least 0, some above 0, none missing."
        )
    return found


def plan_source(
    source: Source, roles: Roles, method: Any, rows: int, small: str, **options: Any
) -> tuple[Plan, Survey]:
    """Survey a source and plan its parts; where strata are below k, a further pass finds their centres."""
    found = survey_source(source, roles)
    little = small_strata(found, method.k)
    if not little:
        return make_plan(found, roles, method, rows, **options), found
    if small == "refuse":
        raise refuse_small(found, little, method.k)
    draft = draft_plan(found, roles, method)
    totals: dict[tuple[Any, ...], tuple[int, np.ndarray]] = {}
    for found_in in in_threads(partial(stratum_sums, plan=draft), source.numbered(roles.needed)):
        for key, (count, sums) in found_in.items():
            before = totals.get(key, (0, 0.0))
            totals[key] = (before[0] + count, before[1] + sums)
    centres = {key: sums / count for key, (count, sums) in totals.items()}
    return make_plan(found, roles, method, rows, centres=centres, **options), found


def _head(source: Source) -> pl.DataFrame:
    """The first rows, from which roles are guessed."""
    frames, rows = [], 0
    for batch in source.batches():
        frames.append(batch)
        rows += batch.height
        if rows >= GUESSED_ROWS:
            break
    return pl.concat(frames).head(GUESSED_ROWS)
