"""Exact pricing without a matrix of distances: every group is searched from its member of highest price.

Let d be squared distances, c(S) = (sum of d over the pairs of S) / k for a group S of k records, and f(S) =
c(S) - pi(S) what it costs above the prices of its records. Write NN_m(j) for the sum of the m smallest d from j.
The *root* i of S is its member of highest price (ties: any fixed order), T the other k - 1 members.

1. *Who can be in it.* Let u be in T. Each other member j has d_ij + d_uj >= d_iu / 2. So the distances at i and u
   add up to d_iu (k + 2) / 2 at least, and f(S) < 0 needs
   d_iu (k + 2) / (4 k) < pi_i + pi_u + (the k - 2 largest pi_j - NN_{k-1}(j) / (2 k)).
   Counting the pairs through i or u once instead, and the rest by NN_{k-3}: d_iu / 2 < pi_i + pi_u + (the k - 2
   largest pi_j - NN_{k-3}(j) / (2 k)). Leaves of a tree beyond these distances are not looked at.
2. *Shares.* f(S) >= -pi_i + sum over T of h_u with h_u = d_iu / k + NN_{k-2}(u) / (2 k) - pi_u.
3. *Half stars.* The root's pairs spread evenly over the pairs of T make f(S) a sum over pairs of T of weights w_uv. It
   is the sum over T of half the weights at each member, so at least the sum of b_u, half the k - 2 smallest
   weights at u.
4. *Chains.* Dropping the record of largest degree from a set of m records of negative weight leaves at most (m - 2) / m
   of it. So a negative T has a chain of negative subsets down to a pair, and growing sets by the record that is
   then of largest degree visits each once. Half stars prune it.

Rounding: distances are lowered by more than their rounding; tests that leave a record out have room for the
rounding of their sums; the weights of a root lie on a grid so coarse that all sums of them are exact in float64. What
the grid changes, `margin`, is charged to the root.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squares_to
from shoal.relaxation.chains import KEPT, ROUNDING, keep_least, search_root
from shoal.relaxation.surroundings import LEAF, Surroundings

BLOCKS = 16
"""Searches side by side, every 16th root each; a constant, so that the answer does not depend on the threads."""

WIDEST = 2_000
"""Records a root may be searched with; to have no more it gives way with its price."""

TRIES = 4
"""Searches from a root that grow too long, each at a lower price of the root; after the last its bound stands."""


@dataclass(frozen=True)
class Rooted:
    """What one search from all roots found.

    Attributes
    ----------
    proven : array of float64, (n,) or None
        Prices that no group undercuts; None if only near records were looked at.
    groups : array of int64, (m, k)
        Groups cheaper than the prices of their members.
    cut : int
        Roots whose search was cut short; a bound stands for it.
    work : int
        Nodes of all searches.
    """

    proven: np.ndarray | None
    groups: np.ndarray
    cut: int
    work: int


def price_all(around: Surroundings, pi: np.ndarray, nodes: int, block: np.ndarray | None = None) -> Rooted:
    """Search all groups of k that cost less than their prices, and lower the prices until none does.

    Parameters
    ----------
    pi : array of float64, (n,)
        Any prices.
    nodes : int
        Most nodes of the search from one root.
    block : array of int64, (n,), optional
        The block of each record, negative for none. Groups within one block are left out: others count them.

    Notes
    -----
    A group found at f < 0 takes f / k off each of its members; a root whose search is cut short pays its lower
    bound alone. Either way every group costs at least the sum of the prices left. Groups of more than k records
    then do as well: averaged over its k-subsets, a group of s has cost (k - 1) / (s - 1) c(S) and price k / s
    pi(S), and s (k - 1) <= k (s - 1).
    """
    return _price(around, pi, nodes, block, exact=True)


def price_near(around: Surroundings, pi: np.ndarray, nodes: int, block: np.ndarray | None = None) -> Rooted:
    """Search groups of each root with its nearest records only; what it finds proves nothing."""
    return _price(around, pi, nodes, block, exact=False)


def _price(around: Surroundings, pi: np.ndarray, nodes: int, block: np.ndarray | None, exact: bool) -> Rooted:
    n, k = around.n, around.k
    block = np.full(n, -1) if block is None else block
    rank = np.empty(n, np.int64)
    rising = np.argsort(pi, kind="stable")
    rank[rising] = np.arange(n)
    first, second = _shares(around, pi)
    prices = Prices(
        pi, block, rank, np.ascontiguousarray(around.sums[:, max(0, k - 2)]), first, second,
        _running_max(first, rising), _running_max(second, rising),
        np.maximum.reduceat(pi, around.space.leaf[:-1]), np.minimum.reduceat(rank, around.space.leaf[:-1]),
    )  # fmt: skip
    lowest = np.zeros((BLOCKS, n))
    charge = np.zeros(n)

    def one(block: int) -> tuple[np.ndarray, int, int]:
        roots = np.arange(block, n, BLOCKS)
        return _search_roots(
            around.space, prices, around.near, k, nodes, roots, exact, lowest[block], charge, 6 * roots.size
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(one, range(BLOCKS)))
    groups = np.concatenate([each for each, _, _ in found])
    proven = None
    if exact:
        left = pi + (lowest.min(axis=0) / k + charge)
        proven = left - ROUNDING * (np.abs(pi) + np.abs(left))
    return Rooted(proven, groups, sum(cut for _, cut, _ in found), sum(work for _, _, work in found))


def _shares(around: Surroundings, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most that a further member can bring by both counts of its pairs, rounded up."""
    k = around.k
    both = []
    for m in (k - 1, max(0, k - 3)):
        half = around.sums[:, m] / (2 * k)
        both.append(pi - half + ROUNDING * (np.abs(pi) + half))
    return both[0], both[1]


