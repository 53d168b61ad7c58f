"""The views of `/api/v1`: JSON in, JSON out."""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict

from fastapi import Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool

from shoal import __version__
from shoal.dp.answering.answer import Answer
from shoal.dp.budget import epsilon as epsilon_of
from shoal.dp.heuristic import Reproduction
from shoal.dp.ledger.log import LOST, Filters, read_log
from shoal.dp.past import Past
from shoal.errors import LedgerError
from shoal.server import releases as made_releases
from shoal.server.accuracy import Forecast
from shoal.server.budgets import CurrencyWords
from shoal.server.service import Service
from shoal.typing import Json

LONGEST = 20_000
_LAST = Query(100, ge=1, le=1000, description="How many of the newest entries to give.")
_BEFORE = Query(None, pattern="^[0-9a-f]{8,64}$", description="Only what is older than this entry.")
_TEXT = Query("", max_length=200, description="Only questions that hold these words.")


class Problem(BaseModel):
    """Why there is no answer, as RFC 9457 has it; `error` repeats the sentence, `kind` names the error."""

    type: str
    title: str
    status: int
    detail: str
    error: str
    kind: str


PROBLEMS: dict[int | str, Json] = {
    status: {
        "description": "Refused; the sentence says why.",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
    for status in (400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503)
}


class Question(BaseModel):
    """A query, what to spend on it, and in which mode."""

    model_config = ConfigDict(extra="forbid")
    sql: str = Field(max_length=LONGEST, examples=["SELECT COUNT(*) FROM t WHERE age >= 40"])
    epsilon: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True, examples=[0.1])
    rho: float | None = Field(
        None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True,
        description="In place of epsilon, of a data set counted in rho (zCDP).",
    )  # fmt: skip
    error: float | None = Field(
        None, gt=0, le=1e15, allow_inf_nan=False, strict=True,
        description="In place of epsilon: every figure lies within so much with 95 %. For counts and sums.",
    )  # fmt: skip
    mode: str | None = Field(None, max_length=20, description="The data set's first mode if left open.")

    @model_validator(mode="after")
    def _one_amount(self) -> Question:
        if sum(each is not None for each in (self.epsilon, self.rho, self.error)) != 1:
            raise ValueError("give one of 'epsilon', 'rho' and 'error'")
        return self


def service_of(request: Request) -> Service:
    """The service of the application that serves this request."""
    service: Service = request.app.state.service
    return service


def health(request: Request) -> Json:
    """Whether the server runs and reaches its ledger; public, and free of anything about the data."""
    service_of(request).ledger.head()
    return {"status": "ok", "version": __version__}


async def live() -> Json:
    """Whether the process answers at all; a server that is not live is started again."""
    return {"status": "ok"}


def ready(request: Request) -> Json:
    """Whether questions can be answered: the ledger is reached, its chain holds, data sets are loaded."""
    service = service_of(request)
    service.ledger.ready()
    service.ledger.head()
    if not service.datasets:
        raise LedgerError("No data set is loaded.")
    return {"status": "ok", "version": __version__}


def me(request: Request) -> Json:
    """Who the token belongs to."""
    account = request.state.visitor
    return {"name": account.name, "role": account.role, "expires": account.expires}


def datasets(request: Request) -> list[Json]:
    """The data sets and their public facts."""
    service = service_of(request)
    return [service.public(name) for name in service.names(request.state.visitor)]


def dataset(request: Request, dataset: str) -> Json:
    """The public facts of one data set."""
    return service_of(request).public(dataset)


def budget(request: Request, dataset: str) -> Json:
    """What you spent, and what you can still spend."""
    return service_of(request).budget(dataset, request.state.visitor.name).to_dict()


def cost(request: Request, dataset: str, question: Question) -> Json:
    """What an answer would cost, how exact it would be, and how many such are left; free."""
    return forecast_of(service_of(request), dataset, question, request.state.visitor.name).to_dict()


