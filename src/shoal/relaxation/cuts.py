"""Subset-row cuts over odd sets of records.

In a partition, floor(|T| / 2) is the most that the groups' floor(|S & T| / 2) can add up to: of three
records, say, at most one group holds two or more. The relaxation may use half of each of three groups that
hold two each; the cut forbids it. Triples go into column generation; sets of five are used once all groups
that matter are listed, since pricing does not know them.

Cuts are rows of five record numbers, filled up with -1.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from shoal.engine.compile import kernel


def separate(groups: np.ndarray, amounts: np.ndarray, n: int, most: int, per_record: int) -> np.ndarray:
    """The triples most violated by a fractional solution.

    Parameters
    ----------
    groups : array of int64, (n_columns, largest size), rows filled up with -1
    amounts : array of float64, (n_columns,)
    n : int
        Number of records.
    most, per_record : int
        How many cuts to give, and with how many of them one record may be burdened.
    """
    A, x = _fractional(groups, amounts, n)
    together = sparse.csr_array((A * x) @ A.T)
    together.sort_indices()
    triples, excess = _violated(*_lists(together), together.data, *_lists(A), x)
    return _worst(triples, excess, n, most, per_record)


def separate_fives(groups: np.ndarray, amounts: np.ndarray, n: int, most: int, per_record: int) -> np.ndarray:
    """Sets of five records violated by a fractional solution, grown greedily from pairs."""
    A, x = _fractional(groups, amounts, n)
    together = sparse.csr_array((A * x) @ A.T)
    fives, excess = _violated_fives(*_lists(together), *_lists(A), x)
    if excess.size:
        fives, first = np.unique(fives, axis=0, return_index=True)
        excess = excess[first]
    return _worst(fives, excess, n, most, per_record)


def hits(groups: np.ndarray, cuts: np.ndarray, n: int) -> sparse.csr_array:
    """Coefficients floor(|S & T| / 2) of groups (rows) in cuts (columns)."""
    cut, place = np.nonzero(cuts >= 0)
    record = cuts[cut, place]
    order = np.argsort(record, kind="stable")
    start = np.searchsorted(record[order], np.arange(n + 1))
    row, column = _hits(groups, start, cut[order], cuts.shape[0])
    # A cut met a second time by the same group is listed twice; the entries add up.
    return sparse.csr_array((np.ones(row.size), (row, column)), shape=(groups.shape[0], cuts.shape[0]))


def right_hand_sides(cuts: np.ndarray) -> np.ndarray:
    """What the left-hand sides of cuts may reach: half of their records, rounded down."""
    return np.floor((cuts >= 0).sum(axis=1) / 2)


def _fractional(groups: np.ndarray, amounts: np.ndarray, n: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Records by groups, and amounts, of the groups that are taken in part."""
    used = (amounts > 1e-6) & (amounts < 1 - 1e-6)
    G = groups[used]
    column, place = np.nonzero(G >= 0)
    A = sparse.csr_array((np.ones(column.size), (G[column, place], column)), shape=(n, G.shape[0]))
    return A, amounts[used]


def _lists(A: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    return A.indptr.astype(np.int64), A.indices.astype(np.int64)


def _worst(sets: np.ndarray, excess: np.ndarray, n: int, most: int, per_record: int) -> np.ndarray:
    order = np.lexsort((*sets.T[::-1], -np.round(excess, 6)))
    kept = _thinned(sets[order], n, most, per_record)
    padded = np.full((kept.shape[0], 5), -1, np.int64)
    padded[:, : kept.shape[1]] = kept
    return padded


# Kernels


@kernel()
def _violated(start, other, amount, column_start, column, x):  # noqa: C901, PLR0912 - one step of a compiled search, case by case
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
                if pairs <= 1.005:
                    continue
                three = 0.0
                for c in range(column_start[l], column_start[l + 1]):
                    if both[column[c]]:
                        three += x[column[c]]
                if pairs - 2.0 * three > 1.005:
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
def _violated_fives(start, other, column_start, column, x):  # noqa: C901 - one step of a compiled search, case by case
    """From each pair that shares a group, add three times the record that completes most halves."""
    n = start.size - 1
    fives = [(0, 0, 0, 0, 0)]
    excess = [0.0]
    T = np.empty(5, np.int64)
    held = np.zeros(x.size, np.int64)
    for i in range(n):
        for e in range(start[i], start[i + 1]):
            if other[e] <= i:
                continue
            T[0], T[1] = i, other[e]
            held[:] = 0
            for m in range(2):
                for c in range(column_start[T[m]], column_start[T[m] + 1]):
                    held[column[c]] += 1
            full = True
            for m in range(2, 5):
                T[m] = _best_next(start, other, column_start, column, x, held, T, m)
                if T[m] < 0:
                    full = False
                    break
                for c in range(column_start[T[m]], column_start[T[m] + 1]):
                    held[column[c]] += 1
            if not full:
                continue
            total = 0.0
            for c in range(x.size):
                total += x[c] * (held[c] // 2)
            if total > 2.005:
                S = np.sort(T)
                fives.append((S[0], S[1], S[2], S[3], S[4]))
                excess.append(total - 2.0)
    found = np.empty((len(fives) - 1, 5), np.int64)
    by = np.empty(len(fives) - 1)
    for e in range(by.size):
        for m in range(5):
            found[e, m] = fives[e + 1][m]
        by[e] = excess[e + 1]
    return found, by


@kernel()
def _best_next(start, other, column_start, column, x, held, T, m):
    best, record = -1.0, -1
    for a in range(m):
        for e in range(start[T[a]], start[T[a] + 1]):
            v = other[e]
            inside = False
            for b in range(m):
                inside |= T[b] == v
            if inside:
                continue
            gain = 0.0
            for c in range(column_start[v], column_start[v + 1]):
                if held[column[c]] % 2 == 1:
                    gain += x[column[c]]
                elif held[column[c]] == 0:
                    gain += 0.01 * x[column[c]]  # what a later record may complete
            if gain > best + 1e-9:
                best, record = gain, v
    return record


@kernel()
def _thinned(sets, n, most, per_record):
    """The first sets of a list that do not burden a record too often."""
    burden = np.zeros(n, np.int64)
    kept = np.empty((min(most, sets.shape[0]), sets.shape[1]), np.int64)
    count = 0
    for e in range(sets.shape[0]):
        if count == kept.shape[0]:
            break
        free = True
        for i in sets[e]:
            free &= burden[i] < per_record
        if not free:
            continue
        kept[count] = sets[e]
        count += 1
        for i in sets[e]:
            burden[i] += 1
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
                if seen[cut_of[e]] % 2 == 0:
                    rows.append(g)
                    cuts.append(cut_of[e])
        for t in range(groups.shape[1]):
            i = groups[g, t]
            if i < 0:
                break
            for e in range(start[i], start[i + 1]):
                seen[cut_of[e]] = 0
    return np.array(rows[1:], dtype=np.int64), np.array(cuts[1:], dtype=np.int64)
