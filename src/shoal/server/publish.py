"""The publish page: upload a table, look at its roles, compare, protect, take the result, and have it forgotten."""

from __future__ import annotations

import asyncio
import functools
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import FileResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from shoal.errors import InputError, ParameterError
from shoal.io import FORMATS
from shoal.schema import KINDS, ROLES
from shoal.server import charts, pages
from shoal.server.auth import MOST_FILES, ForbiddenError
from shoal.server.job_files import (
    ColumnWish,
    ConfirmedWords,
    JobState,
    RiskMap,
    RunResult,
    TableLook,
    WantedRun,
    change,
)
from shoal.server.jobs import Jobs, begin_work, busy, ends, one_at_a_time, progress, running, steps, stop
from shoal.server.publish_form import form_fields, method_names, texts_of, wanted_of
from shoal.server.refusals import UnknownError
from shoal.server.worker import HIERARCHIES, MOST_COLUMNS

FILES = {
    "protected.csv": "text/csv; charset=utf-8",
    "report.html": "text/html; charset=utf-8",
    "public-report.html": "text/html; charset=utf-8",
    "schema.toml": "text/plain; charset=utf-8",
    "run.json": "application/json",
    "map.html": "text/html; charset=utf-8",
}
_OF_A_RUN = (RunResult.FILE, "protected.csv", "report.html", "public-report.html", "schema.toml", "run.json")
_OF_A_MAP = (RiskMap.FILE, "map.html")
MEANINGS = {
    "identifier": "names a person; left out of the protected table",
    "quasi": "others may know it; replaced by its group's centre",
    "sensitive": "what is to be kept secret; left as it is, and checked",
    "weight": "survey weight; counts in the centres, and is published as its group's mean",
    "stratum": "groups never cross its values",
    "household": "rows with the same value are one household; groups hold k of them",
    "leave": "left as it is, and not protected",
}
CODEBOOKS = (".toml", ".xml")
_HIERARCHY = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,99}\.csv", re.IGNORECASE)
SAID = {
    "new": "being read", "looking": "being read", "ready": "columns to check", "running": "at work", "done": "done",
    "refused": "refused", "failed": "stopped",
}  # fmt: skip
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


def upload_page(request: Request) -> Response:
    """Choose a table, or go on with a job of one's own."""
    allowed(request)
    jobs: Jobs = request.app.state.jobs
    return pages.render(
        request, "publish.html.j2", megabytes=request.app.state.config.upload_megabytes, formats=FORMATS,
        jobs=[(name, facts, ends(jobs.folder / name)) for name, facts in jobs.of(request.state.visitor.id)],
        said=SAID,
    )  # fmt: skip


async def upload(request: Request) -> Response:
    """Take a table, and look at it in a process of its own."""
    job = await begin(request)
    return RedirectResponse(f"/publish/{job.name}", 303)


async def begin(request: Request) -> Path:
    """A new job for the table that a form brings, looked at; a codebook and hierarchies may come along."""
    allowed(request)
    form = await request.form(max_files=MOST_FILES, max_fields=20)
    given, codebook = form.get("table"), form.get("codebook")
    jobs: Jobs = request.app.state.jobs
    if str(form.get("example", "")) == "survey":
        ending, job = ".csv", await run_in_threadpool(jobs.new, request.state.visitor.id)
        from shoal.datasets import DATASETS

        source = DATASETS["survey"].path
        assert source is not None  # bundled
        shutil.copyfile(source, job / "table.csv")
        shutil.copyfile(source.with_suffix(".toml"), job / "codebook.toml")
    else:
        ending = _ending_of(given, FORMATS, "A file was expected.")
        brings = isinstance(codebook, UploadFile) and bool(codebook.filename)
        of_codebook = _ending_of(codebook, CODEBOOKS, "") if brings else ""
        hierarchies = _named([each for each in form.getlist("hierarchies") if isinstance(each, UploadFile)])
        job = await run_in_threadpool(jobs.new, request.state.visitor.id)
        await _keep(given, job / f"table{ending}")
        for name, each in hierarchies.items():
            (job / HIERARCHIES).mkdir(mode=0o700, exist_ok=True)
            await _keep(each, job / HIERARCHIES / name)
        if brings:
            await _keep(codebook, job / f"codebook{of_codebook}")
    os.chmod(job / f"table{ending}", 0o600)
    try:
        looking = functools.partial(change, job, state="looking", ending=ending)
        await run_in_threadpool(begin_work, job, "look", looking)
    except InputError:
        await run_in_threadpool(jobs.forget, job)
        raise
    for _ in range(1200):
        if JobState.read(job).state != "looking" or not running(job):
            break
        await asyncio.sleep(0.1)
    return job


