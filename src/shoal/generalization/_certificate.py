"""What no local recoding can go below: prices of records that no class of k can undercut."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._lattice import Lattice, node_cost, number_classes, slots_for

# Nodes looked at; every node left out costs at least as much as the prices are then cut to.
MOST_NODES = 40_000


def lower_bound(lattice: Lattice, k: int, prices: np.ndarray, sweeps: int = 1) -> float:
    """A proven lower bound of the mean loss of a record over all local recodings with classes of k.

    Parameters
    ----------
    lattice : Lattice
    k : int
    prices : array of float64, (n_tuples,)
        What each distinct record costs in a recoding at hand: where the search for prices starts.
    sweeps : int, default 1
        Rounds in which prices are raised into the room that is left, and refined.

    Notes
    -----
    Prices u are a bound, sum n_i u_i, if in every class of at least k records of every node the k largest
    prices sum to no more than k times what a record costs there: a class of a recoding with s >= k records
    costs s c >= the sum of its prices, since its s prices are at most s / k times the k largest. `own` prices,
    the cheapest class of k a record has at all, are such; higher ones are lowered towards them where a class
    is violated, and lowering violates no other. Nodes are visited by rising cost of their cheapest class, and
    none is needed whose cheapest class costs as much as the highest price.
    """
    least = lattice.least_costs()
    nodes, rest = lattice.nodes_by(least, MOST_NODES, float(prices.max()) + 1e-12)
    cheapest = np.array([sum(least[c][level] for c, level in enumerate(node)) for node in nodes.tolist()])
    arrays = (lattice.tuples, lattice.counts, nodes, cheapest, lattice.up, lattice.keys, lattice.cost)
    floor = np.minimum(prices, rest)
    floor[lattice.counts >= k] = 0.0
    _own(*arrays, k, floor)
    u = np.maximum(floor, np.minimum(prices, rest))
    u[lattice.counts >= k] = 0.0
    _refine(*arrays, k, floor, u)
    best = float((u * lattice.counts).sum())
    for _ in range(sweeps):
        room = np.full(u.size, np.inf)
        _room(*arrays, k, u, room)
        room[(lattice.counts >= k) | ~np.isfinite(room)] = 0.0
        u = np.minimum(u + 0.6 * np.maximum(room, 0.0), rest)
        _refine(*arrays, k, floor, u)
        best = max(best, float((u * lattice.counts).sum()))
    # Sums of up to millions of prices: what rounding may have added is taken off again.
    return max(0.0, best / lattice.n_records - 1e-12)


# Kernels: distinct records, nodes by rising cost of their cheapest class; prices changed in place.


@kernel()
def _own(tuples, counts, nodes, cheapest, up, keys, cost, k, floor):
    """The cheapest class of k records each record has: no price below it can be too high."""
    n = tuples.shape[0]
    rows, slots = np.arange(n), slots_for(n)
    places, seen, ids = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    sizes, price = np.empty(n, np.int64), np.empty(n)
    highest = floor.max()
    for a in range(nodes.shape[0]):
        if a & 63 == 0:
            highest = floor.max()
        if cheapest[a] >= highest:
            break
        classes = number_classes(tuples, rows, n, nodes[a], up, keys, slots, places, seen, ids)
        for j in range(classes):
            sizes[j] = 0
            price[j] = -1.0
        for i in range(n):
            sizes[ids[i]] += counts[i]
        for i in range(n):
            j = ids[i]
            if sizes[j] >= k and floor[i] > cheapest[a]:
                if price[j] < 0.0:
                    price[j] = node_cost(tuples, i, nodes[a], up, cost)
                floor[i] = min(floor[i], price[j])


@kernel()
def _refine(tuples, counts, nodes, cheapest, up, keys, cost, k, floor, u):  # noqa: C901 - one step of a compiled search, case by case
    """Lower prices towards the floor until no class of k records is violated."""
    n = tuples.shape[0]
    rows, slots = np.arange(n), slots_for(n)
    places, seen, ids = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    sizes, price, highest = np.empty(n, np.int64), np.empty(n), np.empty(n)
    start, fill, members = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    top = np.empty(k, np.int64)
    for a in range(nodes.shape[0]):
        if cheapest[a] >= u.max():
            break
        classes = number_classes(tuples, rows, n, nodes[a], up, keys, slots, places, seen, ids)
        for j in range(classes):
            sizes[j], price[j], highest[j], fill[j] = 0, -1.0, 0.0, 0
        for i in range(n):
            sizes[ids[i]] += counts[i]
            highest[ids[i]] = max(highest[ids[i]], u[i])
        for i in range(n):
            j = ids[i]
            if sizes[j] >= k and highest[j] > cheapest[a]:
                if price[j] < 0.0:
                    price[j] = node_cost(tuples, i, nodes[a], up, cost)
                fill[j] += 1
        at = 0
        for j in range(classes):
            start[j] = -1
            if price[j] >= 0.0 and highest[j] > price[j]:
                start[j] = at
                at += fill[j]
            fill[j] = start[j]
        for i in range(n):
            if start[ids[i]] >= 0:
                members[fill[ids[i]]] = i
                fill[ids[i]] += 1
        for j in range(classes):
            if start[j] >= 0:
                _lower(members[start[j] : fill[j]], counts, k, price[j], floor, u, top)


@kernel()
def _lower(members, counts, k, price, floor, u, top):
    """Make the k largest prices of one class sum to no more than k times its cost."""
    for _ in range(64):
        have, chosen, total, above = 0, 0, 0.0, 0.0
        while have < k:
            best, most = -1, -1.0
            for t in range(members.shape[0]):
                i = members[t]
                used = False
                for x in range(chosen):
                    used = used or top[x] == i
                if not used and u[i] > most:
                    best, most = i, u[i]
            if best < 0:
                break
            taken = min(counts[best], k - have)
            top[chosen] = best
            chosen += 1
            have += taken
            total += taken * most
            above += taken * (most - floor[best])
        over = total - k * price
        # Prices at the floor exceed no class but by rounding.
        if over <= 0.0 or above <= 0.0:
            return
        # Once these are lowered others may be the largest: look again.
        share = min(1.0, over / above * (1.0 + 1e-9))
        for x in range(chosen):
            u[top[x]] -= share * (u[top[x]] - floor[top[x]])
    # Still over after so many rounds: the floor is always allowed.
    for t in range(members.shape[0]):
        u[members[t]] = min(u[members[t]], max(floor[members[t]], 0.0))


@kernel()
def _room(tuples, counts, nodes, cheapest, up, keys, cost, k, u, room):  # noqa: C901, PLR0912 - one step of a compiled search, case by case
    """How far each price could be raised alone."""
    n = tuples.shape[0]
    rows, slots = np.arange(n), slots_for(n)
    places, seen, ids = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    sizes, price = np.empty(n, np.int64), np.empty(n)
    largest, left = np.empty((n, k)), np.empty(n)
    for a in range(nodes.shape[0]):
        if cheapest[a] >= u.max():
            break
        classes = number_classes(tuples, rows, n, nodes[a], up, keys, slots, places, seen, ids)
        for j in range(classes):
            sizes[j], price[j] = 0, -1.0
            for y in range(k):
                largest[j, y] = -1.0
        for i in range(n):
            sizes[ids[i]] += counts[i]
        for i in range(n):
            j = ids[i]
            if sizes[j] < k:
                continue
            if price[j] < 0.0:
                price[j] = node_cost(tuples, i, nodes[a], up, cost)
            for _ in range(min(counts[i], k)):
                if u[i] <= largest[j, k - 1]:
                    break
                at = k - 1
                while at > 0 and largest[j, at - 1] < u[i]:
                    largest[j, at] = largest[j, at - 1]
                    at -= 1
                largest[j, at] = u[i]
        for j in range(classes):
            if price[j] >= 0.0:
                left[j] = k * price[j]
                for y in range(k):
                    left[j] -= max(largest[j, y], 0.0)
        for i in range(n):
            j = ids[i]
            if sizes[j] >= k:
                inside = u[i] >= largest[j, k - 1]
                here = left[j] / min(counts[i], k) if inside else left[j] + largest[j, k - 1] - u[i]
                room[i] = min(room[i], here)
