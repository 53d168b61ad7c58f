"""The publish page: upload a table, look at its roles, compare, protect, take the result, and have it forgotten."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from shoal.errors import InputError, ParameterError
from shoal.io import FORMATS
from shoal.publish.request import ProtectionRequest, options
from shoal.schema import ROLES
from shoal.server import pages
from shoal.server.jobs import Jobs, busy, change, read, running, start, steps, stop, write
from shoal.server.service import UnknownError

FILES = {
    "protected.csv": "text/csv; charset=utf-8",
    "report.html": "text/html; charset=utf-8",
    "public-report.html": "text/html; charset=utf-8",
    "schema.toml": "text/plain; charset=utf-8",
    "run.json": "application/json",
    "map.html": "text/html; charset=utf-8",
}
_OF_A_RUN = ("result.json", "protected.csv", "report.html", "public-report.html", "schema.toml", "run.json")
_OF_A_MAP = ("map.json", "map.html")
MEANINGS = {
    "identifier": "names a person; left out of the protected table",
    "quasi": "others may know it; replaced by its group's centre",
    "sensitive": "what is to be kept secret; left as it is, and checked",
    "weight": "survey weight; counts in the centres, and is published as its group's mean",
    "stratum": "groups never cross its values",
    "household": "rows with the same value are one household; groups hold k of them",
    "leave": "left as it is, and not protected",
}
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
_MOST_AT_ONCE = 4


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
    jobs: Jobs = request.app.state.jobs
    if str(form.get("example", "")) == "survey":
        ending, job = ".csv", await run_in_threadpool(jobs.new, request.state.visitor.id)
        from shoal.datasets import DATASETS

        source = DATASETS["survey"].path
        assert source is not None  # bundled
        shutil.copyfile(source, job / "table.csv")
        shutil.copyfile(source.with_suffix(".toml"), job / "codebook.toml")
    else:
        if not isinstance(given, UploadFile) or not given.filename:
            raise InputError("A file was expected.")
        ending = Path(given.filename.replace("\\", "/")).suffix.lower()  # all that is used of the name
        if ending not in FORMATS:
            raise InputError(f"The file must end in one of {', '.join(FORMATS)}.")
        job = await run_in_threadpool(jobs.new, request.state.visitor.id)
        with (job / f"table{ending}").open("xb") as file:
            await run_in_threadpool(shutil.copyfileobj, given.file, file)
    os.chmod(job / f"table{ending}", 0o600)
    change(job, state="looking", ending=ending)
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
    wanted = _found(folder, "wanted.json")
    return pages.render(
        request, "job.html.j2", job=job, facts=facts, look=_found(folder, "look.json"),
        result=_found(folder, "result.json"), map=_found(folder, "map.json"), roles=ROLES,
        steps=steps(folder), answered=list(request.app.state.service.datasets),
        methods=method_names(), meanings=MEANINGS, wanted=wanted, chosen=wanted.get("roles", {}),
        asked=wanted.get("request", {}),
        fields=form_fields(wanted.get("request", {}), _found(folder, "look.json").get("missing", 0)),
    )  # fmt: skip


async def run(request: Request, job: str) -> Response:
    """Protect the table with the roles and settings of the form."""
    folder, form = await _ready(request, job)
    wanted = await _wanted(folder, form)
    dataset = str(form.get("dataset", ""))
    if dataset:
        request.app.state.service.session(dataset)
        wanted["dataset"] = dataset
    return await _begin(folder, "run", wanted, _OF_A_RUN)


async def compare(request: Request, job: str) -> Response:
    """Draw the risk-utility map of the table: methods by k, each within a few seconds."""
    folder, form = await _ready(request, job)
    return await _begin(folder, "compare", await _wanted(folder, form), _OF_A_MAP)


def cancel(request: Request, job: str) -> Response:
    """Stop the work of a job; nothing of it is kept."""
    folder = _job(request, job)
    stop(folder)
    facts = read(folder / "job.json")
    if facts["state"] == "running":
        for name in _OF_A_MAP if facts.get("work") == "compare" else _OF_A_RUN:
            (folder / name).unlink(missing_ok=True)
        change(folder, state=_state(folder), error="Cancelled; nothing was written.")
    return RedirectResponse(f"/publish/{job}", 303)


def forget(request: Request, job: str) -> Response:
    """Remove all files of a job."""
    request.app.state.jobs.forget(_job(request, job))
    return RedirectResponse("/publish", 303)


async def events(request: Request, job: str) -> Response:
    """The progress of a job as server-sent events, until it ends."""
    folder = _job(request, job)
    return StreamingResponse(_events(request, folder), media_type="text/event-stream")


def file(request: Request, job: str, name: str) -> Response:
    """One of a job's files."""
    folder = _job(request, job)
    whole = "map.json" if name in _OF_A_MAP else "result.json"  # written last
    if name not in FILES or not (folder / name).is_file() or not (folder / whole).is_file():
        raise UnknownError("There is no such file.")
    if name in _OF_A_RUN:
        _end_total(request, folder)
    headers = {"content-security-policy": _REPORT_POLICY} if name.endswith(".html") else {}
    shown = name.endswith(".html") and "download" not in request.query_params
    return FileResponse(
        folder / name, media_type=FILES[name], headers=headers, filename=None if shown else name
    )


