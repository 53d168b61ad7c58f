"""Jobs of the site: one private folder each, and who is at work in it.

All work on an uploaded table is done by a process of its own (`shoal.server.worker`), which can be stopped, whose
memory is limited, and which writes what it does to the job's folder, so that any worker can show it. Private tables are
bought by a thread of the server itself, which has the data and the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import StreamingResponse
from pydantic import ValidationError

from shoal.errors import InputError
from shoal.server.auth import is_still_in
from shoal.server.job_files import GONE, JobProcess, JobState
from shoal.server.limits import TooOftenError
from shoal.server.refusals import UnknownError
from shoal.typing import Keywords

KEEP_SECONDS = 3600
SWEEP_SECONDS = 20
MOST_AT_ONCE = 4
MOST_STREAMS = 8
PROVEN_SECONDS = 1.0
TELL_SECONDS = 0.3
_streams: Counter[str] = Counter()
"""Open streams of each account, of this worker."""


class Jobs:
    """The private folder of all jobs: one folder each, named by chance, forgotten after an hour.

    Parameters
    ----------
    folder : Path, optional
        Shared by the workers of one server; one of its own if left open.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-jobs-")) if folder is None else folder

    def new(self, account: str) -> Path:
        """A new folder that only this process's user can enter."""
        self.sweep()
        job = self.folder / secrets.token_hex(12)
        job.mkdir(mode=0o700)
        JobState(account=account, at=time.time(), since=time.monotonic()).write(job)
        return job

    def job(self, name: str, account: str) -> Path:
        """The folder of a job of this account."""
        folder = self.folder / name
        if len(name) != 24 or not set(name) <= set("0123456789abcdef") or not folder.is_dir():
            raise UnknownError(GONE)
        if JobState.read(folder).account != account:
            raise UnknownError(GONE)
        return folder

    def of(self, account: str) -> list[tuple[str, JobState]]:
        """The jobs of an account, newest first."""
        return [each for each in self.all() if each[1].account == account]

    def all(self) -> list[tuple[str, JobState]]:
        """All jobs, newest first."""
        found = []
        for folder in self.folder.iterdir():
            with contextlib.suppress(UnknownError, OSError):
                found.append((folder.name, JobState.read(folder)))
        return sorted(found, key=lambda each: -each[1].at)

    def sweep(self) -> None:
        """Forget jobs that were begun more than an hour ago, at work or not."""
        for folder in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() > ends(folder):
                    self.forget(folder)

    async def sweep_always(self, beside: Callable[[], None]) -> None:
        """Go on forgetting by the clock, whether anybody comes or not; and do what else is done by that clock."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await asyncio.to_thread(self.sweep)
            await asyncio.to_thread(beside)

    def forget(self, folder: Path) -> None:
        """Stop a job's work and remove all its files."""
        with one_at_a_time(folder):
            stop(folder)
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Forget everything."""
        if self._own:
            for folder in list(self.folder.iterdir()):
                self.forget(folder)
            shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Nobody else, in any worker, begins, stops or removes a job meanwhile."""
    # A file of its own: the folder itself is locked for as long as its server runs.
    where = os.open(folder.parent / ".begin", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(where, fcntl.LOCK_EX)
        yield
    finally:
        os.close(where)


def begin_work(folder: Path, what: str, ready: Callable[[], None]) -> None:
    """Begin a job's work in a process of its own, unless it is at work already or too many others are.

    Parameters
    ----------
    folder : Path
    what : {"look", "run", "compare"}
    ready : callable
        What is done first, once it is sure that the work begins: it says the job's new state.
    """
    with one_at_a_time(folder):
        if not folder.is_dir():
            raise UnknownError(GONE)
        if busy(folder):
            raise InputError("This job cannot be run now.")
        if sum(busy(each) for each in folder.parent.iterdir()) >= MOST_AT_ONCE:
            raise InputError(f"At most {MOST_AT_ONCE} jobs run at a time; wait until one is done.")
        ready()
        _start(folder, what)


def _start(folder: Path, what: str) -> None:
    words = [sys.executable, "-m", "shoal.server.worker", what, str(folder)]
    quiet: Keywords = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    process = subprocess.Popen(words, start_new_session=True, **quiet)  # noqa: S603 - words of our own
    JobProcess(pid=process.pid).write(folder)


def running(folder: Path) -> bool:
    """Whether a job's process is alive."""
    try:
        pid = JobProcess.read(folder).pid
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(pid, os.WNOHANG)[0] != pid  # a child of this worker: no doubt whose it is
        command = Path(f"/proc/{pid}/cmdline")
        return not command.parent.parent.is_dir() or folder.name.encode() in command.read_bytes()
    except (UnknownError, OSError):
        return False


def busy(folder: Path) -> bool:
    """Whether a job is at work; a process that has said its last word may still be about to end."""
    try:
        return JobState.read(folder).state in ("looking", "running") and running(folder)
    except (UnknownError, OSError):
        return False


def stop(folder: Path) -> None:
    """End a job's process."""
    if running(folder):
        with contextlib.suppress(OSError):
            os.kill(JobProcess.read(folder).pid, 9)


def ends(folder: Path) -> float:
    """When the files of a job are removed: an hour after they came, also where the clock on the wall was set meanwhile."""
    try:
        since = JobState.read(folder).since
    except (UnknownError, ValidationError):
        since = None
    if since is None:
        return folder.stat().st_mtime + KEEP_SECONDS
    return time.time() + since + KEEP_SECONDS - time.monotonic()


@dataclass(frozen=True)
class JobStep:
    """What a job's process is at, and the share of it that is done; None where that is not known."""

    stage: str
    share: float | None = None

    def __str__(self) -> str:
        return self.stage if self.share is None else f"{self.stage}, {round(100 * self.share)} %"


def steps(folder: Path) -> list[JobStep]:
    """What a job's process said so far; of each stage the last word."""
    try:
        lines = (folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()
        said = {step.stage: step for step in (JobStep(*json.loads(line)) for line in lines)}
        return list(said.values())
    except (OSError, ValueError, TypeError):
        return []


def tell(folder: Path, stage: str, share: float | None = None) -> None:
    """Say what a job is at."""
    with (folder / "progress.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps([stage, share]) + "\n")


def is_alive(job: JobState) -> bool:
    """Whether the server process that a job is done in is still there."""
    if job.pid is None:
        return False
    try:
        os.kill(job.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def progress(request: Request, folder: Path, at_work: Callable[[], bool]) -> StreamingResponse:
    """What a job says, as server-sent events, until it ends or who asked is no longer let in."""
    if _streams[request.state.visitor.id] >= MOST_STREAMS:
        raise TooOftenError(f"At most {MOST_STREAMS} pages at a time can follow jobs; close one.")
    return StreamingResponse(_events(request, folder, at_work), media_type="text/event-stream")


async def _events(request: Request, folder: Path, at_work: Callable[[], bool]) -> AsyncIterator[str]:
    told: list[JobStep] = []
    who, proven = request.state.visitor.id, time.monotonic()
    _streams[who] += 1
    try:
        while not await request.is_disconnected():
            if time.monotonic() - proven > PROVEN_SECONDS:
                if not await is_still_in(request):
                    return
                proven = time.monotonic()
            said = steps(folder)
            for each in [step for step in said if step not in told]:
                yield f"data: {json.dumps([each.stage, each.share])}\n\n"
            told = said
            if not folder.is_dir() or not at_work():
                yield "event: end\ndata: {}\n\n"
                return
            await asyncio.sleep(TELL_SECONDS)
    finally:
        _streams[who] -= 1
        if not _streams[who]:
            del _streams[who]
