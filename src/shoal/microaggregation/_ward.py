"""k-Ward: bottom-up merging by Ward's criterion that stops as soon as every group is large enough.

The merging keeps, for each group, a lower bound on the cost of its cheapest allowed merge and renews it
only when it comes to the top. Ward's cost is reducible (a merge never brings the new group nearer to a
third than the nearer of its parts was), and forbidding merges of two large groups only takes pairs away,
so an old bound never exceeds the truth.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_rows
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation.fixed_size.plain import farthest_free, grow_group
from shoal.params import Constraint, Interval


class KWard(Microaggregator):
    """k-Ward, seeded by maximum distance (Uk-W(MD)).

    The two records farthest apart each grow a group of `k`; all others start alone. The two groups whose
    merge raises the SSE least are joined, but never two that both have `k` records or more, until every
    group has `k`. Groups of 2k or more are treated again in the same way.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2) distances in practice (each merge renews a few bounds of O(n)), O(n) memory. Group sizes are
    k..2k-1. Two groups are not joined when both have at least k records, as [1] and the text of [2] say;
    the figure in [2] prints 2k there, which would leave nothing to stop the merging at k. The two first
    groups grow towards their current centroid, as in MD.

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002). Practical data-oriented microaggregation for
       statistical disclosure control. IEEE TKDE 14(1), 189-201. doi:10.1109/69.979982
    .. [2] H.-J. Lin, P.-Y. Yin. A divisive partitioning method to microaggregation (in Chinese).
    .. [3] J. H. Ward (1963). Hierarchical grouping to optimize an objective function. JASA 58, 236-244.
       doi:10.1080/01621459.1963.10500845

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import KWard
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> KWard(k=3).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    name: ClassVar = "k-ward"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return split_by_ward(Z, np.zeros(Z.shape[0], np.int64), self.k)


def split_by_ward(X: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Split every group of 2k records or more by k-Ward; the others stay as they are.

    Parameters
    ----------
    X : array of float64, (n_records, n_columns)
    labels : array of int64, (n_records,)
        Any partition, numbered 0..c-1.
    k : int
        Smallest group size.

    Returns
    -------
    array of int64, (n_records,)
    """
    return _split_by_ward(X, labels, k)


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked.


@kernel()
def _split_by_ward(X, labels, k):
    labels = labels.copy()
    groups = labels.max() + 1
    group = 0
    while group < groups:
        members = np.flatnonzero(labels == group)
        if members.size < 2 * k:
            group += 1
            continue
        # Part 0 keeps the number and is looked at again; the new numbers come later in this loop.
        parts = _k_ward(X[members], k)
        for at in range(members.size):
            if parts[at] > 0:
                labels[members[at]] = groups + parts[at] - 1
        groups += parts.max()
    return labels


@kernel()
def _k_ward(X, k):
    """One pass of k-Ward over at least 2k records; group sizes from k on."""
    n = X.shape[0]
    label = _two_ends(X, k)
    # Slots: 0 and 1 are the seeds, then one for each other record in index order.
    slot = np.empty(n, np.int64)
    sizes = np.ones(n - 2 * k + 2, np.int64)
    sizes[:2] = k
    centres = np.zeros((sizes.size, X.shape[1]))
    following = 2
    for i in range(n):
        if label[i] >= 0:
            slot[i] = label[i]
            for a in range(X.shape[1]):
                centres[label[i], a] += X[i, a] / k
        else:
            slot[i] = following
            for a in range(X.shape[1]):
                centres[following, a] = X[i, a]
            following += 1
    into = _merge_small(centres, sizes, k)
    for i in range(n):
        label[i] = into[slot[i]]
    return label


@kernel()
def _two_ends(X, k):
    """Groups 0 and 1 of k records grown from the two records farthest apart; -1 elsewhere."""
    n = X.shape[0]
    label = np.full(n, -1, np.int64)
    r, s, reach = 0, 1, -1.0
    for i in range(n):
        for j in range(i + 1, n):
            d = squared_rows(X, i, X, j)
            if d > reach:
                r, s, reach = i, j, d
    free = grow_group(X, label, np.arange(n), r, k, 0)
    if label[s] >= 0:
        s = farthest_free(X, free, X[r])
    grow_group(X, label, free, s, k, 1)
    return label


@kernel()
def _merge_small(centres, sizes, k):  # noqa: C901 - one step of a compiled search, case by case
    """Ward merges, never of two groups of k or more, until no group is smaller; the new number of each slot.

    Each slot watches the slots above it only, so a pair is looked at once.
    """
    m = sizes.size
    parent = np.arange(m)
    bound = np.empty(m)
    partner = np.full(m, -1, np.int64)
    small = 0
    for g in range(m):
        _renew(centres, sizes, k, g, bound, partner)
        if sizes[g] < k:
            small += 1
    while small > 0:
        g = 0
        for h in range(1, m):
            if bound[h] < bound[g]:
                g = h
        h = partner[g]
        # A bound is the truth only while its pair is still as it was when it was taken.
        if _ward_cost(centres, sizes, k, g, h) != bound[g]:
            _renew(centres, sizes, k, g, bound, partner)
            continue
        if sizes[g] < k:
            small -= 1
        if sizes[h] < k:
            small -= 1
        total = sizes[g] + sizes[h]
        for a in range(centres.shape[1]):
            centres[g, a] += (centres[h, a] - centres[g, a]) * sizes[h] / total
        sizes[g] = total
        sizes[h] = 0
        bound[h] = np.inf
        parent[h] = g
        if total < k:
            small += 1
        _renew(centres, sizes, k, g, bound, partner)
    number = np.full(m, -1, np.int64)
    following = 0
    for g in range(m):
        root = g
        while parent[root] != root:
            root = parent[root]
        if number[root] < 0:
            number[root] = following
            following += 1
        number[g] = number[root]
    return number


@kernel()
def _ward_cost(centres, sizes, k, g, h):
    """Rise of the SSE when two groups are joined; infinite where they may not be."""
    if sizes[g] == 0 or sizes[h] == 0 or (sizes[g] >= k and sizes[h] >= k):
        return np.inf
    return squared_rows(centres, g, centres, h) * sizes[g] * sizes[h] / (sizes[g] + sizes[h])


@kernel()
def _renew(centres, sizes, k, g, bound, partner):
    """Find the cheapest allowed merge of a slot with one above it."""
    best, best_d = g, np.inf
    if sizes[g] > 0:
        for h in range(g + 1, sizes.size):
            d = _ward_cost(centres, sizes, k, g, h)
            if d < best_d:
                best, best_d = h, d
    bound[g] = best_d
    partner[g] = best
