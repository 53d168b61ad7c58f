"""Compiled annealing: moves between neighbouring groups, O(p) each.

Rows are float32, padded with zeros to a multiple of eight columns, so that the eight running sums of a
distance become one vector register. Rounding there can only steer the search: what is reported, and what
decides whether a region's new groups are kept, is summed afresh in float64.

A state is `(labels, sizes, centres, members, place)`: the group of each record, and for each group its
number of records, its mean, its records and where in that list each record stands. It is built from the
labels at the start of each call, so drift never lives longer than one call.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel

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
    c = _build(X, labels, sizes, members, place, centres)
    picked, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    steps = proposals // STEP
    temperature = np.float32(hot)
    ratio = np.float32((cold / hot) ** (1.0 / max(1, steps)))
    half, bits16, bits12 = np.uint64(32), np.uint64(0xFFFF), np.uint64(0xFFF)
    r = np.uint64(seed) * np.uint64(2) + np.uint64(1)  # xorshift never leaves zero
    for _ in range(12):
        r = _random(r)
    for _ in range(steps):
        for _ in range(STEP):
            r = _random(r)
            i = np.int64(((r >> half) * np.uint64(n)) >> half)
            # The product of two uniform numbers prefers the nearest neighbours.
            u = ((r & bits16) * ((r >> np.uint64(16)) & bits16)) >> np.uint64(16)
            j = near[i, np.int64((u * np.uint64(reach[i])) >> np.uint64(16))]
            A, B = labels[i], labels[j]
            if A == B:
                continue
            a, b = np.int64(sizes[A]), np.int64(sizes[B])
            r = _random(r)
            bar = temperature * heat[i] * logs[np.int64(r & bits12)]
            kind = np.int64((r >> np.uint64(12)) & np.uint64(127))
            if a > k and kind < 64 and b < top:
                cost = np.float32(b) * share[b + 1] * _distance(X, i, centres, B)
                cost -= np.float32(a) * share[a - 1] * _distance(X, i, centres, A)
                if cost < bar:
                    _leave(X, sizes, members, place, centres, share, i, A)
                    _join(X, sizes, members, place, centres, share, i, B)
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
                if _swap_cost(X, centres, i, m, A, B, share[a] + share[b]) < bar:
                    _swap(X, labels, members, place, centres, share[a], share[b], i, m)
        temperature *= ratio
    return c


@kernel()
def _random(r):
    """The next state of xorshift64."""
    r ^= r << np.uint64(13)
    r ^= r >> np.uint64(7)
    r ^= r << np.uint64(17)
    return r


@kernel()
def _build(X, labels, sizes, members, place, centres):
    """Fill the state of labels 0..c-1; c."""
    n, p = X.shape
    c = 0
    sums = np.zeros((sizes.size, p))
    for i in range(n):
        g = labels[i]
        c = max(c, g + 1)
        members[g, sizes[g]] = i
        place[i] = sizes[g]
        sizes[g] += 1
        for a in range(p):
            sums[g, a] += X[i, a]
    for g in range(c):
        for a in range(p):
            centres[g, a] = sums[g, a] / sizes[g]
    return c


@kernel(inline=True)
def _swap_cost(X, centres, i, m, A, B, w):
    """Change of SSE when record i of group A and m of B change places; w = 1/|A| + 1/|B|.

    With d = x_m - x_i it is 2 d (c_B - c_A) - w d^2.
    """
    two = np.float32(2.0)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
    for b in range(0, X.shape[1], 8):
        d0 = X[m, b] - X[i, b]
        d1 = X[m, b + 1] - X[i, b + 1]
        d2 = X[m, b + 2] - X[i, b + 2]
        d3 = X[m, b + 3] - X[i, b + 3]
        d4 = X[m, b + 4] - X[i, b + 4]
        d5 = X[m, b + 5] - X[i, b + 5]
        d6 = X[m, b + 6] - X[i, b + 6]
        d7 = X[m, b + 7] - X[i, b + 7]
        s0 += d0 * (two * (centres[B, b] - centres[A, b]) - w * d0)
        s1 += d1 * (two * (centres[B, b + 1] - centres[A, b + 1]) - w * d1)
        s2 += d2 * (two * (centres[B, b + 2] - centres[A, b + 2]) - w * d2)
        s3 += d3 * (two * (centres[B, b + 3] - centres[A, b + 3]) - w * d3)
        s4 += d4 * (two * (centres[B, b + 4] - centres[A, b + 4]) - w * d4)
        s5 += d5 * (two * (centres[B, b + 5] - centres[A, b + 5]) - w * d5)
        s6 += d6 * (two * (centres[B, b + 6] - centres[A, b + 6]) - w * d6)
        s7 += d7 * (two * (centres[B, b + 7] - centres[A, b + 7]) - w * d7)
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@kernel()
def _distance(X, i, Y, j):
    """Squared distance of two rows."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0.0)
    for b in range(0, X.shape[1], 8):
        d0 = X[i, b] - Y[j, b]
        d1 = X[i, b + 1] - Y[j, b + 1]
        d2 = X[i, b + 2] - Y[j, b + 2]
        d3 = X[i, b + 3] - Y[j, b + 3]
        d4 = X[i, b + 4] - Y[j, b + 4]
        d5 = X[i, b + 5] - Y[j, b + 5]
        d6 = X[i, b + 6] - Y[j, b + 6]
        d7 = X[i, b + 7] - Y[j, b + 7]
        s0 += d0 * d0
        s1 += d1 * d1
        s2 += d2 * d2
        s3 += d3 * d3
        s4 += d4 * d4
        s5 += d5 * d5
        s6 += d6 * d6
        s7 += d7 * d7
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@kernel()
def _swap(X, labels, members, place, centres, va, vb, i, m):
    """Let two records of two groups change places."""
    A, B = labels[i], labels[m]
    for a in range(X.shape[1]):
        d = X[m, a] - X[i, a]
        centres[A, a] += d * va
        centres[B, a] -= d * vb
    members[A, place[i]] = m
    members[B, place[m]] = i
    place[i], place[m] = place[m], place[i]
    labels[i], labels[m] = B, A


