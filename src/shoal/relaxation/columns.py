"""The strong bound: linear relaxation of set partitioning, by column generation with subset-row cuts.

A partition is a choice of groups of k..2k-1 records that covers each record once. Its relaxation lets
groups be taken in part. Any duals give a valid bound once exact pricing has told how far they are from
feasible: with r_i the smallest reduced cost per member over the groups of record i (at most 0), pi_i + r_i
is feasible, so sum(pi + r) - sum(mu) bounds the sum of squares from below. What the linear programme
returns is therefore only a proposal; its tolerances cannot spoil the bound.

Duals of a relaxation with few columns are wild, and pricing explodes on wild duals. So they are kept in a
box around the best feasible duals; the box grows after a success and shrinks after a failure.

Without cuts only groups of exactly k need pricing: the k-subsets of a larger group, weighted evenly, cover
the same records and cost (k-1)/k * s/(s-1) <= 1 times as much. With cuts all sizes are priced.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shoal.engine.compile import kernel
from shoal.relaxation.cuts import hits, separate
from shoal.relaxation.master import Master, MasterSolution, incidence
from shoal.relaxation.pricing import CutPrices, Priced, RoundedDistances, nodes_within, padded, price

# What a step of the simplex method and a node of pricing take for each record, on the machines at hand.
_SECONDS_PER_STEP = 1e-7
_SECONDS_PER_NODE = 1.5e-9


class Relaxation:
    """Column generation that can be stopped after any step, its best bound being valid.

    Parameters
    ----------
    grid : RoundedDistances
    duals : array of float64, (n,)
        Feasible duals to start from: no group costs less than the sum over its members.
    groups : list of arrays of int64
        Groups to start with.
    time_left : function
        Seconds that may still be used.

    Attributes
    ----------
    value : float
        The best bound so far.
    pi, mu : arrays
        Feasible duals that prove it, of records and cuts.
    effort : float
        Work done, about in seconds; counted, not measured, so that it repeats.
    exploded : bool
        Whether pricing outgrew its limit of nodes even close to feasible duals.
    """

    def __init__(
        self,
        grid: RoundedDistances,
        duals: np.ndarray,
        groups: list[np.ndarray],
        time_left: Callable[[], float],
    ) -> None:
        self._grid, self._k, self._n = grid, grid.k, grid.D.shape[0]
        self._time_left = time_left
        self._width = 2 * self._k - 1
        self._master = Master(self._n, self._width)
        self._known: set[bytes] = set()
        self.pi = grid.down(duals)
        self.mu = np.zeros(0)
        self.value = math.fsum(self.pi)
        self.exploded = False
        self.effort = 0.0
        self._reach = 0.5
        # Short searches at first; longer ones only when even small steps need them.
        self._nodes = nodes_within(self._n, 1.0)
        self._most_nodes = 100 * self._nodes
        for each in groups:
            self._add(each)

    @property
    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups in the programme, rows filled up with -1, and their costs."""
        return self._master.groups, self._master.costs

    @property
    def cuts(self) -> np.ndarray:
        """The cuts in the programme, as many as `mu`."""
        return self._master.cuts

    @property
    def prices(self) -> CutPrices:
        """The cuts at the prices that prove the bound."""
        return self._prices(self.mu)

    def run(self, target: float, report: Callable[[str, float], None]) -> None:
        """Raise the bound until it reaches a target, no cut helps, pricing explodes or time is up."""
        solved = self._converge(target, report)
        weak = 0
        while solved is not None and self._time_left() > 0 and self.value < target:
            before = self.value
            triples = self._new_triples(solved)
            if not triples.size:
                return
            self._tidy(solved)
            self._master.add_cuts(triples)
            self.mu = np.concatenate([self.mu, np.zeros(triples.shape[0])])
            solved = self._converge(target, report)
            weak = weak + 1 if self.value - before < 1e-5 * self.value else 0
            if weak == 5:
                return

    def _new_triples(self, solved: MasterSolution) -> np.ndarray:
        triples = separate(self._master.groups[: solved.x.size], solved.x, self._n, max(100, self._n // 4), 4)
        old = {row.tobytes() for row in self._master.cuts}
        fresh = [row for row in triples if row.tobytes() not in old]
        return np.array(fresh, np.int64).reshape(-1, 5)

    def _converge(self, target: float, report: Callable[[str, float], None]) -> MasterSolution | None:
        """Generate columns until the bound meets the programme; its last solution, or None if stopped."""
        while self._time_left() > 0:
            width = self._reach * (np.abs(self.pi) + 0.05 * np.abs(self.pi).mean())
            solved = self._master.solve(self.pi - width, self.pi + width)
            self.effort += _SECONDS_PER_STEP * self._n * solved.iterations
            pi, thirds = self._grid.down(solved.pi), self._grid.thirds(solved.mu)
            found, value, duals = self._price(pi, thirds)
            added = sum(self._add(_picked(each, self._n)) for each in found)
            at_edge = bool((np.abs(solved.pi - self.pi) > 0.999 * width).any())
            report("columns" if not self.mu.size else "cuts", max(self.value, value))
            complete = all(each.complete for each in found)
            if value > self.value:
                self.value, self.pi, self.mu = value, duals, 3.0 * thirds
                self._reach = min(4.0, self._reach * 1.5) if at_edge else self._reach
            elif complete:
                self._reach *= 0.8
            elif not self._retreat():
                return None
            if self.value >= target:
                return solved
            # The bound is concave in the duals: no gain within a box means none beyond it. A small box only
            # hides what is below the tolerance, so it is opened first.
            if solved.value - self.value < 2e-6 * solved.value + 1e-9 * self._grid.top:
                if not at_edge or self._reach >= 1.0:
                    return solved
                self._reach *= 3.0
            elif complete and not added and not at_edge:
                return solved
        return None

    def _retreat(self) -> bool:
        """After a search that had to be cut short: a smaller box, then longer searches; False to give up."""
        self._reach *= 0.4
        if self._reach < 0.01 and self._nodes >= self._most_nodes:
            self.exploded = True
        if self._reach < 0.1:
            self._nodes = min(2 * self._nodes, self._most_nodes)
        return not self.exploded

    def _price(self, pi: np.ndarray, thirds: np.ndarray) -> tuple[list[Priced], float, np.ndarray]:
        """Search all sizes that matter; the bound these duals prove (-inf if not searched in full)."""
        cuts = self._prices(3.0 * thirds)
        share = np.zeros(self._n)
        found = []
        height = math.fsum(pi) - math.fsum(3.0 * thirds)
        for size in range(self._k, self._width + 1 if thirds.size else self._k + 1):
            each = price(
                self._grid, pi, cuts, size, min(self._nodes, nodes_within(self._n, self._time_left()))
            )
            found.append(each)
            self.effort += _SECONDS_PER_NODE * self._n * each.nodes
            share = np.minimum(share, each.share)
            if not each.complete:
                return found, -math.inf, pi
            # Other sizes can only lower the bound: once it is no gain, new columns are all we want.
            if each.groups.size and height + math.fsum(share) <= self.value:
                return found, -math.inf, pi
        duals = self._grid.down(pi + share)
        return found, math.fsum(duals) - math.fsum(3.0 * thirds), duals

    def _prices(self, mu: np.ndarray) -> CutPrices:
        return CutPrices.of(self._n, self._master.cuts[:, :3], self._grid.thirds(mu))

    def _add(self, groups: np.ndarray) -> int:
        """Add groups of one size that are not known yet; how many were new."""
        groups = np.sort(groups, axis=1).astype(np.int64)
        fresh = [row for row in np.unique(groups, axis=0) if row.tobytes() not in self._known]
        if not fresh:
            return 0
        self._known.update(row.tobytes() for row in fresh)
        new = np.array(fresh)
        self._master.add_groups(padded(new, self._width), group_costs(self._grid.D, new))
        return new.shape[0]

    def _tidy(self, solved: MasterSolution) -> None:
        """Forget cuts without a price and, where there are many, groups that cost far too much."""
        cuts = (solved.mu > 0) | (self.mu > 0)
        keep = np.ones(self._master.costs.size, np.bool_)
        if keep.size > 20 * self._n:
            members = self._master.groups
            reduced = reduced_costs(members, self._master.costs, self.pi, self.cuts[:0], self.mu[:0])
            keep = reduced <= np.partition(reduced, 10 * self._n)[10 * self._n]
            keep[: solved.x.size] |= solved.x > 0
            for row in members[~keep]:
                self._known.discard(row[row >= 0].tobytes())
        self._master.keep(keep, cuts)
        self.mu = self.mu[cuts]


def first_groups(D: np.ndarray, k: int, labels: np.ndarray | None) -> list[np.ndarray]:
    """Groups to start with: each record with its nearest, and the groups of a partition."""
    parts = [np.argpartition(D, k - 1, axis=1)[:, :k]]
    if labels is not None:
        order = np.argsort(labels, kind="stable")
        ends = np.flatnonzero(np.diff(labels[order])) + 1
        # A partition from outside may hold larger groups; the relaxation knows none above 2k - 1.
        parts += [each[None, :] for each in np.split(order, ends) if each.size < 2 * k]
    return parts


def reduced_costs(
    groups: np.ndarray, costs: np.ndarray, pi: np.ndarray, cuts: np.ndarray, mu: np.ndarray
) -> np.ndarray:
    """What groups (rows filled up with -1) cost above the prices of their records and cuts."""
    n = pi.size
    reduced = costs - incidence(groups, n).T @ pi
    return reduced + hits(groups, cuts, n) @ mu if mu.size else reduced


def group_costs(D: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum of squares of each group (rows of one length), from squared distances."""
    total = np.zeros(groups.shape[0])
    for a in range(groups.shape[1]):
        for b in range(a):
            total += D[groups[:, a], groups[:, b]]
    return total / groups.shape[1]


def costs_of(D: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sum of squares of each group (rows filled up with -1), from squared distances."""
    sizes = (groups >= 0).sum(axis=1)
    costs = np.empty(groups.shape[0])
    for size in np.unique(sizes):
        costs[sizes == size] = group_costs(D, groups[sizes == size, :size])
    return costs


def _picked(found: Priced, n: int) -> np.ndarray:
    order = np.argsort(found.reduced, kind="stable")
    return found.groups[order][_varied(found.groups[order], n, 6, 3 * n)]


# Kernels


@kernel()
def _varied(groups, n, per_record, most):
    """Mark the first groups of a list that bring some record fewer than so many groups."""
    chosen = np.zeros(groups.shape[0], np.bool_)
    seen = np.zeros(n, np.int64)
    count = 0
    for g in range(groups.shape[0]):
        if count == most:
            break
        for i in groups[g]:
            if seen[i] < per_record:
                chosen[g] = True
                break
        if chosen[g]:
            count += 1
            for i in groups[g]:
                seen[i] += 1
    return chosen
