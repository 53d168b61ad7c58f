"""The search around the annealing kernels: what is annealed, when, for how long, and on which thread.

Work is cut into jobs whose size and seeds depend on nothing but the plan, and results are put together in
the order of the jobs, so that the outcome does not depend on the number of threads.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.microaggregation._anneal_kernels import STEP
from shoal.microaggregation._path_exchange import along_path
from shoal.microaggregation._regions import COLD, HOT, Block, Reheating
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._work import Shape

if TYPE_CHECKING:
    from shoal.microaggregation._exact import RecordPrices, SolvedRegion

MOST_RECORDS = 5_000
"""Records up to which prices are found: the relaxation keeps all squared distances, 200 MB for as many."""

CHAINS = 2
"""Annealings of a whole table run side by side; a constant, so that the result does not depend on the machine."""

RUNS = {2: 8, 3: 8, 4: 8, 5: 4, 6: 4, 7: 4}
"""Number of runs by k where there are many proposals; larger groups want one long run rather than several."""

MANY = 60_000
"""Proposals per record from which several runs pay."""

WARM = (0.3, 0.5, 0.8)
"""First temperatures of the annealings that begin at the best partition."""

NOMINAL = 4e7
"""Proposals that two cores make in about a second; what else takes time is counted in them."""

PER_STEP = 6_000
"""Proposals that a step of the simplex method counts for."""

WAITING = 3
"""Regions that are solved or wait for it at a time; a constant, so that the result does not depend on the machine."""

VAIN = 6
"""Times that the table is solved in vain, region by region, before the regions grow."""

LARGEST = 1200
"""Records of the largest regions."""

CHUNK = 1 << 20
"""Most proposals of one job of an annealing, so that the clock is looked at often."""


class Search:
    """The search on a table that is one block."""

    def __init__(self, task: SearchTask) -> None:
        self.Z, self.block, self.first = task.Z, Block.of(task.Z, task.k), task.labels
        self.given = task.as_given
        self.work, self.workers, self.rng, self.report = task.work, task.workers, task.rng, task.report
        self.labels, self.sse = self.first, self.block.sse(self.first)
        self.scale = self.block.cool * self.sse / self.first.size
        self.prices: RecordPrices | None = None
        self.patience = 100_000 * self.first.size + 1_000_000

    def run(self) -> None:
        """Anneal, solve regions where it pays, then reheat until the budget is used up or nothing improves.

        With small groups the best of several runs is better than one long run, and solving regions exactly
        is better than both, once there is time to price the records.
        """
        k, n = self.block.k, self.first.size
        shape = Shape(n, k, self.Z.shape[1], flat=True)  # one block, for whatever reason
        self.work.settle(shape.seconds_per_proposal)
        length = self.work.plan(self._plan, self._speed, 2_000_000 * n, unit=STEP)
        if self.scale <= 0 or self.work.over():
            return
        self.anneal(self.first, HOT, length // (32 * CHAINS))  # soon something good, if interrupted
        # Where groups are large for the table the annealing is a third of all, or more.
        if shape.worth_a_path(4 * length):
            self._offer(along_path(self.given, k))
        several = length >= MANY * n and not (self.work.exact and self.block.even)
        runs = RUNS.get(k, CHAINS) if several else CHAINS
        for _ in range(runs // CHAINS):
            part = length // (2 * runs if runs > CHAINS else CHAINS)
            for labels in self.anneal(self.first, HOT, part):
                if runs > CHAINS:
                    self.polish(labels, part)
        if self.work.exact:
            self.price((3.0 if self.block.even else 1.2) * length / NOMINAL)
            self.solve_regions(self.labels)
        self.polish(self.labels, None)
        self.warm_up(min(length // (2 * CHAINS), self.patience))

    def price(self, effort: float) -> None:
        """Find the prices of the records, with some seconds of work at most."""
        from shoal.microaggregation._exact import RecordPrices  # brings solvers along, which take a while

        if self.work.over():
            return
        job = self.workers.submit(RecordPrices, self.Z, self.block.k, self.labels, effort, self.work.stopped)
        prices = job.result()
        if self.work.stopped():  # not counted, so that a run with as many proposals ends before it too
            self.work.end()
            return
        self.prices = prices
        self.work.proposals += round(self.prices.effort * NOMINAL) // STEP * STEP
        self.report(lambda: self.sse)

    def solve_regions(self, labels: np.ndarray) -> None:
        """Solve regions of a partition by integer programmes, larger ones when many in a row brought nothing.

        What is found is offered.
        """
        waiting: deque[tuple[np.ndarray, Future[SolvedRegion]]] = deque()
        level, covered = 0, 0
        while self.prices is not None and not self.work.over():
            # Results are taken in the order of the questions, so that the outcome does not depend on threads.
            while len(waiting) < WAITING and level >= 0 and self._ask(self.prices, labels, level, waiting):
                pass
            if not waiting:
                return
            records, job = waiting.popleft()
            solved = job.result()
            if not solved.in_time:
                self.work.end()
                break
            labels, fallen = put_back(labels, [records], [(solved.labels, solved.fallen)])
            if fallen > 0:
                self._offer(labels)
            covered = 0 if fallen > 0 else covered + records.size
            if covered >= VAIN * labels.size and level >= 0:
                level = level + 1 if 200 << level < min(labels.size, LARGEST) else -1
                covered = 0
            self.work.proposals += (PER_STEP * solved.steps // STEP + 1) * STEP
            self.report(lambda: self.sse)
        for _, job in waiting:
            job.cancel()

    def _ask(
        self,
        prices: RecordPrices,
        labels: np.ndarray,
        level: int,
        waiting: deque[tuple[np.ndarray, Future[SolvedRegion]]],
    ) -> bool:
        """Have one more region solved, away from those that are; False where there is no room."""
        from shoal.microaggregation._exact import Neighbourhood

        settings, seed = Neighbourhood.draw(self.block.k, level, self.rng), seeds_from(self.rng, 1)[0]
        free = np.ones(labels.size, np.bool_)
        for records, _ in waiting:
            free[records] = False
        above = prices.above(labels)
        worth = np.where(free, (above / np.bincount(labels))[labels], 0.0)
        records = self.block.region(labels, free, worth, settings.records, self.rng)
        if records.size < settings.records // 2 and waiting:
            return False
        clock = self.work.remaining, self.work.stopped
        job = self.workers.submit(prices.solve, labels, above, records, settings, seed, *clock)
        waiting.append((records, job))
        return True

    def warm_up(self, length: int) -> None:
        """Anneal the best partition again, less hot, while that brings anything."""
        stale, begun = 0, self.sse
        while stale < 4 and not self.work.over():
            for labels in self.anneal(self.labels, float(self.rng.choice(WARM)), length):
                self.solve_regions(self.polish(labels, self.patience // 2))
            stale = 0 if self.sse < begun else stale + 1
            begun = self.sse

    def polish(self, labels: np.ndarray, proposals: int | None) -> np.ndarray:
        """Reheat a partition for some proposals, or until nothing has improved for long; offer it."""
        stale, sse = 0, self.block.sse(labels)
        begun = self.work.proposals
        while stale < self.patience and (proposals is None or self.work.proposals - begun < proposals):
            if self.work.over():
                break
            before = self.work.proposals
            labels, fallen = self.reheat(labels, Reheating.draw(self.block.k, self.block.even, self.rng))
            sse -= fallen
            stale = 0 if fallen > 0 else stale + self.work.proposals - before
            if sse < self.sse:
                self.labels, self.sse = labels, sse
            self.report(lambda: self.sse)
        return labels

    def _plan(self, proposals: float) -> tuple[float, bool]:
        """The part of the proposals that goes into annealing, and whether regions are solved exactly.

        They are where pricing the records, which takes about three times as long for each k, takes no
        more than a part of the time. Otherwise annealing gets the more the larger the groups are. On a
        skewed table with few proposals for each record, reheating brings more.
        """
        k, n = self.block.k, self.first.size
        seconds = 3.0 ** (k - 3) * n / 1000
        if n <= MOST_RECORDS and seconds < 0.4 * proposals / NOMINAL:
            return 0.2 if self.block.even else 0.35, True
        if not self.block.even and proposals < 100_000 * n:
            return 0.3, False
        return {2: 0.5, 3: 0.5, 4: 0.7, 5: 0.85, 6: 0.85, 7: 0.85}.get(k, 0.95), False

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

    def anneal(self, first: np.ndarray, hot: float, length: int) -> list[np.ndarray]:
        """Two partitions annealed from one, `length` proposals each."""
        if length < STEP or self.work.over():
            return []
        chains = [first] * CHAINS
        chunks = -(-length // CHUNK)
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
                self.report(lambda: self.sse)
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