def forecast_of(service: Service, dataset: str, question: Question, who: str) -> Forecast:
    """What a question would cost this analyst."""
    asked = (question.sql, question.epsilon, question.mode, who, question.error, question.rho)
    return Forecast(service.cost(dataset, *asked), service.currency(dataset))


async def ask(request: Request, dataset: str, question: Question) -> JSONResponse:
    """One private answer, charged to your budget before the data is touched."""
    # Writing out thousands of numbers is work for the same thread.
    return await run_in_threadpool(lambda: JSONResponse(answered(request, dataset, question).to_dict()))


def answered(request: Request, dataset: str, question: Question) -> Answer | Reproduction:
    """An answer or a refusal; it leaves at the end of a slot, as the ledger sees to it."""
    asked = (question.sql, question.epsilon, question.mode, request.state.visitor.name)
    return service_of(request).ask(dataset, *asked, question.error, question.rho)


def is_unspent(begun: float, request: Request, dataset: str, question: Question) -> bool:
    """Whether a question that was broken off can be asked again without a second charge.

    That is so where its answer is stored, which costs nothing, and where no charge of this analyst since then is without
    an answer: then it was broken off before it was charged.
    """
    service, who = service_of(request), request.state.visitor.name
    if question.mode == "heuristic":  # it keeps no budget, and would draw a second time
        return False
    if forecast_of(service, dataset, question, who).cost.spent == 0:
        return True
    lost = Filters(dataset=dataset, analyst=who, state=LOST)
    rows = read_log(service.ledger, lost, most=1).rows
    slack = 5 + service.config.slot_seconds  # times in the ledger are those of slots
    return (
        not rows or datetime.datetime.fromisoformat(rows[0].entry.at).timestamp() < math.floor(begun) - slack
    )


async def release(request: Request, dataset: str, table: made_releases.TableRequest) -> Json:
    """A whole table, charged to your budget before the data is touched; further questions to it are free."""
    who = request.state.visitor.name
    out = await run_in_threadpool(made_releases.release, service_of(request), dataset, table, who)
    return {
        "stamp": out.guarantee,
        "epsilon": out.epsilon,
        "delta": out.delta,
        "remaining": out.remaining,
        "entry": out.entry,
        "notes": list(out.notes),
        "csv": out.frame.write_csv(),
    }


def releases(request: Request, dataset: str) -> list[Json]:
    """The releases you hold of this state of the data, and what each covers."""
    return made_releases.releases(service_of(request), dataset, request.state.visitor.name)


def answers(
    request: Request, dataset: str, last: int = _LAST, before: str | None = _BEFORE, text: str = _TEXT
) -> list[Json]:
    """Your past answers, newest first; the entry of the last one is the cursor of the next page."""
    found = service_of(request).past(dataset, request.state.visitor.name, last, text=text, before=before)
    return [past_facts(each) for each in found]


def past_facts(past: Past) -> Json:
    """A past answer as JSON tells it: what was charged under its own name, epsilon or rho."""
    found = past.answer or past.workload
    return {
        "entry": past.entry,
        "at": past.at,
        "query": past.query,
        **past.charged.to_dict(),
        "asked": None if past.asked is None else past.asked.to_dict(),
        "mode": past.mode,
        "large": past.large,
        "answer": None if found is None else found.to_dict(),
    }


def spending(request: Request, dataset: str) -> Json:
    """For owners: caps, totals, and charges over time."""
    return service_of(request).spending(dataset).to_dict()


def entries(request: Request, last: int = _LAST) -> list[Json]:
    """For auditors: the newest entries of the ledger, without the stored answers."""
    return log_of(service_of(request), last)


def log_of(service: Service, last: int) -> list[Json]:
    """Entries of the ledger as an auditor sees them: the chain can be checked, stored answers cannot be guessed."""
    words = CurrencyWords(service.ledger)
    return [
        asdict(each.shown())
        | {words.of(each.dataset): epsilon_of(each.micro) if each.kind in ("charge", "receipt") else 0.0}
        for each in service.ledger.entries(last=last)
    ]


def check(request: Request) -> Json:
    """For auditors: replay the chain of hashes and totals."""
    return asdict(service_of(request).ledger.verify())
