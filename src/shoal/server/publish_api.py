"""Publishing over the API: the same jobs, files and checks as the page."""

from __future__ import annotations

from pathlib import Path

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from shoal.errors import ParameterError
from shoal.publish.request import ProtectionRequest
from shoal.server import publish
from shoal.server.job_files import ColumnWish, JobState, RiskMap, RunResult, TableLook
from shoal.server.jobs import Jobs, ends, steps
from shoal.server.models import JobFacts, JobGone, PlanFacts, PlannedColumn, StepFacts
from shoal.server.publish_form import page_options, wanted_of
from shoal.typing import Json

UPLOAD: Json = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["table"],
                    "properties": {
                        "table": {"type": "string", "format": "binary", "description": "The table."},
                        "codebook": {
                            "type": "string",
                            "format": "binary",
                            "description": "Its schema (.toml) or DDI codebook (.xml).",
                        },
                        "hierarchies": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Files of hierarchies, each named by its column: `zip.csv`.",
                        },
                    },
                }
            }
        },
    }
}
FILE: dict[int | str, Json] = {
    200: {
        "description": "The file.",
        "content": {kind.partition(";")[0]: {} for kind in publish.FILES.values()},
    }
}


class RunWish(BaseModel):
    """How to protect a table: columns, settings as those of `shoal protect`, and what it is also answered as."""

    model_config = ConfigDict(extra="forbid")
    columns: dict[str, ColumnWish] = Field(default_factory=dict, max_length=2000)
    settings: dict[str, str | int | float | bool | list[str]] = Field(
        default_factory=dict, max_length=200, examples=[{"k": 5, "method": "mdav"}]
    )
    escape: bool = Field(False, description="Escape cells that a spreadsheet takes for formulas.")
    dataset: str = Field(
        "", max_length=200, description="Id of the data set that this table is also answered as."
    )


class ConfirmWords(BaseModel):
    """The words of `confirm`, typed for what cannot be undone."""

    model_config = ConfigDict(extra="forbid")
    red: str = Field("", max_length=200)
    dataset: str = Field("", max_length=200)


def publish_jobs(request: Request) -> list[JobFacts]:
    """For owners: your jobs, newest first."""
    publish.allowed(request)
    jobs: Jobs = request.app.state.jobs
    return [_shown(jobs.folder / name) for name, _ in jobs.of(request.state.visitor.id)]


async def publish_upload(request: Request) -> JobFacts:
    """For owners: take a table in, and look at its columns; nothing is protected yet."""
    return _shown(await publish.begin(request))


def publish_job(request: Request, job: str) -> JobFacts:
    """For owners: a job as it stands: columns, progress, result, and what can be downloaded."""
    return _shown(publish.job_of(request, job))


async def publish_plan(request: Request, job: str, wish: RunWish) -> PlanFacts:
    """For owners: what a run would do, checked; nothing is begun."""
    folder = publish.job_of(request, job)
    wanted = await wanted_of(folder, _fields(folder, wish))
    columns = {
        each.name: PlannedColumn.model_validate(
            {"role": each.role, "kind": each.kind} | wanted.columns[each.name].said
        )
        for each in TableLook.read(folder).columns
    }
    asked = ProtectionRequest.from_dict(wanted.request)
    return PlanFacts(
        columns=columns,
        request=wanted.request,
        command=asked.to_command(f"table{JobState.read(folder).ending}", "protected.csv"),
    )


async def publish_run(request: Request, job: str, wish: RunWish) -> JobFacts:
    """For owners: protect the table; the job's `steps` tell how far it is."""
    folder = publish.job_of(request, job)
    publish.require_idle(folder)
    await publish.start_run(request, folder, await wanted_of(folder, _fields(folder, wish)), wish.dataset)
    return _shown(folder)


async def publish_compare(request: Request, job: str, wish: RunWish) -> JobFacts:
    """For owners: compare methods on the table; the job's `map` has them when it is done."""
    folder = publish.job_of(request, job)
    publish.require_idle(folder)
    await publish.start_comparison(folder, await wanted_of(folder, _fields(folder, wish)))
    return _shown(folder)


async def publish_confirm(request: Request, job: str, words: ConfirmWords) -> JobFacts:
    """For owners: type the words of `confirm`: to give out a red table, to end a data set's total."""
    folder = publish.job_of(request, job)
    await publish.take_words(request, folder, words.model_dump())
    return _shown(folder)


def publish_cancel(request: Request, job: str) -> JobFacts:
    """For owners: stop the work of a job; nothing of it is kept."""
    folder = publish.job_of(request, job)
    publish.stop_work(folder)
    return _shown(folder)


def publish_remove(request: Request, job: str) -> JobGone:
    """For owners: remove all files of a job now rather than after its hour."""
    request.app.state.jobs.forget(publish.job_of(request, job))
    return JobGone(job=job, state="removed")


def publish_file(request: Request, job: str, name: str) -> Response:
    """For owners: one of the files of a job, once what it asks for is confirmed."""
    return publish.file(request, job, name)


def _shown(folder: Path) -> JobFacts:
    facts, look = publish.facts_of(folder), TableLook.find(folder)
    return JobFacts(
        job=folder.name,
        state=facts.state,
        error=facts.error,
        ends=ends(folder),
        rows=look.rows if look else None,
        notes=look.notes if look else [],
        columns=look.columns if look else [],
        steps=[StepFacts(stage=each.stage, share=each.share) for each in steps(folder)],
        result=RunResult.find(folder),
        confirm=publish.open_questions(folder),
        files=publish.downloads(folder),
        map=RiskMap.find(folder),
    )


def _fields(folder: Path, wish: RunWish) -> dict[str, str]:
    """The fields of the page's form that ask for the same."""
    look = TableLook.find(folder)
    places = {each.name: place for place, each in enumerate(look.columns if look else [])}
    fields = {"escape": "yes"} if wish.escape else {}
    for name, column in wish.columns.items():
        if name not in places:
            raise ParameterError(f"The table has no column {name[:80]!r}.")
        typed = {"role": column.role, "kind": column.kind}
        low, high = column.bounds or (None, None)
        typed |= {} if low is None else {"low": repr(low), "high": repr(high)}
        fields |= {f"{word}-{places[name]}": text for word, text in typed.items() if text is not None}
    for name, value in wish.settings.items():
        if name not in page_options():
            raise ParameterError(f"'settings' may have {', '.join(page_options())}. Got {name[:80]!r}.")
        if value is not False:
            fields[name] = ",".join(value) if isinstance(value, list) else str(value)
    return fields
