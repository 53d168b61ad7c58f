"""What no local recoding can go below: prices of records that no class of k can undercut."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._lattice import Lattice

# Nodes looked at; every node left out costs at least as much as the prices are then cut to.
MOST_NODES = 40_000
# Combinations of levels that a part of the columns may have: its classes are numbered once for each.
COMBINATIONS = 256
# Classes whose cost a price reaches to this share say how far it can be raised; what is raised too far is lowered again.
NEAR = 1.0


class ColumnParts(NamedTuple):
    """Columns in a few parts, so that a class of a node is told by one number for each part.

    `of_node` is the combination of each node in each part, `ids` the class of each distinct record at a combination,
    `cost` what such a class costs, `stride` what the numbers are multiplied by to tell classes apart.
    """

    of_node: np.ndarray
    ids: np.ndarray
    cost: np.ndarray
    stride: np.ndarray


class PassTables(NamedTuple):
    """What a pass over the nodes needs: a table of keys, and the classes it finds with their members."""

    slots: np.ndarray
    places: np.ndarray
    seen: np.ndarray
    price: np.ndarray
    sizes: np.ndarray
    starts: np.ndarray
    members: np.ndarray
    ids: np.ndarray
    inside: np.ndarray
    hot: np.ndarray
    marks: np.ndarray


def lower_bound(lattice: Lattice, k: int, prices: np.ndarray, sweeps: int = 0) -> float:
    """A proven lower bound of the mean loss of a record over all local recodings with classes of k.

    Parameters
    ----------
    lattice : Lattice
    k : int
    prices : array of float64, (n_tuples,)
        What each distinct record costs in a recoding at hand: where the search for prices starts.
    sweeps : int, default 0
        Rounds in which prices are raised as far as they may, and refined.

    Notes
    -----
    Prices u are a bound, sum n_i u_i, if in every class of at least k records of every node the k largest
    prices sum to no more than k times what a record costs there: a class of a recoding with s >= k records
    costs s c >= the sum of its prices, since its s prices are at most s / k times the k largest. `own` prices,
    the cheapest class of k a record has at all, are such; higher ones are lowered towards them where a class
    is violated, and lowering violates no other. Only a class with a price above its cost can be violated, so that
    others are not looked at. Nodes are visited by rising cost of their cheapest class, and none is needed whose
    cheapest class costs as much as the highest price.
    """
    least = lattice.least_costs()
    nodes, rest = lattice.nodes_by(least, MOST_NODES, float(prices.max()) + 1e-12)
    cheapest = np.array([sum(least[c][level] for c, level in enumerate(node)) for node in nodes.tolist()])
    parts = _parts(lattice, nodes)
    counts, tables = lattice.counts, _workspace(lattice.counts.size, parts.stride.size)
    fixed = counts >= k
    floor = np.minimum(prices, rest)
    floor[fixed] = 0.0
    _own(counts, parts, cheapest, k, floor, tables)
    u = np.maximum(floor, np.minimum(prices, rest))
    u[fixed] = 0.0
    _refine(counts, parts, cheapest, k, floor, u, tables)
    best = float((u * counts).sum())
    for _ in range(sweeps):
        left = np.full(u.size, np.inf)
        _leeway(counts, parts, cheapest, k, u, left, tables)
        left[fixed | ~np.isfinite(left)] = 0.0
        u = np.minimum(u + 0.6 * np.maximum(left, 0.0), rest)
        _refine(counts, parts, cheapest, k, floor, u, tables)
        best = max(best, float((u * counts).sum()))
    # Sums of up to millions of prices: what rounding may have added is taken off again.
    return max(0.0, best / lattice.n_records - 1e-12)


def _parts(lattice: Lattice, nodes: np.ndarray) -> ColumnParts:
    """Cut the columns into parts, and number the classes of each part at each combination of its levels."""
    n, levels = lattice.tuples.shape[0], lattice.n_levels
    groups: list[list[int]] = [[]]
    for c in range(len(levels)):
        if groups[-1] and np.prod([levels[x] for x in (*groups[-1], c)]) > COMBINATIONS:
            groups.append([])
        groups[-1].append(c)
    of_node = np.empty((nodes.shape[0], len(groups)), np.int64)
    ids: list[np.ndarray] = []
    costs: list[np.ndarray] = []
    for at, columns in enumerate(groups):
        chosen, of_node[:, at] = np.unique(nodes[:, columns], axis=0, return_inverse=True)
        of_node[:, at] += len(ids)
        for node in chosen:
            cells = [
                lattice.up[c, level, lattice.tuples[:, c]] for c, level in zip(columns, node, strict=True)
            ]
            key = sum(lattice.keys[c][cell] for c, cell in zip(columns, cells, strict=True))
            _, first, number = np.unique(key, return_index=True, return_inverse=True)
            price = sum(lattice.cost[c][cell[first]] for c, cell in zip(columns, cells, strict=True))
            ids.append(number.reshape(-1).astype(np.int32))
            costs.append(price)
    table = np.zeros((len(costs), max(each.size for each in costs)))
    for at, each in enumerate(costs):
        table[at, : each.size] = each
    exact = float(n) ** len(groups) < 1 << 62
    random = np.random.default_rng(0x5EED).integers(1 << 40, 1 << 62, len(groups)) | 1
    stride = np.array([n**at for at in range(len(groups))], np.int64) if exact else random
    return ColumnParts(of_node, np.stack(ids), table, stride)


def _workspace(n: int, parts: int) -> PassTables:
    places, seen, sizes, members, ids, inside, hot = (np.zeros(n, np.int64) for _ in range(7))
    slots = np.full(1 << max(4, int(4 * n).bit_length()), -1, np.int64)
    starts, marks = np.zeros(n + 1, np.int64), np.zeros((parts, n), np.uint8)
    return PassTables(slots, places, seen, np.zeros(n), sizes, starts, members, ids, inside, hot, marks)


# Kernels: distinct records, nodes by rising cost of their cheapest class; prices changed in place.


@kernel()
def _classes(a, counts, parts, alive, many, limit, share, tables):  # noqa: C901 - one step of a compiled search, case by case
    """Find the classes of node a in which a record's limit exceeds a share of the cost; their number."""
    width, found = parts.stride.shape[0], 0
    for t in range(many):
        i, price = alive[t], 0.0
        for h in range(width):
            at = parts.of_node[a, h]
            price += parts.cost[at, parts.ids[at, i]]
        if limit[i] > share * price:
            tables.hot[found] = i
            found += 1
    if found == 0:
        return 0
    bits = 4
    while (1 << bits) < 4 * found:
        bits += 1
    mask, shift, classes = (1 << bits) - 1, np.uint64(64 - bits), 0
    for t in range(found):
        key, price = np.int64(0), 0.0
        for h in range(width):
            at = parts.of_node[a, h]
            part = parts.ids[at, tables.hot[t]]
            key += part * parts.stride[h]
            price += parts.cost[at, part]
            tables.marks[h, part] = 1
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while tables.slots[at] != -1 and tables.seen[tables.slots[at]] != key:
            at = (at + 1) & mask
        if tables.slots[at] == -1:
            tables.slots[at] = classes
            tables.seen[classes], tables.places[classes], tables.price[classes] = key, at, price
            tables.sizes[classes] = tables.starts[classes] = 0
            classes += 1
    matched = _members(a, counts, parts, mask, shift, tables)
    for j in range(classes):
        tables.slots[tables.places[j]] = -1
    for t in range(found):
        for h in range(width):
            tables.marks[h, parts.ids[parts.of_node[a, h], tables.hot[t]]] = 0
    total = 0
    for j in range(classes):
        total += tables.starts[j]
        tables.starts[j] = total
    tables.starts[classes] = total
    for t in range(matched - 1, -1, -1):
        j = tables.ids[t]
        tables.starts[j] -= 1
        tables.members[tables.starts[j]] = tables.inside[t]
    return classes


