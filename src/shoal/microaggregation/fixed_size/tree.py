"""MDAV, CBFS and V-MDAV for large tables: the labels of the plain kernels, most distances skipped.

Nearest and farthest records come from a tree that shrinks with the table and is built anew when much of it
is gone. The record farthest from the centroid comes from the *rim*: records sorted by their distance to an
older centroid, read from the far end until none that follows can win.

Why the labels are the same: distances between records are summed as in the plain kernels and ties go to
the smallest index. The running centroid may differ from the plain one in its last digits; where that could
change the farthest record (another one lies within the rounding bound of the best), the plain centroid is
summed in the plain order and decides.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_between
from shoal.engine.kernels.tree_growth import grow_tree
from shoal.engine.kernels.trees import Tree, farthest, nearest, take, tighten
from shoal.microaggregation.fixed_size.plain import (
    plain_cbfs,
    plain_mdav,
    plain_mdav_generic,
    plain_v_mdav,
    to_nearest_group,
)
from shoal.microaggregation.fixed_size.scan import CBFS, CBFS_CENTROID, MDAV, MDAV_GENERIC, scan_rounds

# Below this many records a plain scan is about as fast as the tree, and spares compiling it.
SMALL = 8_000
# A scan with vector instructions keeps up with the tree to this many records, times the columns squared: in many
# columns few boxes can be skipped.
SCANNED = 250
# Share of a tree that may be gone before it is built anew.
KEPT = 0.6
# Boxes are shrunk to what is left in them whenever one in so many records has gone.
WEAR = 32
# Values beyond this would overflow when squared in the bounds.
LARGEST = 1e100


def fast_mdav(X: np.ndarray, k: int) -> np.ndarray:
    """Labels of the plain MDAV kernel."""
    return _in_rounds(X, k, MDAV) if _bounded(X) else plain_mdav(X, k)


def fast_mdav_generic(X: np.ndarray, k: int) -> np.ndarray:
    """Labels of the plain MDAV-generic kernel."""
    return _in_rounds(X, k, MDAV_GENERIC) if _bounded(X) else plain_mdav_generic(X, k)


def fast_cbfs(X: np.ndarray, k: int, towards_centroid: bool) -> np.ndarray:
    """Labels of the plain CBFS kernel."""
    if not _bounded(X):
        return plain_cbfs(X, k, towards_centroid)
    if towards_centroid:
        return _shrink(X, k, CBFS_CENTROID) if _pays(X, k) else plain_cbfs(X, k, towards_centroid)
    return _in_rounds(X, k, CBFS)


def fast_v_mdav(X: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """Labels of the plain V-MDAV kernel."""
    return _extend(X, k, gamma) if _bounded(X) and _pays(X, k) else plain_v_mdav(X, k, gamma)


def _in_rounds(X: np.ndarray, k: int, method: int) -> np.ndarray:
    """By the tree where it pays, and scans below."""
    least = SCANNED * X.shape[1] ** 2
    if _pays(X, k, least):
        return _shrink(X, k, method, least)
    return _with_leftovers(X, scan_rounds(X, k, method))


def _with_leftovers(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """What MDAV leaves without a group, fewer than k records, goes to the nearest groups."""
    rows = np.flatnonzero(labels < 0)
    if rows.size:
        to_nearest_group(X, labels, rows, labels.max() + 1)
    return labels


def _extend(X: np.ndarray, k: int, gamma: float) -> np.ndarray:
    """V-MDAV on trees, built anew when they are worn."""
    labels = np.full(X.shape[0], -1, np.int64)
    rim, _ = _rim(X, np.arange(X.shape[0]), _plain_centroid(X, labels, np.arange(X.shape[0])))
    at, group = 0, 0
    while True:
        rows = np.flatnonzero(labels < 0)
        if rows.size < k:
            break
        at, group = _v_mdav_rounds(
            X, labels, grow_tree(X, rows), rim, at, k, gamma, group, _stop(rows.size, k)
        )
    if rows.size:
        to_nearest_group(X, labels, rows, group)
    return labels


def _bounded(X: np.ndarray) -> bool:
    return bool(np.abs(X).max() < LARGEST)


def _pays(X: np.ndarray, k: int, least: int = 0) -> bool:
    return X.shape[0] >= max(SMALL, least, 8 * k)


def _stop(free: int, k: int) -> int:
    """How many records are left when the tree is to be built anew."""
    return int(KEPT * free) if free > 2_000 else 0


def _shrink(X: np.ndarray, k: int, method: int, least: int = 0) -> np.ndarray:
    """Build the tree and the rim, run rounds until they are worn, and again until all have a group.

    Scans end what is left when fewer than `least` records are (not where groups grow towards their centroid).
    """
    labels = np.full(X.shape[0], -1, np.int64)
    last = 3 * k if method == MDAV_GENERIC else 2 * k
    group = 0
    rows = np.arange(X.shape[0])
    tree: Tree | None = None
    built = 0
    while rows.size >= max(last, least):
        if tree is None or rows.size <= _stop(built, k):
            tree, built = grow_tree(X, rows), rows.size
        middle = _plain_centroid(X, labels, rows)
        rim, distance = _rim(X, rows, middle)
        group = _rounds(
            X,
            labels,
            rows,
            tree,
            rim,
            distance,
            middle,
            k,
            group,
            max(last, least, _stop(built, k) + 1),
            method,
        )
        rows = rows[labels[rows] < 0]
    labels[rows] = group
    if method != CBFS_CENTROID and rows.size:
        last_ones = scan_rounds(X[rows], k, method)
        labels[rows] = np.where(last_ones < 0, -1, group + last_ones)
    return _with_leftovers(X, labels)


def _rim(X: np.ndarray, rows: np.ndarray, middle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Records by descending distance to a point (equals by ascending index), and the distances."""
    distance = _squares(X, rows, middle)
    order = np.argsort(-distance, kind="stable")
    return rows[order], np.sqrt(distance[order])


