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
from typing import Any

import numpy as np

from shoal.microaggregation._anneal_kernels import STEP
from shoal.microaggregation._regions import COLD, HOT, Block, Reheating

CHAINS = 2
"""Annealings of a whole table run side by side; a constant, so that the result does not depend on the machine."""

CHUNK = 1 << 20
"""Most proposals of one job of an annealing, so that the clock is looked at often."""


@dataclass
class Work:
    """Proposals made, the plan they follow, and when to stop.

    The plan is one number, `code`: how long the first annealing is, in steps of the root of two.
    """

    time_limit: float | None
    max_proposals: int | None
    proposals: int = 0
    code: int = 0
    started: float = field(default_factory=time.perf_counter)
    _looked: float = 0.0

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
        return now + 0.5 * min(pace, 0.5) >= self.time_limit

    def plan(self, share: float, speed: Callable[[], float]) -> int:
        """Proposals for the first annealing, all chains together; `speed` measures proposals per second."""
        if self.max_proposals is not None and self.max_proposals % 100:
            self.code = self.max_proposals % 100
        else:
            if self.max_proposals is not None:
                length = share * self.max_proposals
            else:
                seconds = 60.0 if self.time_limit is None else self.time_limit - self.elapsed()
                length = share * max(0.0, seconds) * speed()
            self.code = min(99, max(1, 2 + math.floor(2 * math.log2(max(length, 1.0) / STEP))))
        return int(STEP * 2 ** ((self.code - 2) / 2)) if self.code > 1 else 0

    def repeatable(self) -> int:
        """The number that, given as `max_proposals`, repeats this run."""
        return self.proposals // 100 * 100 + self.code


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
        self.block = Block.of(Z, k)
        self.work, self.workers, self.rng, self.report = work, workers, rng, report
        self.labels, self.sse = labels, self.block.sse(labels)
        self.scale = self.sse / labels.size
        self.patience = 20_000 * labels.size + 2_000_000

    def run(self) -> None:
        """Anneal, then reheat until the budget is used up or nothing has improved for long."""
        k = self.block.k
        length = self.work.plan(0.5, self._speed)
        if self.scale <= 0 or self.work.over():
            return
        if length:
            self.anneal(length // CHAINS)
        settings = Reheating.of(k)
        stale = 0
        while not self.work.over() and stale < self.patience:
            before = self.work.proposals
            stale = 0 if self.reheat(settings) else stale + self.work.proposals - before

    def _speed(self) -> float:
        """Proposals per second of all chains, from a short trial."""
        size = 1 << 16
        self._together(self.block.anneal, [(self.labels, self.scale, self.scale, STEP, 1)])  # compiles
        started = time.perf_counter()
        self._together(self.block.anneal, [(self.labels, self.scale, self.scale, size, 1)] * CHAINS)
        return CHAINS * size / (time.perf_counter() - started)

    def _together(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        jobs = [self.workers.submit(function, *each) for each in arguments]
        return [job.result() for job in jobs]

    def anneal(self, length: int) -> None:
        """Anneal `CHAINS` copies of the partition from hot to cold, `length` proposals each; keep the best."""
        chains = [self.labels] * CHAINS
        chunks = max(1, -(-length // CHUNK))
        size = max(1, length // chunks // STEP) * STEP
        heats = np.geomspace(HOT, COLD, chunks + 1) * self.scale
        try:
            for hot, cold in zip(heats[:-1], heats[1:], strict=True):
                seeds = seeds_from(self.rng, CHAINS)
                chains = self._together(
                    self.block.anneal,
                    [(labels, hot, cold, size, seed) for labels, seed in zip(chains, seeds, strict=True)],
                )
                self.work.proposals += CHAINS * size
                self.report(self.sse)
                if self.work.over():
                    break
        finally:  # an interrupt keeps what it may already have brought
            for labels in chains:
                sse = self.block.sse(labels)
                if sse < self.sse:
                    self.labels, self.sse = labels, sse

    def reheat(self, settings: Reheating) -> bool:
        """Reheat disjoint regions around random records; whether any has improved."""
        n = self.labels.size
        count = max(1, min(16, n // (2 * settings.records)))
        parts = self.block.regions(self.labels, self.rng.integers(0, n, count), min(settings.records, n))
        seeds = seeds_from(self.rng, len(parts))
        results = self._together(
            self.block.reheat,
            [(self.labels, records, settings, seed) for records, seed in zip(parts, seeds, strict=True)],
        )
        self.labels, fallen = put_back(self.labels, parts, results)
        self.sse -= fallen
        self.work.proposals += sum(settings.proposals(records.size) for records in parts)
        self.report(self.sse)
        return fallen > 0


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
