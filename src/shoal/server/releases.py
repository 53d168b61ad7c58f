"""Whole tables over HTTP: bought by an analyst, and asked for nothing afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from shoal.dp.loading.sources import whole_table
from shoal.dp.session import Session
from shoal.errors import QueryError
from shoal.release import KeptRelease, KeptReleases, MarginalRelease, release_marginals
from shoal.release.marginals import make_plan
from shoal.schema import Schema
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.server.service import Service


class TableRequest(BaseModel):
    """A whole table to be released: what to spend on it, and what it shall hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    epsilon: float = Field(gt=0, le=1_000_000, allow_inf_nan=False, strict=True, examples=[1.0])
    delta: float | None = Field(
        None, gt=0, lt=1, description="Gaussian noise, counted in zCDP; pure if left open."
    )
    columns: list[str] | None = Field(
        None, max_length=500, description="All quasi and sensitive ones if left open."
    )
    bins: int | str | dict[str, int | str | list[float]] | None = Field(
        None, description="Bins of numbers: how many, or quantiles:16; or one of them for each column."
    )
    marginals: int | str | list[list[str]] = Field(
        "chosen", description="chosen, a number of columns up to 3, or lists of columns."
    )
    rows: int | None = Field(
        None, ge=1, le=1_000_000, description="The noisy number of records if left open."
    )


def release(
    service: Service,
    dataset: str,
    wanted: TableRequest,
    analyst: str,
    progress: Callable[[str], None] | None = None,
) -> MarginalRelease:
    """A whole table, charged to the analyst; one is made at a time.

    Parameters
    ----------
    service : Service
    dataset : str
    wanted : TableRequest
    analyst : str
    progress : callable, optional
        Called with each stage.
    """
    service.require(dataset, analyst)
    session, facts = _sound(service, dataset), service.datasets[dataset]
    _check_least(service, wanted.epsilon)
    with service.refusing(analyst), service.making.take(analyst):
        return release_marginals(
            whole_table(service.frames[dataset], facts.schema),
            _schema(service, dataset),
            analyst=analyst,
            ledger=service.ledger,
            data_version=session.version,
            mode=session.mode,
            progress=progress,
            _limit=session.limit,
            **wanted.model_dump(),
        )


def check(service: Service, dataset: str, wanted: TableRequest, analyst: str) -> None:
    """Raise what public facts show to be wrong with a wanted table; nothing is charged or looked at."""
    service.require(dataset, analyst)
    session = _sound(service, dataset)
    _check_least(service, wanted.epsilon)
    make_plan(_schema(service, dataset), mode=session.mode, **wanted.model_dump(exclude={"rows"}))


def releases(service: Service, dataset: str, analyst: str) -> list[Json]:
    """The releases that an analyst holds of this state of the data, and what each covers."""
    return [each.to_dict() for each in held(service, dataset, analyst)]


def held(service: Service, dataset: str, analyst: str) -> list[KeptRelease]:
    """The releases that an analyst holds of this state of the data, the newest first."""
    service.require(dataset, analyst)
    session = _sound(service, dataset)
    kept = [each for each in session.releases if isinstance(each, KeptReleases)]
    found = kept[0] if kept else KeptReleases(service.ledger, session.schema)
    return found.of(analyst, session.version)[::-1]


def _schema(service: Service, dataset: str) -> Schema:
    """The schema with the caps of the configuration."""
    facts = service.datasets[dataset]
    return replace(
        facts.schema,
        budget=facts.budget or facts.schema.budget,
        per_analyst=facts.per_analyst or facts.schema.per_analyst,
    )


def _check_least(service: Service, asked: float) -> None:
    if asked < service.config.least_epsilon:
        raise QueryError(f"'epsilon' must be at least {service.config.least_epsilon}. Got {asked}.")


def _sound(service: Service, dataset: str) -> Session:
    """The first session whose answers carry a guarantee that adds up."""
    found = service.session(dataset)
    if not isinstance(found, Session) or found.mode not in ("dp", "group", "correlated"):
        raise QueryError(
            f"Data set {dataset!r} is answered in mode {found.mode!r}, which releases no tables."
        )
    return found
