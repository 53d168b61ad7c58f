"""The search on tables too large for one block: blocks along principal axes, other borders in each round."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from shoal.engine.encode import group_means, sum_of_squares
from shoal.microaggregation._anneal_kernels import STEP
from shoal.microaggregation._fixed_size_kernels import _mdav
from shoal.microaggregation._regions import COLD, HOT, Block, Reheating
from shoal.microaggregation._search import put_back, seeds_from
from shoal.microaggregation._work import Work

CHUNK = 1 << 17
"""Most proposals of a block between two looks at the clock."""

BLOCK = 2048
"""Records of a block, or forty groups where that is more."""


def start_in_blocks(Z: np.ndarray, k: int, workers: ThreadPoolExecutor) -> np.ndarray:
    """MDAV within blocks, which costs O(n) instead of O(n^2)."""
    parts = split(Z, np.ones(Z.shape[0], np.int64), max(BLOCK, 40 * k), np.random.default_rng(0))
    labels, free = np.empty(Z.shape[0], np.int64), 0
    for records, part in zip(parts, workers.map(lambda records: _mdav(Z[records], k), parts), strict=True):
        labels[records] = part + free
        free += int(part.max()) + 1
    return labels


def split(M: np.ndarray, mass: np.ndarray, most: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Cut rows by mass into parts of at most `most`, near the middle of an axis of large variance each time.

    The axis is two steps of the power method from a random vector and the cut lies between 40 and 60 per
    cent, so that each draw gives other borders.
    """
    uncut, parts = [np.arange(M.shape[0])], []
    while uncut:
        rows = uncut.pop()
        if rows.size < 2 or mass[rows].sum() <= most:
            parts.append(rows)
            continue
        centred = M[rows] - M[rows].mean(axis=0)
        axis = rng.normal(size=M.shape[1])
        for _ in range(2):
            axis = centred.T @ (centred @ axis)
            axis /= np.linalg.norm(axis) or 1.0
        order = rows[np.argsort(centred @ axis, kind="stable")]
        weight = np.cumsum(mass[order])
        cut = int(np.searchsorted(weight, rng.uniform(0.4, 0.6) * weight[-1]))
        cut = min(max(cut, 1), rows.size - 1)
        uncut += [np.sort(order[cut:]), np.sort(order[:cut])]
    return parts


