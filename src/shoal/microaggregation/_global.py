"""The search on large tables: one annealing of the whole table from a good start, at low temperature."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np

from shoal.engine.kernels.axes import blocks_of, random_cuts
from shoal.engine.kernels.nearest import KernelRows, neighbour_lists
from shoal.microaggregation._anneal_kernels import LOGS
from shoal.microaggregation._combine import combine
from shoal.microaggregation._global_kernels import (
    DISSOLVE,
    FOUND,
    KernelGroups,
    RecordTable,
    count_groups,
    rows_by_job,
    sweep,
)
from shoal.microaggregation._mixed import Mixed
from shoal.microaggregation._path_exchange import along_path
from shoal.microaggregation._refine import refine
from shoal.microaggregation._regions import contributions
from shoal.microaggregation._work import Report, Shape, Work
from shoal.microaggregation.fixed_size.plain import plain_mdav

BLOCK = 2_000
"""Records of a block in which the first partition is made."""

REFINING = 6
"""Rounds of exchanges across the borders of these blocks; as many as methods without a search get in parts."""

LEAF = 1024
"""Records of a leaf of the tree: their neighbours are found by looking at all of them."""

AXES, SAMPLE = 16, 4_000
"""Columns up to which trees are cut by all of them; records from which the principal axes of more are found."""

JOB = 60_000
"""Records up to which a job has the whole table; a constant, so that the result does not depend on the machine."""

SWEEPS = 5
"""Sweeps over the table with the same jobs."""

LEVELS, LEAST = 40, 1 << 17
"""Levels of temperature, and proposals of each where there are more, so that what is done between takes no time."""

TRIAL = 1 << 16
"""Proposals from which the speed is measured."""

CHAINS = 2
"""Annealings of a small table side by side; a constant, so that the result does not depend on the machine."""

LAST, QUENCH = 4, (0.02, 0.01)
"""Sweeps at the end in which groups are neither founded nor dissolved, and their temperatures."""


HEATS, SMALL_HEATS = (0.9, 0.18), (1.3, 0.13)
"""First and last temperature times the root of k, in units of SSE per record, however many sweeps there are."""

LONGEST = 1_000_000
"""Sweeps beyond which annealing brings nothing."""

WARM, LAPS, SHORTEST, LONGEST_LAP = 0.7, 16, 300, 5_000
"""First temperature of the laps that a small table is annealed again in; how many there would be in all the sweeps,
half of which are for the first annealing; and the sweeps of a lap, at least and at most."""


def screen(k: int) -> float:
    """How much farther than its own group another may be for a record to look at it, in its own units."""
    return 1.5 if k >= 5 else 1.8 if k == 4 else 2.2


def list_length(n: int, k: int) -> int:
    """Neighbours that are listed for each record."""
    return max(1, min(n - 1, max(12, 2 * k + 2)))


def start_in_blocks(Z: np.ndarray, k: int, workers: ThreadPoolExecutor) -> np.ndarray:
    """MDAV within blocks, which costs O(n) instead of O(n^2), then exchanges across their borders."""
    blocks = [np.sort(rows) for rows in blocks_of(Z, max(BLOCK, 10 * k))]
    labels, following = np.empty(Z.shape[0], np.int64), 0
    found = workers.map(lambda rows: plain_mdav(np.take(Z, rows, axis=0, mode="clip"), k), blocks)
    for rows, part in zip(blocks, found, strict=True):
        labels[rows] = part + following
        following += int(part.max()) + 1
    return refine(Z, labels, REFINING)


def cutting(Z: np.ndarray) -> np.ndarray:
    """Coordinates by which trees are cut: as they are, or along the first principal axes where there are many."""
    if Z.shape[1] <= AXES:
        return Z.astype(np.float32)
    sample = Z[:: max(1, Z.shape[0] // SAMPLE)]
    centred = sample - sample.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, -AXES:]
    return (Z @ axes).astype(np.float32)


class GlobalSearch:
    """The search on a large table.

    The same parameters as `Search`, the coordinates taken apart, and the loss that temperatures are in proportion to
    (that of the first partition by default).
    """

    def __init__(
        self,
        Z: np.ndarray,
        k: int,
        labels: np.ndarray,
        work: Work,
        workers: ThreadPoolExecutor,
        rng: np.random.Generator,
        report: Report,
        mixed: Mixed | None = None,
        scale: float | None = None,
    ) -> None:
        self.k, self.first, self.Z = k, labels, Z
        self.work, self.workers, self.rng, self.report = work, workers, rng, report
        mixed = Mixed.of(Z) if mixed is None else mixed
        n, p = mixed.numbers.shape
        m = list_length(n, k)
        leaf = max(LEAF, 8 * m)
        M = cutting(Z)
        leaves = [np.sort(rows) for rows in blocks_of(M, leaf)]
        self.order = np.concatenate(leaves)
        rows = self._rows(mixed)
        edges = np.cumsum([0, *(inside.size for inside in leaves)])
        M = np.take(M, self.order, axis=0, mode="clip")
        near, distance = neighbour_lists(rows, p, M, edges, leaf, m, workers.map)
        spread = distance[:, : k - 1].sum(axis=1, dtype=np.float64)
        del distance, M
        floor = np.quantile(spread, 0.05)
        spread = np.maximum(spread, floor if floor > 0 else spread.mean() * 1e-3)
        heat = spread / spread.mean() if spread.mean() > 0 else np.ones(n)
        self.shape = Shape(n, k, p, mixed.worth.size)
        small = self.shape.small
        self.heats = SMALL_HEATS if small else HEATS
        self.table = RecordTable(*rows, near, (heat**0.5 if small else heat).astype(np.float32))
        self.states = [self._build(self.first[self.order]) for _ in range(CHAINS if small else 1)]
        self.best: KernelGroups | None = None
        self.begun = self.sse
        self.table.heat[:] *= np.float32((self.begun if scale is None else scale) / n)

    def _rows(self, mixed: Mixed) -> KernelRows:
        """The records in the order of the tree, padded."""
        n, p = mixed.numbers.shape
        X = np.zeros((n, -(-p // 8) * 8), np.float32)
        X[:, :p] = np.take(mixed.numbers, self.order, axis=0, mode="clip")
        q = mixed.worth.size
        codes = np.zeros((n, -(-q // 8) * 8), np.int16)  # what is padded is worth nothing
        codes[:, :q] = np.take(mixed.codes, self.order, axis=0, mode="clip")
        worth = np.zeros(codes.shape[1], np.float32)
        worth[:q] = mixed.worth
        return KernelRows(X, codes, worth)

    def _build(self, labels: np.ndarray) -> KernelGroups:
        """The state of labels in the order of the tree."""
        (n, p), q, k = self.table.X.shape, self.table.worth.size, self.k
        most = n // k
        groups = KernelGroups(
            labels.astype(np.int32),
            np.zeros(most, np.int32),
            np.empty((most, 2 * k - 1), np.int32),
            np.empty(n, np.int32),
            np.empty((most, p), np.float32),
            np.zeros(most, np.int32),
            np.zeros((n, q), np.int16),
            np.zeros((most, q), np.int16),
            np.zeros((most, q), np.int16),
        )
        count_groups(self.table, groups)
        return groups

    def _losses(self, groups: KernelGroups) -> np.ndarray:
        """What is lost by each group: squared distances to its mean, and to modes of categories."""
        added = contributions(self.table.X, groups.labels, groups.sizes.size)
        differ = np.where(groups.sizes[:, None] > 0, groups.sizes[:, None] - groups.top, 0)
        return np.bincount(groups.labels, added, groups.sizes.size) + differ @ self.table.worth.astype(
            np.float64
        )

    def _lost(self, groups: KernelGroups) -> float:
        """What is lost by a partition."""
        return float(self._losses(groups).sum())

    @property
    def groups(self) -> KernelGroups:
        """The best partition as it is now."""
        known = self.states if self.best is None else [self.best, *self.states]
        return known[0] if len(known) == 1 else min(known, key=self._lost)

    @property
    def sse(self) -> float:
        """What is lost by the best partition as it is now."""
        return self._lost(self.groups)

    @property
    def labels(self) -> np.ndarray:
        """The best partition as it is now, in the order of the table."""
        labels = np.empty(self.order.size, np.int64)
        labels[self.order] = self.groups.labels
        return np.unique(labels, return_inverse=True)[1].reshape(-1)

    def run(self) -> None:
        """Cool the table down and let it settle; a small one again and again, less hot, from the best so far."""
        n = self.order.size * len(self.states)  # proposals of a sweep
        per = self.work.whole_plan(self._speed, LONGEST * n, unit=LAST * n) // n
        if per < 1 or self.begun <= 0 or self.work.over():
            return
        if self.shape.worth_a_path(per * n):
            self.best = self._build(along_path(self.Z, self.k)[self.order])
        lap = min(per // LAPS, LONGEST_LAP) if len(self.states) > 1 else 0
        if lap < SHORTEST:
            self._cool(self.heats, per)
            return
        self._cool(self.heats, per // 2)
        self.best, left = self.groups, per - per // 2
        # Where the clock ends the run there are as many laps as it has time for.
        while not self.work.over() and (left >= lap or self.work.code):
            self.states = [self._build(self.best.labels) for _ in self.states]
            self._cool((WARM, self.heats[1]), lap if left >= 2 * lap or self.work.code else left)
            for groups in self.states:
                losses = self._losses(self.best), self._losses(groups)
                labels, fallen = combine(self.best.labels, groups.labels, *losses)
                self.best = self._build(labels) if fallen > 0 else self.best
            left -= lap

    def _cool(self, heats: tuple[float, float], sweeps: int) -> None:
        """Cool all states down between two temperatures in so many sweeps, then let them settle."""
        n, last = self.order.size * len(self.states), min(LAST, sweeps)
        levels = max(1, min((sweeps - last) // SWEEPS, max(LEVELS, (sweeps - last) * n // LEAST)))
        counts = np.diff(np.linspace(0, sweeps - last, levels + 1).astype(np.int64))
        for (warm, cold), count in zip(
            pairwise(np.geomspace(*heats, levels + 1) / self.k**0.5), counts, strict=True
        ):
            if self.work.over_after(last * n):
                break
            self._level(warm, cold, int(count), FOUND, DISSOLVE)
        self._level(*QUENCH, last, 0, 0)

    def _speed(self) -> float:
        """Proposals per second of all threads, from a short trial, after which the first partition is put back."""
        rng, self.rng, hot = self.rng, np.random.default_rng(0), self.heats[0] / self.k**0.5
        self._level(hot, hot, 1, FOUND, DISSOLVE)
        self.work.proposals, started = 0, time.perf_counter()
        while self.work.proposals < TRIAL:
            self._level(hot, hot, 2, FOUND, DISSOLVE)
        speed = self.work.proposals / (time.perf_counter() - started)
        self.states = [self._build(self.first[self.order]) for _ in self.states]
        self.work.proposals, self.rng = 0, rng
        return speed

    def _level(self, hot: float, cold: float, sweeps: int, found: int, dissolved: int) -> None:
        """Sweep the table with jobs of a fresh draw."""
        jobs = [
            job for groups in self.states for job in self._jobs(groups, hot, cold, sweeps, found, dissolved)
        ]
        running = [self.workers.submit(job) for job in jobs]
        for future in running:
            future.result()
        self.work.proposals += sweeps * self.order.size * len(self.states)
        self.report(lambda: min(self.begun, self.sse))

    def _jobs(
        self, groups: KernelGroups, hot: float, cold: float, sweeps: int, found: int, dissolved: int
    ) -> list[Callable[[], int]]:
        """Deal the groups out to jobs by random cuts."""
        k, live, jobs = self.k, np.flatnonzero(groups.sizes), 1
        groups.owner[:] = 0
        if self.order.size > JOB:
            p = self.table.X.shape[1]
            draws = self.rng.normal(size=(256, p + 1))
            draws[:, p] = self.rng.random(256)
            mass = groups.sizes[live]
            groups.owner[live], jobs = random_cuts(groups.centres[live], mass, JOB, draws)
        rows, starts = rows_by_job(groups.labels, groups.owner, jobs)
        unused = np.flatnonzero(groups.sizes == 0)
        made = np.bincount(groups.owner[live], minlength=jobs)
        room = np.diff(starts) // k - made
        seeds = self.rng.integers(1, 2**62, jobs)
        waiting: list[Callable[[], int]] = []
        for job, free in enumerate(np.split(unused[: room.sum()], np.cumsum(room)[:-1])):
            groups.owner[free] = job
            numbers = np.zeros(free.size + made[job] + 1, np.int32)
            numbers[0], numbers[1 : free.size + 1] = free.size, free
            span = rows[starts[job] : starts[job + 1]]
            how = k, hot, cold, sweeps, found, dissolved, screen(k), seeds[job], LOGS
            waiting.append(partial(sweep, self.table, groups, job, span, numbers, *how))
        return waiting
