"""Parts solved by a pool of processes, one thread each.

The processes are forked from a server that has imported the packages that take longest. It is started before the table
is looked through, so that it is ready when the first part is. It leaves polars to the workers, which starts threads
as it is imported: a forked process would inherit their locks without them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, forkserver
from pathlib import Path

from shoal.errors import InputError
from shoal.publish.executors import Progress
from shoal.publish.executors.parts.spilling import SpillTask, read_spill, write_result
from shoal.publish.stages.measure import MEASURED_RECORDS
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.solve import solve_part

# Records of a part for which linkage is measured.
MEASURED = 500
# The main process looks so often whether it was interrupted while it waits for workers.
HEARS_SECONDS = 0.2


def workers_of(workers: int | None) -> int:
    """Number of processes: as asked for, or one for each core."""
    return workers if workers is not None else len(os.sched_getaffinity(0))


def start() -> None:
    """Start the server that workers are forked from, unless one is running."""
    forkserver.set_forkserver_preload(["sklearn.base", "scipy.spatial", "numba"])
    # An interruption is for the main process alone, until workers are at work.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _one_thread_each():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def solve(tasks: list[SpillTask], plan: PublishPlan, workers: int, tell: Progress) -> tuple[int, float]:
    """Solve what is not solved yet; peak memory and CPU seconds of all workers together."""
    waiting = [task for task in tasks if not task.result.exists()]
    if len(waiting) < len(tasks):
        tell(f"going on: {len(tasks) - len(waiting)} of {len(tasks)} parts are solved already", 0, 0)
    done = len(tasks) - len(waiting)
    if workers <= 1 or len(waiting) <= 1:
        for task in waiting:
            run_task(task, plan)
            done += 1
            tell(f"forming groups: part {done} of {len(tasks)}", done, len(tasks))
        return 0, 0.0
    start()
    peak, begun = 0, 0.0
    spent: dict[int, float] = {}
    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("forkserver"), initializer=_ready, initargs=(plan,)
    )
    others = set(multiprocessing.active_children())
    try:
        futures = {pool.submit(_solve_in_pool, task) for task in waiting}
        while futures:
            # Signal handlers of libraries let a wait go on, so that Ctrl-C would not be heard in a long one.
            ended, futures = wait(futures, timeout=HEARS_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                worker, memory, seconds, begun = future.result()
                peak, spent[worker] = max(peak, memory), max(seconds, spent.get(worker, 0.0))
                done += 1
                tell(f"forming groups: part {done} of {len(tasks)}", done, len(tasks))
    except KeyboardInterrupt:
        for each in set(multiprocessing.active_children()) - others:
            each.terminate()
        raise
    except BrokenProcessPool:
        raise InputError(
            "A worker process was ended from outside, most likely for lack of memory: "
            "lower --memory, or go on with --resume."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)
    return peak * workers, begun + sum(spent.values())


def run_task(task: SpillTask, plan: PublishPlan) -> None:
    """Solve a part and leave the result beside its spill."""
    table = read_spill(task)
    # A table that is one part is measured like one in memory.
    measured = MEASURED_RECORDS if plan.n_parts == 1 else MEASURED if task.measured else None
    solved = solve_part(table, plan, measured=measured)
    write_result(task, solved)


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    try:
        # What the system counts for a started process includes its parent's memory: ask for its own.
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


_plan: PublishPlan


def _ready(plan: PublishPlan) -> None:
    global _plan  # noqa: PLW0603 (a worker keeps the plan instead of getting it with every part)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _plan = plan
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a worker whose main process was ended from outside: it would wait for the next part for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _solve_in_pool(task: SpillTask) -> tuple[int, int, float, float]:
    """Solve a part; which process did, its peak memory and CPU seconds, and those of the server before it."""
    run_task(task, _plan)
    begun = 0.0
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
        begun = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return os.getpid(), peak_memory(), time.process_time(), begun


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
