"""Large-neighbourhood search: regions solved by an integer programme over groups close to their price.

The relaxation of the whole table gives prices of the records that no group undercuts. What a partition costs
above them, added up over its groups, is about all that could still be saved, and it shows where. Of a
region's better partition hardly any group can cost more above its price than all its groups do now, so only
groups closer to their price are listed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.relaxation.cheap import cheap_duals
from shoal.relaxation.columns import Relaxation, costs_of, first_groups, reduced_costs
from shoal.relaxation.integer import choose
from shoal.relaxation.pricing import CutPrices, RoundedDistances, low

NODES = 20
"""Most nodes of branch and bound in a region; a better partition is mostly found at the first."""

CROWDED = 0.1
"""Share of the records that may be at their limit of groups; the others have all groups within reach."""


@dataclass(frozen=True)
class Neighbourhood:
    """How large a region is, and how many groups are listed, in all and for each record."""

    records: int
    most: int
    per_record: int

    @classmethod
    def draw(cls, k: int, level: int, rng: np.random.Generator) -> Neighbourhood:
        """A region of some hundred records, twice as many a level up: no single choice is best on all tables."""
        records = int(rng.choice((150, 200))) << level
        return cls(records, min(5 * records, 3000), int(rng.choice((4, 8))) * k)


@dataclass(frozen=True)
class SolvedRegion:
    """A region's labels 0..c-1, by how much its SSE has fallen, whether time was enough, and steps made."""

    labels: np.ndarray
    fallen: float
    in_time: bool
    steps: int


class RecordPrices:
    """Prices of records and cuts that no group undercuts.

    Parameters
    ----------
    Z : array of float64
    k : int
    labels : array of int64
        A good partition.
    effort : float
        Most work, about in seconds; counted, not measured, so that a run can be repeated.
    stopped : callable
        Asked now and then whether to end at once.
    """

    def __init__(
        self, Z: np.ndarray, k: int, labels: np.ndarray, effort: float, stopped: Callable[[], bool]
    ) -> None:
        self.grid = RoundedDistances.of(Z, k)
        relaxation = Relaxation(
            self.grid,
            cheap_duals(Z, k),
            first_groups(self.grid.D, k, labels),
            lambda: -1.0 if stopped() else effort - relaxation.effort,
        )
        relaxation.run(math.inf, lambda stage, bound: None)
        priced = relaxation.mu > 0
        self.pi, self.mu, self.cuts = relaxation.pi, relaxation.mu[priced], relaxation.cuts[priced]
        self.effort = relaxation.effort
        groups, costs = relaxation.groups
        nearest = np.argsort(reduced_costs(groups, costs, self.pi, self.cuts, self.mu), kind="stable")
        self.columns = groups[nearest[: 2 * self.pi.size]]

    def above(self, labels: np.ndarray) -> np.ndarray:
        """What each of the groups 0..c-1 costs above its price."""
        groups = rows_of_groups(labels, 2 * self.grid.k - 1)
        costs = costs_of(self.grid.D, groups)
        return np.maximum(reduced_costs(groups, costs, self.pi, self.cuts, self.mu), 0.0)

    def solve(
        self,
        labels: np.ndarray,
        above: np.ndarray,
        records: np.ndarray,
        settings: Neighbourhood,
        seed: int,
        remaining: Callable[[], float | None],
        stopped: Callable[[], bool],
    ) -> SolvedRegion:
        """The best partition of the records of whole groups, out of groups close to their price."""
        # Where a record has too many groups, which of them are listed depends on the order of the records.
        order = np.random.default_rng(seed).permutation(records.size)
        numbers, old = np.unique(labels[records[order]], return_inverse=True)
        old = old.reshape(-1)
        grid = self.grid.part(records[order])
        own = rows_of_groups(old, 2 * grid.k - 1)
        inside = np.full(labels.size + 1, -1)  # the last place is that of no record
        inside[records[order]] = np.arange(records.size)
        near = self._listed(grid, records[order], inside, float(above[numbers].sum()), settings)
        groups = np.unique(np.concatenate([near, self._known(inside), own]), axis=0)
        costs = costs_of(grid.D, groups)
        keys = {row.tobytes() for row in own}
        known = np.array([row.tobytes() in keys for row in groups])
        chosen = choose(
            groups,
            costs,
            records.size,
            known=known,
            nodes=NODES,
            seconds=remaining(),
            stopped=stopped,
            gap=1e-7,
        )
        before = float(costs[known].sum())
        fallen = before - chosen.cost
        new = np.empty(records.size, np.int64)
        if chosen.taken is None or not chosen.in_time or fallen <= 1e-9 * before:
            new[order] = old
            return SolvedRegion(new, 0.0, chosen.in_time, chosen.iterations)
        taken = groups[chosen.taken]
        group, column = np.nonzero(taken >= 0)
        new[order[taken[group, column]]] = group
        return SolvedRegion(new, fallen, True, chosen.iterations)

    def _known(self, inside: np.ndarray) -> np.ndarray:
        """Groups of the relaxation in a region: with outliers they are better than those listed at random."""
        rows = np.where(self.columns >= 0, inside[self.columns], self.pi.size)
        rows = np.sort(rows[(rows >= 0).all(axis=1)], axis=1)
        return np.where(rows < self.pi.size, rows, -1)

    def _listed(
        self,
        grid: RoundedDistances,
        records: np.ndarray,
        inside: np.ndarray,
        gap: float,
        settings: Neighbourhood,
    ) -> np.ndarray:
        """Groups of a region within about the longest reach that still lists nearly all of them."""
        triples = inside[self.cuts[:, :3]]
        whole = (triples >= 0).all(axis=1)
        cuts = CutPrices.of(records.size, np.sort(triples[whole], axis=1), grid.thirds(self.mu[whole]))
        pi, k = self.pi[records], grid.k
        reach, good, factor = gap, 0.0, 0.4
        for _ in range(16):  # nearly all groups are of size k, so these tell how far to go
            tried = low(grid, pi, cuts, range(k, k + 1), reach, settings.most, settings.per_record)
            if tried is not None and (tried[1] >= settings.per_record).mean() <= CROWDED:
                good, factor = reach, 1.35
            elif good > 0:
                break
            reach *= factor
            if reach > gap:
                break
        found = low(grid, pi, cuts, range(k, 2 * k), good, 2 * settings.most, settings.per_record)
        return np.zeros((0, 2 * k - 1), np.int64) if found is None else found[0]


def rows_of_groups(labels: np.ndarray, width: int) -> np.ndarray:
    """The members of the groups 0..c-1, ascending, one row each, filled up with -1."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    rows = np.full((sizes.size, width), -1, np.int64)
    starts = np.cumsum(sizes) - sizes
    rows[labels[order], np.arange(labels.size) - starts[labels[order]]] = order
    return rows
