"""What queries would cost: shown before anything is charged, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from shoal.dp import budget as millionths
from shoal.dp.answering.expected import error_by_rows, expected_error
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Sums
from shoal.dp.mechanisms.currency import WORDS


class CostPart(TypedDict, total=False):
    """What one release takes of a cost: `epsilon` or `rho`, and what is publicly known of its error."""

    query: str
    figure: str
    release: str
    epsilon: float
    rho: float
    delta: float
    share: float
    noise_scale: float
    error: float
    error_of_1000_rows: float
    threshold: int


@dataclass(frozen=True)
class Cost:
    """What queries would cost, before anything is charged.

    Parameters
    ----------
    epsilon : float
        In all; answers this analyst already holds cost nothing. Of a data set counted in zCDP, what `rho` implies with
        the declared delta.
    remaining : float
        What this analyst can still spend: epsilon, or rho.
    parts : tuple of CostPart
        Per release its query, figure, kind, epsilon (or rho), share of the query, and, where they do not depend on the
        data, noise scale and `error`: 95 % of the answers lie within it. Of averages that within which they lie if
        1,000 rows answer: with ten times as many about a tenth of it.
    rho : float, optional
        In all, of a data set counted in zCDP.
    questions_left : int, optional
        About how many such questions this analyst can still pay for; None where this one costs nothing.
    """

    epsilon: float
    remaining: float
    parts: tuple[CostPart, ...]
    rho: float | None = None
    questions_left: int | None = None

    @property
    def spent(self) -> float:
        """In the data set's currency."""
        return self.epsilon if self.rho is None else self.rho

    @property
    def affordable(self) -> bool:
        """Whether the budget allows it."""
        return self.spent <= self.remaining


def cost_part(query: str, figure: str, release: str, word: str, micro: int, share: float) -> CostPart:
    """A part of a cost, counted in epsilon or rho."""
    part: CostPart = {"query": query, "figure": figure, "release": release, "share": share}
    if word == "rho":
        part["rho"] = millionths.epsilon(micro)
    else:
        part["epsilon"] = millionths.epsilon(micro)
    return part


def parts_of(plan: Plan) -> list[CostPart]:
    """What each release of a plan takes of its cost, and the error to expect of it."""
    shown = []
    for aggregate, release in zip(plan.query.aggregates, plan.releases, strict=True):
        part = cost_part(
            str(plan.lowered.asked),
            aggregate.name,
            release.figure,
            WORDS[release.currency],
            release.micro,
            release.micro / plan.micro,
        )
        if isinstance(release, Sums) and release.steps is None and release.figure in ("count", "sum"):
            quantum = 1.0 if release.fixed is None else float(release.fixed.quantum)
            part["noise_scale"] = float(release.scale()) * quantum
        error = expected_error(release)
        if error is not None:
            part["error"] = error
        by_rows = error_by_rows(release, 1000)
        if by_rows is not None:
            part["error_of_1000_rows"] = by_rows
        shown.append(part)
    return shown