@kernel()
def _members(a, counts, parts, mask, shift, tables):
    """List the records of the classes in the table, with their class, and count them; their number."""
    width, matched = parts.stride.shape[0], 0
    first, marks = parts.ids[parts.of_node[a, 0]], tables.marks[0]
    for i in range(counts.shape[0]):
        # Most records share no part of their class with a record in question: they are passed over at once.
        if marks[np.uint32(first[i])] == 0:
            continue
        key, apart = first[i] * parts.stride[0], False
        for h in range(1, width):
            part = parts.ids[parts.of_node[a, h], i]
            apart = apart or tables.marks[h, part] == 0
            key += part * parts.stride[h]
        if apart:
            continue
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)
        while tables.slots[at] != -1 and tables.seen[tables.slots[at]] != key:
            at = (at + 1) & mask
        j = tables.slots[at]
        if j >= 0:
            tables.sizes[j] += counts[i]
            tables.starts[j] += 1
            tables.ids[matched], tables.inside[matched] = j, i
            matched += 1
    return matched


@kernel()
def _still(alive, many, limit, floor):
    """Keep those whose limit lies above a floor that only rises."""
    kept = 0
    for t in range(many):
        if limit[alive[t]] > floor:
            alive[kept] = alive[t]
            kept += 1
    return kept


