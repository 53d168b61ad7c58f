"""The publish page: upload a table, look at its roles, protect it, take the result, and have it forgotten.

All work on an uploaded table is done by a process of its own (`shoal.server.work`), which can be stopped, whose
memory is limited, and which writes what it does to the job's folder, so that any worker can show it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from shoal.errors import InputError, ParameterError
from shoal.io import FORMATS
from shoal.schema import MISSING_POLICIES, ROLES
from shoal.server import pages
from shoal.server.desk import UnknownError

KEEP_SECONDS = 3600
FILES = {
    "protected.csv": "text/csv; charset=utf-8",
    "report.html": "text/html; charset=utf-8",
    "public-report.html": "text/html; charset=utf-8",
    "schema.toml": "text/plain; charset=utf-8",
}
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
_MOST_AT_ONCE = 4


class Room:
    """The private folder of all jobs: one folder each, named by chance, forgotten after an hour.

    Parameters
    ----------
    folder : Path, optional
        Shared by the workers of one server; one of its own if left open.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-room-")) if folder is None else folder

    def new(self, account: str) -> Path:
        """A new folder that only this process's user can enter."""
        self.sweep()
        job = self.folder / secrets.token_hex(12)
        job.mkdir(mode=0o700)
        _write(job / "job.json", {"account": account, "state": "new", "error": "", "at": time.time()})
        return job

    def job(self, name: str, account: str) -> Path:
        """The folder of a job of this account."""
        folder = self.folder / name
        if len(name) != 24 or not set(name) <= set("0123456789abcdef") or not folder.is_dir():
            raise UnknownError("There is no such job; it may have been forgotten.")
        if read(folder / "job.json").get("account") != account:
            raise UnknownError("There is no such job; it may have been forgotten.")
        return folder

    def sweep(self) -> None:
        """Forget jobs older than an hour."""
        for folder in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > KEEP_SECONDS:
                    self.forget(folder)

    def forget(self, folder: Path) -> None:
        """Stop a job's work and remove all its files."""
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Forget everything."""
        if self._own:
            for folder in list(self.folder.iterdir()):
                self.forget(folder)
            shutil.rmtree(self.folder, ignore_errors=True)


def upload_page(request: Request) -> Response:
    """Choose a table."""
    _allowed(request)
    return pages.render(
        request, "publish.html.j2", megabytes=request.app.state.config.upload_megabytes, formats=FORMATS
    )


async def upload(request: Request) -> Response:
    """Take a table, and look at it in a process of its own."""
    _allowed(request)
    form = await request.form()
    given = form.get("table")
    room: Room = request.app.state.room
    if str(form.get("example", "")) == "survey":
        ending, job = ".csv", await run_in_threadpool(room.new, request.state.visitor.id)
        from shoal.datasets import DATASETS

        source = DATASETS["survey"].path
        assert source is not None  # bundled
        shutil.copyfile(source, job / "table.csv")
    else:
        if not isinstance(given, UploadFile) or not given.filename:
            raise InputError("A file was expected.")
        ending = Path(given.filename.replace("\\", "/")).suffix.lower()  # all that is used of the name
        if ending not in FORMATS:
            raise InputError(f"The file must end in one of {', '.join(FORMATS)}.")
        job = await run_in_threadpool(room.new, request.state.visitor.id)
        with (job / f"table{ending}").open("xb") as file:
            await run_in_threadpool(shutil.copyfileobj, given.file, file)
    os.chmod(job / f"table{ending}", 0o600)
    _change(job, state="looking", ending=ending)
    await run_in_threadpool(start, job, "look")
    for _ in range(1200):
        if read(job / "job.json")["state"] != "looking" or not running(job):
            break
        await asyncio.sleep(0.1)
    return RedirectResponse(f"/publish/{job.name}", 303)


def job_page(request: Request, job: str) -> Response:
    """A job as it stands: roles to check, work going on, or the result."""
    folder = _job(request, job)
    alive = running(folder)  # asked first: what ended by now has said so in the facts
    facts = read(folder / "job.json")
    if facts["state"] in ("looking", "running") and not alive:
        facts = {
            **facts,
            "state": "failed",
            "error": "The work stopped: the table may be too large for this server.",
        }
    look = read(folder / "look.json") if (folder / "look.json").exists() else {}
    result = read(folder / "result.json") if (folder / "result.json").exists() else {}
    return pages.render(
        request, "job.html.j2", job=job, facts=facts, look=look, result=result, roles=ROLES,
        policies=MISSING_POLICIES, steps=steps(folder), answered=list(request.app.state.config.datasets),
        methods=method_names(),
    )  # fmt: skip


async def run(request: Request, job: str) -> Response:
    """Protect the table with the roles and settings of the form."""
    folder, form = _job(request, job), await request.form(max_fields=2000)
    look = read(folder / "look.json") if (folder / "look.json").exists() else None
    if look is None or busy(folder):
        raise InputError("This job cannot be run now.")
    others = [each for each in request.app.state.room.folder.iterdir() if busy(each)]
    if len(others) >= _MOST_AT_ONCE:
        raise InputError(f"At most {_MOST_AT_ONCE} jobs run at a time; wait until one is done.")
    roles = {}
    for place, column in enumerate(look["columns"]):
        role = str(form.get(f"role-{place}", column["role"]))
        if role not in ROLES:
            raise ParameterError(f"A role must be one of {', '.join(ROLES)}. Got {role[:40]!r}.")
        roles[column["name"]] = role
    method, missing = str(form.get("method", "anneal")), str(form.get("missing", "error"))
    known = await run_in_threadpool(method_names)
    if method not in known or missing not in MISSING_POLICIES:
        raise ParameterError(f"The method must be one of {', '.join(known)}.")
    wanted = {
        "roles": roles,
        "k": _whole(form.get("k", "5"), "k", 2, 10_000),
        "seconds": _whole(form.get("seconds", "10"), "seconds", 1, 600),
        "method": method,
        "missing": missing,
        "round": form.get("round") is not None,
        "escape": form.get("escape") is not None,
    }
    dataset = str(form.get("dataset", ""))
    if dataset:  # said in the ledger before anything is made of the table
        request.app.state.desk.session(dataset)
        await run_in_threadpool(request.app.state.desk.ledger.end_total, dataset, "release")
    _write(folder / "wanted.json", wanted)
    for name in ("result.json", "progress.jsonl", *FILES):
        (folder / name).unlink(missing_ok=True)
    _change(folder, state="running", error="")
    await run_in_threadpool(start, folder, "run")
    return RedirectResponse(f"/publish/{job}", 303)


def cancel(request: Request, job: str) -> Response:
    """Stop the work of a job; nothing of it is kept."""
    folder = _job(request, job)
    stop(folder)
    if read(folder / "job.json")["state"] == "running":
        for name in ("result.json", *FILES):
            (folder / name).unlink(missing_ok=True)
        _change(folder, state="ready", error="Cancelled; nothing was written.")
    return RedirectResponse(f"/publish/{job}", 303)


def forget(request: Request, job: str) -> Response:
    """Remove all files of a job."""
    request.app.state.room.forget(_job(request, job))
    return RedirectResponse("/publish", 303)


async def events(request: Request, job: str) -> Response:
    """The progress of a job as server-sent events, until it ends."""
    folder = _job(request, job)
    return StreamingResponse(_events(request, folder), media_type="text/event-stream")


def file(request: Request, job: str, name: str) -> Response:
    """One of a job's files."""
    folder = _job(request, job)
    if name not in FILES or not (folder / name).is_file() or read(folder / "job.json")["state"] != "done":
        raise UnknownError("There is no such file.")
    headers = {"content-security-policy": _REPORT_POLICY} if name.endswith(".html") else {}
    shown = name.endswith(".html") and "download" not in request.query_params
    return FileResponse(
        folder / name, media_type=FILES[name], headers=headers, filename=None if shown else name
    )


