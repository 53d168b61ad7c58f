"""Partitions of the minimum spanning tree: M-d and M-c."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_rows
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation.fixed_size.plain import plain_cbfs, plain_md
from shoal.params import Constraint, Interval


class MSTDiameter(Microaggregator):
    """M-d: cut the long edges of the minimum spanning tree, split what is still too large by MD.

    Edges are tried from the longest on; one is cut where both sides keep `k` records. Components of 2k or
    more are split by maximum distance (diameter-based fixed size).

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2) distances (Prim), O(n) memory. Group sizes are k..2k-1.

    References
    ----------
    .. [1] M. Laszlo, S. Mukherjee (2005). Minimum spanning tree partitioning algorithm for
       microaggregation. IEEE TKDE 17(7), 902-911. doi:10.1109/TKDE.2005.112

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MSTDiameter
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MSTDiameter(k=3).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1, 1]
    """

    name: ClassVar = "m-d"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return _split_components(Z, _cut_tree(Z, self.k), self.k, True)


class MSTCentroid(Microaggregator):
    """M-c: as M-d, but components of 2k or more are split by CBFS.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2) distances (Prim), O(n) memory. Group sizes are k..2k-1.

    References
    ----------
    .. [1] M. Laszlo, S. Mukherjee (2005). Minimum spanning tree partitioning algorithm for
       microaggregation. IEEE TKDE 17(7), 902-911. doi:10.1109/TKDE.2005.112

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MSTCentroid
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MSTCentroid(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "m-c"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return _split_components(Z, _cut_tree(Z, self.k), self.k, False)


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked.


@kernel()
def _cut_tree(X, k):
    """Components left when edges are cut, longest first, wherever both sides keep k records."""
    n = X.shape[0]
    order, parent, length = _spanning_tree(X)
    # Records below each record in what is left of the tree, itself included; children come after parents.
    below = np.ones(n, np.int64)
    for at in range(n - 1, 0, -1):
        below[parent[order[at]]] += below[order[at]]
    for v in np.argsort(-length, kind="mergesort"):
        if parent[v] < 0 or below[v] < k:
            continue
        root = v
        while parent[root] >= 0:
            root = parent[root]
        if below[root] - below[v] < k:
            continue
        up = parent[v]
        while up >= 0:
            below[up] -= below[v]
            up = parent[up]
        parent[v] = -1
    labels = np.empty(n, np.int64)
    following = 0
    for v in order:
        if parent[v] < 0:
            labels[v] = following
            following += 1
        else:
            labels[v] = labels[parent[v]]
    return labels


@kernel()
def _spanning_tree(X):
    """Prim from record 0: the order of joining, each record's parent (-1 for the first) and squared edge length."""
    n = X.shape[0]
    order = np.zeros(n, np.int64)
    parent = np.full(n, -1, np.int64)
    length = np.full(n, np.inf)
    outside = np.arange(1, n)
    last, left = 0, n - 1
    for step in range(1, n):
        best = 0
        for at in range(left):
            i = outside[at]
            d = squared_rows(X, i, X, last)
            if d < length[i]:
                length[i] = d
                parent[i] = last
            if length[i] < length[outside[best]]:
                best = at
        last = outside[best]
        order[step] = last
        # Close the gap in order, so that the first of equals stays the smallest index.
        left -= 1
        for at in range(best, left):
            outside[at] = outside[at + 1]
    length[0] = 0.0
    return order, parent, length


@kernel()
def _split_components(X, labels, k, by_diameter):
    labels = labels.copy()
    groups = labels.max() + 1
    for group in range(groups):
        members = np.flatnonzero(labels == group)
        if members.size < 2 * k:
            continue
        parts = plain_md(X[members], k, True) if by_diameter else plain_cbfs(X[members], k, False)
        for at in range(members.size):
            if parts[at] > 0:
                labels[members[at]] = groups + parts[at] - 1
        groups += parts.max()
    return labels
