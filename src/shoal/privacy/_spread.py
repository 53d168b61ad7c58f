"""A partition that starts from closeness: every group takes one record from each slice of the sensitive values."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.privacy._moves import Demands, excess_of

# Above this many distances the search for nearest records of every slice takes too long.
MOST_DISTANCES = 2_000_000_000
_SWEEPS = 6
_NEAR = 10


def spread_groups(
    X: np.ndarray, rows: np.ndarray, demands: Demands, column: int, k: int, room: float
) -> np.ndarray | None:
    """Groups of some rows, `room` times as large as slices that meet the demands; None where that takes too long.

    Records are sorted by their sensitive value and cut into s slices of equal size; a group is the record
    farthest from the centroid of those left, with the record nearest to it from each slice. Then records of
    one slice are exchanged between groups as long as that lowers the sum of squares.
    """
    n = rows.size
    order = np.argsort(demands.codes[column, rows], kind="stable")
    size = _least_size(demands, rows[order], k)
    size = None if size is None else min(int(size * room), n)
    if size is None or n // size * n > MOST_DISTANCES:
        return None
    slices = np.empty(n, np.int64)
    slices[order] = np.arange(n) * size // n
    points = np.ascontiguousarray(X[rows])
    return _exchange_alike(points, _deal(points, slices, size), _alike(points, slices, size))


def _least_size(demands: Demands, order: np.ndarray, k: int) -> int | None:
    """The smallest group, at least k, whose records stand in the middle of their slices and meet the demands."""
    n = order.size
    scratch = np.zeros(max(demands.mass.shape[1], 1), np.int64)
    size = k
    while size <= n // 2:
        middles = order[(2 * np.arange(size) + 1) * n // (2 * size)]
        if excess_of(demands, middles, scratch) == 0.0:
            return size
        size += max(1, size // 20)
    return None


def _alike(X: np.ndarray, slices: np.ndarray, size: int) -> np.ndarray:
    """The nearest records of the same slice, itself included; -1 where there are fewer."""
    from scipy.spatial import cKDTree

    near = np.full((X.shape[0], _NEAR), -1, np.int64)
    for each in range(size):
        rows = np.flatnonzero(slices == each)
        count = min(_NEAR, rows.size)
        near[rows, :count] = rows[cKDTree(X[rows]).query(X[rows], k=np.arange(1, count + 1))[1]]
    return near


# Kernels


@kernel()
def _deal(X, slices, size):  # noqa: C901, PLR0912 - one step of a compiled search, case by case
    """One group after the other; records left over at the end go to the nearest centroid."""
    n, p = X.shape
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    left = n
    held = np.zeros(size, np.int64)
    for i in range(n):
        held[slices[i]] += 1
    groups = held.min()
    sums, sizes = np.zeros((groups, p)), np.zeros(groups, np.int64)
    middle = np.empty(p)
    nearest, distance = np.empty(size, np.int64), np.empty(size)
    for group in range(groups):
        for a in range(p):
            middle[a] = 0.0
            for at in range(left):
                middle[a] += X[free[at], a]
            middle[a] /= left
        far, seed = -1.0, 0
        for at in range(left):
            t = 0.0
            for a in range(p):
                t += (X[free[at], a] - middle[a]) ** 2
            if t > far:
                far, seed = t, free[at]
        for each in range(size):
            distance[each] = np.inf
        for at in range(left):
            i = free[at]
            t = 0.0
            for a in range(p):
                t += (X[i, a] - X[seed, a]) ** 2
            if t < distance[slices[i]]:
                distance[slices[i]], nearest[slices[i]] = t, i
        for each in range(size):
            i = nearest[each]
            labels[i] = group
            for a in range(p):
                sums[group, a] += X[i, a]
        sizes[group] = size
        kept = 0
        for at in range(left):
            if labels[free[at]] < 0:
                free[kept] = free[at]
                kept += 1
        left = kept
    for at in range(left):
        i = free[at]
        best, best_d = 0, np.inf
        for group in range(groups):
            t = 0.0
            for a in range(p):
                t += (X[i, a] - sums[group, a] / sizes[group]) ** 2
            if t < best_d and sizes[group] == size:
                best, best_d = group, t
        labels[i] = best
        sizes[best] += 1
        for a in range(p):
            sums[best, a] += X[i, a]
    return labels


@kernel()
def _exchange_alike(X, labels, near):
    """Exchange near records of one slice between their groups wherever that lowers the sum of squares."""
    n, p = X.shape
    c = labels.max() + 1
    sums, sizes = np.zeros((c, p)), np.zeros(c, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
        for a in range(p):
            sums[labels[i], a] += X[i, a]
    for _ in range(_SWEEPS):
        moved = 0
        for i in range(n):
            for at in range(near.shape[1]):
                j = near[i, at]
                if j < 0 or labels[j] == labels[i]:
                    continue
                g, h = labels[i], labels[j]
                cost, square = 0.0, 0.0
                for a in range(p):
                    step = X[j, a] - X[i, a]
                    cost += 2.0 * step * (sums[h, a] / sizes[h] - sums[g, a] / sizes[g])
                    square += step * step
                if cost - square * (1.0 / sizes[g] + 1.0 / sizes[h]) < -1e-12:
                    for a in range(p):
                        step = X[j, a] - X[i, a]
                        sums[g, a] += step
                        sums[h, a] -= step
                    labels[i], labels[j] = h, g
                    moved += 1
        if moved == 0:
            break
    return labels
