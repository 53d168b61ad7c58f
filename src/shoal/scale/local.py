"""Out of core on one machine: survey, route to spill files, solve parts in a pool of processes, write.

Everything waits in a work folder beside the output: spilled parts, solved parts, and the plan, so that an
interrupted run goes on from the parts already solved. The output appears by renaming, whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal import io
from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import GuaranteeError, InputError
from shoal.measures import evaluate
from shoal.scale.output import Classes, Writer
from shoal.scale.plan import (
    Plan,
    Roles,
    Solved,
    encoder_of,
    make_plan,
    merged_parts,
    replaced,
    route,
    small_strata,
    solve_part,
    stratum_sums,
    templates_of,
)
from shoal.scale.source import Source
from shoal.scale.survey import ROW, Survey, survey, survey_batch

SAMPLE_ROWS = 60_000
# Rows whose values before and after are compared for the figures.
MEASURED_ROWS = 10_000
# Parts in which linkage is measured, about.
MEASURED_PARTS = 8
# Open spill files at a time.
MOST_PARTS = 512
LARGEST_PART = 100_000
# Bytes of memory per byte of a part while it is solved (coordinates, copies, blocks, linkage).
COPIES = 10

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """A part to be solved: its spill files and where the result goes."""

    number: int
    spills: tuple[Path, ...]
    result: Path
    measured: bool = True


def workers_of(workers: int | None) -> int:
    """Number of processes: as asked for, or one for each core."""
    return workers if workers is not None else len(os.sched_getaffinity(0))


def part_rows(memory: int, workers: int, n_columns: int, n_rows: int) -> int:
    """Records of a part, so that all workers together stay within half of the memory."""
    fits = memory // 2 // max(1, workers) // (8 * COPIES * max(1, n_columns))
    return int(max(2_000, min(fits, max(LARGEST_PART, n_rows // (MOST_PARTS // 2)))))


@contextlib.contextmanager
def work_folder(output: Path, resume: bool) -> Iterator[Path]:
    """A folder beside the output: kept when the run is interrupted, else removed."""
    folder = output.parent / f".{output.name}.parts"
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InputError(f"The work folder {str(folder)!r} cannot be made: {error.strerror}.") from None
    try:
        yield folder
    except (KeyboardInterrupt, SystemExit):
        raise
    except (OSError, pa.ArrowException, pl.exceptions.PolarsError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        text = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"The work folder {str(folder)!r} cannot be written: {text}.") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder, ignore_errors=True)


def numbered(source: Source, columns: list[str] | None) -> Iterator[pl.DataFrame]:
    """The batches of a source with their row numbers."""
    start = 0
    for batch in source.batches(columns):
        yield batch.with_columns(pl.Series(ROW, np.arange(start, start + batch.height)))
        start += batch.height


def survey_source(source: Source, roles: Roles) -> Survey:
    """One pass over all batches."""
    share = min(1.0, SAMPLE_ROWS / source.n_rows)
    found = survey(
        survey_batch(batch, roles.quasi, list(roles.strata), roles.weight, share)
        for batch in numbered(source, roles.needed)
    )
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
        shown = ", ".join(str(value) for value in little[0])
        raise InputError(
            f"Each stratum must have at least k = {method.k} rows. "
            f"Stratum {shown!r} has {found.strata[little[0]]}."
        )
    templates = templates_of(found, roles)
    draft = Plan(
        roles,
        templates,
        encoder_of(found, templates),
        method,
        {},
        {},
        {},
        0,
        found.n_kept,
        round_integers=False,
    )
    totals: dict[tuple[Any, ...], tuple[int, np.ndarray]] = {}
    for batch in numbered(source, roles.needed):
        for key, (count, sums) in stratum_sums(batch, draft).items():
            before = totals.get(key, (0, 0.0))
            totals[key] = (before[0] + count, before[1] + sums)
    centres = {key: sums / count for key, (count, sums) in totals.items()}
    return make_plan(found, roles, method, rows, centres=centres, **options), found


def spill(source: Source, plan: Plan, folder: Path, everything: bool) -> np.ndarray:
    """Route all rows to one file per part; the size of each part."""
    sizes = np.zeros(plan.n_parts, np.int64)
    sinks: dict[int, Any] = {}
    try:
        for batch in numbered(source, None if everything else plan.roles.needed):
            parts = route(batch, plan)
            order = np.argsort(parts, kind="stable")
            edges = np.searchsorted(parts[order], np.arange(plan.n_parts + 1))
            table = batch[order].to_arrow(compat_level=pl.CompatLevel.oldest())
            for part in np.flatnonzero(np.diff(edges)).tolist():
                piece = table.slice(edges[part], edges[part + 1] - edges[part]).combine_chunks()
                if part not in sinks:
                    sinks[part] = pa.ipc.new_stream(str(_spill_path(folder, part)), table.schema)
                sinks[part].write_table(piece)
                sizes[part] += piece.num_rows
    finally:
        for sink in sinks.values():
            sink.close()
    return sizes


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
    frame = pl.from_arrow(pa.concat_tables(tables))
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def run_task(task: Task, plan: Plan) -> tuple[int, int]:
    """Solve a part and leave the result beside its spill; its number, and this process's peak memory."""
    table = read_spill(task)
    solved = solve_part(table, plan, measure=task.measured)
    temporary = task.result.with_suffix(".tmp.npz")
    np.savez(
        temporary,
        rows=table[ROW].to_numpy(),
        labels=solved.labels,
        values=solved.values,
        gone=solved.gone,
        figures=np.array([solved.loss, solved.total, solved.linked]),
    )
    temporary.replace(task.result)
    return task.number, peak_memory()


