"""A table prepared for pricing: records in the order of a tree of boxes, and the nearest others of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from shoal.engine.kernels.axes import blocks_of

LEAF = 48
"""Records of a leaf."""

FAN = 32
"""Leaves that are skipped together."""

_QUERY = 65_536


class Space(NamedTuple):
    """Records in the order of a tree, column by column, and the boxes around its leaves and runs of leaves."""

    columns: np.ndarray  # (p, n)
    leaf: np.ndarray  # (leaves + 1,) first record of each
    low: np.ndarray  # (leaves, p)
    high: np.ndarray
    run: np.ndarray  # (runs + 1,) first leaf of each
    run_low: np.ndarray
    run_high: np.ndarray


@dataclass(frozen=True)
class Surroundings:
    """A table prepared for pricing: its records in the order of a tree, and what is near each.

    Attributes
    ----------
    k : int
    order : array of int64, (n,)
        Record of the table at each place of the tree; everything else is by place.
    space : Space
    near : array of int32, (n, m)
        The nearest others, nearest first.
    sums : array of float64, (n, m + 1)
        Sum of the squared distances to the nearest 0, 1, .., m others, rounded down.
    """

    k: int
    order: np.ndarray
    space: Space
    near: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, k: int, m: int) -> Surroundings:
        """Find the m nearest of each record; O(n m) memory."""
        leaves = blocks_of(Z, LEAF)
        order = np.concatenate(leaves)
        X = np.ascontiguousarray(Z[order])
        leaf = np.cumsum([0, *(rows.size for rows in leaves)])
        low, high = np.minimum.reduceat(X, leaf[:-1]), np.maximum.reduceat(X, leaf[:-1])
        run = np.append(np.arange(0, leaf.size - 1, FAN), leaf.size - 1)
        space = Space(
            np.ascontiguousarray(X.T), leaf, low, high,
            run, np.minimum.reduceat(low, run[:-1]), np.maximum.reduceat(high, run[:-1]),
        )  # fmt: skip
        near, sums = _nearest(X, min(m, X.shape[0] - 1))
        return cls(k, order, space, near, sums)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.order.size


def _nearest(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    n = X.shape[0]
    near, sums = np.empty((n, m), np.int32), np.empty((n, m + 1))
    tree = cKDTree(X)
    for start in range(0, n, _QUERY):
        rows = np.arange(start, min(n, start + _QUERY))
        distance, found = tree.query(X[rows], k=m + 1, workers=-1)
        sums[rows] = np.cumsum(distance * distance, axis=1)
        # Among duplicates a record need not be its own nearest: the first of the list leaves if it is not in it.
        own = found == rows[:, None]
        own[~own.any(axis=1), 0] = True
        near[rows] = found[~own].reshape(rows.size, m)
    # Rounding in distances and sums is below (p + 2m + 4) units in the last place.
    sums *= 1.0 - (X.shape[1] + 2 * m + 8) * 2.3e-16
    return near, sums
