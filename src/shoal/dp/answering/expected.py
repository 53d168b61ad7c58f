"""The expected error of a plan, and the cost of an error. Both are public, and known before anything is asked."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.dp import budget
from shoal.dp.answering.intervals import combination_radius
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import BETA, Ranks, Release, Sums
from shoal.dp.sql.expressions import FigureOf
from shoal.errors import ParameterError, QueryError

_KNOWN = ("count", "sum", "units", "distinct")  # figures whose noise is of a scale that no row moves
_WHICH = "'error' is for COUNT and SUM, whose noise does not depend on the data"


def expected_error(release: Release) -> float | None:
    """How far from the exact figure 95 % of the answers are at most; None if this depends on the data.

    If a limit is drawn, this is the error at the largest limit.

    Examples
    --------
    >>> from shoal.dp.answering.expected import expected_error
    >>> from shoal.dp.answering.releases import Limit, Sums
    >>> expected_error(Sums("count", 100_000, None, None, ((1, 0, 0),), 1, Limit(1), False, 1))
    30.0
    """
    if not isinstance(release, Sums) or release.figure not in _KNOWN:
        return None
    quantum = 1.0 if release.fixed is None else float(release.fixed.quantum)
    if release.steps is None:
        return release.noise().radius() * quantum
    return release.noise(release.steps.limits[-1]).radius(1 - float(BETA) / 2) * quantum


def error_by_rows(release: Release, rows: int) -> float | None:
    """Within how much of an exact average, variance or covariance 95 % of the answers lie if so many rows of a group answer.

    None of other figures. It falls as the rows rise, by the same factor: the noise is of a scale that no row moves, and is
    divided by them. It is that of the values for which noise weighs most: all rows at one end of the declared range.

    Examples
    --------
    >>> from shoal.dp.answering.expected import error_by_rows
    >>> from shoal.dp.answering.plan import averaged, from_low
    >>> from shoal.dp.answering.releases import Limit, Sums
    >>> age = Sums("avg", 100_000, "age", from_low((0, 100), 1024), averaged(1024), 1024, Limit(1), False, 1)
    >>> round(error_by_rows(age, 1000), 1), round(error_by_rows(age, 10_000), 2)
    (3.0, 0.35)
    """
    if not isinstance(release, Sums) or release.steps is not None or release.fixed is None:
        return None
    low, high = release.fixed.bounds
    half, reach = 0.5 / release.fixed.most, float(high - low)
    if release.figure == "avg":
        return reach * min(release.noise().radius() / (rows * release.fixed.most) + half, 1.0)
    if release.figure in ("var", "var_samp"):
        # (x - 1)^2 of the terms at x = 0 and 1/2, which is what noise moves a variance of 0 by.
        one, sizes = sum(each[0] for each in release.terms), np.array([1.0, 0.125])
    elif release.figure in ("covar", "covar_samp") and release.pair is not None:
        one, sizes = sum(each[0] for each in release.pair.polynomials) ** 2, np.array([1.0])
        reach = math.sqrt(reach * float(release.pair.fixed.bounds[1] - release.pair.fixed.bounds[0]))
    else:
        return None
    share = combination_radius(sizes, release.noise()) / (rows * one) + half
    return reach**2 * min(share, 0.25)


def error_in_rows(release: Release) -> int | None:
    """How many rows a drawn point of a grid is off by, at most with 95 %, in each group; None of other figures.

    Of a quantile so many rows lie between it and the exact one; of a minimum or maximum so many lie beyond it. Where
    a limit is drawn, that of the largest limit.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.answering.expected import error_in_rows
    >>> from shoal.dp.answering.releases import Candidates, Limit, Ranks
    >>> error_in_rows(Ranks("quantile", 1_000_000, "age", Candidates(0, 1, 111), Limit(1), 1, Fraction(1, 2)))
    8
    >>> error_in_rows(Ranks("max", 1_000_000, "age", Candidates(0, 1, 111), Limit(1), 1))
    32
    """
    if not isinstance(release, Ranks):
        return None
    limit = None if release.steps is None else release.steps.limits[-1]
    if release.share is None:
        return 2 * release.aim(limit)  # so many inside it aims, and so many it may be off
    apart = math.log(release.grid.size / float(BETA)) / float(release.rate(limit)) / release.part
    return math.ceil(apart / release.share.denominator)


def amount_for(plan: Plan, error: Any) -> int:
    """The least amount, in millionths of the currency, for which every figure has at most this error with 95 %.

    Parameters
    ----------
    plan : Plan
        At any amount.
    error : float
        Above 0, in what the figures are counted in.
    """
    number = isinstance(error, (int, float)) and not isinstance(error, bool)
    if not number or not 0 < error <= sys.float_info.max:
        raise ParameterError(f"'error' must be a number above 0. Got {error!r}.")
    for each in plan.lowered.outputs:
        if not isinstance(each.value, FigureOf):
            raise QueryError(f"{_WHICH}: {each.name!r} is made of such figures, so say what to spend on it.")
    needed = 0
    for aggregate, release in zip(plan.query.aggregates, plan.releases, strict=True):
        if expected_error(release) is None:
            raise QueryError(f"{_WHICH}. Got {aggregate.name!r}, so say what to spend on it.")
        needed = max(needed, _least(release, float(error)))
    return needed * len(plan.releases)


def _least(release: Release, error: float) -> int:
    """The least amount of one release: the error falls as the amount rises."""
    low, high = 0, 1
    while _error_at(release, high) > error:
        low, high = high, high * 2
        if high > budget.LARGEST:
            raise ParameterError(f"'error' must be larger: no budget buys it. Got {error:g}.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _error_at(release, middle) <= error else (middle, high)
    return high


def _error_at(release: Release, micro: int) -> float:
    found = expected_error(replace(release, micro=micro))
    return math.inf if found is None else found
