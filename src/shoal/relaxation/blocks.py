"""Small blocks of records solved as wholes: the bound where records come in clusters whose size k does not divide.

Seven records that lie together are one group of seven in a partition. The relaxation takes its groups of five in
part instead, each by a fifteenth, and pays less. So let some disjoint *blocks* of records be given, and for prices pi let
V(B) be the least of the sum of c(S) - pi(S) over disjoint groups S within block B, none at all included. Every
partition P then costs

    sum over P of c(S) = sum(pi) + sum over P of (c(S) - pi(S)) >= sum(pi) + sum over B of V(B),

if no group that lies in no one block undercuts its prices. V(B) is found by dynamic programming over all subsets of a
block; the other groups by rooted pricing of each size from k to 2k - 1, as averages over k-subsets no longer tell of
larger groups.

Prices are raised by entropic ascent. A *choice* of disjoint groups within a block is one column there, and the
choices of a block share one unit: where groups across blocks have weight A in record i, the choices with i have
weight w_1 and the others, none included, w_0, the best factor z of exp(pi_i / eps) solves A z + w_1 z / (w_0 + w_1 z)
= 1.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from shoal.engine.compile import kernel
from shoal.relaxation.chains import ROUNDING
from shoal.relaxation.rooted import price_all, price_near
from shoal.relaxation.surroundings import Space, Surroundings

LARGEST = 16
"""Records of a block; its subsets are all looked at."""

NODES, PROOF_NODES = 300, 20_000
"""Most nodes of the search from one root, for more groups and in a proof."""

THREADED = 16
"""Lots of blocks that threads work on."""


@dataclass(frozen=True)
class RecordBlocks:
    """Disjoint blocks of records.

    Attributes
    ----------
    of : array of int64, (n,)
        The block of each record, -1 for none.
    members : array of int64, (blocks, LARGEST)
        The records of each block, rows filled up with -1.
    bit : array of int64, (n,)
        Where a record stands among those of its block.
    """

    of: np.ndarray
    members: np.ndarray
    bit: np.ndarray

    @classmethod
    def none(cls, n: int) -> RecordBlocks:
        """No record in a block."""
        return cls(np.full(n, -1), np.empty((0, LARGEST), np.int64), np.zeros(n, np.int64))

    def joined(self, groups: np.ndarray, weights: np.ndarray, k: int) -> RecordBlocks:
        """Join blocks and the records of groups (rows filled up with -1), heaviest first, while blocks stay small."""
        n = self.of.size
        heaviest = groups[np.argsort(-weights, kind="stable")]
        width = max(LARGEST, groups.shape[1])
        rows = [
            np.pad(each, ((0, 0), (0, width - each.shape[1])), constant_values=-1)
            for each in (self.members, heaviest)
        ]
        parent = _joined(np.concatenate(rows), n, LARGEST)
        roots, of, sizes = np.unique(parent, return_inverse=True, return_counts=True)
        large = np.flatnonzero(sizes > k)
        number = np.full(roots.size, -1)
        number[large] = np.arange(large.size)
        of = number[of]
        members, bit = np.full((large.size, LARGEST), -1), np.zeros(n, np.int64)
        filled = np.zeros(large.size, np.int64)
        for i in np.flatnonzero(of >= 0):
            bit[i] = filled[of[i]]
            members[of[i], bit[i]] = i
            filled[of[i]] += 1
        return RecordBlocks(of, members, bit)

    def across(self, groups: np.ndarray) -> np.ndarray:
        """Which groups (rows filled up with -1) lie in no one block."""
        own = np.where(groups >= 0, self.of[groups], self.of[groups[:, :1]])
        return (own != own[:, :1]).any(axis=1) | (own[:, 0] < 0)


@dataclass(frozen=True)
class BlockProof:
    """A bound that holds, the prices of its proof, and groups across blocks that undercut the prices asked for."""

    value: float
    pi: np.ndarray
    groups: list[np.ndarray]


def prove(around: Surroundings, blocks: RecordBlocks, pi: np.ndarray) -> BlockProof:
    """Lower prices until no group across blocks undercuts them, and count what groups within blocks do."""
    left, found = pi, []
    for size in sizes_of(around):
        each = price_all(replace(around, k=size), pi, PROOF_NODES, blocks.of)
        assert each.proven is not None
        # A lower price serves all sizes.
        left = np.minimum(left, each.proven)
        found.append(each.groups)
    values, _, _ = best_choices(around.space, blocks, left, around.k)
    return BlockProof(math.fsum(left) + math.fsum(values), left, found)


def near_groups(around: Surroundings, blocks: RecordBlocks, pi: np.ndarray) -> list[np.ndarray]:
    """Groups across blocks, of near records, that undercut prices."""
    return [price_near(replace(around, k=s), pi, NODES, blocks.of).groups for s in sizes_of(around)]


def sizes_of(around: Surroundings) -> range:
    """Sizes of groups that cannot be split."""
    return range(around.k, min(2 * around.k, around.n + 1))


def best_choices(
    space: Space, blocks: RecordBlocks, pi: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V of each block, rounded down, and its best choices: of all its records, and without each in turn.

    Choices are sets of the block's records, (blocks, LARGEST + 1), with their costs; 0 where none is worth it.
    """
    count = blocks.members.shape[0]
    values, sets = np.zeros(count), np.zeros((count, LARGEST + 1), np.int64)
    costs = np.zeros((count, LARGEST + 1))

    def one(start: int) -> None:
        rows = slice(start, None, THREADED)
        _solve_blocks(space.columns, blocks.members[rows], pi, k, values[rows], sets[rows], costs[rows])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, range(THREADED)))
    return values, sets, costs