def _ending_of(given: Any, allowed: Iterable[str], nothing: str) -> str:
    """The ending of an uploaded file's name, which is all that is used of it."""
    if not isinstance(given, UploadFile) or not given.filename:
        raise InputError(nothing)
    ending = Path(given.filename.replace("\\", "/")).suffix.lower()
    if ending not in allowed:
        raise InputError(f"The file must end in one of {', '.join(allowed)}.")
    return ending


def _named(given: list[UploadFile]) -> dict[str, UploadFile]:
    """Files of hierarchies by their names, which say the column; an empty field brings none."""
    found = {Path((each.filename or "").replace("\\", "/")).name: each for each in given if each.filename}
    for name in found:
        if not _HIERARCHY.fullmatch(name) or len(os.fsencode(name)) > 200:
            raise InputError(
                f"A hierarchy must be a CSV file named by its column, such as region.csv. Got {name[:80]!r}."
            )
    return found


async def _keep(given: Any, path: Path) -> None:
    with path.open("xb") as file:
        await run_in_threadpool(shutil.copyfileobj, given.file, file)


def job_page(request: Request, job: str, take: str = "") -> Response:
    """A job as it stands: columns to check, work going on, or the result. `take` is a point of the map."""
    folder = job_of(request, job)
    facts, wanted, found = facts_of(folder), WantedRun.find(folder) or WantedRun(), RiskMap.find(folder)
    points = found.cells if found else []
    point = next((each for each in points if f"{each.method}:{each.k}" == take), None)
    asked = wanted.request | ({"method": point.method, "k": point.k} if point else {})
    look = TableLook.find(folder)
    return pages.render(
        request, "job.html.j2", job=job, facts=facts, look=look, result=RunResult.find(folder), map=found, roles=ROLES,
        kinds=KINDS, steps=steps(folder), answered=list(request.app.state.service.datasets), taken=point,
        picture=charts.risk_map(job, points), methods=method_names(), meanings=MEANINGS, wanted=wanted,
        chosen=defaultdict(ColumnWish, wanted.columns), asked=asked, ends=ends(folder), open=open_questions(folder),
        fields=form_fields(asked, look.missing if look else 0),
    )  # fmt: skip


def facts_of(folder: Path) -> JobState:
    """The state of a job; a process that was ended has not said so itself."""
    alive = running(folder)  # asked first: what ended by now has said so in the facts
    facts = JobState.read(folder)
    if facts.state in ("looking", "running") and not alive:
        error = "The work stopped: the table may be too large for this server."
        return facts.model_copy(update={"state": "failed", "error": error})
    return facts


async def run(request: Request, job: str) -> Response:
    """Protect the table with the columns and settings of the form."""
    folder, form = job_of(request, job), await request.form(max_files=20, max_fields=4 * MOST_COLUMNS + 200)
    require_idle(folder)
    await start_run(
        request, folder, await wanted_of(folder, texts_of(form)), texts_of(form).get("dataset", "")
    )
    return RedirectResponse(f"/publish/{job}", 303)


async def start_run(request: Request, folder: Path, wanted: WantedRun, dataset: str) -> None:
    """Begin to protect a job's table; `dataset` is the id of the data set that it is also answered as, if any."""
    if dataset:
        request.app.state.service.session(dataset)
        wanted = wanted.model_copy(update={"dataset": dataset})
    await _begin(folder, "run", wanted, (*_OF_A_RUN, ConfirmedWords.FILE))


async def confirm(request: Request, job: str) -> Response:
    """Take the typed word for what cannot be undone: giving out a red table, ending a data set's total."""
    folder, form = job_of(request, job), await request.form(max_files=0, max_fields=10)
    await take_words(request, folder, texts_of(form))
    return RedirectResponse(f"/publish/{job}", 303)


async def take_words(request: Request, folder: Path, typed: Mapping[str, str]) -> None:
    """Note the words that were typed for what cannot be undone, and end the total of a data set."""
    if not (folder / RunResult.FILE).is_file():
        raise InputError("There is no result to give out.")
    given = ConfirmedWords.find(folder) or ConfirmedWords()
    for name, word in open_questions(folder).items():
        if typed.get(name, "").strip() != word:
            raise ParameterError(f"Type {word!r} to confirm. Got {typed.get(name, '')[:40]!r}.")
        given = given.model_copy(update={name: word})
    if given.dataset and not given.ended:
        await run_in_threadpool(request.app.state.service.ledger.end_total, given.dataset, "release")
        given = given.model_copy(update={"ended": True})
    given.write(folder)