# Kernels


@kernel()
def _squares(X, rows, point):
    out = np.empty(rows.size)
    for j in range(rows.size):
        out[j] = squared_between(X[rows[j]], point)
    return out


@kernel()
def _plain_centroid(X, labels, rows):
    """The centroid of the rows without a group, summed as the plain kernel sums it."""
    p = X.shape[1]
    centre = np.zeros(p)
    count = 0
    for i in rows:
        if labels[i] < 0:
            count += 1
            for a in range(p):
                centre[a] += X[i, a]
    return centre / count


@kernel()
def _rounds(X, labels, rows, tree, rim, rim_distance, middle, k, group, stop, method):
    """Form groups until fewer than `stop` records are left or the rim is worn; the next group."""
    p = X.shape[1]
    left = rows.size
    total = np.zeros(p)
    size = np.zeros(p)
    for i in rows:
        for a in range(p):
            total[a] += X[i, a]
            size[a] += abs(X[i, a])
    # Each of at most 2 * rows.size additions errs by half a unit in the last place of at most `size`.
    error = 0.0
    for a in range(p):
        error += (4.5e-16 * 2 * rows.size * size[a]) ** 2
    error = np.sqrt(error)
    found = np.empty(k, np.int64)
    distance = np.empty(k)
    seen = np.empty(rows.size)
    at, work = 0, 0
    loose = left - left // WEAR
    opposite = method in (MDAV, MDAV_GENERIC)
    while left >= stop and work <= 30 * rows.size:
        if left < loose:
            tighten(tree)
            loose = left - left // WEAR
        while labels[rim[at]] >= 0:
            at += 1
        r, looked = _rim_farthest(
            X, labels, rows, rim, rim_distance, at, middle, total / left, error / left, seen
        )
        work += looked
        if method == CBFS_CENTROID:
            _grow_group(X, labels, tree, r, k, group, total)
        else:
            s = farthest(tree, X[r])[0] if opposite else r
            nearest(tree, X[r], k, found, distance)
            _assign(X, labels, tree, found, group, total)
            if opposite and labels[s] < 0:
                group += 1
                left -= k
                nearest(tree, X[s], k, found, distance)
                _assign(X, labels, tree, found, group, total)
        group += 1
        left -= k
    return group


