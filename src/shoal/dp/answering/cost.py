"""What queries would cost. This uses only public facts, and is shown before anything is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from shoal.dp import budget as millionths
from shoal.dp.answering.expected import error_by_rows, error_in_rows, expected_error
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Release, Sums
from shoal.dp.mechanisms.currency import WORDS
from shoal.dp.sql.expressions import Call, FigureOf


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
    square_of_1000_rows: float
    error_in_rows: int
    inside: bool
    threshold: int


class Affordable:
    """What something would cost, beside what is left: of a question, or of a workload."""

    epsilon: float
    remaining: float
    rho: float | None

    @property
    def spent(self) -> float:
        """In the data set's currency."""
        return self.epsilon if self.rho is None else self.rho

    @property
    def affordable(self) -> bool:
        """Whether the budget allows it."""
        return self.spent <= self.remaining


@dataclass(frozen=True)
class Cost(Affordable):
    """What queries would cost, before anything is charged.

    Parameters
    ----------
    epsilon : float
        In all; answers this analyst already holds cost nothing. Of a data set counted in zCDP, what `rho` implies with
        the declared delta.
    remaining : float
        What this analyst can still spend: epsilon, or rho.
    parts : tuple of CostPart
        Per release its query, figure, kind, epsilon (or rho), share of the query, and, where they do not depend on
        the data, noise scale and `error`: 95 % of the answers lie within it. Of averages, variances and covariances
        `error_of_1000_rows`, that within which they lie if 1,000 rows answer: with ten times as many about a tenth of
        it; of a deviation `square_of_1000_rows`, that of its square. Of quantiles, MIN, MAX and MODE `error_in_rows`:
        so many rows lie between the answer and what was asked for, or beyond it, or so many more has another level,
        at most with 95 %. `inside` is there where the release is no figure of the answer, but what one is computed
        from.
    rho : float, optional
        In all, of a data set counted in zCDP.
    questions_left : int, optional
        About how many such questions this analyst can still pay for; None where this one costs nothing.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import Session
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> with Session(pl.DataFrame({"age": [31, 45, 62]}), schema, budget=2.0) as s:
    ...     cost = s.cost("SELECT COUNT(*) FROM t", epsilon=0.5)
    >>> cost.epsilon, cost.remaining, cost.questions_left, cost.parts[0]["error"]
    (0.5, 2.0, 4, 6.0)
    """

    epsilon: float
    remaining: float
    parts: tuple[CostPart, ...]
    rho: float | None = None
    questions_left: int | None = None


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
    shown, roots = [], _roots(plan)
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
        _add_error(part, release, aggregate.name in roots)
        if aggregate.name not in roots and not any(
            isinstance(each.value, FigureOf) and each.value.aggregate == aggregate
            for each in plan.lowered.outputs
        ):
            part["inside"] = True
        shown.append(part)
    return shown


def _add_error(part: CostPart, release: Release, root: bool) -> None:
    """The error to expect of a release, where public facts tell it."""
    error, by_rows, in_rows = expected_error(release), error_by_rows(release, 1000), error_in_rows(release)
    if error is not None:
        part["error"] = error
    if by_rows is not None:
        part["square_of_1000_rows" if root else "error_of_1000_rows"] = by_rows
    if in_rows is not None:
        part["error_in_rows"] = in_rows


def _roots(plan: Plan) -> set[str]:
    """The names of deviations, which are roots of the variances that get noise."""
    found = set()
    for each in plan.lowered.outputs:
        if isinstance(each.value, Call) and each.value.function == "SQRT":
            (inner,) = each.value.arguments
            if isinstance(inner, FigureOf) and inner.aggregate.name == each.name:
                found.add(each.name)
    return found
