"""Compiled annealing of a small table by its squared distances.

All squared distances of the records are at hand, and for each group the sum of the distances of every record to its
members. What an exchange costs then takes three numbers, whatever the number of columns; a move that is made costs
O(n). With W the sum of the distances of all pairs of a group of s records, its SSE is W / s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_distance
from shoal.engine.kernels.exchange import random_bits


class PairTable(NamedTuple):
    """What the search knows of the records; it does not change."""

    D: np.ndarray  # (n, n) float32, squared distances
    near: np.ndarray  # (n, m) int32, nearest first
    heat: np.ndarray  # (n,) float32, the temperature at a record where it is 1 in all


class PairGroups(NamedTuple):
    """A partition as the kernels want it; groups of size 0 are not in use."""

    labels: np.ndarray  # (n,) int32
    sizes: np.ndarray  # (most,) int32
    members: np.ndarray  # (most, 2k-1) int32
    place: np.ndarray  # (n,) int32
    sums: np.ndarray  # (most, n) float32, distances of each record to the members
    pairs: np.ndarray  # (most,) float64, distances of all pairs of members


@kernel()
def squared_distances(X):
    """Of all pairs of rows, padded with zeros to a multiple of eight columns."""
    n = X.shape[0]
    D = np.zeros((n, n), np.float32)
    for i in range(n):
        for j in range(i):
            D[i, j] = D[j, i] = squared_distance(X, i, X, j)
    return D


@kernel()
def sum_pairs(table, groups):
    """Fill the state from the labels."""
    D = table.D
    labels, sizes, members, place, sums, pairs = groups
    n = labels.size
    sizes[:] = 0
    sums[:] = 0.0
    for i in range(n):
        g = labels[i]
        members[g, sizes[g]] = i
        place[i] = sizes[g]
        sizes[g] += 1
        for r in range(n):
            sums[g, r] += D[i, r]
    for g in range(sizes.size):
        pairs[g] = 0.0
        for x in range(sizes[g]):
            pairs[g] += 0.5 * sums[g, members[g, x]]


@kernel()
def sweep_pairs(table, groups, k, hot, cold, sweeps, found, dissolved, screen, seed, logs):  # noqa: C901, PLR0912, PLR0915 - one step of a compiled search, case by case
    """Propose a move for each record, `sweeps` times, while the temperature falls; moves made and exchanges compared.

    As `sweep` of the large tables: of every 1,024 proposals so many found or dissolve a group, and a proposal is the
    best of all exchanges of the record with the members of one neighbouring group and of its move there, each with its
    own noise. Sums are made afresh before and after, so that their rounding errors do not add up.
    """
    sum_pairs(table, groups)
    free = np.zeros(groups.sizes.size + 1, np.int32)  # numbers not in use; the first is how many they are
    for g in range(groups.sizes.size):
        if groups.sizes[g] == 0:
            free[0] += 1
            free[free[0]] = g
    D, near, heat = table.D, table.near, table.heat
    labels, sizes, members = groups.labels, groups.sizes, groups.members
    sums, pairs = groups.sums, groups.pairs
    n, top, m = labels.size, 2 * k - 1, np.uint64(near.shape[1])
    share = np.empty(top + 2, np.float32)  # 1 / size
    share[0] = 0.0
    for s in range(1, top + 2):
        share[s] = 1.0 / s
    picked, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    bits16, moved, compared = np.uint64(0xFFFF), 0, np.int64(0)
    screen = np.float32(screen)
    ratio = np.float32((cold / hot) ** (1.0 / max(1, sweeps)))
    r = np.uint64(seed) * np.uint64(2) + np.uint64(1)  # xorshift never leaves zero
    for _ in range(12):
        r = random_bits(r)
    temperature = np.float32(hot)
    for _ in range(sweeps):
        for i in range(n):
            r = random_bits(r)
            A = labels[i]
            # The product of two uniform numbers prefers the nearest neighbours.
            u = ((r & bits16) * ((r >> np.uint64(16)) & bits16)) >> np.uint64(16)
            B = labels[near[i, np.int64((u * m) >> np.uint64(16))]]
            if A == B:
                continue
            a, b = np.int64(sizes[A]), np.int64(sizes[B])
            T = temperature * heat[i]
            kind = np.int64((r >> np.uint64(32)) & np.uint64(1023))
            at = np.int64((r >> np.uint64(42)) & np.uint64(4095))
            if a > k:
                if kind < found:
                    if free[0] > 0 and _found(
                        table, groups, picked, targets, k, free[free[0]], i, T * logs[at]
                    ):
                        free[0] -= 1
                        moved += 1
                    continue
            elif kind < dissolved:
                if _dissolve(table, groups, picked, targets, k, A, T * logs[at], r):
                    free[0] += 1
                    free[free[0]] = A
                    moved += 1
                continue
            va, vb = share[a], share[b]
            mean_a, mean_b = np.float32(pairs[A]) * va, np.float32(pairs[B]) * vb  # the SSE of each
            here, there = sums[A, i] * va, sums[B, i] * vb
            wish = (there - mean_b * vb) - (here - mean_a * va)
            if wish > screen * heat[i]:
                continue
            best, partner = np.float32(0.0), np.int64(-1)
            if a > k and b < top:
                cost = (np.float32(pairs[A]) - sums[A, i]) * share[a - 1] - mean_a
                cost += (np.float32(pairs[B]) + sums[B, i]) * share[b + 1] - mean_b
                cost -= T * logs[at]
                if cost < best:
                    best, partner = cost, np.int64(-2)
            compared += b
            w, base = va + vb, there - here
            for y in range(b):
                at = (at * 1597 + 51749) & 4095
                j = np.int64(members[B, y])
                cost = base + (sums[A, j] * va - sums[B, j] * vb) - w * D[i, j] - T * logs[at]
                if cost < best:
                    best, partner = cost, j
            if partner == -1:
                continue
            moved += 1
            if partner == -2:
                _leave(D, groups, i, A)
                _join(D, groups, i, B)
            else:
                _swap(D, groups, i, partner)
        temperature *= ratio
    sum_pairs(table, groups)
    return moved, compared


@kernel()
def _swap(D, groups, i, j):
    """Let two records of two groups change places."""
    labels, members, place = groups.labels, groups.members, groups.place
    sums, pairs = groups.sums, groups.pairs
    A, B = labels[i], labels[j]
    pairs[A] += np.float64(sums[A, j]) - sums[A, i] - D[i, j]
    pairs[B] += np.float64(sums[B, i]) - sums[B, j] - D[i, j]
    for r in range(D.shape[0]):
        d = D[j, r] - D[i, r]
        sums[A, r] += d
        sums[B, r] -= d
    members[A, place[i]] = j
    members[B, place[j]] = i
    place[i], place[j] = place[j], place[i]
    labels[i], labels[j] = B, A


@kernel()
def _leave(D, groups, i, A):
    """Take record i out of group A."""
    sizes, members, place = groups.sizes, groups.members, groups.place
    sums, pairs = groups.sums, groups.pairs
    pairs[A] -= sums[A, i]
    for r in range(D.shape[0]):
        sums[A, r] -= D[i, r]
    last = members[A, sizes[A] - 1]
    members[A, place[i]] = last
    place[last] = place[i]
    sizes[A] -= 1


@kernel()
def _join(D, groups, i, B):
    """Put record i into group B."""
    labels, sizes, members, place, sums, pairs = groups
    pairs[B] += sums[B, i]
    for r in range(D.shape[0]):
        sums[B, r] += D[i, r]
    members[B, sizes[B]] = i
    place[i] = sizes[B]
    sizes[B] += 1
    labels[i] = B


@kernel()
def _dissolve(table, groups, picked, targets, k, A, bar, r):
    """Send the k records of group A to groups near them that have room, if it costs less than `bar`."""
    D, near = table.D, table.near
    labels, sizes, members, sums, pairs = (
        groups.labels,
        groups.sizes,
        groups.members,
        groups.sums,
        groups.pairs,
    )
    cost = -pairs[A] / k
    m = np.uint64(near.shape[1])
    for q in range(k):
        i = np.int64(members[A, q])
        picked[q] = i
        best, best_cost = np.int64(-1), np.inf
        for _ in range(6):
            r = random_bits(r)
            g = np.int64(labels[near[i, np.int64(((r >> np.uint64(32)) * m) >> np.uint64(32))]])
            if g == A or g == best:
                continue
            s, own, all_pairs = np.int64(sizes[g]), np.float64(sums[g, i]), pairs[g]
            for x in range(q):  # those that went there before
                if targets[x] == g:
                    s += 1
                    own += D[i, picked[x]]
                    all_pairs += sums[g, picked[x]]
                    for y in range(x):
                        if targets[y] == g:
                            all_pairs += D[picked[x], picked[y]]
            if s >= 2 * k - 1:
                continue
            d = (all_pairs + own) / (s + 1) - all_pairs / s
            if d < best_cost:
                best, best_cost = g, d
        cost += best_cost
        if not cost < bar:  # the costs that follow are not negative
            return False
        targets[q] = best
    for q in range(k):
        _join(D, groups, picked[q], targets[q])
    sizes[A] = 0
    pairs[A] = 0.0
    sums[A, :] = 0.0
    return True


@kernel()
def _found(table, groups, picked, sources, k, new, i, bar):
    """Make a group of record i and the nearest records that their groups can spare, if it costs less than `bar`."""
    D, near = table.D, table.near
    labels, sizes, sums, pairs = groups.labels, groups.sizes, groups.sums, groups.pairs
    got, cost, inside = 0, 0.0, 0.0
    for q in range(-1, near.shape[1]):
        j = i if q < 0 else np.int64(near[i, q])
        g = np.int64(labels[j])
        if sizes[g] <= k:
            continue
        s, own, all_pairs = np.int64(sizes[g]), np.float64(sums[g, j]), pairs[g]
        for x in range(got):  # those that left it before
            if sources[x] == g:
                s -= 1
                own -= D[j, picked[x]]
                all_pairs -= sums[g, picked[x]]
                for y in range(x):
                    if sources[y] == g:
                        all_pairs += D[picked[x], picked[y]]
        if s <= k:
            continue
        cost += (all_pairs - own) / (s - 1) - all_pairs / s
        for x in range(got):
            inside += D[j, picked[x]]
        picked[got], sources[got] = j, g
        got += 1
        if got == k:
            break
    if got < k or not cost + inside / k < bar:
        return False
    sizes[new] = 0
    pairs[new] = 0.0
    sums[new, :] = 0.0
    for q in range(k):
        _leave(D, groups, picked[q], sources[q])
        _join(D, groups, picked[q], new)
    return True
