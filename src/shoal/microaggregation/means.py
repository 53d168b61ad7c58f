"""k-means and h-means under a smallest group size, by two strategies, and one after the other (HM+KM).

Strategy I forbids moves that leave a group below k. Strategy II lets the heuristic run freely, then makes
the partition feasible again, and alternates the two until the feasible SSE stops falling.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_rows
from shoal.errors import InputError
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._ward import split_by_ward
from shoal.params import AnyOf, Constraint, Instance, Interval, Options, Unset


class _Means(Microaggregator):
    """What k-means and h-means share: parameters, the random start and the final split."""

    deterministic: ClassVar = False
    _by_relocation: ClassVar[bool]
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "strategy": Options(("I", "II")),
        "n_groups": AnyOf((Unset(), Interval(Integral, 1))),
        "split": Options((True, False)),
        "random_state": AnyOf((Unset(), Interval(Integral, 0), Instance((np.random.Generator,)))),
    }

    def __init__(
        self,
        k: int = 5,
        strategy: str = "II",
        n_groups: int | None = None,
        split: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.k = k
        self.strategy = strategy
        self.n_groups = n_groups
        self.split = split
        self.random_state = random_state

    def _keeps_sizes(self) -> bool:
        return self.split

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        n, k = Z.shape[0], self.k
        c = middle_number_of_groups(n, k) if self.n_groups is None else self.n_groups
        if c > n // k:
            raise InputError(f"{c} groups of at least {k} records need {c * k} records. Got {n}.")
        start = np.random.default_rng(self.random_state).permutation(n) % c
        if self.strategy == "I":
            labels = strategy_one(Z, start, c, k, self._by_relocation)
        else:
            labels = _strategy_two(Z, start, c, k, self._by_relocation)
        return split_by_ward(Z, labels, k) if self.split else labels


class KMeans(_Means):
    """k-means with at least `k` records in a group.

    All records go to their nearest centre, then the centres move, until nothing changes.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    strategy : {"II", "I"}, default "II"
        "I" forbids a move that leaves a group below k. "II" runs freely, then each group below k receives,
        from groups above k, the record whose move costs least; both are repeated until the feasible SSE
        stops falling.
    n_groups : int or None, default None
        Number of groups; None is the middle of ceil(n / (2k - 1)) and floor(n / k).
    split : bool, default True
        Split groups above 2k-1 by k-Ward at the end, which only lowers the SSE. Without it a group has at
        least `k` records and no upper bound.
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the random partition it starts from.

    Notes
    -----
    O(n * c) distances in each pass, O(n) memory.

    References
    ----------
    .. [1] A. N. B. de Araujo, D. Aloise. Um algoritmo de otimizacao livre de derivadas para a protecao de
       dados individuais.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import KMeans
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> KMeans(k=3, n_groups=2, random_state=0).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "k-means"
    _by_relocation: ClassVar = False


