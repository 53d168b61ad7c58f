"""Bring any partition to groups of k to 2k-1 records."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.microaggregation.fixed_size.plain import plain_mdav


def repair(X: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Dissolve groups below k into their nearest groups, then split those above 2k-1.

    Parameters
    ----------
    X : array of float64, (n_records, n_columns)
    labels : array of int64, (n_records,)
        Any partition.
    k : int
        Smallest group size; needs n_records >= k.

    Returns
    -------
    array of int64, (n_records,)
        Labels 0..c-1 with group sizes in k..2k-1.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import repair
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> repair(X, np.array([0, 0, 1, 2, 2, 2]), k=3)
    array([0, 0, 0, 1, 1, 1])
    """
    _, labels = np.unique(labels, return_inverse=True)
    labels = _dissolve_small(X, labels.astype(np.int64), k)
    sizes = np.bincount(labels)
    following = sizes.size
    for group in np.flatnonzero(sizes >= 2 * k):
        members = np.flatnonzero(labels == group)
        parts = plain_mdav(np.ascontiguousarray(X[members]), k)
        labels[members] = np.where(parts == 0, group, following + parts - 1)
        following += int(parts.max())
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


# Kernels


@kernel()
def _dissolve_small(X, labels, k):  # noqa: C901 - one step of a compiled search, case by case
    """Send the records of each group below k, smallest group first, to the nearest centroid."""
    n, p = X.shape
    c = labels.max() + 1
    labels = labels.copy()
    sums = np.zeros((c, p))
    sizes = np.zeros(c, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
        for a in range(p):
            sums[labels[i], a] += X[i, a]
    while True:
        small = -1
        for g in range(c):
            if 0 < sizes[g] < k and (small < 0 or sizes[g] < sizes[small]):
                small = g
        if small < 0:
            return labels
        sizes[small] = 0
        for i in range(n):
            if labels[i] != small:
                continue
            best, best_d = -1, np.inf
            for g in range(c):
                if sizes[g] == 0:
                    continue
                d = 0.0
                for a in range(p):
                    t = X[i, a] - sums[g, a] / sizes[g]
                    d += t * t
                if d < best_d:
                    best, best_d = g, d
            labels[i] = best
            sizes[best] += 1
            for a in range(p):
                sums[best, a] += X[i, a]
