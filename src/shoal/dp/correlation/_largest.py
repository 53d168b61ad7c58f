"""The largest row sum of |Delta| w, exact, without the matrix.

Rows are taken in falling order of a cheap upper bound; blocks of them are summed in single precision with a
margin that covers its rounding, and only rows that can still win are summed in double precision, where also
every threshold is decided. The result equals the plain sum over the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from threadpoolctl import ThreadpoolController

# Relative margin of single precision sums of m products of d terms in [-1, 1].
MARGIN = 1e-5
TILE = 512  # columns of a tile, so that it stays in the cache


@dataclass(frozen=True)
class Profiles:
    """Records as centred vectors over their own columns, so that a degree is a cosine.

    Attributes
    ----------
    values : float64 array (n, d)
        For Spearman doubled centred ranks, which are whole numbers: their products are exact.
    square : float64 array (n,)
        Squared lengths; 0 for a record whose columns are all equal, which has no degree with others.
    unit : float32 array (n, d)
        Vectors of length one, for the bounds.
    """

    values: np.ndarray
    square: np.ndarray
    unit: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, *, ranks: bool) -> Self:
        """Profiles of prepared records, by their ranks (Spearman) or their values (Pearson)."""
        if ranks:
            from scipy.stats import rankdata

            values = 2.0 * rankdata(X, axis=1) - (X.shape[1] + 1)
        else:
            values = X - X.mean(axis=1, keepdims=True)
            # what is left of a constant record is rounding
            values[np.abs(values).max(axis=1) <= 1e-12 * np.abs(X).max(axis=1)] = 0.0
        square = (values**2).sum(axis=1)
        length = np.sqrt(np.where(square > 0, square, 1.0))
        return cls(values, square, (values / length[:, None]).astype(np.float32))

    def take(self, rows: np.ndarray) -> Profiles:
        """The profiles of some records."""
        return Profiles(self.values[rows], self.square[rows], self.unit[rows])

    def __len__(self) -> int:
        return len(self.values)


def degrees(left: Profiles, right: Profiles, threshold: float = 0.0) -> np.ndarray:
    """|delta| between two sets of records in double precision, zero below the threshold.

    A degree meets the threshold if dot^2 >= threshold^2 |a|^2 |b|^2, up to 1e-12 of it: on ranks all but the
    threshold are whole numbers, so that the many pairs that lie exactly on 0.2 are not split by the rounding
    of 0.2.
    """
    dot = np.abs(left.values @ right.values.T)
    product = left.square[:, None] * right.square[None, :]
    kept = dot**2 >= (1 - 1e-12) * threshold**2 * product if threshold > 0 else np.True_
    return np.where(kept & (product > 0), dot / np.sqrt(np.where(product > 0, product, 1.0)), 0.0)


def largest(
    bounds: np.ndarray,
    above: Callable[[np.ndarray], np.ndarray],
    exact: Callable[[np.ndarray], np.ndarray],
    best: float = 0.0,
) -> float:
    """Largest exact value by branch and bound: no row is left out whose bound exceeds the result.

    Parameters
    ----------
    bounds : float64 array
        Upper bound of each row.
    above, exact : callables
        Tighter upper bounds, and exact values, of some rows.
    best : float, default 0.0
        A value already reached.
    """
    with _blas().limit(limits=1, user_api="blas"):  # tiles this small are not worth a second thread's waiting
        return _search(bounds, above, exact, best)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _search(
    bounds: np.ndarray,
    above: Callable[[np.ndarray], np.ndarray],
    exact: Callable[[np.ndarray], np.ndarray],
    best: float,
) -> float:
    order = np.argsort(-bounds, kind="stable")
    start, size = 0, 32
    while start < len(order):
        rows = order[start : start + size]
        rows = rows[bounds[rows] > best]
        if not len(rows):
            break
        upper = np.minimum(above(rows), bounds[rows])
        rank = np.argsort(-upper, kind="stable")
        for at in range(0, len(rank), 8):
            few = rank[at : at + 8]
            few = few[upper[few] > best]
            if not len(few):
                break
            best = max(best, float(exact(rows[few]).max()))
        start, size = start + size, min(2 * size, 1024)
    return best


def largest_similarity(
    profiles: Profiles, weights: np.ndarray, threshold: float = 0.0, best: float = 0.0
) -> float:
    """max_i sum_j |delta_ij| w_j with delta_ii = 1, over all records of `profiles`.

    The first bound is Cauchy's: a row sum is at most sqrt(sum(w) * z_i' (Z' W Z) z_i). `best` is a value
    already reached.
    """
    unit = float(weights.max(initial=0.0))
    if unit <= 0:
        return best
    weights = weights / unit  # so that single precision holds them
    weighing = np.flatnonzero(weights > 0)
    columns, w = profiles.take(weighing), weights[weighing]
    bounds = similarity_bounds(profiles, columns, w, weights)
    w32, cut = w.astype(np.float32), np.float32(threshold - 1e-4)

    def above(rows: np.ndarray) -> np.ndarray:
        total, taken = np.zeros(len(rows), dtype=np.float64), profiles.unit[rows]
        for start in range(0, len(w), TILE):
            part = slice(start, start + TILE)
            tile = taken @ columns.unit[part].T
            np.abs(tile, out=tile)
            if threshold > 0:
                tile *= tile >= cut
            total += tile @ w32[part]
        return total * (1 + MARGIN) + MARGIN * w.sum() + weights[rows] * (profiles.square[rows] == 0)

    def exact(rows: np.ndarray) -> np.ndarray:
        own = weights[rows] * (profiles.square[rows] == 0)
        return degrees(profiles.take(rows), columns, threshold) @ w + own

    return unit * largest(bounds, above, exact, best / unit)


def similarity_bounds(
    profiles: Profiles, columns: Profiles, w: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Cauchy's bound of each record's sum of |cosines| times weights, and never above the sum of weights."""
    moment = ((columns.unit * w[:, None].astype(np.float32)).T @ columns.unit).astype(np.float32)
    power = np.einsum("ij,ij->i", profiles.unit @ moment, profiles.unit).astype(np.float64)
    total = float(w.sum())
    bound = np.sqrt(total * np.maximum(power, 0.0)) * (1 + 1e-3)  # covers single precision
    bound = np.minimum(bound + 1e-6 * total, total)
    return bound + weights * (profiles.square == 0)
