"""The search on large tables: one annealing of the whole table from a good start, at low temperature."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from shoal.engine.kernels.axes import blocks_of, random_cuts
from shoal.engine.kernels.nearest import KernelRows, neighbour_lists
from shoal.microaggregation._anneal_kernels import LOGS
from shoal.microaggregation._cooling import (
    FEW_DIRECTIONS,
    HEATS,
    SMALL_HEATS,
    CoolingSearch,
    heat_of,
    heats_for,
    list_length,
    screen,
)
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
from shoal.microaggregation._refine import refine
from shoal.microaggregation._regions import contributions, coolness, directions
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._work import Shape
from shoal.microaggregation.fixed_size.plain import plain_mdav

BLOCK = 2_000
"""Records of a block in which the first partition is made."""

REFINING = 6
"""Rounds of exchanges across the borders of these blocks; as many as methods without a search get in parts."""

LEAF = 1024
"""Records of a leaf of the tree: their neighbours are found by looking at all of them."""

AXES, SAMPLE = 16, 4_000
"""Columns up to which trees are cut by all of them; records from which the principal axes of more are found."""

SMALL_HEAT, EVEN_HEAT, HEAT = 0.5, 0.75, 1.0
"""Power of the squared distance to the nearest records that the temperature at a record is in proportion to: on small
tables, on large ones whose records lie about equally far apart everywhere or spread in few directions, and on other large
ones."""

EVEN = 0.6
"""Deviation of the logarithm of these distances up to which they are about equal. Normal data and clusters in ten columns
have .35 to .41 and lose 0.1 to 0.4 % less with the gentler power; data in three columns, log-normal data and cubes of
normal data have .77 to 2.2 and lose up to 1.7 % more with it."""

LONG = 4_500
"""Sweeps from which a large table whose records do not lie equally far apart is cooled as a small one, from hotter and in
proportion to the root: at 8,000 sweeps that loses 1.4 % less of cubes of normal data in six columns, at 2,500 0.6 % more."""

NARROW_RATES, NARROW_SCREEN, NARROW_FROM = (16, 8), 0.4, (5, 100)
"""Where records lie about equally far apart: of 1,024 proposals those to found or dissolve a group, the share of the
screen that is left where it is coldest, and from which k and number of sweeps. A proposal then takes a sixth less time;
smaller groups, shorter annealings and other tables lose more than that brings."""

JOB_SHARE, SMALLEST_JOB, LARGEST_JOB = 0.6, 8_000, 60_000
"""Records of a job at most: a share of the table with which there are two, within two limits. They are constants, so that
the result does not depend on the machine."""


def start_in_blocks(Z: np.ndarray, k: int, workers: ThreadPoolExecutor) -> np.ndarray:
    """MDAV within blocks, which costs O(n) instead of O(n^2), then exchanges across their borders."""
    blocks = [np.sort(rows) for rows in blocks_of(Z, max(BLOCK, 10 * k), each=workers.map)]
    labels, following = np.empty(Z.shape[0], np.int64), 0
    found = workers.map(lambda rows: plain_mdav(np.take(Z, rows, axis=0, mode="clip"), k), blocks)
    for rows, part in zip(blocks, found, strict=True):
        labels[rows] = part + following
        following += int(part.max()) + 1
    return refine(Z, labels, REFINING, workers.map)


def cutting(Z: np.ndarray) -> np.ndarray:
    """Coordinates by which trees are cut: as they are, or along the first principal axes where there are many."""
    if Z.shape[1] <= AXES:
        return Z.astype(np.float32)
    sample = Z[:: max(1, Z.shape[0] // SAMPLE)]
    centred = sample - sample.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, -AXES:]
    return (Z @ axes).astype(np.float32)


def job_size(n: int) -> int:
    """Records that a job has at most, of so many."""
    return int(min(LARGEST_JOB, max(SMALLEST_JOB, JOB_SHARE * n)))


class GlobalSearch(CoolingSearch[KernelGroups]):
    """The search on a large table, and on a small one with categories or many records.

    Beside the task: the coordinates taken apart, and the loss that temperatures are in proportion to (that of the first
    partition by default).
    """

    narrows = False

    def __init__(self, task: SearchTask, mixed: Mixed | None = None, scale: float | None = None) -> None:
        super().__init__(task)
        Z, k = task.Z, task.k
        mixed = Mixed.of(Z) if mixed is None else mixed
        n, p = mixed.numbers.shape
        m = list_length(n, k)
        leaf = max(LEAF, 8 * m)
        M = cutting(Z)
        leaves = [np.sort(rows) for rows in blocks_of(M, leaf, each=self.workers.map)]
        self.order = np.concatenate(leaves)
        rows = self._rows(mixed)
        edges = np.cumsum([0, *(inside.size for inside in leaves)])
        M = np.take(M, self.order, axis=0, mode="clip")
        near, distance = neighbour_lists(rows, p, M, edges, leaf, m, self.workers.map)
        heat = heat_of(distance[:, : k - 1].sum(axis=1, dtype=np.float64))
        del distance, M
        self.shape = Shape(n, k, p, mixed.worth.size)
        self.even = bool(np.log(heat).std() <= EVEN)
        # Categories are all as far apart as can be.
        self.directions = 0.0 if mixed.worth.size else directions(rows.X, near)
        gentle = self.even or 0 < self.directions < FEW_DIRECTIONS
        self.power = SMALL_HEAT if self.shape.small else EVEN_HEAT if gentle else HEAT
        heat **= self.power
        self.table = RecordTable(*rows, near, heat.astype(np.float32))
        self._begin()
        self.heats = heats_for(self.directions, small=self.shape.small)
        cool = coolness(self.directions)
        self.table.heat[:] *= np.float32(cool * (self.begun if scale is None else scale) / n)

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

    def _cool(self, heats: tuple[float, float], sweeps: int) -> None:
        if self.directions > 0 and not self.even and not self.shape.small and sweeps >= LONG:
            power = SMALL_HEAT / self.power
            mean = self.table.heat.mean(dtype=np.float64)
            self.table.heat[:] = self.table.heat**power * np.float32(mean ** (1.0 - power))
            heats = max(heats[0], SMALL_HEATS[0]), min(heats[1], SMALL_HEATS[1])
        least, many = NARROW_FROM
        self.narrows = self.even and not self.shape.small and self.k >= least and sweeps >= many
        self.rates = NARROW_RATES if self.narrows else (FOUND, DISSOLVE)
        super()._cool(heats, sweeps)

    def _screen(self, hot: float) -> float:
        """How much farther than its own group another may be to be looked at: where it is colder, fewer are worth it."""
        if not self.narrows:
            return screen(self.k)
        return screen(self.k) * (
            NARROW_SCREEN + (1.0 - NARROW_SCREEN) * min(1.0, hot * self.k**0.5 / HEATS[0])
        )

    def _jobs(
        self, groups: KernelGroups, hot: float, cold: float, sweeps: int, found: int, dissolved: int
    ) -> list[Callable[[], object]]:
        """Deal the groups out to jobs by random cuts."""
        k, live, jobs = self.k, np.flatnonzero(groups.sizes), 1
        groups.owner[:] = 0
        most = job_size(self.order.size)
        if self.order.size > most:
            p = self.table.X.shape[1]
            draws = self.rng.normal(size=(256, p + 1))
            draws[:, p] = self.rng.random(256)
            mass = groups.sizes[live]
            groups.owner[live], jobs = random_cuts(groups.centres[live], mass, most, draws)
        rows, starts = rows_by_job(groups.labels, groups.owner, jobs)
        unused = np.flatnonzero(groups.sizes == 0)
        made = np.bincount(groups.owner[live], minlength=jobs)
        room = np.diff(starts) // k - made
        seeds, width = self.rng.integers(1, 2**62, jobs), self._screen(hot)
        waiting: list[Callable[[], object]] = []
        for job, free in enumerate(np.split(unused[: room.sum()], np.cumsum(room)[:-1])):
            groups.owner[free] = job
            numbers = np.zeros(free.size + made[job] + 1, np.int32)
            numbers[0], numbers[1 : free.size + 1] = free.size, free
            span = rows[starts[job] : starts[job + 1]]
            how = k, hot, cold, sweeps, found, dissolved, width, seeds[job], LOGS
            waiting.append(partial(sweep, self.table, groups, job, span, numbers, *how))
        return waiting
