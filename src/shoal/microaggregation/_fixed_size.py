"""The fixed-size family: MDAV, MD, CBFS and V-MDAV.

Each takes an extreme record, gives it its nearest companions, and goes on with what is left. The kernels
here are the plain definitions, O(n^2 / k) distances; ties go to the smallest record index. Large tables
take the kernels of `_fast_fixed_size`, which give the same labels.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.nearest import sort_in
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._repair import repair
from shoal.params import Interval, Options, Rule


class MDAV(Microaggregator):
    """Maximum distance to average vector: two opposite groups of `k` at a time.

    While at least 3k records are left, the record r farthest from their centroid and the record s
    farthest from r each form a group with their k-1 nearest.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2 / k) distances at most, O(n) memory; large tables skip most of them by a tree, with the same labels.
    Group sizes are k, but for the last (k..2k-1).

    References
    ----------
    .. [1] J. Domingo-Ferrer, V. Torra (2005). Ordinal, continuous and heterogeneous k-anonymity through
       microaggregation. Data Mining and Knowledge Discovery 11(2), 195-212. doi:10.1007/s10618-005-0007-5

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAV
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MDAV(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "mdav"
    _rules: ClassVar[dict[str, Rule]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        from shoal.microaggregation._fast_fixed_size import fast_mdav  # it uses the kernels below

        return fast_mdav(Z, self.k)


class MD(Microaggregator):
    """Maximum distance (diameter-based fixed size): groups grown at both ends of the diameter.

    While at least 2k records are left, the two records farthest apart each grow a group of `k`.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    grow : {"centroid", "record"}, default "centroid"
        Whether a group grows one record at a time towards its current centroid, as [2] describes it (less
        loss at small k), or takes the records nearest to its extreme record, which gives the losses
        published for MD (Tarragona, k = 3: 16.983; "centroid" gives 15.604).

    Notes
    -----
    The diameter is found from a farthest-partner list that is only renewed where a partner has gone:
    O(n^2) distances to start with, O(n) memory.

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002). Practical data-oriented microaggregation for
       statistical disclosure control. IEEE TKDE 14(1), 189-201. doi:10.1109/69.979982
    .. [2] H.-J. Lin, P.-Y. Yin. A divisive partitioning method to microaggregation (in Chinese).

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MD
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MD(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "md"
    _rules: ClassVar[dict[str, Rule]] = {"k": Interval(Integral, 2), "grow": Options(("centroid", "record"))}

    def __init__(self, k: int = 5, grow: str = "centroid") -> None:
        self.k = k
        self.grow = grow

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return _md(Z, self.k, self.grow == "centroid")


class CBFS(Microaggregator):
    """Centroid-based fixed size: one group at a time around the record farthest from the centroid.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    grow : {"record", "centroid"}, default "record"
        Whether a group takes the records nearest to its extreme record (as published) or grows one record
        at a time towards its current centroid (less loss at small k).

    Notes
    -----
    O(n^2 / k) distances at most, O(n) memory; large tables skip most of them by a tree, with the same labels.
    Group sizes are k, but for the last (k..2k-1).

    References
    ----------
    .. [1] M. Laszlo, S. Mukherjee (2005). Minimum spanning tree partitioning algorithm for
       microaggregation. IEEE TKDE 17(7), 902-911. doi:10.1109/TKDE.2005.112

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import CBFS
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> CBFS(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "cbfs"
    _rules: ClassVar[dict[str, Rule]] = {"k": Interval(Integral, 2), "grow": Options(("record", "centroid"))}

    def __init__(self, k: int = 5, grow: str = "record") -> None:
        self.k = k
        self.grow = grow

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        from shoal.microaggregation._fast_fixed_size import fast_cbfs  # it uses the kernels below

        return fast_cbfs(Z, self.k, self.grow == "centroid")


class VMDAV(Microaggregator):
    """Variable-size MDAV: each group of `k` may be extended up to 2k-1 by records that lie close.

    A free record joins when its distance to the group is below `gamma` times its distance to its nearest
    other free record.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    gamma : float, default 0.2
        Reach of the extension; 0 extends nothing. 1.1 suits clustered data.

    Notes
    -----
    O(n^2 / k) distances, O(n) memory. The extreme record is the one farthest from the centroid of the
    whole table, as in [1]. Leftovers below k go to their nearest group; where that exceeds 2k-1 the group
    is split.

    References
    ----------
    .. [1] A. Solanas, A. Martinez-Balleste (2006). V-MDAV: a multivariate microaggregation with variable
       group size. COMPSTAT, 917-925.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import VMDAV
    >>> X = np.array([[1.0], [2.0], [3.0], [3.1], [10.0], [11.0], [12.0]])
    >>> VMDAV(k=3, gamma=1.0).fit(X).labels_.tolist()
    [1, 1, 1, 1, 0, 0, 0]
    """

    name: ClassVar = "v-mdav"
    _rules: ClassVar[dict[str, Rule]] = {"k": Interval(Integral, 2), "gamma": Interval(Real, 0)}

    def __init__(self, k: int = 5, gamma: float = 0.2) -> None:
        self.k = k
        self.gamma = gamma

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        from shoal.microaggregation._fast_fixed_size import fast_v_mdav  # it uses the kernels below

        return repair(Z, fast_v_mdav(Z, self.k, float(self.gamma)), self.k)


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked. `free` lists the records without a
# group in ascending order, so that the first of equals is the smallest index.


@kernel()
def _mdav(X, k):
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    group = 0
    while free.size >= 3 * k:
        r = _farthest(X, free, _centroid(X, free))
        s = _farthest(X, free, X[r])
        free = _claim(X, labels, free, X[r], k, group)
        group += 1
        if labels[s] < 0:
            free = _claim(X, labels, free, X[s], k, group)
            group += 1
    if free.size >= 2 * k:
        r = _farthest(X, free, _centroid(X, free))
        free = _claim(X, labels, free, X[r], k, group)
        group += 1
    for i in free:
        labels[i] = group
    return labels


@kernel()
def _cbfs(X, k, towards_centroid):
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    group = 0
    while free.size >= 2 * k:
        r = _farthest(X, free, _centroid(X, free))
        free = _gather(X, labels, free, r, k, group, towards_centroid)
        group += 1
    for i in free:
        labels[i] = group
    return labels


@kernel()
def _md(X, k, towards_centroid):
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    partner = np.full(n, -1, np.int64)
    reach = np.empty(n)
    for i in range(n):
        partner[i] = _farthest(X, free, X[i])
        reach[i] = _distance(X[i], X[partner[i]])
    group = 0
    while free.size >= 2 * k:
        # What is left only shrinks, so an old reach is an upper bound: renew it until the largest is true.
        while True:
            r = free[0]
            for i in free:
                if reach[i] > reach[r]:
                    r = i
            if labels[partner[r]] < 0:
                break
            partner[r] = _farthest(X, free, X[r])
            reach[r] = _distance(X[r], X[partner[r]])
        s = partner[r]
        free = _gather(X, labels, free, r, k, group, towards_centroid)
        group += 1
        if labels[s] < 0:
            free = _gather(X, labels, free, s, k, group, towards_centroid)
            group += 1
    if free.size >= k:
        for i in free:
            labels[i] = group
    elif free.size > 0:
        _to_nearest_group(X, labels, free, group)
    return labels


@kernel()
def _v_mdav(X, k, gamma):
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    middle = _centroid(X, free)
    group = 0
    while free.size >= k:
        r = _farthest(X, free, middle)
        free = _claim(X, labels, free, X[r], k, group)
        # Squared distance of each free record to the group: to its nearest member.
        near = np.full(n, np.inf)
        members = np.flatnonzero(labels == group)
        for m in members:
            for i in free:
                near[i] = min(near[i], _distance(X[i], X[m]))
        size = k
        while size < 2 * k - 1 and free.size > 1:
            e = free[0]
            for i in free:
                if near[i] < near[e]:
                    e = i
            out = np.inf
            for i in free:
                if i != e:
                    out = min(out, _distance(X[i], X[e]))
            if near[e] >= gamma * gamma * out:
                break
            labels[e] = group
            size += 1
            free = free[free != e]
            for i in free:
                near[i] = min(near[i], _distance(X[i], X[e]))
        group += 1
    if free.size > 0:
        _to_nearest_group(X, labels, free, group)
    return labels


@kernel(inline=True)
def _distance(x, y):
    """Squared Euclidean distance."""
    total = 0.0
    for a in range(x.size):
        t = x[a] - y[a]
        total += t * t
    return total


@kernel()
def _centroid(X, free):
    centre = np.zeros(X.shape[1])
    for i in free:
        for a in range(X.shape[1]):
            centre[a] += X[i, a]
    return centre / free.size


@kernel()
def _farthest(X, free, point):
    best, best_d = free[0], -1.0
    for i in free:
        d = _distance(X[i], point)
        if d > best_d:
            best, best_d = i, d
    return best


@kernel()
def _claim(X, labels, free, point, size, group):
    """Give the `size` free records nearest to a point to a group; what is then free."""
    nearest = np.empty(size, np.int64)
    distance = np.full(size, np.inf)
    filled = 0
    for i in free:
        filled = sort_in(nearest, distance, filled, i, _distance(X[i], point))
    for i in nearest:
        labels[i] = group
    return _still_free(labels, free, size)


@kernel()
def _gather(X, labels, free, r, size, group, towards_centroid):
    """A group around record r: grown towards its centroid, or of its nearest records."""
    if towards_centroid:
        return _grow(X, labels, free, r, size, group)
    return _claim(X, labels, free, X[r], size, group)


@kernel()
def _grow(X, labels, free, r, size, group):
    """Grow a group from record r, each time by the free record nearest to its current centroid."""
    p = X.shape[1]
    centre = X[r].copy()
    labels[r] = group
    for members in range(1, size):
        best, best_d = -1, np.inf
        for i in free:
            if labels[i] < 0:
                d = _distance(X[i], centre)
                if d < best_d:
                    best, best_d = i, d
        labels[best] = group
        for a in range(p):
            centre[a] += (X[best, a] - centre[a]) / (members + 1)
    return _still_free(labels, free, size)


@kernel()
def _still_free(labels, free, taken):
    rest = np.empty(free.size - taken, np.int64)
    at = 0
    for i in free:
        if labels[i] < 0:
            rest[at] = i
            at += 1
    return rest


@kernel()
def _to_nearest_group(X, labels, free, groups):
    """Leftovers, one by one, to the group with the nearest centroid."""
    n, p = X.shape
    sums = np.zeros((groups, p))
    sizes = np.zeros(groups, np.int64)
    for i in range(n):
        if labels[i] >= 0:
            sizes[labels[i]] += 1
            for a in range(p):
                sums[labels[i], a] += X[i, a]
    for i in free:
        best, best_d = -1, np.inf
        for g in range(groups):
            d = _distance(X[i], sums[g] / sizes[g])
            if d < best_d:
                best, best_d = g, d
        labels[i] = best
        sizes[best] += 1
        for a in range(p):
            sums[best, a] += X[i, a]