class HMeans(_Means):
    """h-means with at least `k` records in a group.

    At each step the one relocation of a record that lowers the SSE most is made, until none does.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    strategy : {"II", "I"}, default "II"
        "I" forbids a move that leaves a group below k. "II" runs freely, then each group below k receives,
        from groups above k, the record whose move costs least; both are repeated until the feasible SSE
        stops falling.
    n_groups : int or None, default None
        Number of groups; None is the middle of ceil(n / (2k - 1)) and floor(n / k).
    split : bool, default True
        Split groups above 2k-1 by k-Ward at the end, which only lowers the SSE. Without it a group has at
        least `k` records and no upper bound.
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the random partition it starts from.

    Notes
    -----
    Each record keeps its cheapest target; a move renews it only where one of the two changed groups
    matters: O(n) distances a move, O(n) memory.

    References
    ----------
    .. [1] A. N. B. de Araujo, D. Aloise. Um algoritmo de otimizacao livre de derivadas para a protecao de
       dados individuais.
    .. [2] P. Hansen, N. Mladenovic (2001). J-means: a new local search heuristic for minimum sum of squares
       clustering. Pattern Recognition 34, 405-413. doi:10.1016/S0031-3203(99)00216-2

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import HMeans
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> HMeans(k=3, n_groups=2, random_state=0).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "h-means"
    _by_relocation: ClassVar = True


def middle_number_of_groups(n: int, k: int) -> int:
    """Halfway between the fewest and the most groups of k..2k-1 records, at least 1."""
    return max(1, (-(-n // (2 * k - 1)) + n // k) // 2)


def improve(Z: np.ndarray, labels: np.ndarray, c: int, k: int, order: tuple[str, ...]) -> np.ndarray:
    """h-means and k-means in some order, each by strategy II: labels 0..c-1, at least k records in a group."""
    for name in order:
        labels = _strategy_two(Z, labels, c, k, name == "h-means")
    return labels


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked. Groups may be empty on the way.


@kernel()
def strategy_one(X, start, c, k, by_relocation):
    """Strategy I: only moves that keep every group at k or more, from a start that does."""
    labels = start.copy()
    if by_relocation:
        _h_means(X, labels, c, k + 1)
    else:
        _k_means(X, labels, c, k + 1)
    return labels


@kernel()
def _strategy_two(X, start, c, k, by_relocation):
    best = start.copy()
    _fill(X, best, c, k)
    least = _sse(X, best, c)
    while True:
        labels = best.copy()
        if by_relocation:
            _h_means(X, labels, c, 2)
        else:
            _k_means(X, labels, c, 1)
        _fill(X, labels, c, k)
        loss = _sse(X, labels, c)
        # A fall within rounding is none: the alternation must end.
        if not loss < least * (1.0 - 1e-12):
            return best
        best, least = labels, loss


@kernel()
def _k_means(X, labels, c, least_to_leave):
    """Passes of all records to their nearest centre, in place; groups below `least_to_leave` keep theirs."""
    n, p = X.shape
    nothing = _rounding(X)
    while True:
        centres, sizes = group_centres(X, labels, c)
        moved = False
        for i in range(n):
            own = labels[i]
            if sizes[own] < least_to_leave:
                continue
            best, best_d = own, squared_rows(X, i, centres, own)
            if best_d <= nothing:
                continue
            # A nearer centre must be nearer by more than rounding, or two could swap for ever.
            limit = best_d * (1.0 - 1e-12)
            for g in range(c):
                if g == own or sizes[g] == 0:
                    continue
                d = 0.0
                for a in range(p):
                    t = X[i, a] - centres[g, a]
                    d += t * t
                    if d >= limit:
                        break
                if d < limit:
                    best, limit = g, d
            if best != own:
                labels[i] = best
                sizes[own] -= 1
                sizes[best] += 1
                moved = True
        if not moved:
            return


@kernel()
def _h_means(X, labels, c, least_to_leave):  # noqa: C901 - one step of a compiled search, case by case
    """Best single relocations in place, from groups of at least `least_to_leave` records."""
    n, p = X.shape
    centres, sizes = group_centres(X, labels, c)
    nothing = _rounding(X)
    target = np.empty(n, np.int64)
    price = np.empty(n)  # what joining the target costs
    relief = np.empty(n)  # what leaving its own group saves
    for i in range(n):
        _cheapest_target(X, i, labels[i], centres, sizes, target, price)
        relief[i] = _relief(X, i, labels[i], centres, sizes, least_to_leave)
    while True:
        mover, gain = -1, 0.0
        for i in range(n):
            if relief[i] - price[i] > gain:
                mover, gain = i, relief[i] - price[i]
        if mover < 0 or gain <= 1e-12 * (relief[mover] + price[mover]) + nothing:
            return
        source, sink = labels[mover], target[mover]
        labels[mover] = sink
        sizes[sink] += 1
        sizes[source] -= 1
        for a in range(p):
            centres[sink, a] += (X[mover, a] - centres[sink, a]) / sizes[sink]
            centres[source, a] -= (X[mover, a] - centres[source, a]) / sizes[source]
        for i in range(n):
            own = labels[i]
            if own in (source, sink):
                relief[i] = _relief(X, i, own, centres, sizes, least_to_leave)
            if i == mover or target[i] in (source, sink):
                old = price[i] if i != mover else -1.0
                price[i] = _price(X, i, target[i], own, centres, sizes, old)
                if price[i] > old:
                    _cheapest_target(X, i, own, centres, sizes, target, price)
                    continue
            for g in (source, sink):
                if g not in (own, target[i]):
                    cost = _price(X, i, g, own, centres, sizes, price[i])
                    if cost < price[i] or (cost == price[i] and g < target[i]):
                        target[i] = g
                        price[i] = cost


@kernel()
def _rounding(X):
    """A squared distance that is nothing beside the data: records that lie together must not move for ever."""
    total = 0.0
    for i in range(X.shape[0]):
        for a in range(X.shape[1]):
            total += X[i, a] * X[i, a]
    return 1e-13 * total / X.shape[0]


@kernel()
def _relief(X, i, own, centres, sizes, least_to_leave):
    """Fall of the SSE when a record leaves its group; minus infinity where it may not."""
    if sizes[own] < least_to_leave:
        return -np.inf
    return squared_rows(X, i, centres, own) * sizes[own] / (sizes[own] - 1)


@kernel()
def _price(X, i, g, own, centres, sizes, limit):
    """Rise of the SSE when a record joins a group; anything above `limit` once it is known to exceed it."""
    if g == own or sizes[g] == 0:
        return np.inf
    factor = sizes[g] / (sizes[g] + 1)
    stop = limit / factor * (1.0 + 1e-9)
    d = 0.0
    for a in range(X.shape[1]):
        t = X[i, a] - centres[g, a]
        d += t * t
        if d > stop:
            return np.inf
    return d * factor


@kernel()
def _cheapest_target(X, i, own, centres, sizes, target, price):
    best, best_cost = own, np.inf
    for g in range(sizes.size):
        cost = _price(X, i, g, own, centres, sizes, best_cost)
        if cost < best_cost:
            best, best_cost = g, cost
    target[i] = best
    price[i] = best_cost


@kernel()
def _fill(X, labels, c, k):
    """Feasibility: each group below k receives, from groups above k, the record whose move costs least."""
    n, p = X.shape
    centres, sizes = group_centres(X, labels, c)
    for g in range(c):
        while sizes[g] < k:
            best, best_cost = -1, np.inf
            share = sizes[g] / (sizes[g] + 1)
            for i in range(n):
                own = labels[i]
                if own == g or sizes[own] <= k:
                    continue
                cost = -squared_rows(X, i, centres, own) * sizes[own] / (sizes[own] - 1)
                if share > 0.0:
                    cost += squared_rows(X, i, centres, g) * share
                if cost < best_cost:
                    best, best_cost = i, cost
            own = labels[best]
            labels[best] = g
            sizes[g] += 1
            sizes[own] -= 1
            for a in range(p):
                centres[g, a] += (X[best, a] - centres[g, a]) / sizes[g]
                centres[own, a] -= (X[best, a] - centres[own, a]) / sizes[own]


@kernel()
def group_centres(X, labels, c):
    """Centroids (zeros for an empty group) and sizes of groups 0..c-1."""
    sizes = np.zeros(c, np.int64)
    for g in labels:
        sizes[g] += 1
    centres = np.zeros((c, X.shape[1]))
    for i in range(X.shape[0]):
        for a in range(X.shape[1]):
            centres[labels[i], a] += X[i, a] / sizes[labels[i]]
    return centres, sizes


@kernel()
def _sse(X, labels, c):
    centres, _ = group_centres(X, labels, c)
    total = 0.0
    for i in range(X.shape[0]):
        total += squared_rows(X, i, centres, labels[i])
    return total