@kernel()
def _leave(X, sizes, members, place, centres, share, i, A):
    """Take record i out of the state of group A; its label is left to the caller."""
    s = sizes[A]
    v = share[s - 1]
    for a in range(X.shape[1]):
        centres[A, a] += (centres[A, a] - X[i, a]) * v
    last = members[A, s - 1]
    members[A, place[i]] = last
    place[last] = place[i]
    sizes[A] = s - 1


@kernel()
def _join(X, sizes, members, place, centres, share, i, B):
    """Put record i into the state of group B; its label is left to the caller."""
    s = sizes[B]
    v = share[s + 1]
    for a in range(X.shape[1]):
        centres[B, a] += (X[i, a] - centres[B, a]) * v
    members[B, s] = i
    place[i] = s
    sizes[B] = s + 1


@kernel()
def _dissolve(
    X, near, reach, labels, sizes, members, place, centres, share, picked, targets, k, c, A, bar, r
):
    """Send the k records of group A to groups near them that have room, if it costs less than `bar`."""
    cost = np.float32(0.0)
    for q in range(k):
        picked[q] = members[A, q]
        cost -= _distance(X, picked[q], centres, A)
    done = 0
    for q in range(k):
        i = picked[q]
        best, best_d = np.int64(-1), np.float32(np.inf)
        for _ in range(6):
            r = _random(r)
            g = labels[near[i, np.int64(((r >> np.uint64(32)) * np.uint64(reach[i])) >> np.uint64(32))]]
            s = np.int64(sizes[g])
            if g in (A, best) or s >= 2 * k - 1:
                continue
            d = np.float32(s) * share[s + 1] * _distance(X, i, centres, g)
            if d < best_d:
                best, best_d = g, d
        cost += best_d
        if not cost < bar:  # the costs that follow are not negative
            break
        targets[q] = best
        _join(X, sizes, members, place, centres, share, i, best)
        done += 1
    if done < k:
        for q in range(done - 1, -1, -1):
            _leave(X, sizes, members, place, centres, share, picked[q], targets[q])
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
        cost -= np.float32(s) * share[s - 1] * _distance(X, j, centres, g)
        _leave(X, sizes, members, place, centres, share, j, g)
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
            cost += np.float32(q) * share[q + 1] * _distance(X, picked[q], centres, c)
            _join(X, sizes, members, place, centres, share, picked[q], c)
        if cost < bar:
            for q in range(k):
                labels[picked[q]] = c
            return c + 1
        sizes[c] = 0
    for q in range(got - 1, -1, -1):
        _join(X, sizes, members, place, centres, share, picked[q], labels[picked[q]])
    return c
