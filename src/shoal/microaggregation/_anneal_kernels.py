"""Compiled annealing: moves between neighbouring groups, O(p) each.

Rows are float32, padded with zeros to a multiple of eight columns, so that the eight running sums of a
distance become one vector register. Rounding there can only steer the search: what is reported, and what
decides whether a region's new groups are kept, is summed afresh in float64.

The state of `shoal.engine.kernels.exchange` is built from the labels at the start of each call, so drift never
lives longer than one call.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_distance
from shoal.engine.kernels.exchange import build_groups, join, leave, random_bits, swap, swap_cost

STEP = 256
"""Proposals made at one temperature."""

LOGS = -np.log((np.arange(4096) + 0.5) / 4096).astype(np.float32)
"""Exponential variates: a proposal is accepted when its cost is below one of these times the temperature."""


@kernel()
def anneal(X, near, reach, heat, labels, k, hot, cold, proposals, seed, logs):
    """Anneal labels 0..c-1 in place, cooling geometrically from `hot` to `cold`; the new c.

    `near[i, :reach[i]]` lists the neighbours of record i, nearest first; `heat[i]` is the factor on the
    temperature there. Group sizes stay within k..2k-1.
    """
    n, p = X.shape
    top, most = 2 * k - 1, n // k
    share = np.empty(top + 2, np.float32)  # 1 / size
    share[0] = 0.0
    for s in range(1, top + 2):
        share[s] = 1.0 / s
    sizes, members, place = np.zeros(most, np.int32), np.empty((most, top), np.int32), np.empty(n, np.int32)
    centres = np.empty((most, p), np.float32)
    c = build_groups(X, labels, sizes, members, place, centres)
    picked, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    steps = proposals // STEP
    temperature = np.float32(hot)
    ratio = np.float32((cold / hot) ** (1.0 / max(1, steps)))
    half, bits16, bits12 = np.uint64(32), np.uint64(0xFFFF), np.uint64(0xFFF)
    r = np.uint64(seed) * np.uint64(2) + np.uint64(1)  # xorshift never leaves zero
    for _ in range(12):
        r = random_bits(r)
    for _ in range(steps):
        for _ in range(STEP):
            r = random_bits(r)
            i = np.int64(((r >> half) * np.uint64(n)) >> half)
            # The product of two uniform numbers prefers the nearest neighbours.
            u = ((r & bits16) * ((r >> np.uint64(16)) & bits16)) >> np.uint64(16)
            j = near[i, np.int64((u * np.uint64(reach[i])) >> np.uint64(16))]
            A, B = labels[i], labels[j]
            if A == B:
                continue
            a, b = np.int64(sizes[A]), np.int64(sizes[B])
            r = random_bits(r)
            bar = temperature * heat[i] * logs[np.int64(r & bits12)]
            kind = np.int64((r >> np.uint64(12)) & np.uint64(127))
            if a > k and kind < 64 and b < top:
                cost = np.float32(b) * share[b + 1] * squared_distance(X, i, centres, B)
                cost -= np.float32(a) * share[a - 1] * squared_distance(X, i, centres, A)
                if cost < bar:
                    leave(X, sizes, members, place, centres, share, i, A)
                    join(X, sizes, members, place, centres, share, i, B)
                    labels[i] = B
            elif a > k and kind >= 112:
                c = _found(
                    X, near, reach, labels, sizes, members, place, centres, share, picked, k, c, i, bar
                )
            elif a == k and kind >= 126:
                c = _dissolve(
                    X,
                    near,
                    reach,
                    labels,
                    sizes,
                    members,
                    place,
                    centres,
                    share,
                    picked,
                    targets,
                    k,
                    c,
                    A,
                    bar,
                    r,
                )
            else:
                m = members[B, np.int64(((r >> half) * np.uint64(b)) >> half)]
                if swap_cost(X, centres, i, m, A, B, share[a] + share[b]) < bar:
                    swap(X, labels, members, place, centres, share[a], share[b], i, m)
        temperature *= ratio
    return c


@kernel()
def _dissolve(  # noqa: C901 - one step of a compiled search, case by case
    X, near, reach, labels, sizes, members, place, centres, share, picked, targets, k, c, A, bar, r
):
    """Send the k records of group A to groups near them that have room, if it costs less than `bar`."""
    cost = np.float32(0.0)
    for q in range(k):
        picked[q] = members[A, q]
        cost -= squared_distance(X, picked[q], centres, A)
    done = 0
    for q in range(k):
        i = picked[q]
        best, best_d = np.int64(-1), np.float32(np.inf)
        for _ in range(6):
            r = random_bits(r)
            g = labels[near[i, np.int64(((r >> np.uint64(32)) * np.uint64(reach[i])) >> np.uint64(32))]]
            s = np.int64(sizes[g])
            if g in (A, best) or s >= 2 * k - 1:
                continue
            d = np.float32(s) * share[s + 1] * squared_distance(X, i, centres, g)
            if d < best_d:
                best, best_d = g, d
        cost += best_d
        if not cost < bar:  # the costs that follow are not negative
            break
        targets[q] = best
        join(X, sizes, members, place, centres, share, i, best)
        done += 1
    if done < k:
        for q in range(done - 1, -1, -1):
            leave(X, sizes, members, place, centres, share, picked[q], targets[q])
        for q in range(k):
            place[picked[q]] = q
        return c
    for q in range(k):
        labels[picked[q]] = targets[q]
    last = c - 1
    if last != A:  # the last group takes the free number
        for q in range(sizes[last]):
            members[A, q] = members[last, q]
            labels[members[A, q]] = A
        sizes[A] = sizes[last]
        for a in range(X.shape[1]):
            centres[A, a] = centres[last, a]
    sizes[last] = 0
    return last


@kernel()
def _found(X, near, reach, labels, sizes, members, place, centres, share, picked, k, c, i, bar):
    """Make a group of record i and the nearest records that their groups can spare, if it costs less than `bar`."""
    if c >= sizes.size:
        return c
    got = 0
    cost = np.float32(0.0)
    for q in range(-1, reach[i]):
        j = i if q < 0 else np.int64(near[i, q])
        g = labels[j]
        s = np.int64(sizes[g])
        if s <= k:
            continue
        cost -= np.float32(s) * share[s - 1] * squared_distance(X, j, centres, g)
        leave(X, sizes, members, place, centres, share, j, g)
        picked[got] = j
        got += 1
        if got == k:
            break
    if got == k:
        sizes[c] = 0
        for a in range(X.shape[1]):
            centres[c, a] = 0.0
        for q in range(k):
            # A record that joins adds s / (s + 1) times its distance to the mean so far.
            cost += np.float32(q) * share[q + 1] * squared_distance(X, picked[q], centres, c)
            join(X, sizes, members, place, centres, share, picked[q], c)
        if cost < bar:
            for q in range(k):
                labels[picked[q]] = c
            return c + 1
        sizes[c] = 0
    for q in range(got - 1, -1, -1):
        join(X, sizes, members, place, centres, share, picked[q], labels[picked[q]])
    return c
