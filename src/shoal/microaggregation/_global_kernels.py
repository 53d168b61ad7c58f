"""Compiled annealing of a whole table: jobs that touch only their own groups, side by side.

Numbers are float32, padded with zeros to a multiple of eight columns, categories are codes; records lie in the order
of a tree: what is near in space is near in memory. What is lowered is what is published: squared distances to the
means of numbers, and for each category that is not its group's mode the squared distance to it. A job changes the
groups it owns and their records, and nothing else; what it reads of other jobs' records is only that their group is
not its own, which does not change. So jobs may run at the same time and the result does not depend on which runs
first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_distance
from shoal.engine.kernels.exchange import build_groups, join, leave, random_bits, shift_cost, swap
from shoal.engine.kernels.modes import (
    add_codes,
    count_codes,
    drop_codes,
    exchange_cost,
    joining_cost,
    leaving_cost,
    mode_cost,
    prepare_exchange,
)

FOUND, DISSOLVE = 32, 16
"""Of 1,024 proposals for a record of a group above k: those to found a group; of one of k: to dissolve it."""

WINDOW = 1024
"""Rows swept several times before the next: they stay in the processor's cache."""


class RecordTable(NamedTuple):
    """What the search knows of the records; it does not change."""

    X: np.ndarray  # (n, P) float32, the numbers
    codes: np.ndarray  # (n, q) int16, the categories
    worth: np.ndarray  # (q,) float32, the squared distance of two categories
    near: np.ndarray  # (n, m) int32, nearest first
    heat: np.ndarray  # (n,) float32, the temperature at a record where it is 1 in all


class KernelGroups(NamedTuple):
    """A partition as the kernels want it; groups of size 0 are not in use."""

    labels: np.ndarray  # (n,) int32
    sizes: np.ndarray  # (most,) int32
    members: np.ndarray  # (most, 2k-1) int32
    place: np.ndarray  # (n,) int32
    centres: np.ndarray  # (most, P) float32
    owner: np.ndarray  # (most,) int32, the job that may change the group
    alike: np.ndarray  # (n, q) int16, records of the group with the same code
    top: np.ndarray  # (most, q) int16, the largest of these
    tied: np.ndarray  # (most, q) int16, how many codes reach it


@kernel()
def count_groups(table, groups):
    """Fill the state from the labels."""
    build_groups(table.X, groups.labels, groups.sizes, groups.members, groups.place, groups.centres)
    for g in range(groups.sizes.size):
        count_codes(table.codes, groups.members, groups.sizes[g], g, groups.alike, groups.top, groups.tied)


@kernel()
def sweep(table, groups, job, rows, free, k, hot, cold, sweeps, found, dissolved, screen, seed, logs):  # noqa: C901, PLR0912, PLR0915 - one step of a compiled search, case by case
    """Propose a move for each row of a job, `sweeps` times, while the temperature falls; the moves made.

    `free` holds numbers of groups not in use that belong to the job, its first element how many they are.
    Of every 1,024 proposals so many found or dissolve a group. A proposal is the best of all exchanges of the
    row with the members of one neighbouring group and of its move there, each with its own noise.
    """
    X, codes, worth, near, heat = table.X, table.codes, table.worth, table.near, table.heat
    labels, sizes, members = groups.labels, groups.sizes, groups.members
    place, centres, owner = groups.place, groups.centres, groups.owner
    alike, top_codes, tied = groups.alike, groups.top, groups.tied
    q = worth.size
    left, same, inside = np.empty(q, np.int16), np.empty(q, np.int16), np.empty(q, np.int16)
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
                wish, gone, added = there - here, np.float32(0.0), np.float32(0.0)
                if q > 0:
                    gone = leaving_cost(worth, alike, top_codes, tied, i, A)
                    prepare_exchange(codes, members, b, A, B, i, alike, top_codes, tied, left, same)
                    for c in range(q):
                        if same[c] < top_codes[B, c]:
                            added += worth[c]
                    wish += gone + added
                if wish > screen * heat[i]:
                    continue
                best, partner = np.float32(0.0), np.int64(-1)
                if a > k and b < top:
                    cost = np.float32(b) * share[b + 1] * there - np.float32(a) * share[a - 1] * here
                    cost += gone + added - T * logs[at]
                    if cost < best:
                        best, partner = cost, np.int64(-2)
                for c in range(p):
                    step[c] = two * (centres[B, c] - centres[A, c])
                w = share[a] + share[b]
                for y in range(b):
                    at = (at * 1597 + 51749) & 4095
                    j = np.int64(members[B, y])
                    cost = shift_cost(X, i, j, step, w) - T * logs[at]
                    if q > 0:
                        cost += exchange_cost(
                            codes, worth, members, a, A, B, i, j, alike, top_codes, tied, left, same, inside
                        )
                    if cost < best:
                        best, partner = cost, j
                if partner == -1:
                    continue
                moved += 1
                if partner == -2:
                    _leave(table, groups, share, i, A)
                    _join(table, groups, share, i, B)
                    labels[i] = B
                else:
                    swap(X, labels, members, place, centres, share[a], share[b], i, partner)
                    if q > 0:
                        count_codes(codes, members, a, A, alike, top_codes, tied)
                        count_codes(codes, members, b, B, alike, top_codes, tied)
            temperature *= ratio
    return moved


