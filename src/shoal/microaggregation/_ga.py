"""Two-step genetic algorithm: macro-groups first, then a population of partitions inside each."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_rows
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation.fixed_size.plain import plain_mdav
from shoal.params import AnyOf, Constraint, Instance, Interval, Unset


class GA(Microaggregator):
    """Genetic algorithm with one gene per record, inside macro-groups.

    A gene holds the number of its record's group. Parents are drawn by roulette on the fitness
    1 / (SSE + 1), crossed at one point, mutated gene by gene and brought back to groups of k..2k-1; the best
    chromosome lives on. Tables above `macro_size` are first cut into macro-groups by MDAV.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    macro_size : int or None, default None
        Smallest size of a macro-group; None is 6 k.
    population : int, default 20
    generations : int, default 1000
    crossover : float, default 0.5
        Probability that two parents are crossed.
    mutation : float, default 1.0
        Probability that a child has one of its genes changed.
    random_state : int, numpy.random.Generator or None, default 0

    Notes
    -----
    O(generations * population * n) work, O(population * macro_size) memory for each macro-group. The
    macro-groups are solved in parallel, each from a seed of its own, with the same result for any number of
    threads. The coding, the fitness, the two steps and the sizes are those of [1] and [2]; the way a
    chromosome is repaired (by distance) and the default rates are ours.

    References
    ----------
    .. [1] A. Solanas, A. Martinez-Balleste, J. M. Mateo-Sanz, J. Domingo-Ferrer (2006). Multivariate
       microaggregation based genetic algorithms. IEEE Intelligent Systems, 65-70.
       doi:10.1109/IS.2006.348395
    .. [2] A. Solanas (2008). Privacy protection with genetic algorithms. Studies in Computational
       Intelligence 92, 215-237. doi:10.1007/978-3-540-76286-7_10

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import GA
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> GA(k=3, generations=50).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "ga"
    deterministic: ClassVar = False
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "macro_size": AnyOf((Unset(), Interval(Integral, 2))),
        "population": Interval(Integral, 2),
        "generations": Interval(Integral, 0),
        "crossover": Interval(Real, 0, 1),
        "mutation": Interval(Real, 0, 1),
        "random_state": AnyOf((Unset(), Interval(Integral, 0), Instance((np.random.Generator,)))),
    }

    def __init__(
        self,
        k: int = 5,
        macro_size: int | None = None,
        population: int = 20,
        generations: int = 1000,
        crossover: float = 0.5,
        mutation: float = 1.0,
        random_state: Any = 0,
    ) -> None:
        self.k = k
        self.macro_size = macro_size
        self.population = population
        self.generations = generations
        self.crossover = crossover
        self.mutation = mutation
        self.random_state = random_state

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        macro_size = max(self.k, 6 * self.k if self.macro_size is None else self.macro_size)
        macro = plain_mdav(Z, macro_size) if Z.shape[0] >= 2 * macro_size else np.zeros(Z.shape[0], np.int64)
        order = np.argsort(macro, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(macro))]).astype(np.int64)
        rng = np.random.default_rng(self.random_state)
        seeds = rng.integers(1, 2**63 - 1, starts.size - 1, dtype=np.uint64)
        rules = (self.k, self.population, self.generations, float(self.crossover), float(self.mutation))

        def solve(m: int) -> np.ndarray:
            part = np.ascontiguousarray(Z[order[starts[m] : starts[m + 1]]])
            return _evolve(part, seeds[m : m + 1].copy(), *rules)

        # The kernel runs without the interpreter lock, so threads share the macro-groups.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = np.concatenate(list(pool.map(solve, range(seeds.size))))
        labels = np.empty(Z.shape[0], np.int64)
        # Groups of different macro-groups must not share a number.
        labels[order] = parts + macro[order] * Z.shape[0]
        return labels


# Kernels: float64 C-contiguous in, int64 labels out, nothing checked. `state` is a xorshift generator.


@kernel()
def _evolve(X, state, k, population, generations, crossover, mutation):
    n = X.shape[0]
    groups = n // k
    old = np.empty((population, n), np.int64)
    loss = np.empty(population)
    for row in range(population):
        _deal(old[row], state, k)
        loss[row] = _repaired_sse(X, old[row], groups, k)
    new = np.empty_like(old)
    for _ in range(generations):
        best = np.argmin(loss)
        new[0] = old[best]
        wheel = np.cumsum(1.0 / (loss + 1.0))
        for row in range(1, population):
            mother = np.searchsorted(wheel, _uniform(state) * wheel[-1])
            new[row] = old[min(mother, population - 1)]
            if _uniform(state) < crossover:
                father = np.searchsorted(wheel, _uniform(state) * wheel[-1])
                cut = int(_uniform(state) * n)
                new[row, cut:] = old[min(father, population - 1), cut:]
            if _uniform(state) < mutation:
                new[row, int(_uniform(state) * n)] = int(_uniform(state) * groups)
        for row in range(population):
            loss[row] = _repaired_sse(X, new[row], groups, k)
        old, new = new, old
    return old[np.argmin(loss)].copy()


