"""Orders of multivariate records, for the methods that cut an order into groups.

`nearest_next` walks from record to record; `chained` strings the groups of another method together.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.encode import group_means

__all__ = ["along_groups", "chained", "diameter_end", "nearest_next"]


def chained(Z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Order the records group after group, the next group being the one with the nearest centroid.

    The chain starts at the group whose centroid is farthest from the centroid of all. Inside a group the first record
    is the one nearest to the end of the previous group; the others follow by falling distance to the next group's
    centroid, so that the walk leads there.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    labels : array of int64, (n_records,)
        Groups 0..c-1, none empty.

    Returns
    -------
    array of int64, (n_records,)
    """
    centroids = group_means(Z, labels)
    outside = centroids - Z.mean(axis=0)
    start = int(np.argmax(np.einsum("ij,ij->i", outside, outside)))
    return _inside_towards(Z, labels, centroids, nearest_next(centroids, start))


def along_groups(Z: np.ndarray, labels: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Order the records along a chain of groups, inside each by projection on its neighbours' line.

    The line of a group runs from the centroid of the group before it to that of the group after it.
    """
    centroids = group_means(Z, labels)
    towards = centroids[np.append(chain[1:], chain[-1])] - centroids[np.append(chain[0], chain[:-1])]
    place = np.empty(chain.size, np.int64)
    place[chain] = np.arange(chain.size)
    line = towards[place[labels]]
    score = np.einsum("ij,ij->i", Z - centroids[labels], line)
    return np.lexsort((score, place[labels]))


# Kernels


@kernel()
def nearest_next(X, start):
    """Walk from a record to the nearest one not yet visited, until all are."""
    n, p = X.shape
    order = np.empty(n, np.int64)
    order[0] = start
    free = np.arange(n)
    rows = X.copy()  # rows of the free records, kept dense for speed
    free[start] = n - 1
    rows[start] = X[n - 1]
    for step in range(1, n):
        here = X[order[step - 1]]
        best, best_d = 0, np.inf
        for at in range(n - step):
            d = 0.0
            for a in range(p):
                t = rows[at, a] - here[a]
                d += t * t
            if d < best_d or (d == best_d and free[at] < free[best]):
                best, best_d = at, d
        order[step] = free[best]
        last = n - step - 1
        free[best] = free[last]
        rows[best] = rows[last]
    return order


@kernel()
def diameter_end(X):
    """Of the two records farthest apart, the one nearer to the centroid of all."""
    n, p = X.shape
    centre = np.zeros(p)
    for i in range(n):
        for a in range(p):
            centre[a] += X[i, a]
    centre /= n
    radius = np.empty(n)
    for i in range(n):
        d = 0.0
        for a in range(p):
            t = X[i, a] - centre[a]
            d += t * t
        radius[i] = np.sqrt(d)
    # From the outside in: two records are never farther apart than the sum of their radii.
    outside = np.argsort(-radius, kind="mergesort")
    inner, best = outside[-1], -1.0
    for high in range(n):
        i = outside[high]
        if 2.0 * radius[i] < best:
            break
        for low in range(high + 1, n):
            j = outside[low]
            if radius[i] + radius[j] < best:
                break
            d = 0.0
            for a in range(p):
                t = X[i, a] - X[j, a]
                d += t * t
            d = np.sqrt(d)
            if d > best:
                inner, best = j, d
    return inner


@kernel()
def _inside_towards(X, labels, centroids, chain):
    """Records group after group, each from the end of the group before towards the group after."""
    n, p = X.shape
    c = chain.size
    first = np.zeros(c + 1, np.int64)
    for i in range(n):
        first[labels[i] + 1] += 1
    for g in range(c):
        first[g + 1] += first[g]
    members = np.empty(n, np.int64)
    filled = first[:-1].copy()
    for i in range(n):
        members[filled[labels[i]]] = i
        filled[labels[i]] += 1
    order = np.empty(n, np.int64)
    at = 0
    for step in range(c):
        own = members[first[chain[step]] : first[chain[step] + 1]]
        near, far = np.zeros(own.size), np.zeros(own.size)
        for q in range(own.size):
            for a in range(p):
                if step > 0:
                    t = X[own[q], a] - X[order[at - 1], a]
                    near[q] += t * t
                if step + 1 < c:
                    t = X[own[q], a] - centroids[chain[step + 1], a]
                    far[q] += t * t
        # The first group starts at its far end; the last one ends where it ends, nearest first.
        enter = np.argmin(near) if step > 0 else np.argmax(far)
        key = -far if step + 1 < c else near
        key[enter] = -np.inf
        for q in np.argsort(key, kind="mergesort"):
            order[at] = own[q]
            at += 1
    return order
