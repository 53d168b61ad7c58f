"""How a tree of records is grown: cut at medians along the principal axes, leaf by leaf, then in families."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.trees import FAN, LEAF, Tree, tighten


def grow_tree(X: np.ndarray, rows: np.ndarray) -> Tree:
    """Build a tree over some rows of a table.

    Parameters
    ----------
    X : array of float64, (n_records, n_columns), C-contiguous
    rows : array of int64

    Notes
    -----
    O(m log m) time, O(m p) memory for m rows.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.engine.kernels.tree_growth import grow_tree
    >>> from shoal.engine.kernels.trees import farthest, take
    >>> X = np.array([[0.0], [1.0], [5.0], [9.0]])
    >>> tree = grow_tree(X, np.arange(4))
    >>> int(farthest(tree, X[0])[0])
    3
    >>> take(tree, 3)
    >>> int(farthest(tree, X[0])[0])
    2
    """
    part = X[rows]
    centre = part.mean(axis=0)
    part -= centre
    axes = np.linalg.eigh(part.T @ part)[1]
    rotated = np.ascontiguousarray(part @ axes)
    depth = 1
    while (LEAF << depth) < rows.size:
        depth += 1
    order = np.arange(rows.size)
    start = _split(rotated, order, depth)
    radius = float(np.abs(part).max(initial=0.0)) * np.sqrt(X.shape[1])
    # Records so close that squares vanish are all looked at in full.
    radius = radius if radius > 1e-100 else 1.0
    families = _families(start.size - 1, X.shape[1])
    tree = Tree(axes, centre, radius, *families, *_fill(X, rows, order, start, centre, radius))
    _count(tree, start)
    tighten(tree)
    return tree


# Kernels


@kernel()
def _split(Y, order, depth):
    """Cut the records in halves along the widest side, `depth` times; where each leaf starts."""
    m, p = Y.shape
    leaves = 1 << depth
    start = np.zeros(2 * leaves, np.int64)
    stop = np.zeros(2 * leaves, np.int64)
    stop[1] = m
    low = np.empty(p)
    high = np.empty(p)
    for node in range(1, leaves):
        s, e = start[node], stop[node]
        low[:] = np.inf
        high[:] = -np.inf
        for j in range(s, e):
            i = order[j]
            for a in range(p):
                low[a] = min(low[a], Y[i, a])
                high[a] = max(high[a], Y[i, a])
        middle = (s + e) // 2
        _halve(Y, order, s, e, middle, np.argmax(high - low))
        start[2 * node], stop[2 * node] = s, middle
        start[2 * node + 1], stop[2 * node + 1] = middle, e
    edges = np.empty(leaves + 1, np.int64)
    edges[:leaves] = start[leaves:]
    edges[leaves] = m
    return edges


@kernel()
def _halve(Y, order, s, e, middle, a):
    """Reorder order[s:e] so that the values below the middle one stand before it (quickselect)."""
    lo, hi = s, e - 1
    while lo < hi:
        x, y, z = Y[order[lo], a], Y[order[(lo + hi) // 2], a], Y[order[hi], a]
        pivot = max(min(x, y), min(max(x, y), z))
        i, j = lo, hi
        while i <= j:
            while Y[order[i], a] < pivot:
                i += 1
            while Y[order[j], a] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            return


@kernel()
def _fill(X, rows, order, start, centre, radius):
    n, p = X.shape
    leaves = start.size - 1
    cells = np.zeros((leaves, p, LEAF), np.float32)
    full = np.zeros((leaves, LEAF, p))
    who = np.full((leaves, LEAF), -1, np.int64)
    place = np.full(n, -1, np.int64)
    for leaf in range(leaves):
        s = start[leaf]
        for j in range(s, start[leaf + 1]):
            i = rows[order[j]]
            who[leaf, j - s] = i
            place[i] = leaf * LEAF + j - s
            for a in range(p):
                full[leaf, j - s, a] = X[i, a]
                cells[leaf, a, j - s] = (X[i, a] - centre[a]) / radius
    return cells, full, who, place


@kernel()
def _families(leaves, p):
    """Empty boxes and the kinship of all nodes above a number of leaves."""
    families, width = 0, leaves
    while True:
        families += (width + FAN - 1) // FAN
        if width <= FAN:
            break
        width //= FAN
    low = np.empty((families, p, FAN), np.float32)
    high = np.empty((families, p, FAN), np.float32)
    reach = np.empty((families, FAN), np.float32)
    alive = np.zeros((families, FAN), np.int64)
    down = np.empty(families, np.int64)
    up = np.full(families, -1, np.int64)
    below, width = families, leaves
    while True:
        first = below - (width + FAN - 1) // FAN
        for i in range(0, width, FAN):
            down[first + i // FAN] = -1 - i if width == leaves else below + i
        if width < leaves:
            for i in range(width):
                up[below + i] = first * FAN + i
        if width <= FAN:
            return low, high, reach, alive, down, up
        below, width = first, width // FAN


@kernel()
def _count(tree, start):
    """Write how many records each node holds."""
    alive, up = tree.alive, tree.up
    leaves = start.size - 1
    first = up.size - (leaves + FAN - 1) // FAN
    for leaf in range(leaves):
        alive[first + leaf // FAN, leaf % FAN] = start[leaf + 1] - start[leaf]
    for f in range(up.size - 1, 0, -1):
        for c in range(FAN):
            alive[up[f] // FAN, up[f] % FAN] += alive[f, c]
