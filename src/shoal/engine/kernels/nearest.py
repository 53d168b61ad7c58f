"""The nearest records of each record, kept in order."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.axes import Each, blocks_of
from shoal.engine.kernels.distance import squared_distance, squares_to

SHARES = (0.38, 0.62)
"""Share of the rows below each cut of the second and the third tree; that of the first is one half."""

REACH = 8
"""Neighbours whose neighbours are looked at."""

RANGE = 1 << 15
"""Rows whose neighbours' neighbours are looked at by one job; a constant, so that threads do not matter."""


@kernel()
def sort_in(found, distance, filled, i, d):
    """Put record i, at distance d, into a list of the nearest, nearest first; how many the list then holds.

    Of equals the earlier stays before the later; the last falls out of a full list.
    """
    at = filled
    if filled == found.size:
        at -= 1
        if d >= distance[at]:
            return filled
    while at > 0 and distance[at - 1] > d:
        distance[at] = distance[at - 1]
        found[at] = found[at - 1]
        at -= 1
    distance[at] = d
    found[at] = i
    return min(filled + 1, found.size)


class KernelRows(NamedTuple):
    """Records as the kernels want them: numbers, and codes of categories.

    The squared distance of two records is that of their numbers, and for each code in which they differ its worth.
    """

    X: np.ndarray  # (n, P) float32, padded with zeros to a multiple of eight columns
    codes: np.ndarray  # (n, q) int16
    worth: np.ndarray  # (q,) float32


