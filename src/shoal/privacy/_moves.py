"""Moves of groups that lack diversity or closeness: merge with another, or swap a record with it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.privacy._closeness import equal_distance, ordered_distance, tree_distance
from shoal.privacy._profile import ascend

DISTINCT, EQUAL, ORDERED, TREE = range(4)
_SLACK = 1e-12
# How many records of a group are tried for swaps: those it would best give away.
_GIVEN = 8


class Demands(NamedTuple):
    """What every group must meet, as arrays: one row per sensitive column, one entry per demand."""

    codes: np.ndarray
    model: np.ndarray
    column: np.ndarray
    limit: np.ndarray
    totals: np.ndarray
    cumulative: np.ndarray
    above: np.ndarray
    n_values: np.ndarray
    mass: np.ndarray
    parent: np.ndarray
    height: np.ndarray
    n_nodes: np.ndarray
    population: int


# Kernels. A group is a chain of records: `head` the first of each group, `after` the next of each record.


@kernel()
def excess_of(d, records, scratch):
    """What a set of records lacks of its demands, in all; 0 where it meets them."""
    total = 0.0
    n = d.population
    size = records.shape[0]
    for r in range(d.model.shape[0]):
        q = d.column[r]
        values = _sorted_values(d.codes[q], records)
        m = d.n_values[q]
        if d.model[r] == DISTINCT:
            count = 1
            for i in range(1, size):
                count += values[i] != values[i - 1]
            total += max(0.0, (d.limit[r] - count) / d.limit[r])
            continue
        if d.model[r] == EQUAL:
            distance = equal_distance(values, 0, size, d.totals[q], n)
        elif d.model[r] == ORDERED:
            distance = ordered_distance(values, 0, size, d.cumulative[q][:m], d.above[q][: m + 1])
        else:
            nodes = d.n_nodes[q]
            distance = tree_distance(
                values, 0, size, d.mass[q][:nodes], d.parent[q][:nodes], d.height[q][:nodes], scratch
            )
        if distance > d.limit[r] + _SLACK:
            total += distance - d.limit[r]
    return total


@kernel()
def _sorted_values(codes, records):
    values = np.empty(records.shape[0], np.int64)
    for i in range(records.shape[0]):
        values[i] = codes[records[i]]
    ascend(values)
    return values


@kernel()
def all_excess(d, order, starts):
    out = np.empty(starts.shape[0] - 1)
    scratch = np.zeros(max(d.mass.shape[1], 1), np.int64)
    for g in range(out.shape[0]):
        out[g] = excess_of(d, order[starts[g] : starts[g + 1]], scratch)
    return out


@kernel()
def _members(head, after, g, size):
    records = np.empty(size, np.int64)
    i = head[g]
    for at in range(size):
        records[at] = i
        i = after[i]
    return records


@kernel()
def _root(into, g):
    while into[g] != g:
        g = into[g]
    return g


@kernel()
def one_round(X, labels, order, starts, excess, short, nearest, d, largest):  # noqa: C901 - one step of a compiled search, case by case
    """Let every group that is short make its best moves; a merge ends its turn."""
    n, p = X.shape
    c = starts.shape[0] - 1
    scratch = np.zeros(max(d.mass.shape[1], 1), np.int64)
    mine_by, theirs_by = np.zeros(d.totals.shape, np.int64), np.zeros(d.totals.shape, np.int64)
    head, last = order[starts[:-1]], order[starts[1:] - 1]
    after = np.full(n, -1, np.int64)
    sums = np.zeros((c, p))
    sizes = np.zeros(c, np.int64)
    into = np.arange(c)
    for g in range(c):
        for at in range(starts[g], starts[g + 1]):
            i = order[at]
            if at + 1 < starts[g + 1]:
                after[i] = order[at + 1]
            for a in range(p):
                sums[g, a] += X[i, a]
        sizes[g] = starts[g + 1] - starts[g]
    labels = labels.copy()
    for turn in range(short.shape[0]):
        g = short[turn]
        if into[g] != g or excess[g] <= 0.0:
            continue
        swaps_left = sizes[g]
        while excess[g] > 0.0:
            _, h, i, j = _best_move(
                X,
                head,
                after,
                sums,
                sizes,
                into,
                excess,
                g,
                nearest[turn],
                d,
                largest if swaps_left > 0 else 0,
                scratch,
                mine_by,
                theirs_by,
            )
            if h < 0:
                break
            if i < 0:
                _merge(head, last, after, sums, sizes, into, g, h)
                excess[g] = excess_of(d, _members(head, after, g, sizes[g]), scratch)
                break
            _exchange(X, head, last, after, sums, g, h, i, j)
            excess[g] = excess_of(d, _members(head, after, g, sizes[g]), scratch)
            excess[h] = excess_of(d, _members(head, after, h, sizes[h]), scratch)
            swaps_left -= 1
    for g in range(c):
        if into[g] == g:
            i = head[g]
            while i >= 0:
                labels[i] = g
                i = after[i]
    return labels


@kernel()
def _best_move(X, head, after, sums, sizes, into, excess, g, near, d, largest, scratch, mine_by, theirs_by):  # noqa: C901, PLR0912, PLR0915 - one step of a compiled search, case by case
    """The move of g with the least cost per unit of excess: a merge with h, or a swap of i for h's j."""
    p = X.shape[1]
    best, best_h, best_i, best_j = np.inf, -1, -1, -1
    mine = _members(head, after, g, sizes[g])
    if sizes[g] > largest:
        largest = 0
    given = _to_give(X, sums[g], mine, d, scratch) if largest > 0 else mine
    # Where only counts matter, a swap is judged by the two values that change.
    quick = True
    for r in range(d.model.shape[0]):
        quick = quick and d.model[r] <= EQUAL
    if quick and largest > 0:
        my_figures = _count(d, mine, mine_by)
    for at in range(near.shape[0]):
        if near[at] < 0:
            break
        h = _root(into, near[at])
        if h == g:
            continue
        theirs = _members(head, after, h, sizes[h])
        both = excess[g] + excess[h]
        apart = 0.0
        for a in range(p):
            t = sums[g, a] / sizes[g] - sums[h, a] / sizes[h]
            apart += t * t
        cost = apart * sizes[g] * sizes[h] / (sizes[g] + sizes[h])
        if cost / both < best:
            gain = both - excess_of(d, np.concatenate((mine, theirs)), scratch)
            if gain > 0.0 and cost / gain < best:
                best, best_h, best_i, best_j = cost / gain, h, -1, -1
        if sizes[h] > largest:
            continue
        if quick:
            their_figures = _count(d, theirs, theirs_by)
        for x in given:
            for y in range(theirs.shape[0]):
                i, j = mine[x], theirs[y]
                alike = True
                for q in range(d.codes.shape[0]):
                    alike = alike and d.codes[q, i] == d.codes[q, j]
                if alike:
                    continue
                cost, square = 0.0, 0.0
                for a in range(p):
                    step = X[j, a] - X[i, a]
                    cost += 2.0 * step * (sums[h, a] / sizes[h] - sums[g, a] / sizes[g])
                    square += step * step
                cost -= square * (1.0 / sizes[g] + 1.0 / sizes[h])
                if cost / both >= best:
                    continue
                if quick:
                    gain = both - _swapped(d, mine_by, my_figures, sizes[g], i, j)
                else:
                    mine[x], theirs[y] = j, i
                    gain = both - excess_of(d, mine, scratch)
                if gain > _SLACK and cost / gain < best:
                    if quick:
                        gain -= _swapped(d, theirs_by, their_figures, sizes[h], j, i)
                    else:
                        gain -= excess_of(d, theirs, scratch)
                    # A swap that lowers the loss is judged by that alone.
                    price = cost / gain if cost > 0.0 else cost / both
                    if gain > _SLACK and price < best:
                        best, best_h, best_i, best_j = price, h, i, j
                mine[x], theirs[y] = i, j
        if quick:
            _uncount(d, theirs, theirs_by)
    if quick and largest > 0:
        _uncount(d, mine, mine_by)
    return best, best_h, best_i, best_j


