"""The optimum of one column: sort it, and cut the line where that costs least.

F(j), the least cost of the first j records, is the least F(i) + w(i, j) over the starts i of the last group. Both
costs here, squares around the mean and distances from the median, satisfy w(a, c) + w(b, d) <= w(a, d) + w(b, c) for
a <= b <= c <= d. So the best i does not fall as j rises, and the least of each row of such a matrix is found in
linear time [2]. With at least k records in a group, F of k ends in a row needs F of earlier ones only: block after
block is such a matrix.

All groups of a block hold its first border. So their costs come from running means (or sums) outwards from it, by
one combination of a left and a right part: nothing cancels, however far from zero the data lie.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar, NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._path import cut, marked_starts
from shoal.params import Constraint, Interval


class Univariate(Microaggregator):
    """The optimal partition of one column (Hansen and Mukherjee), in O(n) once it is sorted.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    Optimal for a single column: no partition into groups of at least k has a smaller sum of squares. O(n log n) to
    sort, then O(n) time and memory whatever k is (0.3 CPU s for a million records). With more columns the records are
    ordered along their first principal axis and that order is cut at the least multivariate cost, in O(n k):
    feasible, fast, and far from optimal.

    References
    ----------
    .. [1] S. L. Hansen, S. Mukherjee (2003). A polynomial algorithm for optimal univariate
       microaggregation. IEEE TKDE 15(4), 1043-1044. doi:10.1109/TKDE.2003.1209020
    .. [2] A. Aggarwal, M. M. Klawe, S. Moran, P. Shor, R. Wilber (1987). Geometric applications of a
       matrix-searching algorithm. Algorithmica 2, 195-208. doi:10.1007/BF01840359

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import Univariate
    >>> X = np.array([[1.0], [1.1], [5.0], [5.1], [5.2]])
    >>> Univariate(k=2).fit(X).labels_.tolist()
    [0, 0, 1, 1, 1]
    """

    name: ClassVar = "univariate"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}
    _absolute: ClassVar = False

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        order = np.argsort(_principal_scores(Z), kind="stable")
        if not self._absolute and (Z.shape[1] > 1 or self.k <= SMALL):
            return cut(Z, order, self.k)
        line = np.ascontiguousarray(_principal_scores(Z)[order])
        short = self._absolute and self.k <= SMALL_ABSOLUTE
        starts = _cut_by_distances(line, self.k) if short else _cut_line(line, self.k, self._absolute)
        labels = np.empty(order.size, np.int64)
        labels[order] = np.cumsum(starts) - 1
        return labels


class UnivariateMedian(Univariate):
    """The partition of one column with the least sum of distances from the medians of its groups, in O(n).

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Attributes
    ----------
    centroids_ : array of float64
        The lower median of each group.
    absolute_deviation_ : float
        Sum of distances from the medians, on standardised columns.

    Notes
    -----
    O(n log n) to sort, then O(n) whatever k is; up to k = 150 it is faster to try all starts of each group in O(n k),
    0.02 CPU s for a million records and k = 5.

    Medians are values that occur, and one far record moves them little. In `shoal.protect` columns are published by
    the schema's `aggregate`: say "median" there. With more columns the records are ordered along their first principal
    axis and grouped by that alone.

    References
    ----------
    .. [1] A. Aggarwal, M. M. Klawe, S. Moran, P. Shor, R. Wilber (1987). Geometric applications of a
       matrix-searching algorithm. Algorithmica 2, 195-208. doi:10.1007/BF01840359

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import UnivariateMedian
    >>> X = np.array([[1.0], [2.0], [3.0], [7.0], [8.0], [60.0]])
    >>> UnivariateMedian(k=3).fit_transform(X).ravel()
    array([2., 2., 2., 8., 8., 8.])
    """

    name: ClassVar = "univariate-median"
    _absolute: ClassVar = True

    def _centres(self, matrix: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return group_medians(matrix, labels)

    def _finish(self, Z: np.ndarray) -> None:
        self.absolute_deviation_ = float(np.abs(Z - group_medians(Z, self.labels_)[self.labels_]).sum())


def group_medians(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Lower median of each group and column."""
    sizes = np.bincount(labels)
    middle = np.cumsum(sizes) - sizes + (sizes - 1) // 2
    return np.stack([column[np.lexsort((column, labels))[middle]] for column in X.T], axis=1)


def _principal_scores(Z: np.ndarray) -> np.ndarray:
    """Coordinates of the records on their first principal axis, its largest loading positive."""
    if Z.shape[1] == 1:
        return Z[:, 0]
    centred = Z - Z.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axis = axes[:, -1]
    return centred @ (axis * np.sign(axis[np.argmax(np.abs(axis))]))


class EndsBlock(NamedTuple):
    """The matrix F(i) + w(i, j) of some ends j, one row each, and the starts i of their last groups."""

    best: np.ndarray
    left: np.ndarray
    right: np.ndarray
    border: int
    first: int  # end of row 0
    k: int
    absolute: bool


SMALL, SMALL_ABSOLUTE = 16, 150
"""Smallest groups up to which it is faster to try all starts of the last group: by squares, as `cut` does, and by distances."""


# Kernels


