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


def total_order(table: np.ndarray, codes: list[Coded], order: str = "curve") -> np.ndarray:
    """Records along a public line through the declared ranges, then by all attributes.

    A record's place depends on the multiset of records alone, so replacing one shifts the rest by at most one.

    Parameters
    ----------
    table : int64 array
    codes : list of Coded
    order : {"curve", "corner"}
        Along a Hilbert curve, which keeps records together that are near each other in every column; or by the
        distance to the corner of all declared minima, as the original has it.

    Returns
    -------
    int64 array

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release._columns import code
    >>> from shoal.release._groups import total_order
    >>> from shoal.schema import Column
    >>> total_order(np.array([[5], [1], [3]]), [code(Column("x", bounds=(0, 9), step=1))])
    array([1, 2, 0])
    """
    if order == "curve":
        bits = min(10, max(1, 62 // len(codes)))
        sides = [values * (1 << bits) // (each.top + 1) for values, each in zip(table.T, codes, strict=True)]
        # Beyond 62 columns the curve runs through the first 62; the others decide ties.
        return np.lexsort((*table.T[::-1], hilbert_places(np.array(sides[:62]), bits)))
    distance = np.zeros(len(table), dtype=np.int64)
    for values, each in zip(table.T, codes, strict=True):
        share = np.where(values > 0, _UNIT, 0) if each.nominal else values * _UNIT // each.top
        distance += share * share
    return np.lexsort((*table.T[::-1], distance))


def hilbert_places(sides: np.ndarray, bits: int) -> np.ndarray:
    """Places of points along a Hilbert curve.

    Parameters
    ----------
    sides : int64 array, one row per column of the table
        Each in [0, 2^bits).
    bits : int
        With the number of columns at most 62 in product.

    Returns
    -------
    int64 array

    References
    ----------
    .. [1] J. Skilling (2004). Programming the Hilbert curve. AIP Conference Proceedings 707, 381-387.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release._groups import hilbert_places
    >>> hilbert_places(np.array([[0, 0, 1, 1], [0, 1, 1, 0]]), 1)
    array([0, 1, 2, 3])
    """
    axes = sides.astype(np.int64)
    for bit in range(bits - 1, 0, -1):
        low = (1 << bit) - 1
        for at in range(len(axes)):
            turned = (axes[at] >> bit & 1).astype(bool)
            swapped = np.where(turned, 0, (axes[0] ^ axes[at]) & low)
            axes[0] ^= np.where(turned, low, swapped)
            axes[at] ^= swapped
    for at in range(1, len(axes)):
        axes[at] ^= axes[at - 1]
    flips = np.zeros_like(axes[0])
    for bit in range(bits - 1, 0, -1):
        flips ^= np.where(axes[-1] >> bit & 1, (1 << bit) - 1, 0)
    places = np.zeros_like(flips)
    for bit in range(bits - 1, -1, -1):
        for axis in axes:
            places = places << 1 | (axis ^ flips) >> bit & 1
    return places


def best_size(n: int, columns: int, epsilon: float, *, ranked: bool) -> int:
    """How many records a group should have: from public figures alone.

    Parameters
    ----------
    n, columns : int
    epsilon : float
        What one column spends.
    ranked : bool
        Whether each column is sorted by itself.

    Returns
    -------
    int

    Notes
    -----
    Noise and the spread within groups, both squared, are least together. In the total order, columns spread evenly
    over their ranges give 2 / (u^4 n^2 epsilon^2) + u^(2 / columns) / 12 for groups of the share u of the records.
    In a column sorted by itself they give 2 / (k epsilon)^2 + (k / n)^2 / 12; real columns are narrower than their
    declared ranges and smoothed afterwards, and lose least at about half of that k.

    Examples
    --------
    >>> from shoal.release._groups import best_size
    >>> best_size(30_162, 3, 1 / 3, ranked=False), best_size(30_162, 3, 1 / 6, ranked=True)
    (1685, 470)
    """
    if ranked:
        size = 24**0.25 * (n / epsilon) ** 0.5 / 2
    else:
        size = n * (48 * columns / (n * epsilon) ** 2) ** (1 / (4 + 2 / columns))
    return min(n, max(2, int(size)))


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
