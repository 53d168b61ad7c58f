"""Improve a partition and cut the order that it gives, in turn: what IMHM and path-exchange share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.engine.encode import sum_of_squares
from shoal.microaggregation._path import cut

Step = Callable[[np.ndarray], np.ndarray]


def alternate(
    Z: np.ndarray, labels: np.ndarray, k: int, improve: Step, order: Step
) -> tuple[float, np.ndarray]:
    """Improve the groups, order the records by them, cut that order by the shortest path, and again while the SSE falls.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    labels : array of int64, (n_records,)
    k : int
    improve : callable
        Labels to labels of no larger SSE.
    order : callable
        Labels to an order of the records in which every group is a run.

    Returns
    -------
    (float, array of int64)
        The least SSE and its labels.
    """
    best = improve(labels)
    least = sum_of_squares(Z, best)
    while True:
        following = improve(cut(Z, order(best), k))
        loss = sum_of_squares(Z, following)
        if not loss < least * (1.0 - 1e-9):
            return least, best
        best, least = following, loss


def by_value(Z: np.ndarray, partition: Step) -> np.ndarray:
    """Labels of a partition of the rows sorted by value, so that the order of the table does not steer it."""
    order = np.lexsort(Z.T[::-1])
    labels = np.empty(Z.shape[0], np.int64)
    labels[order] = partition(np.ascontiguousarray(Z[order]))
    return labels
