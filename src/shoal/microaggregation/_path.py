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
from shoal.errors import InternalError
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._orders import chained, diameter_end, nearest_next
from shoal.microaggregation.fixed_size.estimators import CBFS, MD, MDAV
from shoal.params import Constraint, Interval, Options


class _MHM(Microaggregator):
    """Multivariate Hansen-Mukherjee: an order of the records, cut by the shortest path."""

    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _order(self, Z: np.ndarray) -> np.ndarray:
        raise InternalError(f"{type(self).__name__} does not define its order.")

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return cut(Z, self._order(Z), self.k)


class NPNMHM(_MHM):
    """Nearest point next: walk to the nearest record not yet visited, then cut the walk.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    start : {"centroid", "diameter"}, default "centroid"
        Where the walk starts: at the record farthest from the centroid, as it is described, or at an end of
        the diameter (of the two records farthest apart the one nearer to the centroid).

    Notes
    -----
    O(n^2) distances, O(n) memory.

    From the record farthest from the centroid the losses are 17.526 / 28.167 / 38.718 (Tarragona, k = 3 / 5 /
    10) and 6.211 / 11.054 / 20.227 (Census), up to 8 % from the printed 17.395 / 27.021 / 40.183 and 6.350 /
    11.344 / 18.734, in both directions. The end of the diameter gives 17.305 / 27.011 / 40.037 and 6.278 /
    11.281 / 18.626, at most 1.2 % below them. None of the 1,914 possible starts gives the printed values to
    the digit.

    References
    ----------
    .. [1] J. Domingo-Ferrer, A. Martinez-Balleste, J. M. Mateo-Sanz, F. Sebe (2006). Efficient
       multivariate data-oriented microaggregation. The VLDB Journal 15(4), 355-369.
       doi:10.1007/s00778-006-0007-0

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import NPNMHM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> NPNMHM(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "npn-mhm"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "start": Options(("centroid", "diameter")),
    }

    def __init__(self, k: int = 5, start: str = "centroid") -> None:
        super().__init__(k)
        self.start = start

    def _order(self, Z: np.ndarray) -> np.ndarray:
        if self.start == "diameter":
            return nearest_next(Z, diameter_end(Z))
        centred = Z - Z.mean(axis=0)
        return nearest_next(Z, int(np.argmax(np.einsum("ij,ij->i", centred, centred))))


class MDMHM(_MHM):
    """The groups of MD, put into one order and cut again by the shortest path.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    grow : {"centroid", "record"}, default "centroid"
        How MD gathers its groups; "record" is the reading behind the published losses.

    Notes
    -----
    O(n^2 / k) distances, O(n) memory. Never loses more than MD itself, whose partition is one
    of the cuts. The next group in the chain is the one with the nearest centroid; inside a group the
    records lead from the end of the previous group towards the next centroid.

    Strung in the order of their formation instead, the groups cannot be cut better: the result is MD's.

    References
    ----------
    .. [1] J. Domingo-Ferrer, A. Martinez-Balleste, J. M. Mateo-Sanz, F. Sebe (2006). Efficient
       multivariate data-oriented microaggregation. The VLDB Journal 15(4), 355-369.
       doi:10.1007/s00778-006-0007-0

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDMHM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MDMHM(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "md-mhm"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "grow": Options(("centroid", "record")),
    }

    def __init__(self, k: int = 5, grow: str = "centroid") -> None:
        super().__init__(k)
        self.grow = grow

    def _order(self, Z: np.ndarray) -> np.ndarray:
        return chained(Z, MD(self.k, self.grow)._partition(Z))