def _running_max(values: np.ndarray, rising: np.ndarray) -> np.ndarray:
    """The largest value among the records of no higher rank."""
    out = np.empty(values.size)
    out[rising] = np.maximum.accumulate(values[rising])
    return out


class Prices(NamedTuple):
    """Prices and what follows from them, by place."""

    pi: np.ndarray
    block: np.ndarray  # of each record, negative for none: groups within one are left out
    rank: np.ndarray
    others: np.ndarray  # sum of the k - 2 smallest squared distances
    first: np.ndarray  # shares by the first count of pairs, and by the second
    second: np.ndarray
    most_first: np.ndarray  # their largest among the records of no higher rank
    most_second: np.ndarray
    leaf_price: np.ndarray  # highest price and lowest rank of each leaf
    leaf_rank: np.ndarray


# Kernels


@kernel()
def _search_roots(space, prices, near, k, nodes, roots, exact, lowest, charge, most):
    """Search from some roots: negative groups (at most `most`), roots cut short, and nodes.

    `lowest` gets the lowest f of the groups of each record, of roots searched in full; `charge` what roots pay alone.
    """
    n = prices.pi.size
    listed, dr = np.empty(n, np.int64), np.empty(n)
    groups, count, cut, work = np.empty((most, k), np.int64), 0, 0, 0
    kept = np.empty((KEPT, k), np.int64)
    for i in roots:
        if exact:
            m = _list_all(space, prices, k, i, listed, dr)
        else:
            m = _list_near(space, prices, near, i, listed, dr)
        if m < k - 1:
            continue
        m, bound, first = _by_shares(prices, k, i, listed, dr, m)
        if m < k - 1:
            charge[i] = first
            continue
        own, paid, tries = prices.pi[i], first, TRIES if exact else 1
        for turn in range(tries):
            least, found, margin, low, used = search_root(
                space, prices.pi, prices.block, own + paid, k, i, listed[:m], dr[:m], nodes, kept
            )
            work += used
            if low == 0.0:
                break
            # Too many groups are close to their price: the root gives way alone, as little as need be.
            bound = max(bound, paid + low)
            paid = first + (bound - first) * (turn + 1) / tries
        charge[i] = paid - margin
        if paid < 0.0:
            cut += 1
        if low == 0.0:
            for a in range(m):
                lowest[listed[a]] = min(lowest[listed[a]], least[a])
                lowest[i] = min(lowest[i], least[a])
        for g in range(min(found, KEPT, most - count)):
            groups[count] = kept[g]
            count += 1
    return groups[:count], cut, work


@kernel()
def _list_near(space, prices, near, i, listed, dr):
    """The near records of lower rank than i."""
    columns, m = space.columns, 0
    for u in near[i]:
        if prices.rank[u] < prices.rank[i]:
            d = 0.0
            for a in range(columns.shape[0]):
                t = columns[a, i] - columns[a, u]
                d += t * t
            listed[m], dr[m] = u, d
            m += 1
    return m


