"""What queries would cost: shown before anything is charged, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.dp import budget as millionths
from shoal.dp.answering.expected import expected_error
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Sums
from shoal.dp.mechanisms.currency import WORDS


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
    parts : tuple of dict
        Per release its query, figure, kind, epsilon (or rho), share of the query, and, where they do not depend on the
        data, noise scale and `error`: 95 % of the answers lie within it.
    rho : float, optional
        In all, of a data set counted in zCDP.
    questions_left : int, optional
        About how many such questions this analyst can still pay for; None where this one costs nothing.
    """

    epsilon: float
    remaining: float
    parts: tuple[dict[str, Any], ...]
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


def parts_of(plan: Plan) -> list[dict[str, Any]]:
    """What each release of a plan takes of its cost, and the error to expect of it."""
    shown = []
    for aggregate, release in zip(plan.query.aggregates, plan.releases, strict=True):
        part = {
            "query": str(plan.lowered.asked),
            "figure": aggregate.name,
            "release": release.figure,
            WORDS[release.currency]: millionths.epsilon(release.micro),
            "share": release.micro / plan.micro,
        }
        if isinstance(release, Sums) and release.steps is None and release.figure in ("count", "sum"):
            quantum = 1.0 if release.fixed is None else float(release.fixed.quantum)
            part["noise_scale"] = float(release.scale()) * quantum
        error = expected_error(release)
        if error is not None:
            part["error"] = error
        shown.append(part)
    return shown
