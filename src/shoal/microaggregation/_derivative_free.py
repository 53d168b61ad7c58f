"""Derivative-free search over the number of groups."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.encode import sum_of_squares
from shoal.engine.kernels.distance import squared_rows
from shoal.errors import InputError, ParameterError
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._ward import split_by_ward
from shoal.microaggregation.means import group_centres, improve
from shoal.params import AnyOf, Constraint, Instance, Interval, Options, Unset

Solution = TypeVar("Solution")
# Orders of h-means and k-means that are tried for a number of groups; the best counts.
HEURISTICS: dict[str, tuple[tuple[str, ...], ...]] = {
    "h-means+k-means": (("h-means", "k-means"),),
    "k-means+h-means": (("k-means", "h-means"),),
    "h-means": (("h-means",),),
    "k-means": (("k-means",),),
    "both": (("h-means", "k-means"), ("k-means", "h-means")),
}


class DerivativeFree(Microaggregator):
    """Pattern search on the number of groups, each tried by k-means, h-means or both (HM+KM).

    From the number of groups of a starting partition, a step `gamma` up or down is tried, the direction of
    the last success first. Success doubles the step, failure on both sides halves it; below 1 it ends.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    gamma0 : int, default 30
        First step on the number of groups.
    start : str or array of int, default "mdav"
        Where to start: the name of a method (see `shoal.methods`), or a group for each record.
    restart : {"incumbent", "random", "centres"}, default "incumbent"
        What another number of groups is tried from: the best partition so far, its groups of largest SSE
        split in two or its cheapest groups dissolved; a random partition, which is the reading behind the
        printed figures; or random records as centres.
    heuristic : {"h-means+k-means", "k-means+h-means", "h-means", "k-means", "both"}, default "h-means+k-means"
        How a number of groups is tried, each by strategy II: one after the other, one alone, or the better of
        the two orders.
    search : {"pattern", "every"}, default "pattern"
        Algorithm 2 of [1], or every number of groups that Proposition 1 allows.
    split : bool, default True
        Split groups above 2k-1 by k-Ward at the end, which only lowers the SSE. Without it a group has at
        least `k` records and no upper bound, as published.
    random_state : int, numpy.random.Generator or None, default 0
        Seed of the random partitions and centres, and of a starting method that takes one.

    Attributes
    ----------
    start_loss_ : float
        Information loss of the starting partition.
    searched_loss_ : float
        Information loss before the final split: the figure comparable to [1].
    evaluated_ : list of (int, float)
        Each number of groups tried, and the SSE it gave.

    Notes
    -----
    Readings taken where [1] leaves room: the value at the start is the start's own, so the result is never
    worse than the start; an odd step is halved downwards; the bound of line 11 is meant for the number tried,
    and is floor(n / (2k-1)) .. floor(n / k). [1] does not say from which partition a number is tried. Its
    first experiment has random ones, and with these its printed zeros come out; the incumbent finds
    something nearly everywhere. A try costs some passes of O(n) distances for each move, O(n) memory.

    References
    ----------
    .. [1] A. N. B. de Araujo, D. Aloise. Um algoritmo de otimizacao livre de derivadas para a protecao de
       dados individuais.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import DerivativeFree
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> search = DerivativeFree(k=2, start=[0, 1, 0, 1, 0, 1]).fit(X)
    >>> search.information_loss_ < search.start_loss_
    True
    """

    name: ClassVar = "derivative-free"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "gamma0": Interval(Integral, 1),
        "start": Instance((str, list, tuple, np.ndarray)),
        "restart": Options(("incumbent", "random", "centres")),
        "heuristic": Options(tuple(HEURISTICS)),
        "search": Options(("pattern", "every")),
        "split": Options((True, False)),
        "random_state": AnyOf((Unset(), Interval(Integral, 0), Instance((np.random.Generator,)))),
    }

    def __init__(
        self,
        k: int = 5,
        gamma0: int = 30,
        start: Any = "mdav",
        *,
        restart: str = "incumbent",
        heuristic: str = "h-means+k-means",
        search: str = "pattern",
        split: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.k = k
        self.gamma0 = gamma0
        self.start = start
        self.restart = restart
        self.heuristic = heuristic
        self.search = search
        self.split = split
        self.random_state = random_state

    def _keeps_sizes(self) -> bool:
        return self.split

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        n, k = Z.shape[0], self.k
        start = self._start(Z)
        rng = np.random.default_rng(self.random_state)
        total = float(np.einsum("ij,ij->", Z, Z)) or 1.0
        self.evaluated_: list[tuple[int, float]] = []

        def attempt(c: int, best: np.ndarray) -> tuple[float, np.ndarray]:
            begun = self._begin(Z, best, c, rng)
            tried = [improve(Z, begun, c, k, order) for order in HEURISTICS[self.heuristic]]
            value, labels = min(((sum_of_squares(Z, each), each) for each in tried), key=lambda pair: pair[0])
            self.evaluated_.append((c, value))
            return value, labels

        first = sum_of_squares(Z, start)
        low, high = n // (2 * k - 1), n // k
        if self.search == "every":
            value, labels = every_number(attempt, first, start, max(1, low), high)
        else:
            c0 = int(start.max()) + 1
            value, labels = pattern_search(attempt, c0, first, start, low, high, self.gamma0)
        self.start_loss_ = 100.0 * first / total
        self.searched_loss_ = 100.0 * value / total
        return split_by_ward(Z, labels, k) if self.split else labels

    def _begin(self, Z: np.ndarray, best: np.ndarray, c: int, rng: np.random.Generator) -> np.ndarray:
        """The partition that a number of groups is tried from."""
        if self.restart == "incumbent":
            return _with_groups(Z, best, c)
        if self.restart == "random":
            return rng.permutation(Z.shape[0]) % c
        return _around(Z, rng.choice(Z.shape[0], c, replace=False))

    def _start(self, Z: np.ndarray) -> np.ndarray:
        """The starting partition, numbered 0..c-1, with at least k records in each group."""
        if isinstance(self.start, str):
            return self._start_by_name(self.start, Z)
        given = np.asarray(self.start)
        if given.ndim != 1 or given.size != Z.shape[0]:
            raise InputError(
                f"'start' needs one group for each of {Z.shape[0]} records. Got shape {given.shape}."
            )
        labels = np.unique(given, return_inverse=True)[1].astype(np.int64).reshape(-1)
        smallest = int(np.bincount(labels).min())
        if smallest < self.k:
            raise InputError(f"Groups of 'start' need at least k = {self.k} records. Got one of {smallest}.")
        return labels

    def _start_by_name(self, name: str, Z: np.ndarray) -> np.ndarray:
        from shoal.microaggregation import methods  # the registry imports this file

        known = methods()
        if name not in known or name == self.name:
            names = ", ".join(each for each in known if each != self.name)
            raise ParameterError(
                f"'start' of {type(self).__name__} must be one of {names}, or labels. Got {name!r}."
            )
        method = known[name]
        extra = {"random_state": self.random_state} if method.takes("random_state") else {}
        return method(k=self.k, **extra).fit(Z).labels_


def pattern_search(
    attempt: Callable[[int, Solution], tuple[float, Solution]],
    at: int,
    value: float,
    solution: Solution,
    low: int,
    high: int,
    gamma0: int,
) -> tuple[float, Solution]:
    """Minimise over the integers low..high from `at`: Algorithm 2 of the derivative-free paper.

    Parameters
    ----------
    attempt : function of an integer and the best solution so far, to a value and a solution
    at, value, solution
        Where to start, and what is known there.
    low, high : int
        Bounds, both allowed.
    gamma0 : int
        First step.

    Returns
    -------
    float, solution

    Examples
    --------
    >>> from shoal.microaggregation._derivative_free import pattern_search
    >>> pattern_search(lambda x, best: ((x - 7.0) ** 2, x), 50, 1849.0, 50, 0, 100, 10)
    (0.0, 7)
    """
    gamma, leftwards = gamma0, False
    while gamma >= 1:
        for direction in (-gamma, gamma) if leftwards else (gamma, -gamma):
            tried = at + direction
            if not low <= tried <= high:
                continue
            reached, found = attempt(tried, solution)
            if reached < value:
                at, value, solution = tried, reached, found
                leftwards = direction < 0
                gamma *= 2
                break
        else:
            leftwards = False
            gamma //= 2
    return value, solution


def every_number(
    attempt: Callable[[int, Solution], tuple[float, Solution]],
    value: float,
    solution: Solution,
    low: int,
    high: int,
) -> tuple[float, Solution]:
    """Minimise over all integers low..high, from what is known at the start."""
    for tried in range(low, high + 1):
        reached, found = attempt(tried, solution)
        if reached < value:
            value, solution = reached, found
    return value, solution


def _with_groups(Z: np.ndarray, labels: np.ndarray, c: int) -> np.ndarray:
    """A partition with c groups made from another: worst groups split, or cheapest groups dissolved."""
    groups = int(labels.max()) + 1
    if c > groups:
        return _split_worst(Z, labels, c)
    if c < groups:
        return np.unique(_dissolve_cheapest(Z, labels, groups - c), return_inverse=True)[1].astype(np.int64)
    return labels


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked.


@kernel()
def _around(X, centres):
    """Each record to the nearest of some records, which keep to themselves."""
    labels = np.empty(X.shape[0], np.int64)
    for i in range(X.shape[0]):
        best, best_d = 0, np.inf
        for g in range(centres.size):
            d = -1.0 if centres[g] == i else squared_rows(X, i, X, centres[g])
            if d < best_d:
                best, best_d = g, d
        labels[i] = best
    return labels


@kernel()
def _split_worst(X, labels, c):
    """Split the group of largest SSE in two, again and again, until there are c groups."""
    labels = labels.copy()
    groups = labels.max() + 1
    centres, _ = group_centres(X, labels, groups)
    loss = np.zeros(c)
    for i in range(X.shape[0]):
        loss[labels[i]] += squared_rows(X, i, centres, labels[i])
    while groups < c:
        worst = np.argmax(loss[:groups])
        members = np.flatnonzero(labels == worst)
        if members.size < 2:
            # Only duplicates are left: any record of a larger group founds the new one.
            members = np.flatnonzero(labels == labels[np.argmax(np.bincount(labels)[labels])])
            worst = labels[members[0]]
        part = _halves(X[members])
        for at in range(members.size):
            if part[at] == 1:
                labels[members[at]] = groups
        loss[worst] = 0.0
        loss[groups] = 0.0
        inner, _ = group_centres(X[members], part, 2)
        for at in range(members.size):
            loss[labels[members[at]]] += squared_rows(X, members[at], inner, part[at])
        groups += 1
    return labels


@kernel()
def _halves(X):
    """Two parts, neither empty: nearer to one or the other of two far ends."""
    n = X.shape[0]
    part = np.zeros(n, np.int64)
    centre, _ = group_centres(X, part, 1)
    r = 0
    for i in range(1, n):
        if squared_rows(X, i, centre, 0) > squared_rows(X, r, centre, 0):
            r = i
    s = (r + 1) % n
    for i in range(n):
        if i != r and squared_rows(X, i, X, r) > squared_rows(X, s, X, r):
            s = i
    for i in range(n):
        if i != r and squared_rows(X, i, X, s) < squared_rows(X, i, X, r):
            part[i] = 1
    part[s] = 1
    return part


@kernel()
def _dissolve_cheapest(X, labels, times):
    """Dissolve the groups whose records find the cheapest homes elsewhere, costs taken once beforehand."""
    n, p = X.shape
    labels = labels.copy()
    groups = labels.max() + 1
    centres, sizes = group_centres(X, labels, groups)
    cost = np.zeros(groups)
    for i in range(n):
        best = np.inf
        for g in range(groups):
            if g != labels[i]:
                best = min(best, squared_rows(X, i, centres, g) * sizes[g] / (sizes[g] + 1))
        cost[labels[i]] += best - squared_rows(X, i, centres, labels[i])
    order = np.argsort(cost, kind="mergesort")
    gone = np.zeros(groups, np.bool_)
    for g in order[:times]:
        gone[g] = True
    for i in range(n):
        if not gone[labels[i]]:
            continue
        best, best_cost = -1, np.inf
        for g in range(groups):
            if not gone[g]:
                d = squared_rows(X, i, centres, g) * sizes[g] / (sizes[g] + 1)
                if d < best_cost:
                    best, best_cost = g, d
        labels[i] = best
        sizes[best] += 1
        for a in range(p):
            centres[best, a] += (X[i, a] - centres[best, a]) / sizes[best]
    return labels
