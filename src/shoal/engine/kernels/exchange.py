"""Moves of records between groups, O(columns) each.

A state is `(labels, sizes, centres, members, place)`: the group of each record, and for each group its
number of records, its mean, its records and where in that list each record stands. Rows are float32, padded
with zeros to a multiple of eight columns.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel


@kernel()
def random_bits(r):
    """The next state of xorshift64."""
    r ^= r << np.uint64(13)
    r ^= r >> np.uint64(7)
    r ^= r << np.uint64(17)
    return r


@kernel()
def build_groups(X, labels, sizes, members, place, centres):
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
def swap_cost(X, centres, i, m, A, B, w):
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


@kernel(inline=True)
def shift_cost(X, i, m, step, w):
    """As `swap_cost`, with step = 2 (c_B - c_A) at hand: for all exchanges between two groups."""
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
        s0 += d0 * (step[b] - w * d0)
        s1 += d1 * (step[b + 1] - w * d1)
        s2 += d2 * (step[b + 2] - w * d2)
        s3 += d3 * (step[b + 3] - w * d3)
        s4 += d4 * (step[b + 4] - w * d4)
        s5 += d5 * (step[b + 5] - w * d5)
        s6 += d6 * (step[b + 6] - w * d6)
        s7 += d7 * (step[b + 7] - w * d7)
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@kernel()
def swap(X, labels, members, place, centres, va, vb, i, m):
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
def leave(X, sizes, members, place, centres, share, i, A):
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
def join(X, sizes, members, place, centres, share, i, B):
    """Put record i into the state of group B; its label is left to the caller."""
    s = sizes[B]
    v = share[s + 1]
    for a in range(X.shape[1]):
        centres[B, a] += (X[i, a] - centres[B, a]) * v
    members[B, s] = i
    place[i] = s
    sizes[B] = s + 1