@kernel()
def _leave(table, groups, share, i, A):
    """Take record i out of the state of group A; its label is left to the caller."""
    leave(table.X, groups.sizes, groups.members, groups.place, groups.centres, share, i, A)
    if table.worth.size > 0:
        drop_codes(table.codes, groups.members, groups.sizes[A], A, i, groups.alike, groups.top, groups.tied)


@kernel()
def _join(table, groups, share, i, B):
    """Put record i into the state of group B; its label is left to the caller."""
    join(table.X, groups.sizes, groups.members, groups.place, groups.centres, share, i, B)
    if table.worth.size > 0:
        add_codes(table.codes, groups.members, groups.sizes[B], B, i, groups.alike, groups.top, groups.tied)


@kernel()
def _cost_of_leaving(table, groups, share, i, A):
    s = np.int64(groups.sizes[A])
    cost = -np.float32(s) * share[s - 1] * squared_distance(table.X, i, groups.centres, A)
    return cost + leaving_cost(table.worth, groups.alike, groups.top, groups.tied, i, A)


@kernel()
def _cost_of_joining(table, groups, share, i, B):
    """A record that joins adds s / (s + 1) times its distance to the mean so far."""
    s = np.int64(groups.sizes[B])
    cost = np.float32(s) * share[s + 1] * squared_distance(table.X, i, groups.centres, B)
    return cost + joining_cost(table.codes, table.worth, groups.members, s, groups.top, i, B)


@kernel()
def _dissolve(table, groups, job, share, picked, targets, k, A, bar, r):
    """Send the k records of group A to groups near them that have room, if it costs less than `bar`."""
    near, labels, sizes, members, owner = (
        table.near,
        groups.labels,
        groups.sizes,
        groups.members,
        groups.owner,
    )
    cost = -mode_cost(table.worth, groups.top, k, A)
    for q in range(k):
        picked[q] = members[A, q]
        cost -= squared_distance(table.X, picked[q], groups.centres, A)
    done, m = 0, np.uint64(near.shape[1])
    for q in range(k):
        i = picked[q]
        best, best_d = np.int64(-1), np.float32(np.inf)
        for _ in range(6):
            r = random_bits(r)
            g = np.int64(labels[near[i, np.int64(((r >> np.uint64(32)) * m) >> np.uint64(32))]])
            if g == A or g == best or owner[g] != job or sizes[g] >= 2 * k - 1:
                continue
            d = _cost_of_joining(table, groups, share, i, g)
            if d < best_d:
                best, best_d = g, d
        cost += best_d
        if not cost < bar:  # the costs that follow are not negative
            break
        targets[q] = best
        _join(table, groups, share, i, best)
        done += 1
    if done < k:
        for q in range(done - 1, -1, -1):
            _leave(table, groups, share, picked[q], targets[q])
        for q in range(k):
            groups.place[picked[q]] = q
        if table.worth.size > 0:
            count_codes(table.codes, members, k, A, groups.alike, groups.top, groups.tied)
        return False
    for q in range(k):
        labels[picked[q]] = targets[q]
    sizes[A] = 0
    return True


@kernel()
def _found(table, groups, job, share, picked, k, new, i, bar):  # noqa: C901 - one step of a compiled search, case by case
    """Make a group of record i and the nearest records that their groups can spare, if it costs less than `bar`."""
    near, labels, sizes, owner = table.near, groups.labels, groups.sizes, groups.owner
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
        cost += _cost_of_leaving(table, groups, share, j, g)
        _leave(table, groups, share, j, g)
        picked[got] = j
        got += 1
        if got == k:
            break
    if got == k:
        sizes[new] = 0
        for a in range(table.X.shape[1]):
            groups.centres[new, a] = 0.0
        for c in range(table.worth.size):
            groups.top[new, c] = 0
        for q in range(k):
            cost += _cost_of_joining(table, groups, share, picked[q], new)
            _join(table, groups, share, picked[q], new)
        if cost < bar:
            for q in range(k):
                labels[picked[q]] = new
            return True
        sizes[new] = 0
    for q in range(got - 1, -1, -1):
        _join(table, groups, share, picked[q], labels[picked[q]])
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