def neighbour_lists(
    rows: KernelRows, p: int, M: np.ndarray, edges: np.ndarray, most: int, m: int, each: Each = map
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest records of each record, nearly all of them, and how far they are.

    Exact within blocks of three trees with other cuts, then one pass over the neighbours of neighbours. With ten
    columns about 97 of 100 neighbours found are the true ones.

    Parameters
    ----------
    rows : KernelRows
        In the order of a tree, so that blocks of them lie beside each other.
    p : int
        Columns of numbers that are not padding.
    M : array of float32
        Coordinates of the same records, by which the other trees are cut.
    edges : array of int64
        Where the blocks of the first tree begin, and the end; each holds more than m rows.
    most : int
        Most rows of a block of the other trees.
    m : int
        Length of the lists.
    each : function, default map
        Applies a function to all of its arguments, perhaps on several threads.

    Returns
    -------
    near : array of int32, (n_records, m)
        Nearest first; of equally near records those that follow in the table come first, so that duplicates
        do not all list the same few.
    distance : array of float32, (n_records, m)
        Squared.

    Notes
    -----
    O(n * most * (p + q)) time, the same result for any number of threads.
    """
    n = rows.X.shape[0]
    near, distance = np.empty((n, m), np.int32), np.empty((n, m), np.float32)
    first = [np.arange(a, b, dtype=np.int32) for a, b in pairwise(edges)]
    list(each(lambda inside: _nearest_within(rows, p, inside, near, distance, True), first))
    if len(first) > 1:
        for tree in each(lambda share: blocks_of(M, most, share), SHARES):
            other = [np.sort(inside).astype(np.int32) for inside in tree]
            list(each(lambda inside: _nearest_within(rows, p, inside, near, distance, False), other))
        old = near.copy()
        ranges = [(a, min(a + RANGE, n)) for a in range(0, n, RANGE)]
        list(each(lambda span: _neighbours_of_neighbours(rows, old, near, distance, REACH, *span), ranges))
    return near, distance


# Kernels


@kernel()
def _nearest_within(rows, p, inside, near, distance, fresh):  # noqa: C901 - one step of a compiled search, case by case
    """Find the nearest of some rows among themselves; merge them into the lists, or begin these."""
    X, codes, worth = rows.X, rows.codes, rows.worth
    q, m = inside.size, near.shape[1]
    columns, coded = np.empty((p, q), np.float32), np.empty((worth.size, q), np.int16)
    for b in range(q):
        for a in range(p):
            columns[a, b] = X[inside[b], a]
        for a in range(worth.size):
            coded[a, b] = codes[inside[b], a]
    point = np.empty(p, np.float32)
    inf = np.float32(np.inf)
    ds = np.empty(q, np.float32)
    h = q // 4
    low = np.empty(h, np.float32)
    segment = max(1, h // m)
    for b in range(q):
        i = inside[b]
        for a in range(p):
            point[a] = columns[a, b]
        squares_to(columns, point, ds)
        _add_differences(coded, worth, b, ds)
        ds[b] = inf
        found, far = near[i], distance[i]
        d0, d1, d2, d3 = ds[:h], ds[h : 2 * h], ds[2 * h : 3 * h], ds[3 * h : 4 * h]
        for j in range(h):
            x = d0[j] if d0[j] < d1[j] else d1[j]
            y = d2[j] if d2[j] < d3[j] else d3[j]
            low[j] = x if x < y else y
        filled = 0 if fresh else m
        worst = inf if fresh else far[m - 1]
        if fresh and h >= m:  # m values are no larger than the largest of what is least in each of m segments
            worst = np.float32(0.0)
            for s in range(m):
                part = low[s * segment : (s + 1) * segment]
                least = inf
                for j in range(segment):
                    least = part[j] if part[j] < least else least
                worst = max(worst, least)
        start = b % h if h > 0 else 0
        for turn in range(h):
            j = start + turn
            if j >= h:
                j -= h
            if low[j] > worst:
                continue
            for t in range(j, 4 * h, h):
                filled, worst = _offer(found, far, filled, worst, inside[t], ds[t], fresh)
        for t in range(4 * h, q):
            filled, worst = _offer(found, far, filled, worst, inside[t], ds[t], fresh)


@kernel()
def _add_differences(coded, worth, b, ds):
    """Add what each code is worth in which a record differs from record b."""
    zero = np.float32(0.0)
    for a in range(worth.size):
        row, code, w = coded[a], coded[a, b], worth[a]
        for j in range(ds.size):
            ds[j] += zero if row[j] == code else w


@kernel()
def mixed_distance(X, codes, worth, i, j):
    """Squared distance of two records with numbers and codes."""
    d = squared_distance(X, i, X, j)
    for a in range(worth.size):
        if codes[i, a] != codes[j, a]:
            d += worth[a]
    return d


@kernel()
def _offer(found, far, filled, worst, l, d, fresh):
    """Put a record into a list if it is near enough and not in it; how many the list holds, and what is near."""
    m = found.size
    if d > worst or d == np.inf or (filled == m and d >= far[m - 1]):
        return filled, worst
    if not fresh and _holds(found, l):
        return filled, worst
    filled = sort_in(found, far, filled, l, d)
    if filled == m:
        worst = min(worst, far[m - 1])
    return filled, worst


@kernel()
def _holds(found, l):
    seen = False
    for x in range(found.size):
        seen |= found[x] == l
    return seen


@kernel()
def _neighbours_of_neighbours(rows, old, near, distance, reach, start, stop):
    """Look at the neighbours of the neighbours of some rows, both ways; lists of other rows stay as they are."""
    X, codes, worth = rows.X, rows.codes, rows.worth
    m = near.shape[1]
    reach = min(reach, m)
    for i in range(start, stop):
        for a in range(reach):
            j = near[i, a]
            for b in range(reach):
                l = near[j, b] if start <= j < stop else old[j, b]
                if l == i:
                    continue
                d = mixed_distance(X, codes, worth, i, l)
                if d < distance[i, m - 1] and not _holds(near[i], l):
                    sort_in(near[i], distance[i], m, l, d)
                if start <= l < stop and d < distance[l, m - 1] and not _holds(near[l], i):
                    sort_in(near[l], distance[l], m, i, d)
