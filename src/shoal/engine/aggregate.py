"""One value per group and column: mean, median, mode or medoid, weighted where weights are given.

Only cells that are there count; a group in which a column is missing throughout keeps it missing, so that
missing cells never spread.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn
from shoal.engine.compile import kernel
from shoal.engine.encode import group_means


def aggregate(
    columns: list[TypedColumn], labels: np.ndarray, Z: np.ndarray, weights: np.ndarray, round_integers: bool
) -> dict[str, pl.Series]:
    """The columns as they will be published, in original units."""
    asked = any(each.facts.aggregate == "medoid" for each in columns)
    medoids = medoids_of(Z, labels) if asked else np.empty(0, np.int64)
    new = {}
    for column in columns:
        values, gone = aggregate_column(column, labels, weights, medoids)
        new[column.name] = column.native(values[labels], gone[labels], round_integers=round_integers)
    return new


def aggregate_column(
    column: TypedColumn, labels: np.ndarray, weights: np.ndarray, medoids: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The value of each group, and whether it is missing.

    Parameters
    ----------
    column : TypedColumn
    labels : array of int64
        Groups 0..c-1.
    weights : array of float64
        Positive weights of the records.
    medoids : array of int64, (c,)
        The record of each group nearest to its centroid.
    """
    how = column.facts.aggregate or {"number": "mean", "date": "mean", "ordered": "median"}.get(
        column.facts.kind, "mode"
    )
    c = int(labels.max()) + 1
    if how == "medoid":
        return column.values[medoids], column.missing[medoids]
    values, groups, mass = column.values, labels, weights
    if column.missing.any():
        present = np.flatnonzero(~column.missing)
        values, groups, mass = values[present], labels[present], weights[present]
    filled = np.bincount(groups, minlength=c) > 0
    out = np.zeros(c)
    if values.size == 0:
        return out, ~filled
    if how == "mean":
        dense = groups if filled.all() else np.cumsum(filled)[groups] - 1
        out[filled] = group_means(values[:, None], dense, mass)[:, 0]
    elif how == "median":
        out[filled] = _medians(values, groups, mass)
    else:
        out[filled] = _modes(values, groups, mass)
    return out, ~filled


def medoids_of(Z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The record of each group with the least sum of distances to its other records (the first of equals).

    Parameters
    ----------
    Z : array of float64, (n_records, n_coordinates)
    labels : array of int64, (n_records,)
        Groups 0..c-1, none empty.

    Returns
    -------
    array of int64, (c,)

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.engine.aggregate import medoids_of
    >>> medoids_of(np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 0]))
    array([1])
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(int(labels.max()) + 2))
    return _medoids(np.ascontiguousarray(Z, dtype=np.float64), order, starts)


def _medians(values: np.ndarray, groups: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Weighted lower median of each group present, in ascending order of group."""
    order = np.lexsort((values, groups))
    sorted_groups, running = groups[order], np.cumsum(mass[order])
    _, starts = np.unique(sorted_groups, return_index=True)
    ends = np.append(starts[1:], order.size)
    base = np.where(starts > 0, running[starts - 1], 0.0)
    half = base + (running[ends - 1] - base) / 2
    # A hair below one half, so that sums of equal weights do not fall to the wrong side.
    at = np.searchsorted(running, half * (1 - 1e-12))
    return values[order][np.clip(at, starts, ends - 1)]


def _modes(values: np.ndarray, groups: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Heaviest value of each group present; of equals, the smallest code."""
    codes = values.astype(np.int64)
    span = int(codes.max()) + 1
    pairs, inverse = np.unique(groups * span + codes, return_inverse=True)
    weight = np.bincount(inverse.reshape(-1), weights=mass)
    pair_groups = pairs // span
    order = np.lexsort((pairs, -weight, pair_groups))
    _, starts = np.unique(pair_groups[order], return_index=True)
    return (pairs[order[starts]] % span).astype(np.float64)


# Kernels


@kernel()
def _medoids(Z, order, starts):
    found = np.empty(starts.size - 1, np.int64)
    for g in range(starts.size - 1):
        members = order[starts[g] : starts[g + 1]]
        least = np.inf
        for i in members:
            total = 0.0
            for j in members:
                gap = 0.0
                for a in range(Z.shape[1]):
                    t = Z[i, a] - Z[j, a]
                    gap += t * t
                total += np.sqrt(gap)
            if total < least:
                least = total
                found[g] = i
    return found
