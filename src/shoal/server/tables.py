"""Private tables on the site, and as jobs over HTTP: bought in the background, taken along as rows, asked for nothing."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fastapi import Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from shoal.dp.answering.answer import Answer
from shoal.dp.meaning.check import has_codes
from shoal.errors import ParameterError, QueryError, ShoalError, StoppedError
from shoal.release import KeptRelease
from shoal.release.marginals import MEASURING, released_columns
from shoal.schema import Column
from shoal.server import api, charts, releases, shown
from shoal.server.job_files import GONE, JobState, change
from shoal.server.jobs import Jobs, is_alive, progress, steps, tell
from shoal.server.limits import TooOftenError
from shoal.server.models import ReleaseJobFacts
from shoal.server.pages import quoted, render
from shoal.server.problems import where
from shoal.server.refusals import UnknownError, sentence_of
from shoal.server.releases import TableRequest
from shoal.server.service import Service
from shoal.typing import Json

MOST_WAITING = 8  # tables that a worker makes or has still to make
MARGINALS = {
    "chosen": "chosen privately",
    "1": "single columns",
    "2": "all pairs of columns",
    "3": "all triples of columns",
}
log = logging.getLogger("shoal.server")
_ENTRY = re.compile("[0-9a-f]{16}")
CANCELLED = "Cancelled before the charge: nothing was spent."
_FITTING = threading.Lock()  # fitting the model of a table takes a core for seconds
_ROWS = Query(None, ge=1, le=1_000_000, description="The noisy number of records if left open.")
CSV: dict[int | str, Json] = {
    200: {"description": "The rows.", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


class FreeQuestion(BaseModel):
    """A query to a table that was bought: it costs nothing."""

    model_config = ConfigDict(extra="forbid")
    sql: str = Field(max_length=api.LONGEST, examples=["SELECT COUNT(*) FROM t WHERE age >= 40"])


@dataclass(frozen=True)
class TypedTable:
    """What stands in the form that buys a table."""

    amount: str = "1"
    columns: tuple[str, ...] = ()
    marginals: str = "chosen"
    bins: str = ""


class PaidError(ShoalError):
    """A table cannot be cancelled any more: it is charged, and will be kept."""

    status = 409


class TableMaker:
    """Makes tables one after another, in a thread of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tables")

    def start(self, work: Callable[[], None]) -> None:
        """Do some work after all that waits."""
        self._thread.submit(work)

    def close(self) -> None:
        """Finish what is being made: it is paid for. What waits is not begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)


def begin(request: Request, dataset: str, table: TableRequest) -> Path:
    """A new job that buys a table; what public facts show to be wrong is refused at once."""
    service, who = api.service_of(request), request.state.visitor
    releases.check(service, dataset, table, who.name)
    jobs: Jobs = request.app.state.jobs
    waiting = [facts for _, facts in jobs.all() if _is_being_made(facts)]
    if any(facts.account == who.id for facts in waiting):
        raise TooOftenError("A table of yours is being made; wait until it is done.")
    if len(waiting) >= MOST_WAITING:
        raise TooOftenError("Too many tables are being made; wait until one is done.")
    job = jobs.new(who.id)
    change(job, state="running", work="release", dataset=dataset, pid=os.getpid())
    tell(job, "waiting for its turn")
    request.app.state.tables.start(lambda: _make(service, dataset, table, who.name, job))
    return job


def _make(service: Service, dataset: str, wanted: TableRequest, who: str, job: Path) -> None:
    """Buy a table and say in the job how that went; what was bought is in the ledger."""

    def at_stage(stage: str) -> None:
        if stage == MEASURING and not _decided(job, "charged"):
            raise StoppedError(CANCELLED)
        tell(job, stage)

    if not job.is_dir() or JobState.read(job).state != "running":  # cancelled, or forgotten, while it waited
        return
    try:
        made = releases.release(service, dataset, wanted, who, at_stage)
        said: dict[str, str | None] = {"state": "done", "entry": made.entry, "error": ""}
    except ShoalError as problem:
        said = {"state": "refused", "error": sentence_of(problem)}
    except Exception as problem:  # its words could quote a cell: they stay out of the job and of the log
        log.error(json.dumps({"event": "table not made", "error": type(problem).__name__} | where(problem)))
        said = {"state": "refused", "error": f"The work failed inside ({type(problem).__name__})."}
    if job.is_dir():
        change(job, **said)


def _decided(job: Path, word: str) -> bool:
    """Whether a job goes this way, charged or cancelled: whoever says so first, in whichever worker, is right."""
    try:
        with (job / "decided").open("x", encoding="utf-8") as file:
            file.write(word)
    except FileExistsError:
        return (job / "decided").read_text(encoding="utf-8") == word
    return True


def cancel(job: Path) -> None:
    """Give up a job that is not charged yet; what is paid for is finished."""
    if JobState.read(job).state != "running":
        return
    if not _decided(job, "cancelled"):
        raise PaidError("The table is charged already: it will be made and kept for you.")
    change(job, state="refused", error=CANCELLED)


def _is_being_made(job: JobState) -> bool:
    return job.work == "release" and job.state == "running" and is_alive(job)


def job_facts(job: Path) -> ReleaseJobFacts:
    """How far a job is; the entry of its table where that is bought."""
    facts = JobState.read(job)
    state, error = facts.state, facts.error
    if state == "running" and not is_alive(facts):
        state, error = "refused", "The server was started anew before the table was made."
    told = [str(each) for each in steps(job)]
    return ReleaseJobFacts(job=job.name, state=state, error=error, entry=facts.entry, steps=told)


def start_release(request: Request, dataset: str, table: TableRequest) -> ReleaseJobFacts:
    """Begin to buy a whole table as a job; it is charged like an answer, before the data is touched."""
    return job_facts(begin(request, dataset, table))


def release_job(request: Request, dataset: str, job: str) -> ReleaseJobFacts:
    """How far a job of yours is that buys a table; its `entry` names the table when it is done."""
    return job_facts(_job(request, dataset, job))


def release_cancel(request: Request, dataset: str, job: str) -> ReleaseJobFacts:
    """Give up a job of yours that is not charged yet: then nothing is spent. One that is charged is finished."""
    folder = _job(request, dataset, job)
    cancel(folder)
    return job_facts(folder)


def release_rows(request: Request, dataset: str, entry: str, rows: int | None = _ROWS) -> Response:
    """The rows of a table that you bought, as CSV; the same rows each time."""
    return Response(_csv(_held(request, dataset, entry), rows), media_type="text/csv; charset=utf-8")


def ask_table(request: Request, dataset: str, entry: str, question: FreeQuestion) -> JSONResponse:
    """An answer from a table that you bought: free, with an interval where its error is known."""
    return JSONResponse(_asked(_held(request, dataset, entry), question.sql).to_dict())


def tables_page(request: Request, dataset: str) -> Response:
    """The tables that an analyst bought, those being made, and a form to buy one."""
    return _tables_page(request, dataset, TypedTable())


async def buy_form(request: Request, dataset: str) -> Response:
    """Buy a table from the page; what is wrong comes back on the same page."""
    form = await request.form(max_files=0, max_fields=2_000)
    typed = _typed(form)
    try:
        await run_in_threadpool(begin, request, dataset, _table_of(typed))
    except UnknownError:
        raise
    except ShoalError as problem:
        said = sentence_of(problem)
        return await run_in_threadpool(_tables_page, request, dataset, typed, said, problem.status)
    return RedirectResponse(f"/ask/{quoted(dataset)}/tables", 303)


def cancel_form(request: Request, dataset: str, job: str) -> Response:
    """Give up a job from the page."""
    try:
        cancel(_job(request, dataset, job))
    except PaidError as problem:
        return _tables_page(request, dataset, TypedTable(), str(problem), problem.status)
    return RedirectResponse(f"/ask/{quoted(dataset)}/tables", 303)


async def events(request: Request, dataset: str, job: str) -> Response:
    """The progress of a job as server-sent events, until it ends."""
    folder = await run_in_threadpool(_job, request, dataset, job)
    return progress(request, folder, lambda: job_facts(folder).state == "running")


def table_page(request: Request, dataset: str, name: str, rows: int | None = _ROWS) -> Response:
    """One table that an analyst bought, or its rows as a file: `3f1a09c2d4e5b687.csv`."""
    if not name.endswith(".csv"):
        return _table_page(request, dataset, _held(request, dataset, name))
    stem = name.removesuffix(".csv")
    headers = {"content-disposition": f'attachment; filename="table-{stem}.csv"'}
    made = _csv(_held(request, dataset, stem), rows)
    return Response(made, media_type="text/csv; charset=utf-8", headers=headers)


async def ask_form(request: Request, dataset: str, name: str) -> Response:
    """Ask a table that was bought; it costs nothing."""
    form = await request.form(max_files=0, max_fields=10)
    sql, answer, error, status = str(form.get("sql", ""))[: api.LONGEST], None, "", 200
    held = await run_in_threadpool(_held, request, dataset, name)
    try:
        answer = await run_in_threadpool(_asked, held, sql)
    except QueryError as problem:
        error, status = str(problem), problem.status
    return await run_in_threadpool(_table_page, request, dataset, held, sql, answer, error, status)


def _tables_page(
    request: Request, dataset: str, typed: TypedTable, error: str = "", status: int = 200
) -> Response:
    service, who = api.service_of(request), request.state.visitor
    schema, jobs = service.datasets[dataset].schema, request.app.state.jobs
    made = [
        job_facts(jobs.folder / name)
        for name, facts in jobs.of(who.id)
        if facts.work == "release" and facts.dataset == dataset
    ]
    offered = [each for each in schema.columns.values() if can_be_released(each)]
    return render(
        request, "tables.html.j2", code=status, dataset=dataset, facts=service.public(dataset), error=error, typed=typed,
        held=releases.held(service, dataset, who.name), budget=service.budget(dataset, who.name), marginals=MARGINALS,
        columns=offered, chosen=typed.columns or released_columns(schema), last=made[0] if made else None,
        left_out=[each.name for each in schema.columns.values() if each not in offered],
    )  # fmt: skip


def can_be_released(column: Column) -> bool:
    """Whether a column has what a table is made of: levels, or ends to put bins between."""
    if column.effective_role == "identifier":
        return False
    return has_codes(column) or (
        column.kind in ("number", "date") and (column.levels is not None or column.bounds is not None)
    )


def _table_page(
    request: Request,
    dataset: str,
    held: KeptRelease,
    sql: str = "",
    answer: Answer | None = None,
    error: str = "",
    status: int = 200,
) -> Response:
    parts = [] if answer is None else shown.by_name(answer)
    return render(
        request, "table.html.j2", code=status, dataset=dataset, held=held, sql=sql, answer=answer, error=error, past=None,
        parts=[(name, each, charts.bars(name, each)) for name, each in parts],
        table=None if answer is None else shown.table_of(answer),
        grouped=held.grouped,
    )  # fmt: skip


def _job(request: Request, dataset: str, job: str) -> Path:
    """The folder of a job of who asks, about this data set."""
    folder: Path = request.app.state.jobs.job(job, request.state.visitor.id)
    if JobState.read(folder).dataset != dataset:
        raise UnknownError(GONE)
    return folder


def _held(request: Request, dataset: str, entry: str) -> KeptRelease:
    """A table that this analyst was charged for."""
    found = releases.held(api.service_of(request), dataset, request.state.visitor.name)
    named = [each for each in found if _ENTRY.fullmatch(entry) and each.entry == entry]
    if not named:
        raise UnknownError("There is no such table of yours.")
    return named[0]


def _csv(held: KeptRelease, rows: int | None) -> str:
    with _FITTING:
        return held.rows(rows).write_csv()


def _asked(held: KeptRelease, sql: str) -> Answer:
    with _FITTING:
        return held.ask(sql)


def _typed(form: FormData) -> TypedTable:
    texts = {name: str(form.get(name, "")).strip()[:200] for name in ("amount", "marginals", "bins")}
    return TypedTable(columns=tuple(str(each) for each in form.getlist("column")), **texts)


def _table_of(typed: TypedTable) -> TableRequest:
    if not typed.columns:
        raise ParameterError("A table needs at least one column.")
    if typed.marginals not in MARGINALS:
        raise ParameterError(
            f"What is measured must be one of {', '.join(MARGINALS)}. Got {typed.marginals!r}."
        )
    try:
        amount = float(typed.amount)
    except ValueError:
        raise ParameterError(f"'epsilon' must be a number. Got {typed.amount[:40]!r}.") from None
    bins: int | str | None = int(typed.bins) if typed.bins.isdecimal() else typed.bins or None
    marginals = typed.marginals if typed.marginals == "chosen" else int(typed.marginals)
    wanted = {"epsilon": amount, "columns": list(typed.columns), "bins": bins, "marginals": marginals}
    try:
        return TableRequest.model_validate(wanted)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise ParameterError(f"{first['loc'][0]!r} is not as expected: {first['msg']}.") from None
