"""Modes of small groups under moves: how many records of a group differ from its most frequent codes.

For each record `alike` holds how many of its group have the same code, itself among them; for each group `top` is
the largest of these numbers and `tied` how many codes reach it. A group of s records then loses, for each code,
what it is worth times s - top.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel


@kernel()
def count_codes(codes, members, size, g, alike, top, tied):
    """Count the codes of group g afresh."""
    for x in range(size):
        i = members[g, x]
        for c in range(codes.shape[1]):
            alike[i, c] = 0
        for y in range(size):
            j = members[g, y]
            for c in range(codes.shape[1]):
                alike[i, c] += np.int16(codes[i, c] == codes[j, c])
    _summarise(members, size, g, alike, top, tied)


@kernel()
def _summarise(members, size, g, alike, top, tied):
    """Write the largest number of each code of a group, and how many codes reach it."""
    q = alike.shape[1]
    for c in range(q):
        top[g, c] = 0
        tied[g, c] = 0
    for x in range(size):
        i = members[g, x]
        for c in range(q):
            a = alike[i, c]
            if a > top[g, c]:
                top[g, c] = a
                tied[g, c] = 1
            elif a == top[g, c]:
                tied[g, c] += 1
    for c in range(q):
        if top[g, c] > 0:
            tied[g, c] //= top[g, c]


@kernel()
def drop_codes(codes, members, size, g, i, alike, top, tied):
    """Bring group g up to date after record i, no longer among its members, has left."""
    for x in range(size):
        j = members[g, x]
        for c in range(codes.shape[1]):
            alike[j, c] -= np.int16(codes[i, c] == codes[j, c])
    _summarise(members, size, g, alike, top, tied)


@kernel()
def add_codes(codes, members, size, g, i, alike, top, tied):
    """Bring group g up to date after record i, already among its members, has joined."""
    for c in range(codes.shape[1]):
        alike[i, c] = 1
    for x in range(size):
        j = members[g, x]
        if j != i:
            for c in range(codes.shape[1]):
                same = np.int16(codes[i, c] == codes[j, c])
                alike[j, c] += same
                alike[i, c] += same
    _summarise(members, size, g, alike, top, tied)


@kernel()
def leaving_cost(worth, alike, top, tied, i, g):
    """What a group loses more when record i leaves it; never above zero."""
    cost = np.float32(0.0)
    for c in range(worth.size):
        if alike[i, c] < top[g, c] or tied[g, c] > 1:
            cost -= worth[c]
    return cost


@kernel()
def joining_cost(codes, worth, members, size, top, i, g):
    """What a group loses more when record i joins it; never below zero."""
    cost = np.float32(0.0)
    for c in range(worth.size):
        same = 0
        for x in range(size):
            same += codes[members[g, x], c] == codes[i, c]
        if same < top[g, c]:
            cost += worth[c]
    return cost


@kernel()
def mode_cost(worth, top, size, g):
    """What a group loses by publishing its modes."""
    cost = np.float32(0.0)
    for c in range(worth.size):
        cost += worth[c] * np.float32(size - top[g, c])
    return cost


@kernel()
def prepare_exchange(codes, members, b, A, B, i, alike, top, tied, left, same):
    """For exchanges of record i of group A with those of B: A's largest numbers without it, and its codes in B."""
    for c in range(codes.shape[1]):
        alone = alike[i, c] == top[A, c] and tied[A, c] == 1
        left[c] = top[A, c] - np.int16(alone)
        same[c] = 0
    for x in range(b):
        j = members[B, x]
        for c in range(codes.shape[1]):
            same[c] += np.int16(codes[j, c] == codes[i, c])


@kernel()
def exchange_cost(codes, worth, members, a, A, B, i, m, alike, top, tied, left, same, inside):
    """What two groups lose more when record i of A and m of B change places."""
    q = worth.size
    for c in range(q):
        inside[c] = 0
    for x in range(a):
        j = members[A, x]
        for c in range(q):
            inside[c] += np.int16(codes[j, c] == codes[m, c])
    cost = np.float32(0.0)
    for c in range(q):
        if codes[i, c] != codes[m, c]:
            alone = alike[m, c] == top[B, c] and tied[B, c] == 1
            there = top[B, c] - np.int16(alone)
            change = top[A, c] - max(left[c], inside[c] + np.int16(1))
            change += top[B, c] - max(there, same[c] + np.int16(1))
            cost += worth[c] * np.float32(change)
    return cost