class BlockSearch:
    """The search on a table of many blocks; the same parameters as `Search`."""

    def __init__(
        self,
        Z: np.ndarray,
        k: int,
        labels: np.ndarray,
        work: Work,
        workers: ThreadPoolExecutor,
        rng: np.random.Generator,
        report: Callable[[float], None],
    ) -> None:
        self.Z, self.k, self.labels = Z, k, labels
        self.work, self.workers, self.rng, self.report = work, workers, rng, report
        self.sse = sum_of_squares(Z, labels)

    def run(self) -> None:
        """Anneal all blocks, then reheat with other borders in each round until the budget is used up."""
        self.anneal()
        idle = 0
        while not self.work.over() and idle < 3:
            idle = 0 if self.reheat() else idle + 1

    def _speed(self, block: Block, labels: np.ndarray) -> float:
        """Proposals per second of all threads, from a short trial."""
        size, threads = 1 << 16, self.workers._max_workers
        scale = block.sse(labels) / labels.size or 1.0
        block.anneal(labels, scale, scale, STEP, 1)  # compiles
        started = time.perf_counter()
        list(self.workers.map(lambda _: block.anneal(labels, scale, scale, size, 1), range(threads)))
        return threads * size / (time.perf_counter() - started)

    def _split(self) -> list[np.ndarray]:
        """Records of the blocks of a new draw: whole groups each."""
        sizes = np.bincount(self.labels)
        most = max(BLOCK, 40 * self.k)
        parts = split(group_means(self.Z, self.labels), sizes, most, self.rng)
        owner = np.empty(sizes.size, np.int64)
        for number, groups in enumerate(parts):
            owner[groups] = number
        order = np.argsort(owner[self.labels], kind="stable")
        return np.split(order, np.cumsum(np.bincount(owner[self.labels]))[:-1])

    def _cut_out(self, records: np.ndarray) -> tuple[Block, np.ndarray]:
        """A block, and its labels 0..c-1."""
        return Block.of(self.Z[records], self.k), np.unique(self.labels[records], return_inverse=True)[
            1
        ].reshape(-1)

    def anneal(self) -> None:
        """Anneal all blocks from hot to cold."""
        parts = self._split()
        cut = list(self.workers.map(self._cut_out, parts))
        length = self.work.plan(
            lambda _: (0.6, False), lambda: self._speed(*cut[0]), 2_000_000 * self.labels.size, unit=STEP
        )
        if not length or self.work.over():
            return
        chunks = max(1, length // (len(parts) * CHUNK))
        states = [labels for _, labels in cut]
        steps = [
            max(1, length * records.size // (self.labels.size * chunks) // STEP) * STEP for records in parts
        ]
        heats = np.geomspace(HOT, COLD, chunks + 1)
        scales = [block.sse(labels) / labels.size for block, labels in cut]

        def job(b: int, hot: float, cold: float, seed: int) -> np.ndarray:
            if scales[b] <= 0:
                return states[b]
            return cut[b][0].anneal(states[b], hot * scales[b], cold * scales[b], steps[b], seed)

        try:
            for hot, cold in pairwise(heats):
                for batch in _batches(len(parts)):
                    seeds = seeds_from(self.rng, len(batch))
                    jobs = [
                        self.workers.submit(job, b, hot, cold, seed)
                        for b, seed in zip(batch, seeds, strict=True)
                    ]
                    for b, done in zip(batch, [each.result() for each in jobs], strict=True):
                        states[b] = done
                        self.work.proposals += steps[b]
                    self.report(self.sse)
                    if self.work.over():
                        return
        finally:  # out of time or interrupted: blocks that are better already are kept
            falls = [
                block.sse(labels) - block.sse(state)
                for (block, labels), state in zip(cut, states, strict=True)
            ]
            self._keep(parts, list(zip(states, falls, strict=True)))

    def reheat(self) -> bool:
        """Reheat regions of the blocks of a new draw; whether any has improved."""
        parts = self._split()
        improved = False
        for batch in _batches(len(parts)):
            seeds = seeds_from(self.rng, len(batch))
            jobs = [
                self.workers.submit(self._reheated, parts[b], seed)
                for b, seed in zip(batch, seeds, strict=True)
            ]
            results = [each.result() for each in jobs]
            self.work.proposals += sum(proposals for _, _, proposals in results)
            improved |= self._keep([parts[b] for b in batch], [(labels, fall) for labels, fall, _ in results])
            self.report(self.sse)
            if self.work.over():
                break
        return improved

    def _reheated(self, records: np.ndarray, seed: int) -> tuple[np.ndarray, float, int]:
        """Labels of a block after reheating about all of it, region by region; the fall; the proposals."""
        block, labels = self._cut_out(records)
        rng = np.random.default_rng(seed)
        fallen, proposals = 0.0, 0
        while proposals < 1000 * records.size:
            settings = Reheating.draw(self.k, block.even, rng)
            region = block.regions(labels, 1, settings.records, rng)
            results = [block.reheat(labels, region[0], settings, seeds_from(rng, 1)[0])]
            labels, fall = put_back(labels, region, results)
            fallen += fall
            proposals += settings.proposals(region[0].size)
        return labels, fallen, proposals

    def _keep(self, parts: list[np.ndarray], results: list[tuple[np.ndarray, float]]) -> bool:
        self.labels, fallen = put_back(self.labels, parts, results)
        self.sse -= fallen
        return fallen > 0


def _batches(count: int) -> Iterator[range]:
    """Eight jobs at a time: enough for the threads, few enough to look at the clock often."""
    for first in range(0, count, 8):
        yield range(first, min(first + 8, count))
