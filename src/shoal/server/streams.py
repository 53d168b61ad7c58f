"""Streams over HTTP: an analyst opens one for one charge, the owner adds its periods, the totals are told to who paid."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile

from shoal.dp.continual import NUMBERS, OpenedStream, PeriodTotal, is_paid, reopen
from shoal.dp.loading.sources import open_table
from shoal.dp.mechanisms.currency import Currency, CurrencyAmount
from shoal.dp.session import Session
from shoal.dp.unit import as_it_stands
from shoal.errors import InputError, ParameterError, QueryError
from shoal.io import FORMATS
from shoal.server import api, pages
from shoal.server.owner_datasets import allowed_path
from shoal.server.refusals import UnknownError
from shoal.server.service import Service
from shoal.typing import Json


class NewStream(BaseModel):
    """A COUNT or SUM to be told after each period, and what to spend on all periods together."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=100, examples=["weekly"])
    sql: str = Field(max_length=api.LONGEST, examples=["SELECT COUNT(*) FROM t WHERE age >= 40"])
    periods: int = Field(ge=1, le=10_000, strict=True, examples=[52])
    epsilon: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True, examples=[1.0])
    rho: float | None = Field(
        None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True,
        description="In place of epsilon, of a data set counted in rho (zCDP).",
    )  # fmt: skip
    mode: str | None = Field(None, max_length=20, description="The data set's first mode if left open.")

    @model_validator(mode="after")
    def _one_amount(self) -> NewStream:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either 'epsilon' or 'rho'")
        return self


@dataclass(frozen=True)
class Told:
    """A stream as those may see it who paid for it, and the owner."""

    id: str
    name: str
    question: str
    periods: int
    mode: str
    guarantee: str
    spent: CurrencyAmount
    steps: tuple[PeriodTotal, ...]

    @property
    def headings(self) -> list[str]:
        """Of its table: the period, labels of groups, the total with its interval, and the change."""
        labels = [name for name in (self.steps[0].rows[0] if self.steps else {}) if name not in NUMBERS]
        return ["period", *labels, *NUMBERS]

    @property
    def rows(self) -> list[Json]:
        """The totals so far."""
        return [{"period": step.period, **row} for step in self.steps for row in step.rows]

    def to_dict(self) -> Json:
        """The facts as plain values; the newest period last."""
        facts = {name: getattr(self, name) for name in ("id", "name", "question", "periods", "mode")}
        return facts | {"stamp": self.guarantee, **self.spent.to_dict(), "steps": self.rows}


def told_to(service: Service, dataset: str, analyst: str | None) -> list[Told]:
    """The streams of a data set that an analyst paid for; all that were paid for, for the owner (None)."""
    currency, found = service.currency(dataset), []
    for stream, opened in service.streams.all_opened().items():
        if opened.dataset != dataset or not is_paid(service.ledger, stream, opened):
            continue
        if analyst is None or service.ledger.holds(dataset, analyst, opened.key):
            found.append(_told(service, stream, opened, currency))
    return found


def open_one(service: Service, dataset: str, wanted: NewStream, analyst: str) -> Told:
    """Open a stream for one charge, or the one that was opened with the same words."""
    service.require(dataset, analyst)
    session = _session(service, dataset, wanted.mode)
    with service.refusing(analyst):
        made = session.stream(
            wanted.name,
            wanted.sql,
            wanted.epsilon,
            wanted.periods,
            rho=wanted.rho,
            state=service.streams,
            analyst=analyst,
        )
    return next(each for each in told_to(service, dataset, analyst) if each.id == made.id)


def add_period(service: Service, dataset: str, stream: str, table: Path, period: int | None, by: str) -> Told:
    """Take the rows of a period into a stream; the log says that the owner did."""
    opened = service.streams.opened(stream)
    if opened is None or opened.dataset != dataset or not is_paid(service.ledger, stream, opened):
        raise UnknownError("There is no such stream.")
    session = _session(service, dataset, opened.mode)
    reopen(session, service.streams, stream, by).add(open_table(table, session.schema), period)
    return _told(service, stream, opened, service.currency(dataset))


def streams(request: Request, dataset: str) -> list[Json]:
    """The streams that you paid for with all totals told so far; for owners, everybody's."""
    service, who = api.service_of(request), request.state.visitor
    if who.role != "owner":
        service.require(dataset, who.name)
    return [each.to_dict() for each in told_to(service, dataset, None if who.role == "owner" else who.name)]