# Kernels


@kernel()
def _joined(groups, n, most):
    parent, size = np.arange(n), np.ones(n, np.int64)
    for g in range(groups.shape[0]):
        total, count = 0, 0
        roots = np.empty(groups.shape[1], np.int64)
        for x in range(groups.shape[1]):
            if groups[g, x] < 0:
                break
            r = groups[g, x]
            while parent[r] != r:
                r = parent[r]
            known = False
            for y in range(count):
                known = known or roots[y] == r
            if not known:
                roots[count] = r
                count += 1
                total += size[r]
        if total <= most:
            for y in range(1, count):
                parent[roots[y]] = roots[0]
            size[roots[0]] = total
    for i in range(n):
        r = i
        while parent[r] != r:
            r = parent[r]
        parent[i] = r
    return parent


@kernel()
def _solve_blocks(columns, members, pi, k, values, sets, costs):  # noqa: C901, PLR0912 - subsets, then sets, then choices
    p = columns.shape[0]
    lower = 1.0 - (p + 200) * 2.3e-16
    for b in range(members.shape[0]):
        m = 0
        while m < members.shape[1] and members[b, m] >= 0:
            m += 1
        own = members[b, :m]
        full = (1 << m) - 1
        D = np.zeros((m, m))
        for x in range(m):
            for y in range(x):
                for a in range(p):
                    t = columns[a, own[x]] - columns[a, own[y]]
                    D[x, y] += t * t
                D[y, x] = D[x, y]
        # Of each subset: sum of pairs, prices, prices without sign, size.
        pairs, price, plain = np.zeros(full + 1), np.zeros(full + 1), np.zeros(full + 1)
        size = np.zeros(full + 1, np.int64)
        start, listed, f = np.zeros(m + 1, np.int64), np.empty(full + 1, np.int64), np.empty(full + 1)
        found = 0
        # Subsets by their highest member, so that a set's groups with its own highest are together.
        for x in range(m):
            start[x] = found
            for rest in range(1 << x):
                mask = rest | (1 << x)
                total = pairs[rest]
                for y in range(x):
                    if rest >> y & 1:
                        total += D[x, y]
                pairs[mask], size[mask] = total, size[rest] + 1
                price[mask], plain[mask] = price[rest] + pi[own[x]], plain[rest] + abs(pi[own[x]])
                if k <= size[mask] < 2 * k:
                    above = total * lower / size[mask] - price[mask] - ROUNDING * plain[mask]
                    if above < 0.0:
                        listed[found], f[found] = mask, above
                        found += 1
        start[m] = found
        V, taken = np.zeros(full + 1), np.zeros(full + 1, np.int64)
        for x in range(m):
            for rest in range(1 << x):
                mask = rest | (1 << x)
                V[mask] = V[rest]
                if size[mask] < k:
                    continue
                for e in range(start[x], start[x + 1]):
                    if listed[e] & ~mask == 0 and f[e] + V[mask ^ listed[e]] < V[mask]:
                        V[mask], taken[mask] = f[e] + V[mask ^ listed[e]], listed[e]
        values[b] = V[full] * (1.0 + ROUNDING)
        for x in range(m + 1):
            mask = full if x == m else full ^ (1 << x)
            while size[mask] >= k:
                if taken[mask] > 0:
                    sets[b, x] |= taken[mask]
                    costs[b, x] += pairs[taken[mask]] / size[taken[mask]]
                    mask ^= taken[mask]
                else:  # its highest record is in none
                    high = m - 1
                    while not mask >> high & 1:
                        high -= 1
                    mask ^= 1 << high