def open_questions(folder: Path) -> dict[str, str]:
    """What must still be typed before a finished table is given out, each with its word."""
    result, given = RunResult.find(folder), ConfirmedWords.find(folder) or ConfirmedWords()
    if result is None:
        return {}
    wanted = WantedRun.find(folder) or WantedRun()
    words = {"red": "red" if result.status == "red" else "", "dataset": wanted.dataset}
    return {name: word for name, word in words.items() if word and not getattr(given, name)}


async def compare(request: Request, job: str) -> Response:
    """Draw the risk-utility map of the table: methods by k, each within a few seconds."""
    folder, form = job_of(request, job), await request.form(max_files=20, max_fields=4 * MOST_COLUMNS + 200)
    require_idle(folder)
    await start_comparison(folder, await wanted_of(folder, texts_of(form)))
    return RedirectResponse(f"/publish/{job}", 303)


async def start_comparison(folder: Path, wanted: WantedRun) -> None:
    """Begin to draw the map of a job's table."""
    await _begin(folder, "compare", wanted, _OF_A_MAP)


def cancel(request: Request, job: str) -> Response:
    """Stop the work of a job; nothing of it is kept."""
    stop_work(job_of(request, job))
    return RedirectResponse(f"/publish/{job}", 303)


def stop_work(folder: Path) -> None:
    """End the work of a job, and remove what it wrote."""
    with one_at_a_time(folder):
        stop(folder)
        facts = JobState.read(folder)
        if facts.state == "running":
            for name in _OF_A_MAP if facts.work == "compare" else _OF_A_RUN:
                (folder / name).unlink(missing_ok=True)
            change(folder, state=_state(folder), error="Cancelled; nothing was written.")


def forget(request: Request, job: str) -> Response:
    """Remove all files of a job."""
    request.app.state.jobs.forget(job_of(request, job))
    return RedirectResponse("/publish", 303)


async def events(request: Request, job: str) -> Response:
    """The progress of a job as server-sent events, until it ends."""
    folder = job_of(request, job)
    return progress(request, folder, lambda: busy(folder))


def downloads(folder: Path) -> list[str]:
    """The files of a job that are given out now."""
    closed = open_questions(folder)
    return [name for name in FILES if _is_whole(folder, name) and not (closed and name in _OF_A_RUN)]


def _is_whole(folder: Path, name: str) -> bool:
    whole = RiskMap.FILE if name in _OF_A_MAP else RunResult.FILE  # written last
    return (folder / name).is_file() and (folder / whole).is_file()


def file(request: Request, job: str, name: str) -> Response:
    """One of a job's files."""
    folder = job_of(request, job)
    if name not in FILES or not _is_whole(folder, name):
        raise UnknownError("There is no such file.")
    shown = name.endswith(".html") and "download" not in request.query_params
    if name in _OF_A_RUN and not (name == "report.html" and shown) and open_questions(folder):
        raise ForbiddenError("Confirm on the job's page first: giving this out cannot be undone.")
    headers = {"content-security-policy": _REPORT_POLICY} if name.endswith(".html") else {}
    return FileResponse(
        folder / name, media_type=FILES[name], headers=headers, filename=None if shown else name
    )


def require_idle(folder: Path) -> None:
    """Raise a sentence unless a job can be worked on now."""
    if not (folder / TableLook.FILE).exists() or busy(folder):
        raise InputError("This job cannot be run now.")


async def _begin(folder: Path, what: str, wanted: WantedRun, old: tuple[str, ...]) -> None:
    def ready() -> None:
        wanted.write(folder)
        for name in ("progress.jsonl", *old):
            (folder / name).unlink(missing_ok=True)
        change(folder, state="running", work=what, error="")

    await run_in_threadpool(begin_work, folder, what, ready)


def _state(folder: Path) -> str:
    return "done" if (folder / RunResult.FILE).exists() else "ready"


def job_of(request: Request, job: str) -> Path:
    """The folder of a job of who asks."""
    allowed(request)
    folder: Path = request.app.state.jobs.job(job, request.state.visitor.id)
    return folder


def allowed(request: Request) -> None:
    """Raise where this server does not publish."""
    if not request.app.state.config.publish:
        raise UnknownError("This server has no page for publishing.")