class MDAVMHM(_MHM):
    """The groups of MDAV, put into one order and cut again by the shortest path.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2 / k) distances, O(n) memory. Never loses more than MDAV itself, whose partition is one
    of the cuts. The next group in the chain is the one with the nearest centroid; inside a group the
    records lead from the end of the previous group towards the next centroid.

    Strung in the order of their formation instead, the groups cannot be cut better: the result is MDAV's
    (Tarragona, k = 3: 16.9326; the chain gives 16.9323, and a projection inside groups 16.678).

    References
    ----------
    .. [1] J. Domingo-Ferrer, A. Martinez-Balleste, J. M. Mateo-Sanz, F. Sebe (2006). Efficient
       multivariate data-oriented microaggregation. The VLDB Journal 15(4), 355-369.
       doi:10.1007/s00778-006-0007-0

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAVMHM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MDAVMHM(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "mdav-mhm"

    def _order(self, Z: np.ndarray) -> np.ndarray:
        return chained(Z, MDAV(self.k)._partition(Z))


class CBFSMHM(_MHM):
    """The groups of CBFS, put into one order and cut again by the shortest path.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2 / k) distances, O(n) memory. Never loses more than CBFS itself, whose partition is one
    of the cuts. The next group in the chain is the one with the nearest centroid; inside a group the
    records lead from the end of the previous group towards the next centroid.

    Strung in the order of their formation instead, the groups cannot be cut better: the result is CBFS's
    (Tarragona, k = 3: 16.9661; the chain gives 16.9658, and a projection inside groups 16.703).

    References
    ----------
    .. [1] J. Domingo-Ferrer, A. Martinez-Balleste, J. M. Mateo-Sanz, F. Sebe (2006). Efficient
       multivariate data-oriented microaggregation. The VLDB Journal 15(4), 355-369.
       doi:10.1007/s00778-006-0007-0

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import CBFSMHM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> CBFSMHM(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "cbfs-mhm"

    def _order(self, Z: np.ndarray) -> np.ndarray:
        return chained(Z, CBFS(self.k)._partition(Z))


def cut(Z: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """Labels of the best partition into runs of k..2k-1 consecutive records of an order.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    order : array of int64, (n_records,)
        A permutation of the records.
    k : int
        Smallest run; needs n_records >= k.

    Returns
    -------
    array of int64, (n_records,)
    """
    starts = _shortest_path(np.ascontiguousarray(Z[order]), k)
    labels = np.empty(order.size, np.int64)
    labels[order] = np.cumsum(starts) - 1
    return labels


def cut_cycle(Z: np.ndarray, tour: np.ndarray, k: int) -> np.ndarray:
    """Labels of the best partition of a closed tour into runs of k..2k-1 consecutive records.

    Any such partition has a cut within the first 2k-1 records, so the best of the cuts that start at each
    of them is the best of all. The first such start wins among equals.
    """
    start = _best_start(np.ascontiguousarray(Z[tour]), k)
    return cut(Z, np.roll(tour, -start), k)


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
    return marked_starts(before)


@kernel()
def marked_starts(before):
    """1 where a run of the cheapest path starts; `before[end]` is the start of the run that ends before `end`."""
    at = before.size - 1
    starts = np.zeros(at, np.int64)
    while at > 0:
        at = before[at]
        starts[at] = 1
    return starts


@kernel()
def _best_start(X, k):
    """Start, among the first 2k-1 rows of a cycle, from which the cheapest cut comes.

    All starts go side by side around the cycle, each with its last 2k costs in a ring, so that a run's
    cost is computed once and memory does not grow with the rows.
    """
    n, p = X.shape
    width = 2 * k
    starts = min(2 * k - 1, n)
    cost = np.full((starts, width), np.inf)
    final = np.full(starts, np.inf)
    mean = np.empty(p)
    run = np.empty(width)
    for end in range(n + starts):
        mean[:] = 0.0
        sse = 0.0
        longest = min(2 * k - 1, end)
        for size in range(1, longest + 1):
            i = (end - size) % n
            for a in range(p):
                t = X[i, a] - mean[a]
                mean[a] += t / size
                sse += t * (X[i, a] - mean[a])
            run[size] = sse
        for r in range(starts):
            best = np.inf
            if end == r:
                best = 0.0
            elif r < end <= r + n:
                for size in range(k, min(longest, end - r) + 1):
                    best = min(best, cost[r, (end - size) % width] + run[size])
            cost[r, end % width] = best
            if end == r + n:
                final[r] = best
    return np.argmin(final)