@kernel()
def _deal(chromosome, state, k):
    """A random partition into a random number of groups of k..2k-1 records."""
    n = chromosome.size
    fewest, most = -(-n // (2 * k - 1)), n // k
    groups = fewest + int(_uniform(state) * (most - fewest + 1))
    for i in range(n):
        chromosome[i] = i % groups
    for i in range(n - 1, 0, -1):
        j = int(_uniform(state) * (i + 1))
        chromosome[i], chromosome[j] = chromosome[j], chromosome[i]


@kernel()
def _repaired_sse(X, labels, groups, k):
    """Bring a chromosome to groups of k..2k-1 records in place; its SSE."""
    n, p = X.shape
    sizes = np.zeros(groups, np.int64)
    centres = np.zeros((groups, p))
    for i in range(n):
        sizes[labels[i]] += 1
        for a in range(p):
            centres[labels[i], a] += X[i, a]
    for g in range(groups):
        if sizes[g] > 0:
            centres[g] /= sizes[g]
    for g in range(groups):
        while sizes[g] > 2 * k - 1:
            _eject(X, labels, centres, sizes, g, k)
    for g in range(groups):
        if 0 < sizes[g] < k:
            _dissolve_or_fill(X, labels, centres, sizes, g, k)
    total = 0.0
    for i in range(n):
        total += squared_rows(X, i, centres, labels[i])
    return total


@kernel()
def _eject(X, labels, centres, sizes, g, k):
    """The record farthest from an oversized group's centroid to the nearest group with room."""
    far, far_d = -1, -1.0
    for i in range(X.shape[0]):
        if labels[i] == g:
            d = squared_rows(X, i, centres, g)
            if d > far_d:
                far, far_d = i, d
    target = _nearest_with_room(X, far, centres, sizes, g, k)
    if target < 0:
        # All others are full or empty; fewer than floor(n / k) can be full, so one is empty.
        target = np.argmin(sizes)
    _move(X, far, labels, centres, sizes, target)


@kernel()
def _dissolve_or_fill(X, labels, centres, sizes, g, k):
    """Dissolve a group that lacks more than it has, where others have room; else fill it."""
    room = 0
    for h in range(sizes.size):
        if h != g and sizes[h] > 0:
            room += 2 * k - 1 - sizes[h]
    spare = 0
    for h in range(sizes.size):
        spare += max(0, sizes[h] - k)
    lack = k - sizes[g]
    if room >= sizes[g] and (lack > sizes[g] or spare < lack):
        for i in range(X.shape[0]):
            if labels[i] == g:
                _move(X, i, labels, centres, sizes, _nearest_with_room(X, i, centres, sizes, g, k))
        return
    for _ in range(lack):
        best, best_d = -1, np.inf
        for i in range(X.shape[0]):
            if sizes[labels[i]] > k:
                d = squared_rows(X, i, centres, g)
                if d < best_d:
                    best, best_d = i, d
        _move(X, best, labels, centres, sizes, g)


@kernel()
def _nearest_with_room(X, i, centres, sizes, but, k):
    best, best_d = -1, np.inf
    for g in range(sizes.size):
        if g != but and 0 < sizes[g] < 2 * k - 1:
            d = squared_rows(X, i, centres, g)
            if d < best_d:
                best, best_d = g, d
    return best


@kernel()
def _move(X, i, labels, centres, sizes, target):
    """Give a record to another group, both centroids kept up to date."""
    source = labels[i]
    labels[i] = target
    sizes[target] += 1
    sizes[source] -= 1
    for a in range(X.shape[1]):
        if sizes[target] == 1:
            centres[target, a] = X[i, a]
        else:
            centres[target, a] += (X[i, a] - centres[target, a]) / sizes[target]
        if sizes[source] > 0:
            centres[source, a] -= (X[i, a] - centres[source, a]) / sizes[source]


@kernel()
def _uniform(state):
    """The next number in [0, 1) of xorshift64*."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
