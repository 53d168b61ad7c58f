"""Groups that one replaced record hardly moves, and what is released of each.

Insensitive microaggregation orders the records by a public total order; individual ranking orders each column
by itself. Groups are k consecutive records, the last up to 2k - 1.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shoal.dp import budget
from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.dp.mechanisms.selection import exponential
from shoal.release._columns import Coded

_UNIT = 1 << 20  # distances are whole numbers of this share of a range


def total_order(table: np.ndarray, codes: list[Coded]) -> np.ndarray:
    """Records by their distance to the corner of all declared minima, then by all attributes.

    A record's place depends on the multiset of records alone, so replacing one shifts the rest by at most one.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release._columns import code
    >>> from shoal.release._groups import total_order
    >>> from shoal.schema import Column
    >>> total_order(np.array([[5], [1], [3]]), [code(Column("x", bounds=(0, 9), step=1))])
    array([1, 2, 0])
    """
    distance = np.zeros(len(table), dtype=np.int64)
    for values, each in zip(table.T, codes, strict=True):
        share = np.where(values > 0, _UNIT, 0) if each.nominal else values * _UNIT // each.top
        distance += share * share
    return np.lexsort((*table.T[::-1], distance))


def group_starts(n: int, k: int) -> np.ndarray:
    """First places of the groups of k consecutive records among n; the last group takes what is left over.

    Examples
    --------
    >>> from shoal.release._groups import group_starts
    >>> group_starts(11, 3)
    array([0, 3, 6])
    """
    return np.arange(n // k, dtype=np.int64) * k


def group_sizes(n: int, k: int) -> np.ndarray:
    """Sizes of those groups: public, since n is."""
    return np.diff(np.append(group_starts(n, k), n))


def touched_groups(each: Coded, n: int, k: int, ranked: bool) -> int:
    """How many groups one replaced record can move, of a nominal column.

    In the total order all of them; in a column sorted by itself only those that hold a border between two
    levels which the record leaps over.
    """
    return min(n // k, each.top) if ranked else n // k


def noise_scale(each: Coded, n: int, k: int, micro: int, ranked: bool) -> Fraction:
    """Scale of the noise on a group's sum, in whole numbers of the column.

    One replaced record moves the sums by at most (number of groups) * top in L1 in the total order, and by at
    most top where the column itself is sorted.
    """
    sensitivity = each.top if ranked else (n // k) * each.top
    return Fraction(sensitivity * budget.MICRO, micro)


def noisy_groups(
    values: np.ndarray, each: Coded, k: int, micro: int, *, ranked: bool, draws: int | None = None
) -> np.ndarray:
    """One noisy number per group of a column that lies in group order: a sum, or the level that is printed.

    Parameters
    ----------
    values : int64 array in group order
    each : Coded
    k : int
    micro : int
        What this column costs.
    ranked : bool
        Whether the column was sorted by itself.
    draws : int, optional
        So many independent releases, in rows: for the auditor only.

    Returns
    -------
    int64 array, one number per group

    Notes
    -----
    Noise is drawn once per group and attribute, however often its number is printed afterwards.
    """
    n, starts = len(values), group_starts(len(values), k)
    if not each.nominal:
        sums = np.add.reduceat(values, starts)
        exact = sums if draws is None else np.tile(sums, (draws, 1))
        return laplace(exact, noise_scale(each, n, k, micro, ranked))
    rate = Fraction(micro, 2 * budget.MICRO * touched_groups(each, n, k, ranked))
    ends = np.append(starts[1:], n)
    chosen = [
        exponential(size - np.bincount(values[start:end], minlength=each.top + 1), rate, draws=draws or 1)
        for start, end, size in zip(starts, ends, ends - starts, strict=True)
    ]
    levels = np.stack(chosen, axis=1)
    return levels[0] if draws is None else levels


def printed(noisy: np.ndarray, each: Coded, n: int, k: int, *, ranked: bool) -> np.ndarray:
    """The numbers a release prints, one per record in group order: post-processing of `noisy_groups`.

    Sorted columns are made rising again first (least squares), since their true centroids are.
    """
    sizes = group_sizes(n, k)
    if each.nominal:
        return each.decode(np.repeat(noisy, sizes).astype(np.float64))
    centroids = noisy / sizes
    if ranked:
        from scipy.optimize import isotonic_regression

        centroids = isotonic_regression(centroids, weights=sizes.astype(np.float64)).x
    return each.decode(np.repeat(centroids, sizes))