@kernel()
def _list_all(space, prices, k, i, listed, dr):
    """All records that can be in a negative group with root i (step 1), and their distances, rounded down."""
    columns = space.columns
    p = columns.shape[0]
    lower = 1.0 - (p + 8) * 2.3e-16
    near_rate, far_rate = (k + 2) / (4.0 * k), 0.5
    pi, rank = prices.pi, prices.rank
    own = pi[i]
    first = (k - 2) * prices.most_first[i]
    second = (k - 2) * prices.most_second[i]
    slack = 8 * ROUNDING * (abs(own) + abs(first) + abs(second))
    point, ds = np.empty(p), np.empty(LEAF)
    for a in range(p):
        point[a] = columns[a, i]
    m = 0
    # No member has a higher price than the root.
    widest = min((2 * own + first + slack) / near_rate, (2 * own + second + slack) / far_rate) * (
        1 + ROUNDING
    )
    for r in range(space.run.size - 1):
        if not _within(space.run_low[r], space.run_high[r], point, widest):
            continue
        for l in range(space.run[r], space.run[r + 1]):
            if prices.leaf_rank[l] >= rank[i]:
                continue
            both = own + min(own, prices.leaf_price[l])
            reach = min((both + first + slack) / near_rate, (both + second + slack) / far_rate) * (
                1 + ROUNDING
            )
            if not _within(space.low[l], space.high[l], point, reach):
                continue
            start, stop = space.leaf[l], space.leaf[l + 1]
            squares_to(columns[:, start:stop], point, ds[: stop - start])
            for u in range(start, stop):
                d = ds[u - start] * lower
                if d < reach and rank[u] < rank[i]:
                    both = own + pi[u]
                    if near_rate * d < both + first + slack and far_rate * d < both + second + slack:
                        listed[m], dr[m] = u, d
                        m += 1
    return _by_own_shares(prices, k, i, listed, dr, m)


@kernel()
def _within(low, high, point, reach):
    """Whether a box comes nearer to a point than a squared distance, with room for rounding."""
    d = 0.0
    for a in range(point.size):
        x = point[a]
        t = max(low[a] - x, x - high[a])
        if t > 0.0:
            d += t * t
    return d * (1.0 - ROUNDING - point.size * 2.3e-16) < reach


@kernel()
def _by_own_shares(prices, k, i, listed, dr, m):
    """Step 1 again, with the k - 2 largest shares of the list itself, while that leaves records out."""
    near_rate, far_rate = (k + 2) / (4.0 * k), 0.5
    own = prices.pi[i]
    one, two = np.empty(max(1, k - 2)), np.empty(max(1, k - 2))
    for _ in range(4):
        if m < k - 1:
            break
        one[:], two[:] = -np.inf, -np.inf
        for x in range(m):
            _keep_largest(one, prices.first[listed[x]])
            _keep_largest(two, prices.second[listed[x]])
        first, second, size = 0.0, 0.0, abs(own)
        for s in range(k - 2):
            first += one[s]
            second += two[s]
            size += abs(one[s]) + abs(two[s])
        left = 0
        for x in range(m):
            both = own + prices.pi[listed[x]] + 4 * ROUNDING * size
            if near_rate * dr[x] < both + first and far_rate * dr[x] < both + second:
                listed[left], dr[left] = listed[x], dr[x]
                left += 1
        if left == m:
            break
        m = left
    return m


@kernel()
def _keep_largest(top, value):
    """Put a value into a short list of the largest, largest first."""
    at = top.size - 1
    if value <= top[at]:
        return
    while at > 0 and top[at - 1] < value:
        top[at] = top[at - 1]
        at -= 1
    top[at] = value


@kernel()
def _by_shares(prices, k, i, listed, dr, m):
    """Leave out records whose share is too large (step 2).

    How many are left, a bound on the groups of this root, and what the root pays where they were too many.
    """
    pi = prices.pi
    h, low = np.empty(m), np.full(k - 1, np.inf)
    for x in range(m):
        u = listed[x]
        plus = dr[x] / k + prices.others[u] / (2 * k)
        h[x] = plus - pi[u] - ROUNDING * (plus + abs(pi[u]))
        keep_least(low, h[x])
    total, size = 0.0, abs(pi[i])
    for s in range(k - 2):
        total += low[s]
        size += abs(low[s])
    floor = -pi[i] + total + low[k - 2] - ROUNDING * (size + abs(low[k - 2]))
    limit = pi[i] - total + ROUNDING * size
    if floor >= 0.0:
        return 0, 0.0, 0.0
    left = 0
    for x in range(m):
        if h[x] < limit:
            listed[left], dr[left], h[left] = listed[x], dr[x], h[x]
            left += 1
    if left <= WIDEST:
        return left, floor, 0.0
    # A lower price of the root leaves fewer.
    lower = np.sort(h[:left])[WIDEST]
    paid = (lower - limit) * (1.0 + ROUNDING) - ROUNDING * (abs(lower) + abs(limit))
    if paid <= floor:
        return 0, floor, floor
    m, left = left, 0
    for x in range(m):
        if h[x] < lower:
            listed[left], dr[left] = listed[x], dr[x]
            left += 1
    return left, floor, paid
