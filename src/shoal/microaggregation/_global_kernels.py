"""Compiled annealing of a whole table: jobs that touch only their own groups, side by side.

Rows are float32, padded with zeros to a multiple of eight columns, in the order of a tree: what is near in space
is near in memory. A job changes the groups it owns and their records, and nothing else; what it reads of other
jobs' records is only that their group is not its own, which does not change. So jobs may run at the same time
and the result does not depend on which runs first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_distance
from shoal.engine.kernels.exchange import join, leave, random_bits, shift_cost, swap

FOUND, DISSOLVE = 32, 16
"""Of 1,024 proposals for a record of a group above k: those to found a group; of one of k: to dissolve it."""

WINDOW = 1024
"""Rows swept several times before the next: they stay in the processor's cache."""


class Table(NamedTuple):
    """What the search knows of the records; it does not change."""

    X: np.ndarray  # (n, P) float32
    near: np.ndarray  # (n, m) int32, nearest first
    heat: np.ndarray  # (n,) float32, the temperature at a record where it is 1 in all
    limit: np.ndarray  # (n,) float32, how much farther than its own group another may be


class Groups(NamedTuple):
    """A partition as the kernels want it; groups of size 0 are not in use."""

    labels: np.ndarray  # (n,) int32
    sizes: np.ndarray  # (most,) int32
    members: np.ndarray  # (most, 2k-1) int32
    place: np.ndarray  # (n,) int32
    centres: np.ndarray  # (most, P) float32
    owner: np.ndarray  # (most,) int32, the job that may change the group


@kernel()
def sweep(table, groups, job, rows, free, k, hot, cold, sweeps, found, dissolved, screen, seed, logs):
    """Propose a move for each row of a job, `sweeps` times, while the temperature falls; the moves made.

    `free` holds numbers of groups not in use that belong to the job, its first element how many they are.
    Of every 1,024 proposals so many found or dissolve a group. A proposal is the best of all exchanges of the
    row with the members of one neighbouring group and of its move there, each with its own noise.
    """
    X, near, heat, limit = table.X, table.near, table.heat, table.limit
    labels, sizes, members = groups.labels, groups.sizes, groups.members
    place, centres, owner = groups.place, groups.centres, groups.owner
    p, top, m = X.shape[1], 2 * k - 1, np.uint64(near.shape[1])
    share = np.empty(top + 2, np.float32)  # 1 / size
    share[0] = 0.0
    for s in range(1, top + 2):
        share[s] = 1.0 / s
    picked, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    step, two = np.empty(p, np.float32), np.float32(2.0)
    bits16, moved = np.uint64(0xFFFF), 0
    screen = np.float32(screen)
    ratio = np.float32((cold / hot) ** (1.0 / max(1, sweeps)))
    r = np.uint64(seed) * np.uint64(2) + np.uint64(1)  # xorshift never leaves zero
    for _ in range(12):
        r = random_bits(r)
    for first in range(0, rows.size, WINDOW):
        temperature = np.float32(hot)
        for _ in range(sweeps):
            for x in range(first, min(first + WINDOW, rows.size)):
                i = rows[x]
                r = random_bits(r)
                A = labels[i]
                # The product of two uniform numbers prefers the nearest neighbours.
                u = ((r & bits16) * ((r >> np.uint64(16)) & bits16)) >> np.uint64(16)
                B = labels[near[i, np.int64((u * m) >> np.uint64(16))]]
                if A == B or owner[B] != job:
                    continue
                a, b = np.int64(sizes[A]), np.int64(sizes[B])
                T = temperature * heat[i]
                kind = np.int64((r >> np.uint64(32)) & np.uint64(1023))
                at = np.int64((r >> np.uint64(42)) & np.uint64(4095))
                if a > k:
                    if kind < found:
                        if free[0] > 0 and _found(
                            table, groups, job, share, picked, k, free[free[0]], i, T * logs[at]
                        ):
                            free[0] -= 1
                            moved += 1
                        continue
                elif kind < dissolved:
                    if _dissolve(table, groups, job, share, picked, targets, k, A, T * logs[at], r):
                        free[0] += 1
                        free[free[0]] = A
                        moved += 1
                    continue
                here, there = squared_distance(X, i, centres, A), squared_distance(X, i, centres, B)
                if there - here > screen * limit[i]:
                    continue
                best, partner = np.float32(0.0), np.int64(-1)
                if a > k and b < top:
                    cost = np.float32(b) * share[b + 1] * there - np.float32(a) * share[a - 1] * here
                    cost -= T * logs[at]
                    if cost < best:
                        best, partner = cost, np.int64(-2)
                for c in range(p):
                    step[c] = two * (centres[B, c] - centres[A, c])
                w = share[a] + share[b]
                for q in range(b):
                    at = (at * 1597 + 51749) & 4095
                    cost = shift_cost(X, i, members[B, q], step, w) - T * logs[at]
                    if cost < best:
                        best, partner = cost, np.int64(members[B, q])
                if partner == -1:
                    continue
                moved += 1
                if partner == -2:
                    leave(X, sizes, members, place, centres, share, i, A)
                    join(X, sizes, members, place, centres, share, i, B)
                    labels[i] = B
                else:
                    swap(X, labels, members, place, centres, share[a], share[b], i, partner)
            temperature *= ratio
    return moved