@kernel()
def _count(d, records, counts):
    """Count the values of a group into `counts`, and give its figure for each demand."""
    size, n = records.shape[0], d.population
    figures = np.zeros(d.model.shape[0])
    for q in range(d.codes.shape[0]):
        for i in records:
            counts[q, d.codes[q, i]] += 1
        for i in records:
            value = d.codes[q, i]
            count = counts[q, value]
            if count < 0:
                continue
            for r in range(d.model.shape[0]):
                if d.column[r] == q:
                    figures[r] += (
                        1.0 if d.model[r] == DISTINCT else max(0.0, count / size - d.totals[q, value] / n)
                    )
            counts[q, value] = -count  # looked at
        for i in records:
            counts[q, d.codes[q, i]] = abs(counts[q, d.codes[q, i]])
    return figures


@kernel()
def _uncount(d, records, counts):
    for q in range(d.codes.shape[0]):
        for i in records:
            counts[q, d.codes[q, i]] = 0


@kernel()
def _swapped(d, counts, figures, size, out, into):
    """Excess of a counted group that gives record `out` and takes record `into`."""
    total, n = 0.0, d.population
    for r in range(d.model.shape[0]):
        q = d.column[r]
        a, b = d.codes[q, out], d.codes[q, into]
        figure = figures[r]
        if d.model[r] == DISTINCT:
            if a != b:
                figure += (counts[q, b] == 0) - (counts[q, a] == 1)
            total += max(0.0, (d.limit[r] - figure) / d.limit[r])
            continue
        if a != b:
            ca, cb = counts[q, a], counts[q, b]
            qa, qb = d.totals[q, a] / n, d.totals[q, b] / n
            figure += max(0.0, (ca - 1) / size - qa) - max(0.0, ca / size - qa)
            figure += max(0.0, (cb + 1) / size - qb) - max(0.0, cb / size - qb)
        if figure > d.limit[r] + _SLACK:
            total += figure - d.limit[r]
    return total


