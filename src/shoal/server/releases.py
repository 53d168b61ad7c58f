"""Whole tables over HTTP: bought by an analyst, and asked for nothing afterwards."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.dp.loading.sources import whole_table
from shoal.dp.session import Session
from shoal.errors import QueryError
from shoal.release import KeptReleases, MarginalRelease, release_marginals

if TYPE_CHECKING:
    from shoal.server.service import Service

_ONE_AT_A_TIME = threading.Lock()


def release(service: Service, dataset: str, wanted: Mapping[str, Any], analyst: str) -> MarginalRelease:
    """A whole table, charged to the analyst; one is made at a time.

    Parameters
    ----------
    service : Service
    dataset : str
    wanted : mapping
        Of `release_marginals`: epsilon, delta, columns, bins, marginals, rows.
    analyst : str
    """
    service.require(dataset, analyst)
    session, facts = _sound(service, dataset), service.datasets[dataset]
    least, asked = service.config.least_epsilon, wanted["epsilon"]
    if asked < least:
        raise QueryError(f"'epsilon' must be at least {least}. Got {asked}.")
    schema = replace(
        facts.schema,
        budget=facts.budget or facts.schema.budget,
        per_analyst=facts.per_analyst or facts.schema.per_analyst,
    )
    with service.refusing(analyst), _ONE_AT_A_TIME:
        return release_marginals(
            whole_table(service.frames[dataset], facts.schema),
            schema,
            analyst=analyst,
            ledger=service.ledger,
            data_version=session.version,
            mode=session.mode,
            _limit=session.limit,
            **wanted,
        )


def releases(service: Service, dataset: str, analyst: str) -> list[dict[str, Any]]:
    """The releases that an analyst holds of this state of the data, and what each covers."""
    service.require(dataset, analyst)
    session = _sound(service, dataset)
    kept = KeptReleases(service.ledger, session.schema)
    return [each.to_dict() for each in kept.of(analyst, session.version)]


def _sound(service: Service, dataset: str) -> Session:
    """The first session whose answers carry a guarantee that adds up."""
    found = service.session(dataset)
    if not isinstance(found, Session) or found.mode not in ("dp", "group", "correlated"):
        raise QueryError(
            f"Data set {dataset!r} is answered in mode {found.mode!r}, which releases no tables."
        )
    return found
