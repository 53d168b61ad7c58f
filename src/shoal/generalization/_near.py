"""Look-alikes: for each distinct record those that cost least to be released with."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel, prange
from shoal.generalization._lattice import Joined, Lattice

# Look-alikes each distinct record knows.
NEAR = 16
# Up to so many distinct records every pair is looked at; beyond, neighbours in sorted orders.
PAIRS = 40_000
ORDERS = 6


def near_tuples(lattice: Lattice, wanted: np.ndarray) -> np.ndarray:
    """For some distinct records the nearest others, nearest first; -1 where none is left."""
    tuples = np.ascontiguousarray(lattice.tuples, np.int32)
    m = min(NEAR, tuples.shape[0])
    if tuples.shape[0] > PAIRS:
        return _windows(lattice, tuples, wanted, m)
    # Costly columns first: most pairs are then seen to be far after a few.
    weight = [float(lattice.level_costs()[c][1:].max(initial=0.0)) for c in range(tuples.shape[1])]
    first = np.argsort(-np.asarray(weight), kind="stable")
    start, width, node, cost = lattice.joined
    joined = Joined(start[first], width[first], node, cost)
    return _nearest(np.ascontiguousarray(tuples[:, first]), wanted, lattice.counts, m, joined)


def _windows(lattice: Lattice, tuples: np.ndarray, wanted: np.ndarray, m: int) -> np.ndarray:
    """Neighbours in several sorted orders, each by the coarse nodes of randomly ranked columns first."""
    rng = np.random.default_rng(0)
    n, q = tuples.shape
    found = np.empty((wanted.size, 0), np.int64)
    for _ in range(ORDERS):
        columns = []
        for c in rng.permutation(q):
            tree = lattice.hierarchies[c]
            columns += [tree.up[level][tuples[:, c]] for level in range(max(0, tree.n_levels - 2), -1, -2)]
        order = np.lexsort(columns[::-1])
        rank = np.empty(n, np.int64)
        rank[order] = np.arange(n)
        reach = np.concatenate([np.arange(-m, 0), np.arange(1, m + 1)])
        beside = order[np.clip(rank[wanted][:, None] + reach, 0, n - 1)]
        found = _best_of(tuples, wanted, np.concatenate([found, beside], axis=1), m, lattice.joined)
    return found


# Kernels: leaves of distinct records as int32 in, their look-alikes out.


@kernel(parallel=True)
def _nearest(tuples, wanted, counts, m, joined):
    n, q = tuples.shape
    found = np.full((wanted.shape[0], m), -1, np.int64)
    for w in prange(wanted.shape[0]):
        i = wanted[w]
        far = np.full(m, np.inf)
        for j in range(n):
            if j == i and counts[i] == 1:
                continue
            total = 0.0
            for c in range(q):
                total += joined.cost[joined.start[c] + tuples[i, c] * joined.width[c] + tuples[j, c]]
                if total >= far[m - 1]:
                    break
            if total < far[m - 1]:
                at = m - 1
                while at > 0 and far[at - 1] > total:
                    far[at], found[w, at] = far[at - 1], found[w, at - 1]
                    at -= 1
                far[at], found[w, at] = total, j
    return found


@kernel(parallel=True)
def _best_of(tuples, wanted, offered, m, joined):
    q = tuples.shape[1]
    found = np.full((wanted.shape[0], m), -1, np.int64)
    for w in prange(wanted.shape[0]):
        i = wanted[w]
        far = np.full(m, np.inf)
        for o in range(offered.shape[1]):
            j = offered[w, o]
            known = j < 0 or j == i
            for at in range(m):
                known = known or found[w, at] == j
            if known:
                continue
            total = 0.0
            for c in range(q):
                total += joined.cost[joined.start[c] + tuples[i, c] * joined.width[c] + tuples[j, c]]
            if total < far[m - 1]:
                at = m - 1
                while at > 0 and far[at - 1] > total:
                    far[at], found[w, at] = far[at - 1], found[w, at - 1]
                    at -= 1
                far[at], found[w, at] = total, j
    return found
