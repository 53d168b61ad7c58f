"""Look-alikes: for each distinct record those that cost least to be released with."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel, prange
from shoal.generalization._lattice import Lattice

# Look-alikes each distinct record knows.
NEAR = 16
# Up to so many distinct records every pair is looked at; beyond, neighbours in sorted orders.
PAIRS = 40_000
ORDERS = 6


def near_tuples(lattice: Lattice, wanted: np.ndarray) -> np.ndarray:
    """For some distinct records the nearest others, nearest first; -1 where none is left.

    The lattice has its distinct records in order, costly columns first (`Lattice.side_by_side`).
    """
    tuples = np.ascontiguousarray(lattice.tuples, np.int32)
    m = min(NEAR, tuples.shape[0])
    if tuples.shape[0] > PAIRS:
        return _windows(lattice, tuples, wanted, m)
    alike, ends = _runs(tuples)
    return _nearest(tuples, wanted, lattice.counts, m, lattice.joined, alike, ends)


def _runs(tuples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many first columns each row shares with the row before, and where the rows that share column by column end."""
    n, q = tuples.shape
    same = np.zeros((n, q), bool)
    same[1:] = np.logical_and.accumulate(tuples[1:] == tuples[:-1], axis=1)
    ends = np.empty((n, q), np.int32)
    for c in range(q):
        starts = np.flatnonzero(~same[:, c])
        ends[:, c] = np.append(starts[1:], n)[np.cumsum(~same[:, c]) - 1]
    return same.sum(axis=1).astype(np.int32), ends


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
def _nearest(tuples, wanted, counts, m, joined, alike, ends):
    """Rows in order: where the first columns alone cost too much, all that share them are passed over."""
    n, q = tuples.shape
    found = np.full((wanted.shape[0], m), -1, np.int64)
    for w in prange(wanted.shape[0]):
        i = wanted[w]
        far, spent = np.full(m, np.inf), np.zeros(q + 1)
        low, high = max(0, i - m), min(n, i + m + 1)
        for j in range(low, high):  # neighbours in order are near: a first limit
            if j != i or counts[i] > 1:
                for c in range(q):
                    here = joined.start[c] + tuples[i, c] * joined.width[c] + tuples[j, c]
                    spent[c + 1] = spent[c] + joined.cost[here]
                _sort_in(far, found, w, spent[q], j)
        j, known = 0, 0
        while j < n:
            if low <= j < high:
                j, known = high, 0
                continue
            after, spent[q] = j + 1, np.inf
            for c in range(known, q):
                here = joined.start[c] + tuples[i, c] * joined.width[c] + tuples[j, c]
                spent[c + 1] = spent[c] + joined.cost[here]
                if spent[c + 1] >= far[m - 1]:
                    after = int(ends[j, c])
                    break
            _sort_in(far, found, w, spent[q], j)
            j = after
            known = int(alike[j]) if j < n else 0
    return found


@kernel(inline=True)
def _sort_in(far, found, w, total, j):
    """Keep j among the nearest of w, nearest first."""
    at = far.shape[0] - 1
    if total < far[at]:
        while at > 0 and far[at - 1] > total:
            far[at], found[w, at] = far[at - 1], found[w, at - 1]
            at -= 1
        far[at], found[w, at] = total, j


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
            _sort_in(far, found, w, total, j)
    return found
