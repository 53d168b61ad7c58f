"""IMHM: groups of bounded size around moving centroids, and the shortest path, in turn."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from shoal.engine.encode import group_means, sum_of_squares
from shoal.errors import InternalError
from shoal.microaggregation._alternate import alternate, by_value
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._orders import chained
from shoal.microaggregation.fixed_size.estimators import MDAV
from shoal.params import Constraint, Interval

# Centroids near a record that the linear programme starts with; others join by their reduced costs.
NEAR = 12
# Cells of the matrix of distances that are looked at together.
BLOCK = 2**22


class IMHM(Microaggregator):
    """Iterated multivariate Hansen-Mukherjee: groups of bounded size around centroids, then a shortest path.

    From MDAV's groups all records are assigned to the groups' centroids at the least total squared distance
    such that each has k to 2k-1 of them (a linear programme), and the centroids move, until the SSE stops
    falling. Then the groups are chained and their order is cut by the shortest path, which may change their
    number. Both repeat until the SSE stops falling.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    The source papers here call it "iterative, based on MHM" and no more; the abstract of [1] speaks of
    constrained clustering, a linear programming relaxation and iteration. This is a reading of those words;
    `shoal reproduce table1` prints its losses beside the printed ones. A search of ours that loses less is
    `PathExchange`.

    The linear programme has about 13 n columns at first and further ones by their reduced costs, so its
    optimum is the true one, and it is integral. O(n c) distances for each assignment, O(n) memory.

    References
    ----------
    .. [1] R. Mortazavi, S. Jalili, H. Gohargazi (2013). Multivariate microaggregation by iterative
       optimization. Applied Intelligence 39(3), 529-544. doi:10.1007/s10489-013-0431-y

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import IMHM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> IMHM(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "imhm"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return by_value(
            Z, self._of_sorted
        )  # or ties in the linear programme would depend on the order of the rows

    def _of_sorted(self, Z: np.ndarray) -> np.ndarray:
        start = MDAV(self.k)._partition(Z)
        return alternate(
            Z,
            start,
            self.k,
            lambda labels: _move_centroids(Z, labels, self.k),
            lambda labels: chained(Z, labels),
        )[1]


def _move_centroids(Z: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Assign to the centroids, move them, and again while the SSE falls."""
    least = sum_of_squares(Z, labels)
    while True:
        following = assign(Z, group_means(Z, labels), labels, k)
        loss = sum_of_squares(Z, following)
        if not loss < least * (1.0 - 1e-9):
            return labels
        labels, least = following, loss


def assign(Z: np.ndarray, centres: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Records to centres at the least total squared distance, k to 2k-1 of them to each.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    centres : array of float64, (n_groups, n_columns)
    labels : array of int64, (n_records,)
        An assignment that keeps the sizes: it makes the first linear programme feasible.
    k : int

    Returns
    -------
    array of int64, (n_records,)
    """
    n, c = Z.shape[0], centres.shape[0]
    from scipy.spatial import cKDTree  # takes a while

    near = cKDTree(centres).query(Z, k=min(NEAR, c))[1].reshape(n, -1)
    pairs = np.unique(np.arange(n)[:, None] * c + np.concatenate([near, labels[:, None]], axis=1))
    while True:
        chosen, dual_of_records, dual_of_centres = _transport(Z, centres, pairs, k)
        missing = _below_their_price(Z, centres, dual_of_records, dual_of_centres)
        missing = np.setdiff1d(missing, pairs)
        if missing.size == 0:
            following = np.empty(n, np.int64)
            following[chosen // c] = chosen % c
            return following
        pairs = np.union1d(pairs, missing)


def _transport(
    Z: np.ndarray, centres: np.ndarray, pairs: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cheapest assignment along some pairs (record times c plus centre), and its dual prices."""
    n, c = Z.shape[0], centres.shape[0]
    records, goals = pairs // c, pairs % c
    difference = Z[records] - centres[goals]
    one, column = np.ones(pairs.size), np.arange(pairs.size)
    from scipy.optimize import linprog  # they take a while
    from scipy.sparse import coo_array, vstack

    each = coo_array((one, (records, column)), shape=(n, pairs.size)).tocsr()
    taken = coo_array((one, (goals, column)), shape=(c, pairs.size)).tocsr()
    found = linprog(
        np.einsum("ij,ij->i", difference, difference),
        A_ub=vstack([taken, -taken]),
        b_ub=np.repeat([2.0 * k - 1.0, -float(k)], c),
        A_eq=each,
        b_eq=np.ones(n),
        bounds=(0, None),
        method="highs-ds",
    )
    if found.x is None:
        raise InternalError("The assignment to centroids has no solution, though the groups before are one.")
    upper, lower = np.split(found.ineqlin.marginals, 2)
    return pairs[found.x > 0.5], found.eqlin.marginals, upper - lower


def _below_their_price(
    Z: np.ndarray, centres: np.ndarray, of_records: np.ndarray, of_centres: np.ndarray
) -> np.ndarray:
    """Pairs that would lower the cost: their squared distance is less than what both ends pay."""
    n, c = Z.shape[0], centres.shape[0]
    slack = 1e-9 * (1.0 + float(np.abs(of_records).max()))
    found = []
    for first in range(0, n, max(1, BLOCK // c)):
        rows = slice(first, first + max(1, BLOCK // c))
        reduced = -of_records[rows, None] - of_centres
        for a in range(Z.shape[1]):
            reduced += (Z[rows, a, None] - centres[:, a]) ** 2
        found.append(first * c + np.flatnonzero(reduced.ravel() < -slack))
    return np.concatenate(found)
