"""What a workload would cost and how exact its answers would be: public facts and one's own budget only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.dp import budget
from shoal.dp.answering.cost import Affordable
from shoal.dp.sql.query import Query
from shoal.dp.workload._answer import QUANTILE, plan_workload, workload_claim
from shoal.dp.workload.strategy import alone
from shoal.typing import Json

if TYPE_CHECKING:
    from shoal.dp.session import Session


@dataclass(frozen=True)
class ExpectedCount:
    """One query of a workload, before it is asked.

    Parameters
    ----------
    query : str
    counts : int
        How many numbers it gives: one, or one for each group.
    deviation, alone : float
        Of the noise: answered together, and one by one for the same total.
    error : float
        With 95 % each count lies within so much of the exact one.
    """

    query: str
    counts: int
    deviation: float
    alone: float
    error: float


@dataclass(frozen=True)
class WorkloadCost(Affordable):
    """What a workload would cost: one charge for all queries.

    Parameters
    ----------
    queries : tuple of ExpectedCount
    strategy : str
    epsilon : float
        0 for a workload whose answers this analyst holds; of a data set counted in zCDP what `rho` implies.
    remaining : float
        What this analyst can still spend: epsilon, or rho.
    rho : float, optional
    workloads_left : int, optional
        About how many such workloads this analyst can still pay for.
    """

    queries: tuple[ExpectedCount, ...]
    strategy: str
    epsilon: float
    remaining: float
    rho: float | None = None
    workloads_left: int | None = None

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {**asdict(self), "affordable": self.affordable}


def workload_cost(session: Session, queries: Sequence[str | Query], micro: int, analyst: str) -> WorkloadCost:
    """What `ask_workload` would charge, and the error to expect of each query; nothing is charged."""
    asked, _, strategy = plan_workload(session, queries, micro)
    assert session.protected is not None  # the queries were planned
    groups = [len(each.labels) for each in asked]
    by_one = alone(groups, strategy.currency, Fraction(micro, budget.MICRO), strategy.rows, alike=True)
    shown, start = [], 0
    for each, many in zip(asked, groups, strict=True):
        here = slice(start, start + many)
        start += many
        spread, apart = (np.sqrt(found.variances[here]) for found in (strategy, by_one))
        shown.append(
            ExpectedCount(
                str(each.plan.lowered.asked),
                many,
                float(np.sqrt(np.mean(spread**2))),
                float(np.sqrt(np.mean(apart**2))),
                float(QUANTILE[strategy.currency] * spread.max() + 0.5),
            )
        )
    kept, total = session.ledger.unit(session.schema.id), 0
    if not session.ledger.has_received(workload_claim(session, asked, strategy, micro, analyst)):
        times = 1 if kept is None else max(1, session.protected.times(kept))
        total = micro * session.currency.times(times)
    left = session.ledger.remaining(session.schema.id, analyst, session.limit)
    return WorkloadCost(
        tuple(shown),
        strategy.name,
        session.currency.epsilon(total),
        budget.epsilon(left),
        None if session.currency.pure else budget.epsilon(total),
        left // total if total else None,
    )
