"""MDAV and CBFS for tables of moderate size: the labels of the plain kernels by fewer, wider scans.

Records lie column by column and are scanned with vector instructions; those with a group are taken out when
one in eight has gone. The distances to the record r serve for both the farthest from r and its nearest. The
centroid is a running sum; where rounding could change which record is farthest from it, the centroid is
summed as the plain kernel sums it, and decides.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_between, squares_to
from shoal.engine.kernels.nearest import sort_in

# How groups are formed; CBFS_CENTROID grows them towards their centroid, which no scan does.
MDAV, CBFS, CBFS_CENTROID, MDAV_GENERIC = 0, 1, 2, 3

# Kernels


@kernel()
def scan_rounds(X, k, method):
    """Labels of MDAV, CBFS or MDAV-generic; those of fewer than k leftovers of MDAV are -1."""
    n, p = X.shape
    labels = np.full(n, -1, np.int64)
    columns = np.ascontiguousarray(X.T)
    who = np.arange(n)
    ds = np.empty(n)
    found = np.empty(k, np.int64)
    distance = np.empty(k)
    total = np.zeros(p)
    error = _sum_up(X, total)
    opposite = method != CBFS  # a second group around the record farthest from r
    last = 3 * k if method == MDAV_GENERIC else 2 * k
    held, left, group = n, n, 0
    while left >= last:
        if left < held - held // 8:
            held = _close_up(columns, who, labels, held)
        r = _far_from_centre(X, columns, who[:held], labels, total / left, error / left, ds[:held])
        squares_to(columns, X[r], ds[:held])
        s = _claim(X, who[:held], labels, ds[:held], group, found, distance, total)
        left -= k
        group += 1
        if opposite and labels[s] < 0:
            squares_to(columns, X[s], ds[:held])
            _claim(X, who[:held], labels, ds[:held], group, found, distance, total)
            left -= k
            group += 1
    if left >= 2 * k:
        r = _far_from_centre(X, columns, who[:held], labels, total / left, error / left, ds[:held])
        squares_to(columns, X[r], ds[:held])
        _claim(X, who[:held], labels, ds[:held], group, found, distance, total)
        left -= k
        group += 1
    if left >= k:
        for i in range(n):
            if labels[i] < 0:
                labels[i] = group
    return labels


@kernel()
def _sum_up(X, total):
    """Sum all records; how far this sum, and later differences, may be from a sum in any other order."""
    n, p = X.shape
    size = np.zeros(p)
    for i in range(n):
        for a in range(p):
            total[a] += X[i, a]
            size[a] += abs(X[i, a])
    error = 0.0
    for a in range(p):
        # Each of at most 2n additions errs by half a unit in the last place of at most `size`.
        error += (4.5e-16 * 2 * n * size[a]) ** 2
    return np.sqrt(error)


@kernel()
def _close_up(columns, who, labels, held):
    """Move the records without a group together, in their order; how many there are."""
    kept = 0
    for j in range(held):
        if labels[who[j]] < 0:
            if kept < j:
                who[kept] = who[j]
                for a in range(columns.shape[0]):
                    columns[a, kept] = columns[a, j]
            kept += 1
    return kept


@kernel()
def _far_from_centre(X, columns, who, labels, centre, error, ds):
    """The record that the plain kernel calls farthest from the centroid."""
    squares_to(columns, centre, ds)
    best, best_d, second = -1, -1.0, -1.0
    for j in range(ds.size):
        if ds[j] > second and labels[who[j]] < 0:
            if ds[j] > best_d:
                best, second, best_d = who[j], best_d, ds[j]
            else:
                second = ds[j]
    limit = np.sqrt(best_d) * (1 - 1e-13) - 2 * error
    if np.sqrt(max(second, 0.0)) < limit:
        return best
    exact = np.zeros(centre.size)
    left = 0
    for i in who:
        if labels[i] < 0:
            left += 1
            for a in range(centre.size):
                exact[a] += X[i, a]
    exact /= left
    best, best_d = -1, -1.0
    for j in range(ds.size):
        if labels[who[j]] < 0 and np.sqrt(ds[j]) >= limit:
            d = squared_between(X[who[j]], exact)
            if d > best_d:
                best, best_d = who[j], d
    return best


@kernel()
def _claim(X, who, labels, ds, group, found, distance, total):
    """Give the nearest records to a group; the record farthest of all before that."""
    size = found.size
    far, far_d = -1, -1.0
    filled, worst = 0, np.inf
    for j in range(ds.size):
        d = ds[j]
        if d <= far_d and d >= worst:
            continue
        i = who[j]
        if labels[i] >= 0:
            continue
        if d > far_d:
            far, far_d = i, d
        filled = sort_in(found, distance, filled, i, d)
        if filled == size:
            worst = distance[size - 1]
    for i in found:
        labels[i] = group
        for a in range(total.size):
            total[a] -= X[i, a]
    return far
