"""From the relaxation to the optimum: an integer programme over the groups that can matter.

With a bound L proved by duals, a partition that uses a group of reduced cost t or more costs at least L + t.
So list all groups below t. Over this list more cuts raise the bound, which strikes out further groups, until
few enough are left for branch and bound. The best partition over them is optimal if it costs no more than
L + t; otherwise none costs less than L + t, which is a better bound, and t is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.relaxation.columns import Relaxation, costs_of, reduced_costs
from shoal.relaxation.cuts import right_hand_sides, separate, separate_fives
from shoal.relaxation.integer import choose
from shoal.relaxation.master import Master
from shoal.relaxation.pricing import RoundedDistances, below, nodes_within, padded

# HiGHS works with a feasibility tolerance of 1e-7 and an absolute gap of 1e-6.
_TOLERANCE = 2e-6

# How many groups with a small reduced cost to list, and how many to hand to branch and bound.
_MOST_LISTED = 200_000
_MOST_BRANCHED = 40_000


@dataclass(frozen=True)
class Proof:
    """A bound on the sum of squares, a partition if one was found, and whether it is optimal."""

    value: float
    labels: np.ndarray | None
    cost: float
    optimal: bool


def close(
    grid: RoundedDistances, relaxation: Relaxation, best: float, time_left: Callable[[], float]
) -> Proof:
    """Raise a bound towards the optimum, and prove the optimum if groups and time allow.

    Parameters
    ----------
    best : float
        Sum of squares of the best partition known.
    """
    proof = Proof(relaxation.value, None, best, False)
    reach = 4e-4 * relaxation.value
    while time_left() > 1:
        # Beyond the best partition known nothing needs to be listed.
        limit = min(relaxation.value + reach, proof.cost + _TOLERANCE)
        groups = _within(grid, relaxation, limit - relaxation.value, time_left() / 4)
        if groups is None and reach > 5e-5 * relaxation.value and proof.value == relaxation.value:
            reach /= 2
            continue
        if groups is None:
            return proof
        found = _solve(grid, relaxation, groups, limit, time_left)
        if found.labels is None or found.cost >= proof.cost:
            found = Proof(found.value, proof.labels, proof.cost, found.optimal)
        proof = Proof(max(found.value, proof.value), found.labels, found.cost, found.optimal)
        if proof.optimal or proof.value < limit - _TOLERANCE:
            return proof
        if proof.value >= proof.cost - 2 * _TOLERANCE:
            return Proof(proof.value, proof.labels, proof.cost, True)
        reach *= 2
    return proof


def _within(
    grid: RoundedDistances, relaxation: Relaxation, reach: float, seconds: float
) -> np.ndarray | None:
    """All groups with a reduced cost below `reach`, rows filled up with -1; None if too many."""
    parts, count = [], 0
    nodes = nodes_within(grid.D.shape[0], seconds)
    for size in range(grid.k, 2 * grid.k):
        found = below(grid, relaxation.pi, relaxation.prices, size, reach, nodes, 8 * _MOST_LISTED)
        if found is None:
            return None
        parts.append(padded(found, 2 * grid.k - 1))
        count += found.shape[0]
        if count > _MOST_LISTED:
            return None
    return np.concatenate(parts)


def _solve(
    grid: RoundedDistances,
    relaxation: Relaxation,
    groups: np.ndarray,
    limit: float,
    time_left: Callable[[], float],
) -> Proof:
    """Best partition out of groups that include all which one cheaper than `limit` can use."""
    nothing_below = Proof(limit, None, math.inf, False)
    n = grid.D.shape[0]
    if np.unique(groups[groups >= 0]).size < n:
        return nothing_below
    master = Master(n, groups.shape[1])
    master.add_cuts(relaxation.cuts[relaxation.mu > 0])
    master.add_groups(groups, costs_of(grid.D, groups))
    value = max(relaxation.value, _strike_out(master, grid, limit, time_left))
    if value >= limit:
        return nothing_below
    if master.costs.size > _MOST_BRANCHED or time_left() < 1:
        return Proof(value, None, math.inf, False)
    chosen = choose(master.groups, master.costs, n, cuts=master.cuts, seconds=max(1.0, time_left()))
    if chosen.finished and chosen.taken is None:
        return nothing_below
    if math.isfinite(chosen.bound):
        value = max(value, min(limit, chosen.bound - _TOLERANCE))
    if chosen.taken is None:
        return Proof(value, None, math.inf, False)
    optimal = chosen.finished and chosen.cost <= limit
    return Proof(value, _labels(master.groups[chosen.taken], n), chosen.cost, optimal)


def _strike_out(
    master: Master, grid: RoundedDistances, limit: float, time_left: Callable[[], float]
) -> float:
    """Add cuts and drop groups that no partition cheaper than `limit` can use; the bound reached."""
    n, box = grid.D.shape[0], np.full(grid.D.shape[0], grid.top)
    best, weak = -math.inf, 0
    known = {row.tobytes() for row in master.cuts}
    while time_left() > 0:
        solved = master.solve(-box, box)
        # All groups are listed, so reduced costs in float64 make the bound valid whatever the solver's
        # tolerance was: a partition has at most n / k groups, each off by at most the lowest of them.
        reduced = reduced_costs(master.groups, master.costs, solved.pi, master.cuts, solved.mu)
        height = math.fsum(solved.pi) - math.fsum(solved.mu * right_hand_sides(master.cuts))
        value = height + (n // grid.k) * min(0.0, float(reduced.min())) - 1e-9
        weak = weak + 1 if value - best < 1e-6 * value else 0
        best = max(best, value)
        if best >= limit or weak == 4:
            return best
        keep = value + reduced < limit
        amounts = solved.x[keep]
        if amounts.size == 0:
            return limit
        master.keep(keep, np.ones(master.cuts.shape[0], np.bool_))
        cuts = [each(master.groups, amounts, n, max(100, n // 4), 4) for each in (separate, separate_fives)]
        fresh = [row for row in np.concatenate(cuts) if row.tobytes() not in known]
        if not fresh:
            return best
        known.update(row.tobytes() for row in fresh)
        master.add_cuts(np.array(fresh))
    return best


def _labels(chosen: np.ndarray, n: int) -> np.ndarray:
    labels = np.full(n, -1, np.int64)
    group, place = np.nonzero(chosen >= 0)
    labels[chosen[group, place]] = group
    return labels
