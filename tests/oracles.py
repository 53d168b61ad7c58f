"""Slow plain versions of the kernels: definitions, nothing clever."""

from __future__ import annotations

import numpy as np


def mdav(X: np.ndarray, k: int) -> np.ndarray:
    """MDAV as printed, with full sorts: two groups a round while 2k are left, leftovers to moving centroids."""
    labels, group = _ends(X, k, 2)
    free = np.flatnonzero(labels < 0)
    if len(free) >= k:
        labels[free] = group
        return labels
    for i in free:
        centroids = [X[labels == g].mean(axis=0) for g in range(group)]
        labels[i] = np.argmin([((X[i] - each) ** 2).sum() for each in centroids])
    return labels


def mdav_generic(X: np.ndarray, k: int) -> np.ndarray:
    """MDAV by the textbook, with full sorts: two groups a round while 3k are left."""
    labels, group = _ends(X, k, 3)
    free = np.flatnonzero(labels < 0)
    if len(free) >= 2 * k:
        r = free[np.argmax(((X[free] - X[free].mean(axis=0)) ** 2).sum(axis=1))]
        labels[free[np.argsort(((X[free] - X[r]) ** 2).sum(axis=1), kind="stable")[:k]]] = group
        group += 1
    labels[labels < 0] = group
    return labels


def _ends(X: np.ndarray, k: int, times: int) -> tuple[np.ndarray, int]:
    """Groups around r and s while `times` k records are left."""
    labels = np.full(len(X), -1)
    group = 0

    def free():
        return np.flatnonzero(labels < 0)

    def distances(point):
        return ((X[free()] - point) ** 2).sum(axis=1)

    def farthest(point):
        return free()[np.argmax(distances(point))]

    while len(free()) >= times * k:
        r = farthest(X[free()].mean(axis=0))
        s = farthest(X[r])
        for record in (r, s):
            if labels[record] < 0:
                labels[free()[np.argsort(distances(X[record]), kind="stable")[:k]]] = group
                group += 1
    return labels, group


def cbfs(X: np.ndarray, k: int) -> np.ndarray:
    """CBFS by its definition."""
    labels = np.full(len(X), -1)
    group = 0
    while (labels < 0).sum() >= 2 * k:
        free = np.flatnonzero(labels < 0)
        middle = X[free].mean(axis=0)
        r = free[np.argmax(((X[free] - middle) ** 2).sum(axis=1))]
        labels[free[np.argsort(((X[free] - X[r]) ** 2).sum(axis=1), kind="stable")[:k]]] = group
        group += 1
    labels[labels < 0] = group
    return labels


def diameter(X: np.ndarray, rows: np.ndarray) -> float:
    """Largest squared distance between two of some records."""
    return max(((X[i] - X[j]) ** 2).sum() for i in rows for j in rows)


def best_runs(x: np.ndarray, k: int) -> float:
    """Smallest SSE of any cut of the rows as they stand into runs of k..2k-1, by trying them all."""

    def sse(rows):
        return float(((rows - rows.mean(axis=0)) ** 2).sum())

    def best(start):
        if start == len(x):
            return 0.0
        choices = [
            sse(x[start : start + size]) + best(start + size)
            for size in range(k, 2 * k)
            if start + size <= len(x)
        ]
        return min(choices, default=np.inf)

    return best(0)


def dld(A: np.ndarray, B: np.ndarray, ties: str = "share") -> float:
    """DLD with the whole distance matrix."""
    total = 0.0
    for j, row in enumerate(B):
        distances = np.sqrt(((A - row) ** 2).sum(axis=1))
        nearest = np.flatnonzero(distances <= distances.min() * (1 + 1e-9) + 1e-300)
        if ties == "share":
            total += (j in nearest) / len(nearest)
        else:
            total += nearest[0] == j
    return total / len(B)


def best_cyclic_runs(x: np.ndarray, k: int) -> float:
    """Smallest SSE of any cut of a closed tour into runs of k..2k-1, from every start there is."""
    return min(best_runs(np.roll(x, -start, axis=0), k) for start in range(len(x)))


def nearest_next(X: np.ndarray, start: int) -> list[int]:
    """Always to the nearest record not yet visited."""
    walk = [start]
    while len(walk) < len(X):
        left = [i for i in range(len(X)) if i not in walk]
        walk.append(min(left, key=lambda i: (((X[i] - X[walk[-1]]) ** 2).sum(), i)))
    return walk


def gsms(X: np.ndarray, k: int) -> np.ndarray:
    """GSMS by its definition: SSE of the group plus SSE of the rest, both computed anew each time."""

    def sse(rows):
        return float(((rows - rows.mean(axis=0)) ** 2).sum()) if len(rows) else 0.0

    labels = np.full(len(X), -1)
    for group in range(len(X) // k):
        free = np.flatnonzero(labels < 0)
        proposals = [free[np.argsort(((X[free] - X[i]) ** 2).sum(axis=1), kind="stable")[:k]] for i in free]
        scores = [sse(X[each]) + sse(X[np.setdiff1d(free, each)]) for each in proposals]
        labels[proposals[int(np.argmin(scores))]] = group
    return labels