def new_stream(request: Request, dataset: str, stream: NewStream) -> Json:
    """Open a stream: running totals after each period, for one charge now; the same words open it again for nothing."""
    return open_one(api.service_of(request), dataset, stream, request.state.visitor.name).to_dict()


async def stream_period(request: Request, dataset: str, stream: str) -> Json:
    """For owners: the rows of the next period, as the form field `table` (a file) or `path` (in `data_folders`)."""
    form = await request.form(max_files=1, max_fields=10)
    return (await run_in_threadpool(_take, request, dataset, stream, form)).to_dict()


def analyst_page(request: Request, dataset: str) -> Response:
    """The running totals of the streams that an analyst paid for, and a form to open one."""
    service, who = api.service_of(request), request.state.visitor.name
    service.require(dataset, who)
    return pages.render(
        request, "streams.html.j2", dataset=dataset, facts=service.public(dataset), owner=False,
        found=told_to(service, dataset, who), budget=service.budget(dataset, who),
    )  # fmt: skip


async def open_form(request: Request, dataset: str) -> Response:
    """Open a stream from the page."""
    form = await request.form(max_files=0, max_fields=10)
    service, who = api.service_of(request), request.state.visitor.name
    await run_in_threadpool(service.require, dataset, who)
    word = service.currency(dataset).word
    texts = {name: str(form.get(name, "")).strip() for name in ("name", "sql", "periods", "amount", "mode")}
    try:
        wanted = NewStream(
            name=texts["name"], sql=texts["sql"], periods=int(texts["periods"]), mode=texts["mode"] or None,
            **{word: float(texts["amount"])},
        )  # fmt: skip
    except ValueError:
        raise ParameterError(
            f"A stream needs a name, a query, a number of periods and a number as {word}."
        ) from None
    await run_in_threadpool(open_one, service, dataset, wanted, who)
    return RedirectResponse(f"/ask/{pages.quoted(dataset)}/streams", 303)


def owner_page(request: Request, dataset: str) -> Response:
    """All streams of a data set, and forms to add their next period."""
    service = api.service_of(request)
    return pages.render(
        request, "streams.html.j2", dataset=dataset, facts=service.public(dataset), owner=True,
        found=told_to(service, dataset, None), folders=request.app.state.config.data_folders,
    )  # fmt: skip


async def period_form(request: Request, dataset: str, stream: str) -> Response:
    """Add a period from the page."""
    form = await request.form(max_files=1, max_fields=10)
    await run_in_threadpool(_take, request, dataset, stream, form)
    return RedirectResponse(f"/owner/streams/{pages.quoted(dataset)}", 303)


def _take(request: Request, dataset: str, stream: str, form: FormData) -> Told:
    """The rows that a form brings, in a private file that is gone afterwards, or by a path that is allowed."""
    service, by = api.service_of(request), request.state.visitor.name
    given, path, number = (form.get(name) for name in ("table", "path", "period"))
    try:
        period = int(str(number)) if number else None
    except ValueError:
        raise ParameterError(f"'period' must be a whole number. Got {str(number)[:40]!r}.") from None
    if isinstance(given, UploadFile) and given.filename:
        ending = Path(given.filename.replace("\\", "/")).suffix.lower()
        if ending not in FORMATS:
            raise InputError(f"The file must end in one of {', '.join(FORMATS)}. Got {ending[:20]!r}.")
        with tempfile.TemporaryDirectory(prefix="shoal-period-") as folder:
            table = Path(folder) / f"table{ending}"
            with os.fdopen(os.open(table, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(given.file.read())
            return add_period(service, dataset, stream, table, period, by)
    if not str(path or "").strip():
        raise InputError("A file was expected, uploaded or by its path.")
    found = allowed_path(Path(str(path).strip()), request.app.state.config.data_folders)
    return add_period(service, dataset, stream, found, period, by)


def _told(service: Service, stream: str, opened: OpenedStream, currency: Currency) -> Told:
    steps = tuple(
        PeriodTotal(at, tuple(each.told)) for at, each in enumerate(service.streams.periods(stream), 1)
    )
    spent = CurrencyAmount(opened.millionths, currency)
    stamp = as_it_stands(opened.guarantee, ended=service.ledger.ended(opened.dataset))
    return Told(stream, opened.name, opened.question, opened.periods, opened.mode, stamp, spent, steps)


def _session(service: Service, dataset: str, mode: str | None) -> Session:
    found = service.session(dataset, mode)
    if not isinstance(found, Session) or found.mode not in ("dp", "group"):
        raise QueryError(f"Data set {dataset!r} is answered in mode {found.mode!r}, which has no streams.")
    return found
