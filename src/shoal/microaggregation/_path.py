"""The path family: put the records in an order, then cut it at the least cost.

The cut is the shortest path of Hansen and Mukherjee over cut points with k to 2k-1 records between them.
Group costs come from running means and squares over at most 2k-1 records (Welford), never from prefix
sums, so that data far from the origin do not cancel.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.microaggregation._base import Microaggregator
from shoal.params import Interval, Rule


class Univariate(Microaggregator):
    """The optimal partition of one column (Hansen and Mukherjee), in O(n k).

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    Optimal for a single column. With more columns the records are ordered along their first principal
    axis and that order is cut at the least multivariate cost: feasible, fast, and far from optimal.

    References
    ----------
    .. [1] S. L. Hansen, S. Mukherjee (2003). A polynomial algorithm for optimal univariate
       microaggregation. IEEE TKDE 15(4), 1043-1044. doi:10.1109/TKDE.2003.1209020

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import Univariate
    >>> X = np.array([[1.0], [1.1], [5.0], [5.1], [5.2]])
    >>> Univariate(k=2).fit(X).labels_.tolist()
    [0, 0, 1, 1, 1]
    """

    name: ClassVar = "univariate"
    _rules: ClassVar[dict[str, Rule]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return cut(Z, np.argsort(_principal_scores(Z), kind="stable"), self.k)


def _principal_scores(Z: np.ndarray) -> np.ndarray:
    """Coordinates of the records on their first principal axis, its largest loading positive."""
    if Z.shape[1] == 1:
        return Z[:, 0]
    _, axes = np.linalg.eigh(Z.T @ Z)
    axis = axes[:, -1]
    return Z @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))


def cut(Z: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Labels of the best partition into runs of k..2k-1 consecutive records of an order."""
    starts = _shortest_path(np.ascontiguousarray(Z[order]), k)
    labels = np.empty(order.size, np.int64)
    labels[order] = np.cumsum(starts) - 1
    return labels


# Kernels


@kernel()
def _shortest_path(X, k):
    """Mark the first record of each run in the cheapest cut of the rows as they stand."""
    n, p = X.shape
    cost = np.full(n + 1, np.inf)
    cost[0] = 0.0
    before = np.full(n + 1, -1, np.int64)
    mean = np.empty(p)
    for end in range(k, n + 1):
        mean[:] = 0.0
        sse = 0.0
        for size in range(1, min(2 * k - 1, end) + 1):
            i = end - size
            for a in range(p):
                t = X[i, a] - mean[a]
                mean[a] += t / size
                sse += t * (X[i, a] - mean[a])
            if size >= k and cost[i] + sse < cost[end]:
                cost[end] = cost[i] + sse
                before[end] = i
    starts = np.zeros(n, np.int64)
    at = n
    while at > 0:
        at = before[at]
        starts[at] = 1
    return starts