@kernel()
def _dissolve(table, groups, job, share, picked, targets, k, A, bar, r):
    """Send the k records of group A to groups near them that have room, if it costs less than `bar`."""
    X, near = table.X, table.near
    labels, sizes, members = groups.labels, groups.sizes, groups.members
    place, centres, owner = groups.place, groups.centres, groups.owner
    cost = np.float32(0.0)
    for q in range(k):
        picked[q] = members[A, q]
        cost -= squared_distance(X, picked[q], centres, A)
    done, m = 0, np.uint64(near.shape[1])
    for q in range(k):
        i = picked[q]
        best, best_d = np.int64(-1), np.float32(np.inf)
        for _ in range(6):
            r = random_bits(r)
            g = np.int64(labels[near[i, np.int64(((r >> np.uint64(32)) * m) >> np.uint64(32))]])
            if g == A or g == best or owner[g] != job:
                continue
            s = np.int64(sizes[g])
            if s >= 2 * k - 1:
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
        return False
    for q in range(k):
        labels[picked[q]] = targets[q]
    sizes[A] = 0
    return True


@kernel()
def _found(table, groups, job, share, picked, k, new, i, bar):
    """Make a group of record i and the nearest records that their groups can spare, if it costs less than `bar`."""
    X, near = table.X, table.near
    labels, sizes, members = groups.labels, groups.sizes, groups.members
    place, centres, owner = groups.place, groups.centres, groups.owner
    spare = 0
    for q in range(-1, near.shape[1]):
        g = labels[i if q < 0 else np.int64(near[i, q])]
        if owner[g] == job and sizes[g] > k:
            spare += 1
    if spare < k:
        return False
    got, cost = 0, np.float32(0.0)
    for q in range(-1, near.shape[1]):
        j = i if q < 0 else np.int64(near[i, q])
        g = labels[j]
        if owner[g] != job or sizes[g] <= k:
            continue
        s = np.int64(sizes[g])
        cost -= np.float32(s) * share[s - 1] * squared_distance(X, j, centres, g)
        leave(X, sizes, members, place, centres, share, j, g)
        picked[got] = j
        got += 1
        if got == k:
            break
    if got == k:
        sizes[new] = 0
        for a in range(X.shape[1]):
            centres[new, a] = 0.0
        for q in range(k):
            # A record that joins adds s / (s + 1) times its distance to the mean so far.
            cost += np.float32(q) * share[q + 1] * squared_distance(X, picked[q], centres, new)
            join(X, sizes, members, place, centres, share, picked[q], new)
        if cost < bar:
            for q in range(k):
                labels[picked[q]] = new
            return True
        sizes[new] = 0
    for q in range(got - 1, -1, -1):
        join(X, sizes, members, place, centres, share, picked[q], labels[picked[q]])
    return False


@kernel()
def rows_by_job(labels, owner, jobs):
    """Rows job by job, in their order, and where each job's begin."""
    starts = np.zeros(jobs + 1, np.int64)
    for i in range(labels.size):
        starts[owner[labels[i]] + 1] += 1
    for j in range(jobs):
        starts[j + 1] += starts[j]
    following, rows = starts[:-1].copy(), np.empty(labels.size, np.int32)
    for i in range(labels.size):
        j = owner[labels[i]]
        rows[following[j]] = i
        following[j] += 1
    return rows, starts
