"""Exact pricing: which groups would lower the relaxation at given duals, without a limit on neighbours.

A group S of size s costs c(S) = (sum of its squared distances over pairs) / s. At duals pi its reduced cost
is f(S) = c(S) - pi(S), a sum over pairs of w_ij = d_ij / s - (pi_i + pi_j) / (s - 1). Dropping the record
of largest degree from a set of m records leaves at most f(S) (m - 2) / m, so a negative set has a chain of
negative subsets down to a pair. Growing sets only by a record that is then the one of largest degree
(ties: largest index) visits each of them once.

Distances and duals lie on a grid of powers of two so coarse that every sum here, scaled by s (s - 1), is
exact in float64: nothing is missed by rounding, and the bound is one for distances rounded *down*.

A cut over a triple T of records with dual mu_T >= 0 adds mu_T to groups with two or three of T. A third of
it on each pair of T never overstates that (1/3 for two, 1 for three), which keeps the sum over pairs and
the chain; the full price is added when a group is complete.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from shoal.engine.compile import kernel, prange

# A fixed number of independent searches, so that the answer does not depend on the number of threads.
BLOCKS = 32

# No limit on the groups of a record.
_ALL = np.iinfo(np.int64).max

# Nodes of a search for groups close to their price; more are not worth their time.
_NODES_LOW = 100_000


@dataclass(frozen=True)
class RoundedDistances:
    """Squared distances rounded down to multiples of 2**-bits, and what else pricing needs to be exact.

    Memory is n^2 doubles: 134 MB for 4,092 records, 200 MB for 5,000. This is the only place that holds
    such a matrix.
    """

    D: np.ndarray
    k: int
    bits: int
    top: float

    @classmethod
    def of(cls, Z: np.ndarray, k: int) -> RoundedDistances:
        """The grid of a standardised table."""
        D = _squared_distances(Z)
        # Rounding in a sum of p squares is below (p + 2) units in the last place.
        D *= 1.0 - (Z.shape[1] + 4) * 2.3e-16
        top = max(float(D.max()), 1e-300)
        s = 2 * k - 1
        largest = s * (s - 1) / 2 * 3 * s * top
        bits = 49 - math.ceil(math.log2(largest))
        np.floor(np.ldexp(D, bits, out=D), out=D)
        np.ldexp(D, -bits, out=D)
        return cls(D, k, bits, top)

    def part(self, records: np.ndarray) -> RoundedDistances:
        """The grid of some of the records."""
        return RoundedDistances(
            np.ascontiguousarray(self.D[np.ix_(records, records)]), self.k, self.bits, self.top
        )

    def down(self, values: np.ndarray) -> np.ndarray:
        """Duals rounded down to the grid, within the range that keeps sums exact."""
        clipped = np.clip(values, -self.top, self.top)
        return np.ldexp(np.floor(np.ldexp(clipped, self.bits)), -self.bits)

    def thirds(self, values: np.ndarray) -> np.ndarray:
        """Duals of cuts, as thirds on the grid."""
        clipped = np.clip(values, 0.0, self.top / 4)
        return np.ldexp(np.floor(np.ldexp(clipped / 3.0, self.bits)), -self.bits)


@dataclass(frozen=True)
class CutPrices:
    """Triples of records with a third of each dual, as the lists the kernels walk."""

    pair_start: np.ndarray
    pair_other: np.ndarray
    pair_third: np.ndarray
    triple_start: np.ndarray
    triple_others: np.ndarray
    triple_third: np.ndarray

    @classmethod
    def of(cls, n: int, triples: np.ndarray, thirds: np.ndarray) -> CutPrices:
        """Lists of the triples that have a price."""
        priced = thirds > 0
        T, third = triples[priced].reshape(-1, 3), thirds[priced]
        first = np.concatenate([T[:, a] for a, _ in _ORDERED]) if T.size else np.zeros(0, np.int64)
        other = np.concatenate([T[:, b] for _, b in _ORDERED]) if T.size else np.zeros(0, np.int64)
        value = np.tile(third, len(_ORDERED))
        order = np.argsort(first, kind="stable")
        lead = np.argsort(T[:, 0], kind="stable")
        return cls(
            np.searchsorted(first[order], np.arange(n + 1)),
            np.ascontiguousarray(other[order]),
            np.ascontiguousarray(value[order]),
            np.searchsorted(T[lead, 0], np.arange(n + 1)),
            np.ascontiguousarray(T[lead, 1:]),
            np.ascontiguousarray(third[lead]),
        )


_ORDERED = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]


@dataclass(frozen=True)
class Priced:
    """What one search found.

    Attributes
    ----------
    complete : bool
        Whether the whole tree was searched.
    share : array of float64, (n,)
        For each record the smallest reduced cost per member (at most 0) over the groups it could be in.
    groups, reduced : the best groups found, one row each, with their reduced costs
    nodes : int
    """

    complete: bool
    share: np.ndarray
    groups: np.ndarray
    reduced: np.ndarray
    nodes: int


def price(grid: RoundedDistances, pi: np.ndarray, cuts: CutPrices, size: int, nodes: int) -> Priced:
    """Search all groups of one size with negative reduced cost, giving up beyond a number of nodes."""
    lowest, best, _, used, _ = _search_all(grid, pi, cuts, size, nodes, 0)
    block, record = np.nonzero(lowest < 0)
    groups = np.sort(best[block, record], axis=1)
    reduced = lowest[block, record] / (size * (size - 1))
    if groups.size:
        groups, first = np.unique(groups, axis=0, return_index=True)
        reduced = reduced[first]
    share = lowest.min(axis=0) / (size * size * (size - 1))
    return Priced(bool((used <= _limit(nodes)).all()), share, groups, reduced, int(used.sum()))


def below(
    grid: RoundedDistances,
    pi: np.ndarray,
    cuts: CutPrices,
    size: int,
    threshold: float,
    nodes: int,
    most: int,
) -> np.ndarray | None:
    """All groups of one size with a reduced cost below a threshold; None if there are too many to list."""
    # Spreading the threshold over the members turns "below threshold" into "negative".
    raised = grid.down(pi + threshold / size + 2.0**-grid.bits)
    _, _, listed, used, counts = _search_all(grid, raised, cuts, size, nodes, most // BLOCKS)
    if (used > _limit(nodes)).any() or (counts > most // BLOCKS).any():
        return None
    return np.concatenate([listed[b, : counts[b]] for b in range(BLOCKS)])


def low(
    grid: RoundedDistances,
    pi: np.ndarray,
    cuts: CutPrices,
    sizes: range,
    reach: float,
    most: int,
    per_record: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Groups with a reduced cost below `reach`, a record being in at most `per_record` of them.

    The groups, rows filled up with -1, and how many each record is in; None if there are more than `most` or
    the search grows long. Without the limit per record, outliers that any records may fill up crowd out all
    others. Runs in the calling thread.
    """
    n, width = pi.shape[0], 2 * grid.k - 1
    seen = np.zeros(n, np.int64)
    parts, free = [], most
    for size in sizes:
        raised = grid.down(pi + reach / size + 2.0**-grid.bits)
        listed = np.zeros((free, size), np.int64)
        lowest, best = np.zeros(n), np.zeros((n, size), np.int64)
        used, found = _search(
            grid.D,
            raised,
            *_lists(cuts),
            size,
            _NODES_LOW,
            0,
            1,
            lowest,
            best,
            listed,
            seen,
            per_record,
        )
        if used > _NODES_LOW or found > free:
            return None
        parts.append(padded(listed[:found], width))
        free -= found
    return np.concatenate(parts), seen