@kernel()
def _step_in_block(step, own, sets, above, place):
    """How far a price goes that would go `step` without the choices of its block."""
    # No choice at all is one without the record.
    low_having, low_lacking = np.inf, 0.0
    for c in range(sets.size):
        if sets[c] >> place & 1:
            low_having = min(low_having, above[c])
        else:
            low_lacking = min(low_lacking, above[c])
    if low_having == np.inf:
        return step
    having, lacking = 0.0, np.exp(low_lacking / own)
    for c in range(sets.size):
        if sets[c] >> place & 1:
            having += np.exp((low_having - above[c]) / own)
        else:
            lacking += np.exp((low_lacking - above[c]) / own)
    # Logarithms of A and of w_1 / w_0; then z = 2 / (A + sqrt(A^2 + 4 A w_1 / w_0)).
    across = -step / own
    ratio = (low_lacking - low_having) / own + np.log(having) - np.log(lacking)
    top = max(across, 0.5 * (across + ratio))
    root = np.sqrt(np.exp(2.0 * (across - top)) + 4.0 * np.exp(across + ratio - 2.0 * top))
    return own * (np.log(2.0) - top - np.log(np.exp(across - top) + root))


@kernel()
def entropic_in_blocks(q, start, listed, pi, ceiling, eps, passes, order, block, bit, first, sets, above):  # noqa: C901 - as `entropic`, and choices
    """As `entropic`, where choices within blocks are columns too, those of one block sharing a unit.

    `q` and `above` hold the costs of the groups across blocks and of the choices, and become what they cost above
    their prices. Choices first[b], .., first[b + 1] - 1 are those of block b, as sets of its records. `ceiling`
    is a column of each record alone: prices that all choices of a block pay would rise for nothing.
    """
    for i in range(pi.size):
        for e in range(start[i], start[i + 1]):
            q[listed[e]] -= pi[i]
        if block[i] >= 0:
            for c in range(first[block[i]], first[block[i] + 1]):
                if sets[c] >> bit[i] & 1:
                    above[c] -= pi[i]
    for turn in range(passes):
        for x in range(order.size):
            i = order[x] if turn % 2 == 0 else order[order.size - 1 - x]
            own = eps[i]
            low, total = ceiling[i] - pi[i], 0.0
            for e in range(start[i], start[i + 1]):
                low = min(low, q[listed[e]])
            for e in range(start[i], start[i + 1]):
                total += np.exp((low - q[listed[e]]) / own)
            step = low - own * np.log(total + np.exp((low - ceiling[i] + pi[i]) / own))
            b = block[i]
            if b >= 0 and first[b + 1] > first[b]:
                step = _step_in_block(
                    step, own, sets[first[b] : first[b + 1]], above[first[b] : first[b + 1]], bit[i]
                )
                for c in range(first[b], first[b + 1]):
                    if sets[c] >> bit[i] & 1:
                        above[c] -= step
            pi[i] += step
            for e in range(start[i], start[i + 1]):
                q[listed[e]] -= step