@kernel()
def _cut_line(x, k, absolute):
    """Mark the first record of each group in the cheapest cut of sorted values."""
    n = x.size
    best, before = np.full(n + 1, np.inf), np.full(n + 1, -1, np.int64)
    best[0] = 0.0
    # One row for the left and one for the right part, by their sizes: mean and squares, or two kinds of sums.
    left, right = np.zeros((2, 2 * k + 1)), np.zeros((2, k + 1))
    columns, argmin = np.empty(2 * k + 1, np.int64), np.empty(k, np.int64)
    for border in range(0, n, k):
        rows = min(k, n - border)
        _outwards(x, border, -1, min(2 * k, border), absolute, left)
        _outwards(x, border, 1, rows, absolute, right)
        count = 0
        for i in range(max(0, border - 2 * k + 1), border + 1):
            if best[i] < np.inf:
                columns[count] = i
                count += 1
        # Ends too near to the start of the table have no group.
        skip = max(0, k - border - 1)
        if rows <= skip:
            continue
        block = EndsBlock(best, left, right, border, border + 1 + skip, k, absolute)
        _least(block, columns[:count], argmin[: rows - skip])
        for r in range(rows - skip):
            i, j = argmin[r], border + 1 + skip + r
            best[j] = best[i] + _cost(left, right, border - i, j - border, absolute)
            before[j] = i
    starts = np.zeros(n, np.int64)
    at = n
    while at > 0:
        # Equal costs, or rounding, may leave a group of 2k or more: cut into groups of k it costs no more.
        while at - before[at] >= 2 * k:
            before[at - k] = before[at]
            before[at] = at - k
        at = before[at]
        starts[at] = 1
    return starts


@kernel()
def _cut_by_distances(x, k):
    """As `_cut_line` for distances from medians, by trying all starts of each last group.

    A group that is joined by a smaller value costs as much more as that one lies below the median: nothing cancels.
    """
    n = x.size
    best, before = np.full(n + 1, np.inf), np.full(n + 1, -1, np.int64)
    best[0] = 0.0
    for j in range(k, n + 1):
        cost, least, at = 0.0, np.inf, -1
        for i in range(j - 2, max(j - k, 0), -1):
            cost += x[(i + j) // 2] - x[i]
        for i in range(j - k, max(j - 2 * k, -1), -1):
            cost += x[(i + j) // 2] - x[i]
            value = best[i] + cost
            if value < least:
                least, at = value, i
        best[j], before[j] = least, at
    return marked_starts(before)


@kernel()
def _outwards(x, border, way, most, absolute, out):
    """Running figures of 0, 1, .., `most` records from a border to one side."""
    mean, squares, total, origin = 0.0, 0.0, 0.0, x[border]
    for size in range(1, most + 1):
        y = abs(x[border + size - 1 if way > 0 else border - size] - origin)
        if absolute:
            total += y
            out[0, size] = total
        else:
            t = y - mean
            mean += t / size
            squares += t * (y - mean)
            out[0, size], out[1, size] = mean, squares


@kernel(inline=True)
def _cost(left, right, a, b, absolute):
    """Cost of a group of a records to the left and b to the right of the border."""
    if absolute:
        # The upper half less the lower half, each seen from the border.
        h = (a + b) // 2
        upper = right[0, b] - (right[0, b - h] if h <= b else left[0, h - b])
        lower = left[0, a] - (left[0, a - h] if h <= a else right[0, h - a])
        return upper + lower
    apart = left[0, a] + right[0, b]
    return left[1, a] + right[1, b] + apart * apart * (a * b) / (a + b)


@kernel()
def _entry(block, r, i):
    """Cost of the best cut up to the end of a row whose last group starts at i."""
    j = block.first + r
    if j - i < block.k:
        return np.inf
    return block.best[i] + _cost(block.left, block.right, block.border - i, j - block.border, block.absolute)


@kernel()
def _least(block, columns, argmin):
    """The best start for each end, the last of equals, in O(rows + columns) [2].

    Every second row is solved by itself, with as many columns as it has rows; the others look between
    their neighbours' answers. Level l has the rows r with r + 1 a multiple of 2^l.
    """
    rows = argmin.size
    listed = np.empty(columns.size + 2 * rows + 2, np.int64)
    ends = np.zeros(66, np.int64)
    ends[1] = columns.size
    listed[: columns.size] = columns
    levels = 0
    while rows >> levels > 0:
        ends[levels + 2] = _reduce(block, listed, ends[levels], ends[levels + 1], rows >> levels, 1 << levels)
        levels += 1
    for level in range(levels - 1, -1, -1):
        at, stop, step = ends[level + 1], ends[level + 2], 1 << level
        for t in range(0, rows >> level, 2):
            r = (t + 1) * step - 1
            last = argmin[r + step] if t + 1 < rows >> level else listed[stop - 1]
            least = np.inf
            while True:
                value = _entry(block, r, listed[at])
                if value <= least and value < np.inf:
                    least, argmin[r] = value, listed[at]
                if listed[at] == last:
                    break
                at += 1


@kernel()
def _reduce(block, listed, start, stop, rows, step):
    """Keep as many columns as there are rows, all that hold the least of one; where the new list ends."""
    size = 0
    for c in range(start, stop):
        i = listed[c]
        while size > 0:
            r = size * step - 1
            old, new = _entry(block, r, listed[stop + size - 1]), _entry(block, r, i)
            if old > new or (old == new and new < np.inf):
                size -= 1
            else:
                break
        if size < rows:
            listed[stop + size] = i
            size += 1
    return stop + size