def read_result(task: Task) -> tuple[np.ndarray, Solved]:
    """Row numbers and groups of a solved part."""
    with np.load(task.result) as data:
        loss, total, linked = data["figures"]
        return data["rows"], Solved(
            data["labels"], data["values"], data["gone"], float(loss), float(total), float(linked)
        )


def solve(tasks: list[Task], plan: Plan, workers: int, say: Progress) -> int:
    """Solve what is not solved yet; the peak memory of all workers together."""
    waiting = [task for task in tasks if not task.result.exists()]
    if len(waiting) < len(tasks):
        say(f"going on: {len(tasks) - len(waiting)} of {len(tasks)} parts are solved already")
    done = len(tasks) - len(waiting)
    if workers <= 1 or len(waiting) <= 1:
        for task in waiting:
            run_task(task, plan)
            done += 1
            say(f"forming groups: part {done} of {len(tasks)}")
        return 0
    peak = 0
    with _one_thread_each():
        pool = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_ready, initargs=(plan,)
        )
        try:
            for future in as_completed([pool.submit(_solve_in_pool, task) for task in waiting]):
                peak = max(peak, future.result()[1])
                done += 1
                say(f"forming groups: part {done} of {len(tasks)}")
        except BrokenProcessPool:
            raise InputError(
                "A worker process was ended from outside, most likely for lack of memory: "
                "lower --memory, or go on with --resume."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
    return peak * workers


def write(
    source: Source,
    plan: Plan,
    tasks: list[Task],
    folder: Path,
    output: Path,
    *,
    any_order: bool,
    key: bytes | None,
) -> dict[str, Any]:
    """Write and check the protected table; its figures."""
    quasi = [*(fact.name for fact in plan.roles.quasi), *plan.roles.strata]
    classes = Classes(quasi)
    share = min(1.0, MEASURED_ROWS / plan.n_rows)
    pairs: list[tuple[pl.DataFrame, pl.DataFrame]] = []
    figures, batches = (_by_part if any_order else _in_order)(source, plan, tasks, folder)
    with io.atomic(output) as temporary:
        writer = Writer(temporary, output.suffix.lower())
        try:
            for batch, values, gone in batches:
                published = replaced(batch, plan, values, gone)
                if key is not None:
                    published = published.with_columns(
                        pseudonyms(batch[name], key) for name in plan.roles.identifiers
                    )
                published = published.drop(ROW)
                classes.add(published)
                pairs.append(_sampled(batch, published, share))
                writer.write(published)
        finally:
            writer.close()
        verdict = classes.verdict(plan.method.k)
        if not verdict.holds:
            raise GuaranteeError(
                f"The protected table does not keep its promise, so it is not given out: {verdict}"
            )
    return figures | _before_and_after(plan, pairs) | {"verdicts": [verdict]}


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    try:
        # What the system counts for a started process includes its parent's memory: ask for its own.
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fingerprint(*facts: Any) -> str:
    """A digest by which a resumed run knows its own work folder."""
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def remember(folder: Path, mark: str, plan: Plan, sizes: np.ndarray) -> None:
    """Note that all rows are spilled, and how."""
    temporary = folder / "plan.tmp"
    temporary.write_bytes(pickle.dumps((mark, plan, sizes)))
    temporary.replace(folder / "plan.pickle")


def forget(folder: Path) -> None:
    """Remove what another run spilled and solved."""
    for pattern in ("plan.*", "part-*", "solved-*"):
        for file in folder.glob(pattern):
            file.unlink()


def recall(folder: Path, mark: str) -> tuple[Plan, np.ndarray] | None:
    """The plan of an interrupted run of the same settings on the same files, if there is one."""
    path = folder / "plan.pickle"
    if not path.exists():
        return None
    found, plan, sizes = pickle.loads(path.read_bytes())  # noqa: S301 (our own folder, mode 700)
    return (plan, sizes) if found == mark else None


def _in_order(
    source: Source, plan: Plan, tasks: list[Task], folder: Path
) -> tuple[dict[str, Any], Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray]]]:
    """Batches as they came in, each with its rows' group values."""
    group_of = np.lib.format.open_memmap(folder / "groups.npy", "w+", np.int64, (source.n_rows,))
    group_of[:] = -1
    # Files, too, since there are as many as records / k: the system keeps in memory what it has room for.
    shape = (source.n_rows // plan.method.k + 1, len(plan.templates))
    values = np.lib.format.open_memmap(folder / "values.npy", "w+", np.float64, shape)
    gone = np.lib.format.open_memmap(folder / "gone.npy", "w+", np.bool_, shape)
    figures, following = _Figures(), 0
    for task in tasks:
        rows, solved = read_result(task)
        group_of[rows] = following + solved.labels
        end = following + solved.values.shape[0]
        values[following:end], gone[following:end] = solved.values, solved.gone
        following = end
        figures.add(solved)

    def batches() -> Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray]]:
        for batch in numbered(source, None):
            start = batch[ROW][0]
            groups = np.asarray(group_of[start : start + batch.height])
            kept = groups >= 0
            groups = groups[kept]
            yield batch.filter(pl.Series(kept)), values[groups], gone[groups]

    return figures.facts(), batches()