def _end_total(request: Request, folder: Path) -> None:
    """Note in the ledger that a protected copy is given out, before the first of its files is; a refused run ends nothing."""
    dataset = _found(folder, "wanted.json").get("dataset")
    if dataset and not (folder / "given.json").exists():
        request.app.state.service.ledger.end_total(dataset, "release")
        write(folder / "given.json", {"dataset": dataset})


@functools.cache
def method_names() -> tuple[str, ...]:
    """The methods there are; loaded when the first table is published, so that the server starts fast."""
    from shoal.microaggregation import methods
    from shoal.publish.recoding import CHANGING

    return tuple(sorted([*methods(), *CHANGING]))


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


async def _ready(request: Request, job: str) -> tuple[Path, FormData]:
    """The folder of a job that can be worked on now, and the form that says how."""
    folder, form = _job(request, job), await request.form(max_fields=2000)
    if not (folder / "look.json").exists() or busy(folder):
        raise InputError("This job cannot be run now.")
    others = [each for each in request.app.state.jobs.folder.iterdir() if busy(each)]
    if len(others) >= _MOST_AT_ONCE:
        raise InputError(f"At most {_MOST_AT_ONCE} jobs run at a time; wait until one is done.")
    return folder, form


async def _wanted(folder: Path, form: FormData) -> dict[str, Any]:
    """What the form asks for, checked."""
    roles = {}
    for place, column in enumerate(read(folder / "look.json")["columns"]):
        role = str(form.get(f"role-{place}", column["role"]))
        if role not in ROLES:
            raise ParameterError(f"A role must be one of {', '.join(ROLES)}. Got {role[:40]!r}.")
        roles[column["name"]] = role
    texts = {name: str(form[name]) for name, option in options().items() if option.page and name in form}
    request = await run_in_threadpool(ProtectionRequest.from_texts, texts)
    if request.method_name not in await run_in_threadpool(method_names):
        raise ParameterError(f"The method must be one of {', '.join(method_names())}.")
    # A method that was chosen is kept as chosen, whatever the schema says.
    chosen = {"method": request.method_name} if texts.get("method", "").strip() else {}
    return {"roles": roles, "request": request.to_dict() | chosen, "escape": form.get("escape") is not None}


def form_fields(asked: dict[str, Any], missing: int) -> list[dict[str, Any]]:
    """The fields of a request that the page asks for, with what was asked for before."""
    blank = ProtectionRequest()
    start = {"on_missing": "impute"} if missing else {}
    made = []
    for name, option in options().items():
        if option.page and name != "method":
            value = asked.get(name, start.get(name, getattr(blank, name)))
            made.append(
                {
                    "name": name, "kind": option.kind, "help": option.help, "choices": option.choices,
                    "value": "" if value is None else value, "open": getattr(blank, name) is None,
                }
            )  # fmt: skip
    return made


async def _begin(folder: Path, what: str, wanted: dict[str, Any], old: tuple[str, ...]) -> Response:
    write(folder / "wanted.json", wanted)
    for name in ("progress.jsonl", *old):
        (folder / name).unlink(missing_ok=True)
    change(folder, state="running", work=what, error="")
    await run_in_threadpool(start, folder, what)
    return RedirectResponse(f"/publish/{folder.name}", 303)


def _state(folder: Path) -> str:
    return "done" if (folder / "result.json").exists() else "ready"


def _found(folder: Path, name: str) -> dict[str, Any]:
    return read(folder / name) if (folder / name).exists() else {}


def _job(request: Request, job: str) -> Path:
    _allowed(request)
    folder: Path = request.app.state.jobs.job(job, request.state.visitor.id)
    return folder


def _allowed(request: Request) -> None:
    if not request.app.state.config.publish:
        raise UnknownError("This server has no page for publishing.")