def padded(groups: np.ndarray, width: int) -> np.ndarray:
    """Groups of one size as sorted rows, filled up with -1."""
    rows = np.full((groups.shape[0], width), -1, np.int64)
    rows[:, : groups.shape[1]] = np.sort(groups, axis=1)
    return rows


def nodes_within(n: int, seconds: float) -> int:
    """About how many nodes a search over n records gets through in some seconds, at least a few thousand."""
    return max(4 * n, int(1e8 * seconds / n))


def _limit(nodes: int) -> int:
    """Nodes of one block: blocks differ, so each may use four times its even share."""
    return 4 * nodes // BLOCKS


def _search_all(
    grid: RoundedDistances, pi: np.ndarray, cuts: CutPrices, size: int, nodes: int, most: int
) -> tuple[np.ndarray, ...]:
    """Run the search over all blocks of records, in threads (the kernel holds no interpreter lock)."""
    n = pi.shape[0]
    lowest = np.zeros((BLOCKS, n))
    best = np.zeros((BLOCKS, n, size), np.int64)
    listed = np.zeros((BLOCKS, most, size), np.int64)

    def one(block: int) -> tuple[int, int]:
        return _search(
            grid.D,
            pi,
            *_lists(cuts),
            size,
            _limit(nodes),
            block,
            BLOCKS,
            lowest[block],
            best[block],
            listed[block],
            np.zeros(n, np.int64),
            _ALL,
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        used, counts = np.array(list(pool.map(one, range(BLOCKS)))).T
    return lowest, best, listed, used, counts


def _lists(cuts: CutPrices) -> tuple[np.ndarray, ...]:
    return (
        cuts.pair_start,
        cuts.pair_other,
        cuts.pair_third,
        cuts.triple_start,
        cuts.triple_others,
        cuts.triple_third,
    )


# Kernels: everything is scaled by s (s - 1), so a pair weighs (s - 1) d - s (pi_i + pi_j).


@kernel(parallel=True)
def _squared_distances(Z):
    n, p = Z.shape
    D = np.empty((n, n))
    for i in prange(n):
        for j in range(n):
            total = 0.0
            for a in range(p):
                t = Z[i, a] - Z[j, a]
                total += t * t
            D[i, j] = total
    return D


@kernel()
def _pair_third(pair_start, pair_other, pair_third, u, v):
    total = 0.0
    for e in range(pair_start[u], pair_start[u + 1]):
        if pair_other[e] == v:
            total += pair_third[e]
    return total


@kernel()
def _missing_price(S, s, pair_start, pair_other, pair_third, triple_start, triple_others, triple_third):
    """What the thirds on pairs understate: two thirds of each cut of which S holds exactly two records."""
    pairs = 0.0
    for a in range(s):
        if pair_start[S[a] + 1] > pair_start[S[a]]:
            for b in range(a):
                pairs += _pair_third(pair_start, pair_other, pair_third, S[a], S[b])
    if pairs == 0.0:
        return 0.0
    whole = 0.0
    for a in range(s):
        for e in range(triple_start[S[a]], triple_start[S[a] + 1]):
            found = 0
            for b in range(s):
                if S[b] == triple_others[e, 0] or S[b] == triple_others[e, 1]:
                    found += 1
            if found == 2:
                whole += triple_third[e]
    return 2.0 * pairs - 6.0 * whole


@kernel()
def _descend(D, pi, pair_start, pair_other, pair_third, s, v, m, value, degree, waiting, count):
    """Degrees of all records to a set that has just got record v as its m-th, and who may come next."""
    n = D.shape[0]
    a, c = float(s - 1), float(s)
    new = degree[m - 1]
    mine = pi[v]
    if m == 1:
        for u in range(n):
            new[u] = a * D[v, u] - c * (mine + pi[u])
    else:
        old = degree[m - 2]
        for u in range(n):
            new[u] = old[u] + (a * D[v, u] - c * (mine + pi[u]))
    for e in range(pair_start[v], pair_start[v + 1]):
        new[pair_other[e]] += a * c * pair_third[e]
    found = 0
    least = -value[m]
    for u in range(v + 1 if m == 1 else 0, n):
        if new[u] < least:
            waiting[m - 1, found] = u
            found += 1
    count[m] = found


@kernel()
def _may_join(D, pi, pair_start, pair_other, pair_third, s, S, m, v, degree, inside):
    """Whether v would be the record of largest degree in the grown set; fills the new inner degrees."""
    a, c = float(s - 1), float(s)
    own = degree[m - 1, v]
    for t in range(m):
        u = S[t]
        if u == v:
            return False
        w = a * D[u, v] - c * (pi[u] + pi[v])
        if pair_start[u + 1] > pair_start[u]:
            w += a * c * _pair_third(pair_start, pair_other, pair_third, u, v)
        grown = inside[m, t] + w
        if grown > own or (grown == own and u > v):
            return False
        inside[m + 1, t] = grown
    inside[m + 1, m] = own
    return True


@kernel()
def _search(  # noqa: C901 - one step of a compiled search, case by case
    D,
    pi,
    pair_start,
    pair_other,
    pair_third,
    triple_start,
    triple_others,
    triple_third,
    s,
    limit,
    block,
    blocks,
    lowest,
    best,
    listed,
    seen,
    cap,
):
    """Groups of size s with a negative price that start in one block of the records.

    The lowest price and its group for each record; all of them in `listed` as far as that has room. `seen`
    counts the groups of each record; from `cap` on it joins no more.
    """
    n = D.shape[0]
    degree = np.empty((s, n))
    waiting = np.empty((s, n), np.int64)
    count = np.zeros(s + 1, np.int64)
    S = np.empty(s, np.int64)
    inside = np.zeros((s + 1, s))
    value = np.zeros(s + 1)
    # Trying a candidate is a small part of the work of a node, which looks at all records.
    nodes = 0
    tried = 0
    found = 0
    most = listed.shape[0] if listed.shape[0] > 0 else np.iinfo(np.int64).max
    for i in range(block, n, blocks):
        if seen[i] >= cap:
            continue
        S[0] = i
        m = 1
        nodes += 1
        _descend(D, pi, pair_start, pair_other, pair_third, s, i, 1, value, degree, waiting, count)
        while m >= 1 and nodes + (tried >> 5) <= limit and found <= most:
            if count[m] == 0:
                m -= 1
                continue
            count[m] -= 1
            tried += 1
            v = waiting[m - 1, count[m]]
            if seen[v] >= cap:
                continue
            if not _may_join(D, pi, pair_start, pair_other, pair_third, s, S, m, v, degree, inside):
                continue
            S[m] = v
            grown = value[m] + degree[m - 1, v]
            if m + 1 < s:
                m += 1
                value[m] = grown
                nodes += 1
                _descend(D, pi, pair_start, pair_other, pair_third, s, v, m, value, degree, waiting, count)
                continue
            if pair_third.size > 0:
                grown += (
                    s
                    * (s - 1)
                    * _missing_price(
                        S, s, pair_start, pair_other, pair_third, triple_start, triple_others, triple_third
                    )
                )
            if grown >= 0.0:
                continue
            if found < listed.shape[0]:
                listed[found] = S
            found += 1
            for t in range(s - 1, -1, -1):
                seen[S[t]] += 1
                if seen[S[t]] >= cap:
                    m = min(m, t)  # back to before this record joined
                if grown < lowest[S[t]]:
                    lowest[S[t]] = grown
                    best[S[t]] = S
    return nodes + (tried >> 5), found