def _by_part(
    source: Source, plan: Plan, tasks: list[Task], folder: Path
) -> tuple[dict[str, Any], Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray]]]:
    """Part after part, each with its rows' group values."""
    del source, plan, folder
    figures = _Figures()
    for task in tasks:
        figures.add(read_result(task)[1])

    def batches() -> Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray]]:
        for task in tasks:
            solved = read_result(task)[1]
            yield read_spill(task), solved.values[solved.labels], solved.gone[solved.labels]

    return figures.facts(), batches()


class _Figures:
    """Sums over parts."""

    def __init__(self) -> None:
        self.n = self.groups = self.largest = 0
        self.smallest: int | None = None
        self.loss = self.total = self.linked = self.asked = 0.0

    def add(self, solved: Solved) -> None:
        sizes = np.bincount(solved.labels)
        self.n += solved.labels.size
        self.groups += sizes.size
        self.smallest = int(min(sizes.min(), self.smallest if self.smallest is not None else sizes.min()))
        self.largest = int(max(sizes.max(), self.largest))
        self.loss += solved.loss
        self.total += solved.total
        if not np.isnan(solved.linked):
            self.linked += solved.linked * solved.labels.size
            self.asked += solved.labels.size

    def facts(self) -> dict[str, Any]:
        return {
            "n_records": self.n,
            "n_groups": self.groups,
            "smallest_group": self.smallest,
            "largest_group": self.largest,
            "information_loss": 100.0 * self.loss / self.total if self.total > 0 else 0.0,
            "dld": self.linked / max(1.0, self.asked),
        }


def _sampled(batch: pl.DataFrame, published: pl.DataFrame, share: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    step = max(1, round(1 / share))
    return batch[::step], published[::step]


def _before_and_after(plan: Plan, pairs: list[tuple[pl.DataFrame, pl.DataFrame]]) -> dict[str, Any]:
    """Figures of an even selection of rows, on the columns of numbers."""
    numbers = [j for j, each in enumerate(plan.templates) if each.facts.kind == "number"]
    if not numbers:
        return {}
    before = plan.typed(pl.concat([each[0].select(plan.roles.needed) for each in pairs]))
    after = pl.concat([each[1] for each in pairs])
    known = ~np.stack([before[j].missing for j in numbers], axis=1).any(axis=1)
    X = np.stack([before[j].values for j in numbers], axis=1)[known]
    Y = np.stack([after[plan.templates[j].name].cast(pl.Float64).to_numpy() for j in numbers], axis=1)[known]
    if X.shape[0] < 2 or not np.isfinite(Y).all():
        return {}
    figures = evaluate(X, Y)
    figures.pop("dld")
    return figures


_plan: Plan


def _ready(plan: Plan) -> None:
    global _plan  # noqa: PLW0603 (a worker keeps the plan instead of getting it with every part)
    _plan = plan


def _solve_in_pool(task: Task) -> tuple[int, int]:
    return run_task(task, _plan)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Workers started inside use one thread each: the processes are the parallelism."""
    names = ("POLARS_MAX_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _spill_path(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05d}.arrow"