@functools.cache
def method_names() -> tuple[str, ...]:
    """The methods there are; loaded when the first table is published, so that the server starts fast."""
    from shoal.microaggregation import methods

    return tuple(sorted(methods()))


def start(folder: Path, what: str) -> None:
    """Begin a job's work in a process of its own."""
    words = [sys.executable, "-m", "shoal.server.work", what, str(folder)]
    quiet: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    process = subprocess.Popen(words, start_new_session=True, **quiet)  # noqa: S603 - words of our own
    _write(folder / "process.json", {"pid": process.pid})


def running(folder: Path) -> bool:
    """Whether a job's process is alive."""
    try:
        pid = int(read(folder / "process.json")["pid"])
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(pid, os.WNOHANG)[0] != pid  # a child of this worker: no doubt whose it is
        command = Path(f"/proc/{pid}/cmdline")
        return not command.parent.parent.is_dir() or folder.name.encode() in command.read_bytes()
    except (OSError, KeyError, ValueError):
        return False


def busy(folder: Path) -> bool:
    """Whether a job is at work; a process that has said its last word may still be about to end."""
    try:
        return read(folder / "job.json")["state"] in ("looking", "running") and running(folder)
    except UnknownError:
        return False


def stop(folder: Path) -> None:
    """End a job's process."""
    if running(folder):
        with contextlib.suppress(OSError):
            os.kill(int(read(folder / "process.json")["pid"]), 9)


def steps(folder: Path) -> list[str]:
    """What a job's process said so far."""
    try:
        lines = (folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()
        return [str(json.loads(line)) for line in lines]
    except (OSError, ValueError):
        return []


def read(path: Path) -> dict[str, Any]:
    """Facts from a file of a job."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnknownError("There is no such job; it may have been forgotten.") from None
    return found


async def _events(request: Request, folder: Path) -> AsyncIterator[str]:
    told = 0
    while not await request.is_disconnected():
        said = steps(folder)
        for each in said[told:]:
            yield f"data: {json.dumps(each)}\n\n"
        told = len(said)
        if not folder.is_dir() or read(folder / "job.json")["state"] != "running" or not running(folder):
            yield "event: end\ndata: {}\n\n"
            return
        await asyncio.sleep(0.3)


def _job(request: Request, job: str) -> Path:
    _allowed(request)
    folder: Path = request.app.state.room.job(job, request.state.visitor.id)
    return folder


def _allowed(request: Request) -> None:
    if not request.app.state.config.publish:
        raise UnknownError("This server has no page for publishing.")


def _change(folder: Path, **facts: Any) -> None:
    _write(folder / "job.json", {**read(folder / "job.json"), **facts})


def _write(path: Path, facts: dict[str, Any]) -> None:
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    draft.write_text(json.dumps(facts), encoding="utf-8")
    draft.replace(path)


def _whole(value: Any, name: str, low: int, high: int) -> int:
    text = str(value).strip()
    if not text.isascii() or not text.isdigit() or not low <= int(text[:9]) <= high:
        raise ParameterError(f"{name!r} must be a whole number from {low} to {high}. Got {text[:40]!r}.")
    return int(text)
