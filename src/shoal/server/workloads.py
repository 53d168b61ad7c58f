"""Workloads over HTTP: counting queries answered together for one charge, after their joint cost and error were told."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.concurrency import run_in_threadpool

from shoal.dp.budget import micro
from shoal.dp.mechanisms.currency import Currency, CurrencyAmount
from shoal.dp.session import Session
from shoal.dp.workload import WorkloadAnswer, WorkloadCost, asked_together
from shoal.errors import QueryError
from shoal.server import api
from shoal.server.service import Service
from shoal.server.shown import number
from shoal.typing import Json

MOST_STATEMENTS = 1_000
LONGEST_TOGETHER = 200_000  # characters


class Workload(BaseModel):
    """Counting queries, and what to spend on all of them together."""

    model_config = ConfigDict(extra="forbid")
    queries: list[str] = Field(
        min_length=1,
        max_length=MOST_STATEMENTS,
        examples=[["SELECT COUNT(*) FROM t GROUP BY region", "SELECT COUNT(*) FROM t GROUP BY sex"]],
    )
    epsilon: float | None = Field(None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True, examples=[0.5])
    rho: float | None = Field(
        None, gt=0, le=1_000_000, allow_inf_nan=False, strict=True,
        description="In place of epsilon, of a data set counted in rho (zCDP).",
    )  # fmt: skip
    mode: str | None = Field(None, max_length=20, description="The data set's first mode if left open.")

    @model_validator(mode="after")
    def _fits(self) -> Workload:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give either 'epsilon' or 'rho'")
        if sum(len(each) for each in self.queries) > LONGEST_TOGETHER:
            raise ValueError(f"the queries must have at most {LONGEST_TOGETHER} characters together")
        return self


@dataclass(frozen=True)
class JointForecast:
    """What a workload would cost this analyst and how exact it would be, in words."""

    cost: WorkloadCost
    currency: Currency

    @property
    def sentence(self) -> str:
        """For people: accuracy first, then the price of all together."""
        errors = sorted(each.error for each in self.cost.queries)
        ends = " to ".join(
            f"\N{PLUS-MINUS SIGN}{number(float(f'{each:.2g}'))}" for each in {errors[0]: 1, errors[-1]: 1}
        )
        exact = f"{len(errors)} questions answered together, each count within {ends} with 95 %"
        if self.cost.spent == 0:
            return f"{exact}. You hold these answers already: asking again costs nothing."
        price = f"costs {CurrencyAmount(micro(self.cost.spent), self.currency).text}, once for all"
        if not self.cost.affordable:
            return f"{exact}: {price}. Your budget does not allow it."
        return f"{exact}: {price}; about {self.cost.workloads_left or 0:,} such lists left."

    def to_dict(self) -> Json:
        """The facts as plain values."""
        more = {"delta": self.currency.delta, "counted_in": self.currency.word, "sentence": self.sentence}
        return self.cost.to_dict() | more


def as_typed(query: str) -> str:
    """What a past question of the log is in the editor: of a workload its statements, one a line."""
    told = asked_together(query)
    return query if told is None else ";\n".join(told)


def forecast_of(service: Service, dataset: str, wanted: Workload, who: str) -> JointForecast:
    """What a workload would cost an analyst."""
    session = _session(service, dataset, wanted.mode, who)
    with service.together.take(who):
        found = session.workload_cost(wanted.queries, wanted.epsilon, rho=wanted.rho, analyst=who)
    return JointForecast(found, service.currency(dataset))


def answer_of(service: Service, dataset: str, wanted: Workload, who: str) -> WorkloadAnswer:
    """The answers to a workload, charged to an analyst once."""
    session = _session(service, dataset, wanted.mode, who)
    with service.refusing(who), service.together.take(who):
        return session.workload(wanted.queries, wanted.epsilon, rho=wanted.rho, analyst=who)


def workload_cost(request: Request, dataset: str, workload: Workload) -> Json:
    """What counting queries asked together would cost, once for all, and the error to expect of each; free."""
    who = request.state.visitor.name
    return forecast_of(api.service_of(request), dataset, workload, who).to_dict()


async def workload(request: Request, dataset: str, workload: Workload) -> JSONResponse:
    """Counting queries answered together: one charge, and less noise than one by one where they overlap."""
    service, who = api.service_of(request), request.state.visitor.name
    found = await run_in_threadpool(answer_of, service, dataset, workload, who)
    return await run_in_threadpool(lambda: JSONResponse(found.to_dict()))


def _session(service: Service, dataset: str, mode: str | None, who: str) -> Session:
    service.require(dataset, who)
    found = service.session(dataset, mode)
    if not isinstance(found, Session) or found.mode not in ("dp", "group", "correlated"):
        raise QueryError(
            f"Data set {dataset!r} is answered in mode {found.mode!r}, which takes one question at a time."
        )
    return found
