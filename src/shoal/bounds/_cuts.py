"""Subset-row cuts: of three records, at most one group may hold two or more.

In a partition two groups cannot each hold two of the same three records. The relaxation may use half of
each of three such groups; the cut forbids it.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from shoal.engine.compile import kernel


def separate(groups: np.ndarray, amounts: np.ndarray, n: int, most: int, per_record: int) -> np.ndarray:
    """The triples most violated by a fractional solution, one row each.

    Parameters
    ----------
    groups : array of int64, (n_columns, largest size), rows filled up with -1
    amounts : array of float64, (n_columns,)
    n : int
        Number of records.
    most, per_record : int
        How many triples to give, and with how many of them one record may be burdened.
    """
    used = (amounts > 1e-6) & (amounts < 1 - 1e-6)
    G, x = groups[used], amounts[used]
    if not G.size:
        return np.zeros((0, 3), np.int64)
    column, place = np.nonzero(G >= 0)
    A = sparse.csr_array((np.ones(column.size), (G[column, place], column)), shape=(n, G.shape[0]))
    together = sparse.csr_array((A * x) @ A.T)
    together.sort_indices()
    triples, excess = _violated(
        together.indptr.astype(np.int64), together.indices.astype(np.int64), together.data,
        A.indptr.astype(np.int64), A.indices.astype(np.int64), x,
    )
    order = np.lexsort((*triples.T[::-1], -np.round(excess, 6)))
    return _thinned(triples[order], n, most, per_record)


def hits(groups: np.ndarray, triples: np.ndarray, n: int) -> sparse.csr_array:
    """Which groups (rows) hold at least two records of which triples (columns)."""
    first = np.argsort(triples.ravel(), kind="stable")
    start = np.searchsorted(triples.ravel()[first], np.arange(n + 1))
    row, cut = _hits(groups, start, first // 3, triples.shape[0])
    return sparse.csr_array((np.ones(row.size), (row, cut)), shape=(groups.shape[0], triples.shape[0]))


# Kernels


@kernel()
def _violated(start, other, amount, column_start, column, x):
    """Triangles of records whose groups overlap in more than one unit: y_ij + y_il + y_jl - 2 y_ijl > 1."""
    n = start.size - 1
    triples = [(0, 0, 0)]
    excess = [0.0]
    near = np.zeros(n)
    mine = np.zeros(x.size, np.bool_)
    both = np.zeros(x.size, np.bool_)
    for i in range(n):
        for e in range(start[i], start[i + 1]):
            near[other[e]] = amount[e]
        for e in range(column_start[i], column_start[i + 1]):
            mine[column[e]] = True
        for e in range(start[i], start[i + 1]):
            j = other[e]
            if j <= i:
                continue
            for t in range(column_start[j], column_start[j + 1]):
                both[column[t]] = mine[column[t]]
            for t in range(start[j], start[j + 1]):
                l = other[t]
                if l <= j or near[l] <= 0.0:
                    continue
                pairs = amount[e] + amount[t] + near[l]
                if pairs <= 1.02:
                    continue
                three = 0.0
                for c in range(column_start[l], column_start[l + 1]):
                    if both[column[c]]:
                        three += x[column[c]]
                if pairs - 2.0 * three > 1.02:
                    triples.append((i, j, l))
                    excess.append(pairs - 2.0 * three - 1.0)
            for t in range(column_start[j], column_start[j + 1]):
                both[column[t]] = False
        for e in range(start[i], start[i + 1]):
            near[other[e]] = 0.0
        for e in range(column_start[i], column_start[i + 1]):
            mine[column[e]] = False
    found = np.empty((len(triples) - 1, 3), np.int64)
    by = np.empty(len(triples) - 1)
    for e in range(by.size):
        found[e, 0], found[e, 1], found[e, 2] = triples[e + 1]
        by[e] = excess[e + 1]
    return found, by


@kernel()
def _thinned(triples, n, most, per_record):
    """The first triples of a list that do not burden a record too often."""
    burden = np.zeros(n, np.int64)
    kept = np.empty((min(most, triples.shape[0]), 3), np.int64)
    count = 0
    for e in range(triples.shape[0]):
        if count == kept.shape[0]:
            break
        i, j, l = triples[e]
        if burden[i] >= per_record or burden[j] >= per_record or burden[l] >= per_record:
            continue
        kept[count] = triples[e]
        count += 1
        burden[i] += 1
        burden[j] += 1
        burden[l] += 1
    return kept[:count].copy()


@kernel()
def _hits(groups, start, cut_of, n_cuts):
    rows = [0]
    cuts = [0]
    seen = np.zeros(n_cuts, np.int64)
    for g in range(groups.shape[0]):
        for t in range(groups.shape[1]):
            i = groups[g, t]
            if i < 0:
                break
            for e in range(start[i], start[i + 1]):
                seen[cut_of[e]] += 1
                if seen[cut_of[e]] == 2:
                    rows.append(g)
                    cuts.append(cut_of[e])
        for t in range(groups.shape[1]):
            i = groups[g, t]
            if i < 0:
                break
            for e in range(start[i], start[i + 1]):
                seen[cut_of[e]] = 0
    return np.array(rows[1:], dtype=np.int64), np.array(cuts[1:], dtype=np.int64)
