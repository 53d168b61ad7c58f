"""Mend a partition made in blocks: exchange records between neighbouring groups, borders of blocks or not.

Sizes never change. For records x of group A and y of group B with a and b records, the exchange changes
the SSE by  |y-A|^2 - |x-A|^2 - |x-y|^2 / a  +  |x-B|^2 - |y-B|^2 - |x-y|^2 / b  (A, B the centroids).
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.microaggregation._fixed_size import _distance

NEIGHBOURS = 6
# Groups whose centroids are compared with each other: the time for finding neighbours grows with it.
BLOCK = 800


def mend(Z: np.ndarray, labels: np.ndarray, passes: int = 3) -> np.ndarray:
    """Exchange records between neighbouring groups while that lowers the SSE.

    Parameters
    ----------
    Z : array of float64, (n_records, n_coordinates)
    labels : array of int64
        Groups 0..c-1.
    passes : int, default 3
        How often neighbours are looked up anew, each time in other blocks.

    Returns
    -------
    array of int64
        Labels with the same sizes and an SSE no larger.

    Notes
    -----
    O(n * BLOCK) time, O(n) memory. Deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import mend
    >>> mended = mend(np.array([[0.0], [9.0], [0.1], [9.1]]), np.array([0, 0, 1, 1]))
    >>> bool(mended[0] == mended[2] != mended[1])
    True
    """
    labels = labels.copy()
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    # Records lie group by group and are moved with every exchange, so that a group is read at one place.
    G = Z[order]
    centres = np.add.reduceat(G, starts[:-1], axis=0) / sizes[:, None]
    # Which neighbours each group had when it was last looked at, when that was, and when it last changed:
    # a pair that was looked at and has not changed since need not be looked at again.
    known = np.full((sizes.size, NEIGHBOURS), -1, np.int64)
    looked, changed = np.zeros(sizes.size, np.int64), np.zeros(sizes.size, np.int64)
    for turn in range(passes):
        blocks: list[np.ndarray] = []
        _cut(centres, np.arange(sizes.size), turn, blocks)
        edges = np.cumsum([0, *(block.size for block in blocks)])
        clock = 1 + turn * sizes.size
        made = _exchange(
            G, order, starts, centres, np.concatenate(blocks), edges, known, looked, changed, clock
        )
        if made == 0:
            break
    labels[order] = np.repeat(np.arange(sizes.size), sizes)
    return labels


def _cut(centres: np.ndarray, rows: np.ndarray, turn: int, blocks: list[np.ndarray]) -> None:
    """Cut along the axis of largest spread, each turn at another quantile so that borders move."""
    if rows.size <= BLOCK:
        blocks.append(rows)
        return
    part = centres[rows] - centres[rows].mean(axis=0)
    axis = np.linalg.eigh(part.T @ part)[1][:, -1]
    along = part @ (axis if axis[np.argmax(np.abs(axis))] > 0 else -axis)
    at = int(rows.size * (0.38, 0.62, 0.5)[turn % 3])
    order = np.argpartition(along, at)
    _cut(centres, rows[order[:at]], turn, blocks)
    _cut(centres, rows[order[at:]], turn, blocks)


# Kernels


@kernel()
def _exchange(G, order, starts, centres, groups, edges, known, looked, changed, clock):
    """Better each group with its nearest groups of the same block; how many exchanges were made."""
    made = 0
    reach = known.shape[1]
    near = np.empty(reach, np.int64)
    near_d = np.empty(reach)
    scratch = np.empty((3, np.max(np.diff(starts))))
    for block in range(edges.size - 1):
        inside = groups[edges[block] : edges[block + 1]]
        columns = np.ascontiguousarray(centres[inside].T)
        ds = np.empty(inside.size)
        for g in inside:
            _spread(columns, centres[g], ds)
            filled = 0
            for j in range(inside.size):
                d = ds[j]
                if inside[j] == g or (filled == reach and d >= near_d[reach - 1]):
                    continue
                at = min(filled, reach - 1)
                while at > 0 and near_d[at - 1] > d:
                    near_d[at] = near_d[at - 1]
                    near[at] = near[at - 1]
                    at -= 1
                near_d[at] = d
                near[at] = inside[j]
                filled = min(filled + 1, reach)
            clock += 1
            for j in range(filled):
                h = near[j]
                if _settled(known, looked, changed, g, h) or _settled(known, looked, changed, h, g):
                    continue
                while _best_exchange(G, order, starts, centres, g, h, scratch):
                    made += 1
                    changed[g] = clock
                    changed[h] = clock
            known[g, :filled] = near[:filled]
            looked[g] = clock
    return made


@kernel()
def _settled(known, looked, changed, g, h):
    """Whether group g looked at h and neither has changed since (not even in that look)."""
    if changed[g] >= looked[g] or changed[h] >= looked[g]:
        return False
    seen = False
    for j in range(known.shape[1]):
        seen |= known[g, j] == h
    return seen


@kernel()
def _spread(columns, point, ds):
    for j in range(ds.size):
        ds[j] = 0.0
    for a in range(point.size):
        y = point[a]
        row = columns[a]
        for j in range(ds.size):
            t = row[j] - y
            ds[j] += t * t


@kernel()
def _best_exchange(G, order, starts, centres, g, h, scratch):
    """Make the exchange between two groups that lowers the SSE most; whether there was one."""
    p = G.shape[1]
    s, t = starts[g], starts[h]
    a, b = starts[g + 1] - s, starts[h + 1] - t
    share = 1.0 / a + 1.0 / b
    wants, own, other = scratch[0], scratch[1], scratch[2]
    for x in range(a):
        d_own, d_other = _distance(G[s + x], centres[g]), _distance(G[s + x], centres[h])
        wants[x] = d_other - d_own
        own[x], other[x] = np.sqrt(d_own), np.sqrt(d_other)
    best, best_x, best_y = -1e-9, -1, -1
    for y in range(b):
        d_other, d_own = _distance(G[t + y], centres[g]), _distance(G[t + y], centres[h])
        want = d_other - d_own
        y_own, y_other = np.sqrt(d_own), np.sqrt(d_other)
        for x in range(a):
            # x and y are at most as far apart as by way of either centroid: most pairs end here.
            way = min(own[x] + y_other, other[x] + y_own)
            if want + wants[x] - share * way * way >= best:
                continue
            change = want + wants[x] - share * _distance(G[s + x], G[t + y])
            if change < best:
                best, best_x, best_y = change, x, y
    if best_x < 0:
        return False
    i, j = s + best_x, t + best_y
    order[i], order[j] = order[j], order[i]
    for c in range(p):
        move = G[j, c] - G[i, c]
        centres[g, c] += move / a
        centres[h, c] -= move / b
        G[i, c], G[j, c] = G[j, c], G[i, c]
    return True
