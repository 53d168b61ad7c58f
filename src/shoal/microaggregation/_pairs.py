"""The search on a small table with large groups: annealing by its squared distances, all of them at hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np

from shoal.engine.kernels.axes import blocks_of
from shoal.microaggregation._anneal_kernels import LOGS
from shoal.microaggregation._cooling import WARM, CoolingSearch, heat_of, heats_for, list_length, screen
from shoal.microaggregation._copies import see_past_copies
from shoal.microaggregation._global_kernels import DISSOLVE, FOUND
from shoal.microaggregation._pair_kernels import (
    PairGroups,
    PairTable,
    squared_distances,
    sum_pairs,
    sweep_pairs,
)
from shoal.microaggregation._regions import coolness, directions, neighbours
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._work import Shape

PROBE = 16
"""Sweeps at each temperature from which it is known what proposals consist of."""

NANOSECONDS = 25.0, 6.0, 0.26
"""Of a proposal, of each exchange it compares, and of each record of the table for a move that is made."""


ALIKE_HEATS = (26.0, 0.13)
"""First and last temperature where most records have many copies: little is lost, but to leave one's copies costs much."""


class PairSearch(CoolingSearch[PairGroups]):
    """The search on a small table of numbers."""

    def __init__(self, task: SearchTask) -> None:
        super().__init__(task)
        Z, k = task.Z, task.k
        n, p = Z.shape
        X = np.zeros((n, -(-p // 8) * 8), np.float32)
        X[:, :p] = Z
        # What is near in space is near in memory, so that the members of a group share a line of the cache.
        self.order = np.concatenate(list(blocks_of(X[:, :p], 2 * k)))
        X = X[self.order]
        near, spread = neighbours(X, list_length(n, k), k)
        lists = see_past_copies(X[:, :p], near)
        alike = bool((lists != near).any(axis=1).mean() > 0.5)
        heat = np.ones(n) if alike else np.sqrt(heat_of(spread))
        self.shape = Shape(n, k, p)
        self.table = PairTable(squared_distances(X), lists, heat.astype(np.float32))
        self._begin()
        spread_in = directions(X, near)
        self.heats = ALIKE_HEATS if alike else heats_for(spread_in, small=True)
        self.table.heat[:] *= np.float32(coolness(spread_in) * self.begun / n)

    def _build(self, labels: np.ndarray) -> PairGroups:
        n, k = labels.size, self.k
        most = n // k
        groups = PairGroups(
            labels.astype(np.int32),
            np.zeros(most, np.int32),
            np.zeros((most, 2 * k - 1), np.int32),
            np.zeros(n, np.int32),
            np.zeros((most, n), np.float32),
            np.zeros(most),
        )
        sum_pairs(self.table, groups)
        return groups

    def _losses(self, groups: PairGroups) -> np.ndarray:
        return groups.pairs / np.maximum(groups.sizes, 1)

    def _jobs(
        self, groups: PairGroups, hot: float, cold: float, sweeps: int, found: int, dissolved: int
    ) -> list[Callable[[], object]]:
        seed = int(self.rng.integers(1, 2**62))
        how = self.k, hot, cold, sweeps, found, dissolved, screen(self.k), seed, LOGS
        return [partial(sweep_pairs, self.table, groups, *how)]

    def _seconds_per_proposal(self) -> float:
        """Seconds by what is compared and moved in a short annealing.

        On a skewed table most proposals are accepted where records are close, and each of these moves costs O(n); on an
        even one few are. Counting them costs the same on every machine, however busy it is.
        """
        n, groups = self.order.size, self._build(self.first[self.order])
        edges = np.geomspace(*self.heats, 9) / self.k**0.5
        costs = []
        for hot, cold in pairwise(edges):
            how = self.k, hot, cold, PROBE, FOUND, DISSOLVE, screen(self.k), 1, LOGS
            moved, compared = sweep_pairs(self.table, groups, *how)
            base, each, row = NANOSECONDS
            costs.append(base + (each * compared + row * n * moved) / (PROBE * n))
        warm = np.array(costs)[edges[:-1] * self.k**0.5 <= WARM]  # half of the work is done at these
        return 1e-9 * float(np.mean(costs) + np.mean(warm)) / 2