@kernel()
def _own(counts, parts, cheapest, k, floor, tables):
    """The cheapest class of k records each record has: no price below it can be too high."""
    alive, many = np.arange(counts.shape[0]), counts.shape[0]
    for a in range(cheapest.shape[0]):
        if a & 15 == 0:
            many = _still(alive, many, floor, cheapest[a])
        if many == 0:
            break
        for j in range(_classes(a, counts, parts, alive, many, floor, 1.0, tables)):
            if tables.sizes[j] >= k:
                for t in range(tables.starts[j], tables.starts[j + 1]):
                    floor[tables.members[t]] = min(floor[tables.members[t]], tables.price[j])


@kernel()
def _refine(counts, parts, cheapest, k, floor, u, tables):
    """Lower prices towards the floor until no class of k records is violated."""
    alive, many = np.arange(counts.shape[0]), counts.shape[0]
    top = np.empty(k, np.int64)
    for a in range(cheapest.shape[0]):
        if a & 15 == 0:
            many = _still(alive, many, u, cheapest[a])
        if many == 0:
            break
        for j in range(_classes(a, counts, parts, alive, many, u, 1.0, tables)):
            if tables.sizes[j] >= k:
                members = tables.members[tables.starts[j] : tables.starts[j + 1]]
                _lower(members, counts, k, tables.price[j], floor, u, top)


@kernel()
def _largest(members, counts, k, u, top):
    """The records of the k largest prices of a class, each as often as it counts; how many there are."""
    have = 0
    for t in range(members.shape[0]):
        i = members[t]
        for _ in range(min(counts[i], k)):
            if have == k and u[i] <= u[top[k - 1]]:
                break
            at = have if have < k else k - 1
            while at > 0 and u[top[at - 1]] < u[i]:
                top[at] = top[at - 1]
                at -= 1
            top[at] = i
            have = min(have + 1, k)
    return have


@kernel()
def _lower(members, counts, k, price, floor, u, top):
    """Make the k largest prices of one class sum to no more than k times its cost."""
    for _ in range(64):
        have, total, above = _largest(members, counts, k, u, top), 0.0, 0.0
        for x in range(have):
            total += u[top[x]]
            above += u[top[x]] - floor[top[x]]
        over = total - k * price
        # Prices at the floor exceed no class but by rounding.
        if over <= 0.0 or above <= 0.0:
            return
        # Once these are lowered others may be the largest: look again.
        share = min(1.0, over / above * (1.0 + 1e-9))
        for x in range(have):
            if x == 0 or top[x] != top[x - 1]:
                u[top[x]] -= share * (u[top[x]] - floor[top[x]])
    # Still over after so many rounds: the floor is always allowed.
    for t in range(members.shape[0]):
        u[members[t]] = min(u[members[t]], max(floor[members[t]], 0.0))


@kernel()
def _leeway(counts, parts, cheapest, k, u, left, tables):
    """How far each price could be raised alone."""
    alive, many = np.arange(counts.shape[0]), counts.shape[0]
    top = np.empty(k, np.int64)
    for a in range(cheapest.shape[0]):
        if a & 15 == 0:
            many = _still(alive, many, u, NEAR * cheapest[a])
        if many == 0:
            break
        for j in range(_classes(a, counts, parts, alive, many, u, NEAR, tables)):
            if tables.sizes[j] < k:
                continue
            members = tables.members[tables.starts[j] : tables.starts[j + 1]]
            have, free = _largest(members, counts, k, u, top), k * tables.price[j]
            for x in range(have):
                free -= u[top[x]]
            smallest = u[top[have - 1]]
            for t in range(members.shape[0]):
                i = members[t]
                here = free / min(counts[i], k) if u[i] >= smallest else free + smallest - u[i]
                left[i] = min(left[i], here)
