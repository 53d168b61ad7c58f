"""The greedy family: GSMS fixes the best of all proposed groups, again and again; GSMS-T2 goes over them once more.

Every free record proposes the group of itself and its k-1 nearest free records. With m records free, c their
centroid and g the centroid of a proposal G, the sum of squares splits as

    SSE(free) = SSE(G) + SSE(rest) + k m / (m - k) * |g - c|^2,

so the proposal with the smallest SSE(G) + SSE(rest) is the one whose centroid lies farthest from c. That is what
the kernel compares: nothing cancels, and a choice costs one distance per free record.
"""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np

from shoal.engine.compile import kernel, prange
from shoal.engine.kernels.nearest import sort_in
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._repair import repair
from shoal.microaggregation.fixed_size.plain import still_free, to_nearest_group
from shoal.params import AnyOf, Constraint, Interval, Unset


class GSMS(Microaggregator):
    """Group selection by sequential minimisation of the SSE.

    Every free record proposes the group of itself and its k-1 nearest free records. floor(n/k) times the
    proposal with the smallest SSE of the group plus SSE of the remaining free records is fixed. The
    records left over go to their nearest groups.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.

    Notes
    -----
    O(n^2) distances, O(n k) memory: each record keeps a list of its nearest free records, looks further
    only when a member of its proposal has gone, and measures distances anew only when the list has run
    out. Where leftovers bring a group above 2k-1 it is split.

    References
    ----------
    .. [1] C. Panagiotakis, G. Tziritas (2013). Successive group selection for microaggregation. IEEE
       TKDE 25(5), 1191-1195.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import GSMS
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> GSMS(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "gsms"
    _rules: ClassVar[dict[str, Constraint]] = {"k": Interval(Integral, 2)}

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        Z = Z - Z.mean(axis=0)
        labels = _gsms(Z, self.k, *_look_all(Z, min(Z.shape[0] - 1, 4 * self.k + 8)))
        free = np.flatnonzero(labels < 0)
        if free.size:
            to_nearest_group(Z, labels, free, int(labels.max()) + 1)
        return repair(Z, labels, self.k)


class GSMST2(GSMS):
    """GSMS with a second pass that dissolves groups where this lowers the SSE.

    Each group in turn, the one with the largest SSE first, is tentatively dissolved: its records go, one by
    one, to the group below 2k-1 records where they cost least. The dissolution is kept when the SSE falls.
    The pass is repeated until it keeps none.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    passes : int, optional
        Most passes made. At k = 3 one pass gives the published 16.36 (Tarragona), 5.54 (Census) and 0.41
        (EIA).

    Notes
    -----
    O(n^2 / k) distances per pass after GSMS; a handful of passes.

    References
    ----------
    .. [1] C. Panagiotakis, G. Tziritas (2013). Successive group selection for microaggregation. IEEE
       TKDE 25(5), 1191-1195.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import GSMST2
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> GSMST2(k=3).fit(X).n_groups_
    2
    """

    name: ClassVar = "gsms-t2"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "passes": AnyOf((Interval(Integral, 1), Unset())),
    }

    def __init__(self, k: int = 5, passes: int | None = None) -> None:
        super().__init__(k)
        self.passes = passes

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        return _dissolve(Z, super()._partition(Z), self.k, -1 if self.passes is None else self.passes)


# Kernels


@kernel(parallel=True)
def _look_all(X, length):
    """For each record its nearest others, nearest first, and how many there are."""
    n = X.shape[0]
    everyone = np.arange(n)
    near = np.empty((n, length), np.int64)
    filled = np.zeros(n, np.int64)
    for i in prange(n):
        filled[i] = _look(X, everyone, i, near[i])
    return near, filled


@kernel()
def _gsms(X, k, near, filled):  # noqa: C901 - one step of a compiled search, case by case
    """Groups of k, numbered as they are fixed; records left over keep the label -1."""
    n, p = X.shape
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    member = np.empty((n, k), np.int64)
    centroid = np.empty((n, p))
    total = np.zeros(p)
    for i in range(n):
        _propose(X, labels, i, k, near[i], filled[i], member[i], centroid[i])
        for a in range(p):
            total[a] += X[i, a]
    for group in range(n // k):
        middle = total / free.size
        best, best_d = free[0], -1.0
        for i in free:
            d = 0.0
            for a in range(p):
                t = centroid[i, a] - middle[a]
                d += t * t
            if d > best_d:
                best, best_d = i, d
        for i in member[best]:
            labels[i] = group
            for a in range(p):
                total[a] -= X[i, a]
        free = still_free(labels, free, k)
        if free.size < k:
            break
        for i in free:
            touched = False
            for j in member[i]:
                touched |= labels[j] >= 0
            if touched and not _propose(X, labels, i, k, near[i], filled[i], member[i], centroid[i]):
                filled[i] = _look(X, free, i, near[i])
                _propose(X, labels, i, k, near[i], filled[i], member[i], centroid[i])
    return labels


@kernel()
def _look(X, free, i, near):
    """List the free records nearest to record i, nearest first; how many there are."""
    distance = np.empty(near.size)
    filled = 0
    for j in free:
        if j == i:
            continue
        d = 0.0
        for a in range(X.shape[1]):
            t = X[j, a] - X[i, a]
            d += t * t
        filled = sort_in(near, distance, filled, j, d)
    return filled


@kernel()
def _propose(X, labels, i, k, near, filled, member, centroid):
    """Renew the proposal of record i from its list; False where the list holds too few free records."""
    member[0] = i
    size = 1
    for at in range(filled):
        if size == k:
            break
        if labels[near[at]] < 0:
            member[size] = near[at]
            size += 1
    if size < k:
        return False
    for a in range(X.shape[1]):
        t = 0.0
        for j in member:
            t += X[j, a]
        centroid[a] = t / k
    return True


@kernel()
def _dissolve(X, labels, k, passes):
    """Dissolve groups, worst first, into others of fewer than 2k-1 records where this lowers the SSE."""
    n, p = X.shape
    c = labels.max() + 1
    labels = labels.copy()
    centre = np.zeros((c, p))
    sizes = np.zeros(c, np.int64)
    for i in range(n):
        g = labels[i]
        sizes[g] += 1
        for a in range(p):
            centre[g, a] += (X[i, a] - centre[g, a]) / sizes[g]
    fell = True
    done = 0
    while fell and done != passes:
        fell = False
        done += 1
        scatter = np.zeros(c)
        for i in range(n):
            for a in range(p):
                t = X[i, a] - centre[labels[i], a]
                scatter[labels[i]] += t * t
        for g in np.argsort(-scatter, kind="mergesort"):
            if sizes[g] > 0 and _dissolve_one(X, labels, centre, sizes, g, k):
                fell = True
    return labels


@kernel()
def _dissolve_one(X, labels, centre, sizes, g, k):  # noqa: C901 - one step of a compiled search, case by case
    """Try to dissolve one group; whether it was done."""
    c, p = centre.shape
    own = np.flatnonzero(labels == g)
    reach = np.zeros(own.size)
    for q in range(own.size):
        for a in range(p):
            t = X[own[q], a] - centre[g, a]
            reach[q] += t * t
    budget = reach.sum()
    own = own[np.argsort(reach, kind="mergesort")]
    budget *= 1.0 - 1e-12  # a fall that is no more than rounding would let groups go round in circles
    goal = np.empty(own.size, np.int64)
    spent = 0.0
    moved = 0
    for i in own:
        best, best_cost = -1, budget - spent
        for h in range(c):
            if h == g or sizes[h] == 0 or sizes[h] >= 2 * k - 1:
                continue
            weight = sizes[h] / (sizes[h] + 1.0)
            d = 0.0
            for a in range(p):
                t = X[i, a] - centre[h, a]
                d += t * t
                if weight * d >= best_cost:
                    break
            if weight * d < best_cost:
                best, best_cost = h, weight * d
        if best < 0:
            break
        spent += best_cost
        goal[moved] = best
        moved += 1
        sizes[best] += 1
        for a in range(p):
            centre[best, a] += (X[i, a] - centre[best, a]) / sizes[best]
    if moved == own.size:
        sizes[g] = 0
        for q in range(moved):
            labels[own[q]] = goal[q]
        return True
    for q in range(moved - 1, -1, -1):
        h = goal[q]
        for a in range(p):
            centre[h, a] += (centre[h, a] - X[own[q], a]) / (sizes[h] - 1)
        sizes[h] -= 1
    return False