@kernel()
def _rim_farthest(X, labels, rows, rim, rim_distance, at, middle, centre, error, seen):
    """The record the plain kernel calls farthest from the centroid, and how many were looked at."""
    p = X.shape[1]
    drift = np.sqrt(squared_between(middle, centre)) + error
    best, best_d = -1, -1.0
    end = at
    while end < rim.size and rim_distance[end] * (1 + 1e-13) + drift >= best_d * (1 - 1e-13) - 2 * error:
        i = rim[end]
        if labels[i] < 0:
            d = np.sqrt(squared_between(X[i], centre))
            seen[end] = d
            if d > best_d or (d == best_d and i < best):
                best, best_d = i, d
        end += 1
    limit = best_d * (1 - 1e-13) - 2 * error
    clear = True
    for j in range(at, end):
        i = rim[j]
        if labels[i] < 0 and seen[j] >= limit and i != best:
            for a in range(p):
                if X[i, a] != X[best, a]:
                    clear = False
            best = min(best, i)
    if clear:
        return best, end - at
    exact = _plain_centroid(X, labels, rows)
    best, best_d = -1, -1.0
    for j in range(at, end):
        i = rim[j]
        if labels[i] < 0 and seen[j] >= limit:
            d = squared_between(X[i], exact)
            if d > best_d or (d == best_d and i < best):
                best, best_d = i, d
    return best, end - at


@kernel()
def _assign(X, labels, tree, found, group, total):
    for i in found:
        labels[i] = group
        take(tree, i)
        for a in range(X.shape[1]):
            total[a] -= X[i, a]


@kernel()
def _grow_group(X, labels, tree, r, k, group, total):
    """Grow a group from record r, each time by the record nearest to its current centroid."""
    p = X.shape[1]
    centre = X[r].copy()
    one = np.full(1, r)
    distance = np.empty(1)
    _assign(X, labels, tree, one, group, total)
    for members in range(1, k):
        nearest(tree, centre, 1, one, distance)
        for a in range(p):
            centre[a] += (X[one[0], a] - centre[a]) / (members + 1)
        _assign(X, labels, tree, one, group, total)


@kernel()
def _v_mdav_rounds(X, labels, tree, rim, at, k, gamma, group, stop):
    """Form and extend groups until no more than `stop`, or fewer than k, records are left."""
    p = X.shape[1]
    left = tree.alive[0].sum()
    unused = np.zeros(p)
    members = np.empty(2 * k, np.int64)
    found = np.empty(k, np.int64)
    distance = np.empty(k)
    two = np.empty(2, np.int64)
    two_d = np.empty(2)
    closest = np.empty(2 * k, np.int64)
    closest_d = np.empty(2 * k)
    loose = left - left // WEAR
    while left >= k and left > stop:
        if left < loose:
            tighten(tree)
            loose = left - left // WEAR
        while labels[rim[at]] >= 0:
            at += 1
        # The rim is exact here, since the centroid is that of the whole table: the first is the farthest.
        nearest(tree, X[rim[at]], k, found, distance)
        _assign(X, labels, tree, found, group, unused)
        left -= k
        size = k
        members[:k] = found
        closest[:k] = -1
        while size < 2 * k - 1 and left > 1:
            e, e_d = -1, np.inf
            for j in range(size):
                if closest[j] < 0 or labels[closest[j]] >= 0:
                    nearest(tree, X[members[j]], 1, two, two_d)
                    closest[j] = two[0]
                    closest_d[j] = two_d[0]
                if closest_d[j] < e_d or (closest_d[j] == e_d and closest[j] < e):
                    e, e_d = closest[j], closest_d[j]
            nearest(tree, X[e], 2, two, two_d)
            if e_d >= gamma * gamma * two_d[1]:
                break
            members[size] = e
            closest[size] = -1
            size += 1
            two[0] = e
            _assign(X, labels, tree, two[:1], group, unused)
            left -= 1
        group += 1
    return at, group
