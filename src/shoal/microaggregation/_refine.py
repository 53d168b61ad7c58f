"""Refine a partition made in blocks: exchange records between neighbouring groups, borders of blocks or not.

Sizes never change. For records x of group A and y of group B with a and b records, the exchange changes
the SSE by  |y-A|^2 - |x-A|^2 - |x-y|^2 / a  +  |x-B|^2 - |y-B|^2 - |x-y|^2 / b  (A, B the centroids).
What x adds by itself, |x-B|^2 - |x-A|^2, is linear in x: one product with B - A.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.axes import Each, blocks_of
from shoal.engine.kernels.distance import squared_rows_by_four, squares_to
from shoal.engine.kernels.nearest import sort_in

NEIGHBOURS = 4
# Pairs of groups are counted by how far apart they are for their width, in bins. Where fewer than this share of
# at least so many pairs made an exchange, further pairs are not looked at: half of them, nearly all in vain.
BINS = 64
YIELD = 0.02
LEARNED = 100
# Groups whose centroids are compared with each other: the time for finding neighbours grows with it.
BLOCK = 800
# Blocks whose groups are exchanged by one job; a constant, so that threads do not matter. A job learns by itself which
# pairs are worth a look, and what all have learned is added up for the next pass.
LOT = 16


def refine(Z: np.ndarray, labels: np.ndarray, passes: int = 3, each: Each = map) -> np.ndarray:
    """Exchange records between neighbouring groups while that lowers the SSE.

    Parameters
    ----------
    Z : array of float64, (n_records, n_coordinates)
    labels : array of int64
        Groups 0..c-1.
    passes : int, default 3
        How often neighbours are looked up anew, each time in other blocks.
    each : function, default map
        Applies a function to all of its arguments, perhaps on several threads: the result is the same.

    Returns
    -------
    array of int64
        Labels with the same sizes and an SSE no larger.

    Notes
    -----
    O(n * BLOCK / k) time, O(n) memory. Deterministic.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import refine
    >>> refined = refine(np.array([[0.0], [9.0], [0.1], [9.1]]), np.array([0, 0, 1, 1]))
    >>> bool(refined[0] == refined[2] != refined[1])
    True
    """
    labels = labels.copy()
    sizes = np.bincount(labels)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    order = _by_group(labels, starts)
    # Records lie group by group and are moved with every exchange, so that a group is read at one place.
    G = np.take(Z, order, axis=0, mode="clip")
    centres, away, wide = _centres(G, starts)
    # Which neighbours each group had when it was last looked at, when that was, and when it last changed:
    # a pair that was looked at and has not changed since need not be looked at again.
    known = np.full((sizes.size, NEIGHBOURS), -1, np.int64)
    looked, changed = np.zeros(sizes.size, np.int64), np.zeros(sizes.size, np.int64)
    tried, paid = np.zeros(BINS, np.int64), np.zeros(BINS, np.int64)
    state = G, order, starts, centres, away, wide
    for turn in range(passes):
        blocks = blocks_of(centres, BLOCK, (0.38, 0.62, 0.5)[turn % 3], each)  # so that borders move
        memory = known, looked, changed, 1 + turn * sizes.size
        made, tried, paid = _pass(blocks, state, memory, (tried // 2, paid // 2), each)
        if made == 0:
            break
    labels[order] = np.repeat(np.arange(sizes.size), sizes)
    return labels


def _pass(
    blocks: list[np.ndarray],
    state: tuple[np.ndarray, ...],
    memory: tuple[np.ndarray, np.ndarray, np.ndarray, int],
    counts: tuple[np.ndarray, np.ndarray],
    each: Each,
) -> tuple[int, np.ndarray, np.ndarray]:
    """Exchange within all blocks, some to a job: how many exchanges were made, and which pairs were tried and paid."""
    edges = np.cumsum([0, *(block.size for block in blocks)])
    groups, (known, looked, changed, clock) = np.concatenate(blocks), memory

    def exchange(lot: int) -> tuple[int, np.ndarray, np.ndarray]:
        own, (tried, paid) = edges[lot : lot + LOT + 1], (count.copy() for count in counts)
        made = _exchange(*state, groups, own, known, looked, changed, clock + own[0], tried, paid)
        return made, tried, paid

    lots = list(each(exchange, range(0, len(blocks), LOT)))
    tried, paid = (
        before + sum(lot[at] - before for lot in lots) for at, before in enumerate(counts, start=1)
    )
    return sum(made for made, _, _ in lots), tried, paid


# Kernels


@kernel()
def _by_group(labels, starts):
    """Records group by group."""
    order, following = np.empty(labels.size, np.int64), starts.copy()
    for i in range(labels.size):
        order[following[labels[i]]] = i
        following[labels[i]] += 1
    return order


@kernel()
def _centres(G, starts):
    """Centroids of the groups, how far each record is from its own, and the mean of that squared for each group."""
    n, p = G.shape
    centres = np.zeros((starts.size - 1, p))
    away, wide = np.empty(n), np.empty(starts.size - 1)
    for g in range(starts.size - 1):
        s, e = starts[g], starts[g + 1]
        for i in range(s, e):
            for c in range(p):
                centres[g, c] += G[i, c]
        for c in range(p):
            centres[g, c] /= e - s
        _measure(G, starts, centres, away, wide, g)
    return centres, away, wide


@kernel()
def _measure(G, starts, centres, away, wide, g):
    """Write how far the records of a group are from its centroid."""
    total = 0.0
    for i in range(starts[g], starts[g + 1]):
        square = squared_rows_by_four(G, i, centres, g)
        away[i] = np.sqrt(square)
        total += square
    wide[g] = total / (starts[g + 1] - starts[g])


@kernel()
def _exchange(
    G, order, starts, centres, away, wide, groups, edges, known, looked, changed, clock, tried, paid
):
    """Better each group with its nearest groups of the same block; how many exchanges were made."""
    made = 0
    reach = known.shape[1]
    near = np.empty(reach, np.int64)
    near_d = np.empty(reach, np.float32)
    p, most = G.shape[1], 0
    for g in range(starts.size - 1):
        most = max(most, starts[g + 1] - starts[g])
    scratch = np.empty((2, most))
    between = np.empty((2, p))
    for block in range(edges.size - 1):
        inside = groups[edges[block] : edges[block + 1]]
        # Neighbours need not be exact: half the digits, twice as many at a time.
        rows, columns = np.empty((inside.size, p), np.float32), np.empty((p, inside.size), np.float32)
        for at_g in range(inside.size):
            for c in range(p):
                rows[at_g, c] = columns[c, at_g] = centres[inside[at_g], c]
        low = np.empty((inside.size + 3) // 4, np.float32)
        ds = np.full(4 * low.size, np.inf, np.float32)
        for at_g in range(inside.size):
            g = inside[at_g]
            clock += 1
            squares_to(columns, rows[at_g], ds[: inside.size])
            ds[at_g] = np.inf
            filled = _smallest(ds, low, near, near_d)
            for j in range(filled):
                h = inside[near[j]]
                near[j] = h
                if _settled(known, looked, changed, g, h) or _settled(known, looked, changed, h, g):
                    continue
                # How far apart they are for how wide they are: the farther, the fewer exchanges.
                gap = near_d[j]
                both = gap + wide[g] + wide[h]
                apart = int((BINS - 1) * gap / both) if both > 0 else 0
                if tried[apart] >= LEARNED and paid[apart] < YIELD * tried[apart]:
                    continue
                tried[apart] += 1
                # A bound on the number, so that rounding can never exchange two records for ever.
                for turn in range(2 * most):
                    if not _best_exchange(G, order, starts, centres, away, g, h, scratch, between):
                        break
                    _measure(G, starts, centres, away, wide, g)
                    _measure(G, starts, centres, away, wide, h)
                    paid[apart] += turn == 0
                    made += 1
                    changed[g] = clock
                    changed[h] = clock
            for j in range(filled):
                known[g, j] = near[j]
            looked[g] = clock
    return made


@kernel()
def _smallest(ds, low, near, near_d):
    """Write where the smallest finite values stand, smallest first; how many there are."""
    reach, n = near.size, low.size
    d0, d1, d2, d3 = ds[:n], ds[n : 2 * n], ds[2 * n : 3 * n], ds[3 * n :]
    for j in range(n):
        a = d0[j] if d0[j] < d1[j] else d1[j]
        b = d2[j] if d2[j] < d3[j] else d3[j]
        low[j] = a if a < b else b
    # Four values are no larger than the largest of what is least in each quarter: few are sorted in.
    share = n // 4
    q0, q1, q2, q3 = (
        low[:share],
        low[share : 2 * share],
        low[2 * share : 3 * share],
        low[3 * share : 4 * share],
    )
    worst = m0 = m1 = m2 = m3 = np.float32(np.inf)
    for j in range(share):
        m0 = q0[j] if q0[j] < m0 else m0
        m1 = q1[j] if q1[j] < m1 else m1
        m2 = q2[j] if q2[j] < m2 else m2
        m3 = q3[j] if q3[j] < m3 else m3
    if reach <= 4:
        worst = max(max(m0, m1), max(m2, m3))
    filled = 0
    for j in range(n):
        if low[j] > worst:
            continue
        for i in range(j, 4 * n, n):
            d = ds[i]
            if d > worst or d == np.inf:
                continue
            filled = sort_in(near, near_d, filled, i, d)
            if filled == reach:
                worst = near_d[reach - 1]
    return filled


@kernel()
def _settled(known, looked, changed, g, h):
    """Whether group g looked at h and neither has changed since (not even in that look)."""
    if changed[g] >= looked[g] or changed[h] >= looked[g]:
        return False
    seen = False
    for j in range(known.shape[1]):
        seen |= known[g, j] == h
    return seen


@kernel()
def _best_exchange(G, order, starts, centres, away, g, h, scratch, between):
    """Make the exchange between two groups that lowers the SSE most; whether there was one."""
    p = G.shape[1]
    s, t = starts[g], starts[h]
    a, b = starts[g + 1] - s, starts[h + 1] - t
    share = 1.0 / a + 1.0 / b
    wants, side = scratch[0], scratch[1]
    step, middle = between[0], between[1]
    square = 0.0
    for c in range(p):
        step[c] = 2 * (centres[g, c] - centres[h, c])
        middle[c] = 0.5 * (centres[g, c] + centres[h, c])
        square += step[c] * step[c]
    # Along the line through the centroids, half a step apart, two records are as far apart as their wishes
    # say; aside of it at most by the sum of how far each is from it. In many columns they seldom lie on
    # opposite sides: what is lost by not looking at the few that do is less than what looking costs.
    inverse = 1.0 / square if square > 0 else 0.0
    opposite = 2 * min(1.0, 2 / np.sqrt(p))
    for x in range(a):
        wants[x] = _wish(G, s + x, middle, step)
        side[x] = _aside(away[s + x], wants[x] - 0.25 * square, inverse)
    best, best_x, best_y = -1e-9, -1, -1
    for y in range(b):
        want = -_wish(G, t + y, middle, step)
        y_side = _aside(away[t + y], want - 0.25 * square, inverse)
        for x in range(a):
            both = want + wants[x]
            aside = side[x] * side[x] + y_side * y_side + opposite * side[x] * y_side
            if both - share * (both * both * inverse + aside) >= best:
                continue
            change = both - share * squared_rows_by_four(G, s + x, G, t + y)
            if change < best:
                best, best_x, best_y = change, x, y
    if best_x < 0:
        return False
    i, j = s + best_x, t + best_y
    order[i], order[j] = order[j], order[i]
    for c in range(p):
        move = G[j, c] - G[i, c]
        centres[g, c] += move / a
        centres[h, c] -= move / b
        G[i, c], G[j, c] = G[j, c], G[i, c]
    return True


@kernel(inline=True)
def _aside(away, along, inverse):
    """Distance to the line through two centroids, from that to the own one and the part along the line."""
    return np.sqrt(max(away * away - along * along * inverse, 0.0))


# Sums of four strands: each waits for itself alone, and four fit into one vector.


@kernel(inline=True)
def _wish(G, i, middle, step):
    """What record i adds by going from the group of centroid A to that of B: 2 (A - B) . (x - (A + B) / 2)."""
    p = middle.size
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for q in range(p // 4):
        c = 4 * q
        s0 += (G[i, c] - middle[c]) * step[c]
        s1 += (G[i, c + 1] - middle[c + 1]) * step[c + 1]
        s2 += (G[i, c + 2] - middle[c + 2]) * step[c + 2]
        s3 += (G[i, c + 3] - middle[c + 3]) * step[c + 3]
    for c in range(p - p % 4, p):
        s0 += (G[i, c] - middle[c]) * step[c]
    return (s0 + s1) + (s2 + s3)
