"""Groups of one root below their price, by half stars and chains: steps 3 and 4 of `rooted`.

The weights of a root lie on a grid so coarse that all sums of them are exact in float64. What the grid changes,
`margin`, is charged to the root.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel

KEPT = 32
"""Groups of one root that are handed on."""

ROUNDING = 1e-13
"""What the rounding of short sums may change, relative to them; k terms take up k * 1.2e-16 of it."""

# Kernels


@kernel()
def keep_least(low, value):
    """Put a value into a short list of the least, least first."""
    at = low.size - 1
    if value >= low[at]:
        return
    while at > 0 and low[at - 1] > value:
        low[at] = low[at - 1]
        at -= 1
    low[at] = value


@kernel()
def _weights(space, pi, price, k, listed, dr):
    """Weights of the pairs of T on a grid that keeps their sums exact, and how far the grid is off for a group."""
    columns, m = space.columns, listed.size
    p = columns.shape[0]
    lower = 1.0 - (p + 8) * 2.3e-16
    size = abs(price)
    for x in range(m):
        size = max(size, 4.0 * dr[x], abs(pi[listed[x]]))
    # A weight is at most this; sums, bounds included, have fewer than 2 k^2 of them.
    size *= (1.0 / k + 2.0 / (k - 1)) * (1.0 + 2.0 / (k - 2))
    # The smallest power of two that keeps 2 k^2 weights within 2^51 of them; halves are twice as fine.
    unit = 2.0 ** max(-1000.0, np.ceil(np.log2(2.0 * k * k * size)) - 50.0)
    margin = (k - 1) * (k - 2) / 2 * (0.5 * unit + 1e-14 * size)
    own, part = np.empty((m, p)), np.empty(m)
    for x in range(m):
        for a in range(p):
            own[x, a] = columns[a, listed[x]]
        part[x] = (dr[x] / k - (price + pi[listed[x]]) / (k - 1)) / (k - 2)
    W = np.empty((m, m))
    for x in range(m):
        W[x, x] = np.inf
        for y in range(x):
            d = 0.0
            for a in range(p):
                t = own[x, a] - own[y, a]
                d += t * t
            w = d * lower / k - (pi[listed[x]] + pi[listed[y]]) / (k - 1) + (part[x] + part[y])
            W[x, y] = W[y, x] = np.rint(w / unit) * unit
    return W, margin


@kernel()
def _half_stars(W, alive, t):
    """Leave out records by half stars (step 3) while that helps; how many are left, and a bound on all groups."""
    m = alive.size
    bound, row, low = np.empty(m), np.empty(t - 1), np.empty(t)
    count, floor = m, 0.0
    for _ in range(6):
        low[:] = np.inf
        for a in range(m):
            if not alive[a]:
                continue
            row[:] = np.inf
            for b in range(m):
                if alive[b] and W[a, b] < row[t - 2]:
                    keep_least(row, W[a, b])
            bound[a] = 0.5 * row.sum()
            keep_least(low, bound[a])
        total = low[: t - 1].sum()
        floor = total + low[t - 1]
        if floor >= 0.0:
            return 0, 0.0
        gone = 0
        for a in range(m):
            if alive[a] and bound[a] + total >= 0.0:
                alive[a] = False
                gone += 1
        count -= gone
        if gone == 0 or count < t:
            break
    return (count, floor) if count >= t else (0, 0.0)


@kernel()
def search_root(space, pi, block, own, k, i, listed, dr, nodes, kept):  # noqa: C901 - one step of a compiled search, case by case
    """Groups of negative f with root i, priced at `own`, among the listed records, that lie in no one block.

    The lowest f for each listed record, how many groups were kept (the first ones in `kept`), what the grid may
    hide, a negative bound if the search had to end early (0 if not), and nodes.
    """
    m, t = listed.size, k - 1
    least = np.zeros(m)
    if k == 2:
        found = 0
        margin = 0.0
        for x in range(m):
            f = 0.5 * dr[x] - (own + pi[listed[x]])
            margin = max(margin, ROUNDING * (dr[x] + abs(own) + abs(pi[listed[x]])))
            if f < 0.0 and (block[i] < 0 or block[listed[x]] != block[i]):
                least[x] = f
                if found < kept.shape[0]:
                    kept[found, 0], kept[found, 1] = i, listed[x]
                    found += 1
        return least, found, margin, 0.0, m
    W, margin = _weights(space, pi, own, k, listed, dr)
    alive = np.ones(m, np.bool_)
    count, floor = _half_stars(W, alive, t)
    if count == 0:
        return least, 0, margin, 0.0, 0
    inside = np.flatnonzero(alive)
    V = np.empty((count, count))
    for a in range(count):
        for b in range(count):
            V[a, b] = W[inside[a], inside[b]]
    lows, outside = np.zeros(count), np.ones(count, np.bool_)
    if block[i] >= 0:
        for a in range(count):
            outside[a] = block[listed[inside[a]]] != block[i]
    found, used = _grow(V, t, outside, nodes, lows, kept)
    for a in range(count):
        least[inside[a]] = lows[a]
    for g in range(min(found, kept.shape[0])):
        kept[g, t] = i
        for x in range(t):
            kept[g, x] = listed[inside[kept[g, x]]]
    return least, found, margin, floor if used > nodes else 0.0, used


@kernel()
def _grow(V, t, outside, nodes, lows, kept):  # noqa: C901, PLR0912, PLR0915 - one step of a compiled search, case by case
    """Sets of t records of negative weight, one outside the root's block, by chains (step 4).

    How many were kept, and nodes (more than allowed: cut short).
    """
    n = V.shape[0]
    star = np.zeros((n, t))
    for a in range(n):
        row = np.sort(V[a])
        total = 0.0
        for q in range(1, t):
            total += row[q - 1]
            star[a, q] = 0.5 * total
    degree, waiting = np.zeros((t + 1, n)), np.empty((t + 1, n), np.int64)
    count, value = np.zeros(t + 1, np.int64), np.zeros(t + 1)
    inner, T, taken = np.zeros((t + 1, t + 1)), np.empty(t, np.int64), np.zeros(n, np.bool_)
    low = np.empty(t)
    used, found = 0, 0
    for first in range(n):
        T[0], m, taken[first] = first, 1, True
        degree[0] = V[first]
        waits = 0
        for u in range(first + 1, n):
            if V[first, u] < 0.0:
                waiting[0, waits] = u
                waits += 1
        count[1] = waits
        used += 1
        while m >= 1:
            if used > nodes:
                return found, used
            if count[m] == 0:
                m -= 1
                taken[T[m]] = False
                continue
            count[m] -= 1
            v = waiting[m - 1, count[m]]
            own = degree[m - 1, v]
            largest = True
            for x in range(m):
                grown = inner[m, x] + V[T[x], v]
                if grown > own or (grown == own and T[x] > v):
                    largest = False
                    break
                inner[m + 1, x] = grown
            if not largest:
                continue
            inner[m + 1, m] = own
            grown = value[m] + own
            T[m] = v
            if m + 1 == t:
                if grown < 0.0 and outside[T].any():
                    better = False
                    for x in range(t):
                        if grown < lows[T[x]]:
                            lows[T[x]] = grown
                            better = True
                    if better:
                        kept[found % KEPT, :t] = T
                        found += 1
                continue
            used += 1
            waits = _descend(V, star, degree, waiting, taken, low[: t - m - 1], m, v, grown)
            if waits > 0:
                taken[v] = True
                m += 1
                value[m], count[m] = grown, waits
    return found, used


@kernel()
def _descend(V, star, degree, waiting, taken, low, m, v, grown):
    """Degrees to a set that has just got v, and who may come next: none where half stars show no negative set."""
    n, q = V.shape[0], low.size
    low[:] = np.inf
    old, new, half = degree[m - 1], degree[m], star[:, q - 1]
    for u in range(n):
        new[u] = old[u] + V[v, u]
        if not taken[u] and u != v:
            x = new[u] + half[u]
            if x < low[q - 1]:
                keep_least(low, x)
    bound = grown
    for s in range(q):
        bound += low[s]
    if bound >= 0.0:
        return 0
    bound -= low[q - 1]
    waits = 0
    for u in range(n):
        if not taken[u] and u != v and new[u] < -grown and bound + new[u] + half[u] < 0.0:
            waiting[m, waits] = u
            waits += 1
    return waits
