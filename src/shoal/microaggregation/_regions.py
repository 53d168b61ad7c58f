"""Blocks of records that are searched together, and regions of them that are reheated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_distance
from shoal.engine.kernels.nearest import sort_in
from shoal.microaggregation._anneal_kernels import LOGS, STEP, anneal

HOT, COLD = 3.0, 0.02
"""First and last temperature of an annealing, in units of SSE per record."""


LISTED, DIRECTIONS, MEASURED = 12, 12.0, 1_000
"""Near records by which directions are counted, how many of these there may be before it is cooler, and the records
from which they are counted."""

PLACES, NEAR_PLACES = 4_000, 60
"""Places among which directions are counted where most records have copies, and how many near ones are looked at."""


FLAT = 2.3
"""Directions below which a table is flat: two columns of numbers have 1.7 to 1.9, three 2.6."""

MOST_COMPARED = 2_000_000_000
"""Numbers that are compared to know how records lie, about, in tables of many columns."""

UNEVEN = 4.0
"""Times the median that the mean spread of a table of more than 6,144 records is where it is uneven."""


def directions(X: np.ndarray, near: np.ndarray) -> float:
    """In how many directions records spread, about; columns that go together count once, copies not at all.

    The number of records within a distance grows by its power of the number of directions, which the nearest and the
    twelfth nearest of some records tell.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> near = np.argsort(((X[:, None] - X) ** 2).sum(axis=2), axis=1)[:, 1:]
    >>> 1.5 < directions(X, near) < 2.5
    True
    """
    m = min(LISTED, near.shape[1])
    if m < 2:
        return 0.0
    rows = np.arange(0, X.shape[0], max(1, X.shape[0] // MEASURED))
    first, last = (np.square(X[rows].astype(np.float64) - X[near[rows, at]]).sum(axis=1) for at in (0, m - 1))
    return _directions_by(first, last, m, X)


def _directions_by(first: np.ndarray, last: np.ndarray, m: int, X: np.ndarray) -> float:
    """Directions as the squared distances of the nearest and the m-th nearest of some records tell."""
    if np.median(first) == 0:
        return _directions_of_places(X)
    ratio = float(np.median(last / np.maximum(first, 1e-300)))
    return float(2.0 * np.log(m) / np.log(ratio)) if ratio > 1.0 else 0.0


def _directions_of_places(X: np.ndarray) -> float:
    """In how many directions the places of records spread, copies left out; 0 where near ones do not tell.

    Rounded numbers lie on a grid: how many places there are within two of its distances, not how far the twelfth is.
    """
    from scipy.spatial import cKDTree  # takes a while

    places = np.random.default_rng(0).permutation(np.unique(X.astype(np.float64), axis=0))[:PLACES]
    if places.shape[0] <= LISTED:
        return 0.0
    apart = cKDTree(places).query(places[:MEASURED], k=min(NEAR_PLACES, places.shape[0]))[0]
    first, last = apart[:, 1], apart[:, -1]
    wide = np.where(apart < last[:, None] * (1 - 1e-6), apart, 0.0).max(
        axis=1
    )  # the last distance may be cut off
    inside, around = ((apart <= far[:, None] * (1 + 1e-6)).sum(axis=1) for far in (first, wide))
    tells = wide > first * (1 + 1e-6)
    if not tells.any():
        return 0.0
    return float(np.median(np.log(around[tells] / inside[tells]) / np.log(wide[tells] / first[tells])))


@dataclass(frozen=True)
class Crowding:
    """How records lie: what decides by which search a table is searched."""

    uneven: bool
    flat: bool
    copied: bool

    @classmethod
    def of(cls, Z: np.ndarray, k: int) -> Crowding:
        """Measure how far the nearest records of some are."""
        from scipy.spatial import cKDTree  # takes a while

        count = max(MEASURED // 10, min(MEASURED, MOST_COMPARED // Z.size))
        rows = np.arange(0, Z.shape[0], max(1, Z.shape[0] // count))
        squared = np.square(cKDTree(Z).query(Z[rows], k=min(Z.shape[0], max(k, LISTED + 1)))[0])
        spread = squared[:, 1:k].sum(axis=1)
        middle, mean = float(np.median(spread)), float(spread.mean())
        spread_in = _directions_by(squared[:, 1], squared[:, LISTED], LISTED, Z)
        return cls(mean > UNEVEN * middle, 0 < spread_in < FLAT, bool(np.median(squared[:, 1]) == 0))


def coolness(spread: float) -> float:
    """What temperatures are to be multiplied by where records spread in so many directions: 1 up to twelve of them.

    In more, all records are about equally far from each other, so that exchanges cost little beside what is lost.
    """
    return float(min(1.0, DIRECTIONS / max(spread, 1.0)) ** 0.75)


@dataclass(frozen=True)
class Reheating:
    """How a region is reheated."""

    records: int
    hot: float
    effort: int

    @classmethod
    def draw(cls, k: int, even: bool, rng: np.random.Generator) -> Reheating:
        """A region of some tens of groups, heated less or more: no single choice is best on all tables.

        Skewed tables want larger and hotter regions than even ones.
        """
        groups, hot = ((10, 20, 40), (0.5, 0.7, 1.0)) if even else ((20, 40, 100), (0.5, 1.0, 2.0))
        return cls(int(rng.choice(groups)) * k, float(rng.choice(hot)), 1000)

    def proposals(self, size: int) -> int:
        """Proposals spent on a region of this many records."""
        return max(64, self.effort * size // STEP) * STEP


@dataclass(frozen=True)
class Block:
    """Records that are searched together, as the kernels want them."""

    X: np.ndarray
    near: np.ndarray
    reach: np.ndarray
    heat: np.ndarray
    k: int
    directions: float = 0.0

    @classmethod
    def of(cls, Z: np.ndarray, k: int) -> Block:
        """Pad the rows, list their neighbours, and set the heat by how crowded it is around each.

        The heat is the root of the squared distance to the k-1 nearest records: between one temperature
        for all, which freezes the sparse parts of a skewed table long before the dense ones, and
        temperatures proportional to each record's own scale.
        """
        n, p = Z.shape
        X = np.zeros((n, -(-p // 8) * 8), np.float32)
        X[:, :p] = Z
        m = max(1, min(n - 1, 4 * k, max(100, 2 * k)))
        near, spread = neighbours(X, m, k)
        floor = np.quantile(spread, 0.05)
        spread = np.maximum(spread, floor if floor > 0 else spread.mean() * 1e-3)
        heat = np.sqrt(spread / spread.mean()) if spread.mean() > 0 else np.ones(n)
        reach = np.full(n, near.shape[1], np.int32)
        return cls(X, near, reach, heat.astype(np.float32), k, directions(X, near))

    @property
    def cool(self) -> float:
        """What temperatures are to be multiplied by."""
        return coolness(self.directions)

    @property
    def flat(self) -> bool:
        """Whether records spread in about two directions."""
        return 0 < self.directions < FLAT

    @property
    def copied(self) -> bool:
        """Whether most records have a copy."""
        return bool(np.median(np.square(self.X - self.X[self.near[:, 0]]).sum(axis=1)) == 0)

    @property
    def even(self) -> bool:
        """Whether the records lie about equally close everywhere: mean and median spread are not far apart."""
        squared = self.heat.astype(np.float64) ** 2
        return bool(squared.mean() < 8 * np.median(squared))

    def anneal(self, labels: np.ndarray, hot: float, cold: float, proposals: int, seed: int) -> np.ndarray:
        """Labels after an annealing between two temperatures."""
        labels = labels.copy()
        anneal(self.X, self.near, self.reach, self.heat, labels, self.k, hot, cold, proposals, seed, LOGS)
        return labels

    def reheat(
        self, labels: np.ndarray, records: np.ndarray, settings: Reheating, seed: int
    ) -> tuple[np.ndarray, float]:
        """Anneal the records of whole groups among themselves, at temperatures scaled to their own SSE.

        Their labels 0..c-1, and by how much their SSE has fallen; 0 where it has not, whatever the labels.
        """
        X, near, reach, heat, old = cut_out(self.X, self.near, self.reach, self.heat, labels, records)
        part = Block(X, near, reach, heat, self.k)
        before = part.sse(old)
        if before <= 0:
            return old, 0.0
        scale = self.cool * before / records.size
        hot, cold = settings.hot * scale, COLD * scale
        new = part.anneal(old, hot, cold, settings.proposals(records.size), seed)
        fall = before - part.sse(new)
        return new, fall if fall > 1e-9 * before else 0.0

    def regions(
        self, labels: np.ndarray, count: int, size: int, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Records of up to `count` disjoint regions of at least `size` records, whole groups all of them.

        They lie around random records, of which half are drawn in proportion to what they add to the SSE:
        on a skewed table most records add next to nothing.
        """
        seeds = rng.choice(labels.size, count, p=half_even(self.added(labels)))
        owner = regions(self.X, labels, int(labels.max()) + 1, seeds, size)
        return [np.flatnonzero(owner == region) for region in range(int(owner.max()) + 1)]

    def region(
        self, labels: np.ndarray, free: np.ndarray, worth: np.ndarray, size: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Records of one region of about `size` free records, whole groups, drawn by what they are worth."""
        records = np.flatnonzero(free)
        if not records.size:
            return records
        seed = rng.choice(records.size, 1, p=half_even(worth[records]))
        numbers, own = np.unique(labels[records], return_inverse=True)
        return records[regions(self.X[records], own.reshape(-1), numbers.size, seed, size) == 0]

    def added(self, labels: np.ndarray) -> np.ndarray:
        """What each record adds to the SSE."""
        return contributions(self.X, labels, int(labels.max()) + 1)

    def sse(self, labels: np.ndarray) -> float:
        """SSE of labels 0..c-1."""
        return float(self.added(labels).sum())


def half_even(worth: np.ndarray) -> np.ndarray:
    """Probabilities, half of them even and half in proportion to the worth."""
    total = worth.sum()
    return 0.5 / worth.size + 0.5 * (worth / total if total > 0 else np.full(worth.size, 1 / worth.size))


# Kernels: a region is made of whole groups, annealed among themselves, kept if that lowers their SSE


@kernel()
def neighbours(X, m, k):
    """The m nearest other records of each, nearest first, ties by index; and how far the first k-1 are."""
    n = X.shape[0]
    near = np.empty((n, m), np.int32)
    spread = np.zeros(n)
    distance = np.empty(m, np.float32)
    for i in range(n):
        filled, found = 0, near[i]
        for j in range(n):
            if j != i:
                filled = sort_in(found, distance, filled, j, squared_distance(X, i, X, j))
        for q in range(min(k - 1, m)):
            spread[i] += distance[q]
    return near, spread


@kernel()
def regions(X, labels, c, seeds, target):
    """Grow disjoint regions of at least `target` records, each of whole groups nearest to its seed record.

    The region of each record, or -1; a seed that lies in an earlier region grows none.
    """
    n, p = X.shape
    centres, sizes = _means(X, labels, c)
    owner = np.full(c, -1, np.int64)
    distance = np.empty(c)
    made = 0
    for seed in seeds:
        if owner[labels[seed]] >= 0:
            continue
        for g in range(c):
            distance[g] = np.inf
            if owner[g] < 0:
                distance[g] = 0.0
                for a in range(p):
                    t = centres[g, a] - X[seed, a]
                    distance[g] += t * t
        distance[labels[seed]] = -1.0
        got = 0
        while got < target:
            nearest = 0
            for g in range(1, c):
                if distance[g] < distance[nearest]:
                    nearest = g
            if distance[nearest] == np.inf:
                break
            distance[nearest] = np.inf
            owner[nearest] = made
            got += sizes[nearest]
        made += 1
    found = np.empty(n, np.int64)
    for i in range(n):
        found[i] = owner[labels[i]]
    return found


@kernel()
def cut_out(X, near, reach, heat, labels, records):
    """Rows, neighbours, their number, heat and labels 0..c-1 of some records, neighbours numbered among them."""
    n, p = X.shape
    m, q = near.shape[1], records.size
    at, number = np.full(n, -1, np.int32), np.full(n, -1, np.int64)
    mean_heat = 0.0
    for i in range(q):
        at[records[i]] = i
        mean_heat += heat[records[i]] / q
    rows, row_heat = np.empty((q, p), np.float32), np.empty(q, np.float32)
    row_near, row_reach = np.zeros((q, m), np.int32), np.zeros(q, np.int32)
    row_labels = np.empty(q, np.int64)
    c = 0
    for i in range(q):
        record = records[i]
        for a in range(p):
            rows[i, a] = X[record, a]
        row_heat[i] = heat[record] / mean_heat
        if number[labels[record]] < 0:
            number[labels[record]] = c
            c += 1
        row_labels[i] = number[labels[record]]
        row_near[i, 0] = i  # a record without neighbours here proposes its own group: nothing
        for b in range(reach[record]):
            j = at[near[record, b]]
            if j >= 0:
                row_near[i, row_reach[i]] = j
                row_reach[i] += 1
    return rows, row_near, row_reach, row_heat, row_labels


@kernel()
def contributions(X, labels, c):
    """Squared distance of each record to the mean of its group, in float64."""
    centres, _ = _means(X, labels, c)
    added = np.zeros(X.shape[0])
    for i in range(X.shape[0]):
        for a in range(X.shape[1]):
            t = X[i, a] - centres[labels[i], a]
            added[i] += t * t
    return added


@kernel()
def _means(X, labels, c):
    """Mean and size of each group, in float64."""
    n, p = X.shape
    centres, sizes = np.zeros((c, p)), np.zeros(c, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
        for a in range(p):
            centres[labels[i], a] += X[i, a]
    for g in range(c):
        for a in range(p):
            centres[g, a] /= sizes[g]
    return centres, sizes
