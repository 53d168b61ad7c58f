"""The search around the annealing kernels: what is annealed, when, for how long, and on which thread.

Work is cut into jobs whose size and seeds depend on nothing but the plan, and results are put together in
the order of the jobs, so that the outcome does not depend on the number of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.microaggregation._anneal_kernels import STEP
from shoal.microaggregation._intensify import Pool
from shoal.microaggregation._regions import COLD, HOT, Block, Reheating

CHAINS = 2
"""Annealings of a whole table run side by side; a constant, so that the result does not depend on the machine."""

RUNS = {2: 8, 3: 8, 4: 8, 5: 4, 6: 4, 7: 4}
"""Number of runs by k where there are many proposals; larger groups want one long run rather than several."""

MANY = 60_000
"""Proposals per record from which several runs pay."""

WARM = (0.3, 0.5, 0.8)
"""First temperatures of the annealings that begin at the best partition."""

CHUNK = 1 << 20
"""Most proposals of one job of an annealing, so that the clock is looked at often."""


@dataclass
class Work:
    """Proposals made, the plan they follow, and when to stop.

    The plan is a number below 100: `code`, how long the first annealing is, in steps of the root of two,
    and 50 more if the last integer programme over the pool ran out of time.
    """

    time_limit: float | None
    max_proposals: int | None
    proposals: int = 0
    code: int = 0
    without_pool: bool = False
    started: float = field(default_factory=time.perf_counter)
    _looked: float = 0.0
    _ended: bool = False

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def over(self) -> bool:
        """Whether the budget is used up, or will be before the next look at half the time since the last."""
        if self.max_proposals is not None:
            return self.proposals >= self.max_proposals // 100 * 100
        if self.time_limit is None:
            return False
        now = self.elapsed()
        pace, self._looked = now - self._looked, now
        self._ended = self._ended or now + 0.5 * min(pace, 0.5) >= self.time_limit
        return self._ended

    def remaining(self) -> float | None:
        """Seconds left, where seconds count."""
        if self.max_proposals is not None or self.time_limit is None:
            return None
        return max(0.0, self.time_limit - self.elapsed())

    def plan(self, share: Callable[[float], float], speed: Callable[[], float], most: int) -> int:
        """Proposals for the annealing, all chains together; `speed` measures how many a second has room for."""
        code = (self.max_proposals or 0) % 100
        if code:
            self.without_pool, self.code = code >= 50, code % 50
        else:
            if self.max_proposals is not None:
                total = float(self.max_proposals)
            else:
                seconds = self.remaining()
                total = (60.0 if seconds is None else seconds) * speed()
            length = share(total) * total
            self.code = min(49, max(1, 2 + math.floor(2 * math.log2(max(min(length, most), 1.0) / STEP))))
        return int(STEP * 2 ** ((self.code - 2) / 2)) if self.code > 1 else 0

    def repeatable(self) -> int:
        """The number that, given as `max_proposals`, repeats this run."""
        return self.proposals // 100 * 100 + self.code + 50 * self.without_pool


class Search:
    """The search on a table that is one block.

    Parameters
    ----------
    Z : array of float64
    k : int
    labels : array of int64
        A partition with group sizes k..2k-1, labelled 0..c-1.
    work : Work
    workers : ThreadPoolExecutor
    rng : numpy.random.Generator
    report : callable
        Called with the SSE now and then.
    """

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
        self.Z, self.block, self.first = Z, Block.of(Z, k), labels
        self.work, self.workers, self.rng, self.report = work, workers, rng, report
        self.labels, self.sse = labels, self.block.sse(labels)
        self.scale = self.sse / labels.size
        self.patience = 100_000 * labels.size + 1_000_000

    def run(self) -> None:
        """Anneal, recombine where it pays, then reheat until the budget is used up or nothing improves.

        With small groups the best of several runs is better than one long run. With k up to 3 on even tables
        they share most of their groups and differ in places, and the best choice among the groups of all is
        near the optimum; on skewed tables and with larger groups the integer programme grows too hard for
        what it brings.
        """
        k, n = self.block.k, self.first.size
        length = self.work.plan(self._share, self._speed, 2_000_000 * n)
        if self.scale <= 0 or self.work.over():
            return
        runs = RUNS.get(k, CHAINS) if length >= MANY * n else CHAINS
        pool = Pool(self.Z) if runs > CHAINS and k <= 3 and self.block.even else None
        self.anneal(self.first, HOT, length // (32 * CHAINS), None)  # soon something good, if interrupted
        for _ in range(runs // CHAINS):
            part = length // (2 * runs if runs > CHAINS else CHAINS)
            for labels in self.anneal(self.first, HOT, part, pool):
                if runs > CHAINS:
                    self.polish(labels, part, pool)
        if pool is not None and not self.work.over():
            self.recombine(pool, (1000, 4000) if length >= 4 * MANY * n else (2000,))
        self.polish(self.labels, None, None)
        self.warm_up(min(length // (2 * CHAINS), self.patience))

    def warm_up(self, length: int) -> None:
        """Anneal the best partition again, less hot, while that brings anything."""
        stale, begun = 0, self.sse
        while stale < 4 and not self.work.over():
            for labels in self.anneal(self.labels, float(self.rng.choice(WARM)), length, None):
                self.polish(labels, self.patience // 2, None)
            stale = 0 if self.sse < begun else stale + 1
            begun = self.sse

    def polish(self, labels: np.ndarray, proposals: int | None, pool: Pool | None) -> None:
        """Reheat a partition for some proposals, or until nothing has improved for long; offer it."""
        stale, sse = 0, self.block.sse(labels)
        begun = self.work.proposals
        while stale < self.patience and (proposals is None or self.work.proposals - begun < proposals):
            if self.work.over():
                return
            before = self.work.proposals
            labels, fallen = self.reheat(labels, Reheating.draw(self.block.k, self.block.even, self.rng))
            sse -= fallen
            stale = 0 if fallen > 0 else stale + self.work.proposals - before
            if fallen > 0 and pool is not None:
                pool.add(labels)
            if sse < self.sse:
                self.labels, self.sse = labels, sse
            self.report(self.sse)

    def _share(self, proposals: float) -> float:
        """The part of the proposals that goes into annealing: the more the larger the groups are.

        On a skewed table with few proposals for each record, reheating brings more.
        """
        if not self.block.even and proposals < 100_000 * self.first.size:
            return 0.3
        return {2: 0.5, 3: 0.5, 4: 0.7}.get(self.block.k, 0.85)

    def _speed(self) -> float:
        """Proposals per second of all chains, from a short annealing: the colder the faster."""
        size = 1 << 18
        hot, cold = HOT * self.scale, COLD * self.scale
        self._together(self.block.anneal, [(self.labels, hot, cold, STEP, 1)])  # compiles
        started = time.perf_counter()
        self._together(self.block.anneal, [(self.labels, hot, cold, size, 1)] * CHAINS)
        return CHAINS * size / (time.perf_counter() - started)

    def _together(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        jobs = [self.workers.submit(function, *each) for each in arguments]
        return [job.result() for job in jobs]

    def anneal(self, first: np.ndarray, hot: float, length: int, pool: Pool | None) -> list[np.ndarray]:
        """Two partitions annealed from one, `length` proposals each."""
        if length < STEP or self.work.over():
            return []
        chains = [first] * CHAINS
        chunks = max(1 if pool is None else 100, -(-length // CHUNK))
        size = max(1, length // chunks // STEP) * STEP
        heats = np.geomspace(hot, COLD, chunks + 1) * self.scale
        try:
            for warm, cold in pairwise(heats):
                seeds = seeds_from(self.rng, CHAINS)
                chains = self._together(
                    self.block.anneal,
                    [(labels, warm, cold, size, seed) for labels, seed in zip(chains, seeds, strict=True)],
                )
                self.work.proposals += CHAINS * size
                self.report(self.sse)
                if pool is not None and cold < 0.3 * self.scale:
                    for labels in chains:
                        pool.add(labels)
                if self.work.over():
                    break
        finally:  # an interrupt keeps what it may already have brought
            for labels in chains:
                self._offer(labels)
        return chains

    def _offer(self, labels: np.ndarray) -> None:
        """Keep a partition if it is better."""
        sse = self.block.sse(labels)
        if sse < self.sse:
            self.labels, self.sse = labels, sse

    def recombine(self, pool: Pool, sizes: tuple[int, ...]) -> None:
        """Offer the best partition of groups of all runs, chosen from fewer groups first.

        The last and hardest programme may take most of the time that is left. If it takes more, that is
        noted in the plan, for a repetition leaves it out.
        """
        for size in sizes:
            last = size == sizes[-1]
            if last and self.work.without_pool:
                return
            left = self.work.remaining() if last else None
            labels = pool.best(self.labels, size, None if left is None else 0.8 * left)
            if labels is not None:
                self._offer(labels)
            elif last:
                self.work.without_pool = True
            self.report(self.sse)

    def reheat(self, labels: np.ndarray, settings: Reheating) -> tuple[np.ndarray, float]:
        """Labels after reheating disjoint regions around random records, and by how much the SSE has fallen."""
        n = labels.size
        count = max(1, min(16, n // (2 * settings.records)))
        parts = self.block.regions(labels, count, min(settings.records, n), self.rng)
        seeds = seeds_from(self.rng, len(parts))
        results = self._together(
            self.block.reheat,
            [(labels, records, settings, seed) for records, seed in zip(parts, seeds, strict=True)],
        )
        self.work.proposals += sum(settings.proposals(records.size) for records in parts)
        return put_back(labels, parts, results)


def seeds_from(rng: np.random.Generator, count: int) -> list[int]:
    """Seeds for the next jobs."""
    return [int(seed) for seed in rng.integers(1, 2**62, count)]


def put_back(
    labels: np.ndarray, parts: Sequence[np.ndarray], results: Sequence[tuple[np.ndarray, float]]
) -> tuple[np.ndarray, float]:
    """Labels 0..c-1 with the improved regions in their places, and by how much the SSE has fallen."""
    new, free, fallen = labels.copy(), int(labels.max()) + 1, 0.0
    for records, (part, fall) in zip(parts, results, strict=True):
        if fall > 0:
            new[records] = part + free
            free += int(part.max()) + 1
            fallen += fall
    if fallen > 0:
        new = np.unique(new, return_inverse=True)[1].reshape(-1)
    return new, fallen
