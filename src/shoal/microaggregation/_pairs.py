"""The search on a small table with large groups: annealing by its squared distances, all of them at hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from shoal.engine.kernels.axes import blocks_of
from shoal.microaggregation._anneal_kernels import LOGS
from shoal.microaggregation._cooling import CoolingSearch, heat_of, list_length, screen
from shoal.microaggregation._pair_kernels import (
    PairGroups,
    PairTable,
    squared_distances,
    sum_pairs,
    sweep_pairs,
)
from shoal.microaggregation._regions import neighbours
from shoal.microaggregation._work import Report, Shape, Work


class PairSearch(CoolingSearch[PairGroups]):
    """The search on a small table of numbers; the same parameters as `CoolingSearch`."""

    def __init__(
        self,
        Z: np.ndarray,
        k: int,
        labels: np.ndarray,
        work: Work,
        workers: ThreadPoolExecutor,
        rng: np.random.Generator,
        report: Report,
    ) -> None:
        super().__init__(Z, k, labels, work, workers, rng, report)
        n, p = Z.shape
        X = np.zeros((n, -(-p // 8) * 8), np.float32)
        X[:, :p] = Z
        # What is near in space is near in memory, so that the members of a group share a line of the cache.
        self.order = np.concatenate(list(blocks_of(X[:, :p], 2 * k)))
        X = X[self.order]
        near, spread = neighbours(X, list_length(n, k), k)
        heat = np.sqrt(heat_of(spread))
        self.shape = Shape(n, k, p)
        self.table = PairTable(squared_distances(X), near, heat.astype(np.float32))
        self._begin()
        self.table.heat[:] *= np.float32(self.begun / n)

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
    ) -> list[Callable[[], int]]:
        seed = int(self.rng.integers(1, 2**62))
        how = self.k, hot, cold, sweeps, found, dissolved, screen(self.k), seed, LOGS
        return [partial(sweep_pairs, self.table, groups, *how)]