@kernel()
def _to_give(X, total, mine, d, scratch):
    """Places of the records that a group would best give away: those whose loss leaves least excess.

    Among equals the one farthest from the centroid, which costs least.
    """
    size = mine.shape[0]
    if size <= _GIVEN:
        return np.arange(size)
    left = np.empty(size)
    far = np.zeros(size)
    rest = mine[1:].copy()
    for x in range(size):
        if x > 0:
            rest[x - 1] = mine[x - 1]
        left[x] = excess_of(d, rest, scratch)
        for a in range(X.shape[1]):
            t = X[mine[x], a] - total[a] / size
            far[x] += t * t
    given = np.empty(_GIVEN, np.int64)
    for at in range(_GIVEN):
        best = -1
        for x in range(size):
            if far[x] >= 0.0 and (
                best < 0 or left[x] < left[best] or (left[x] == left[best] and far[x] > far[best])
            ):
                best = x
        given[at] = best
        far[best] = -1.0
    return given


@kernel()
def _merge(head, last, after, sums, sizes, into, g, h):
    after[last[g]] = head[h]
    last[g] = last[h]
    sizes[g] += sizes[h]
    into[h] = g
    for a in range(sums.shape[1]):
        sums[g, a] += sums[h, a]


@kernel()
def _exchange(X, head, last, after, sums, g, h, i, j):
    """Put j in i's place in the chain of g, and i in j's place in the chain of h."""
    before_i, before_j = -1, -1
    at = head[g]
    while at != i:
        before_i = at
        at = after[at]
    at = head[h]
    while at != j:
        before_j = at
        at = after[at]
    after[i], after[j] = after[j], after[i]
    if before_i < 0:
        head[g] = j
    else:
        after[before_i] = j
    if before_j < 0:
        head[h] = i
    else:
        after[before_j] = i
    if last[g] == i:
        last[g] = j
    if last[h] == j:
        last[h] = i
    for a in range(X.shape[1]):
        step = X[j, a] - X[i, a]
        sums[g, a] += step
        sums[h, a] -= step
