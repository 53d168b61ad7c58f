"""Local suppression read in other ways than as a value of its own: by record, and by wildcards."""

from __future__ import annotations

import itertools

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._lattice import Lattice, number_classes, slots_for

# Pairs of distinct records compared to count whom a release exposes.
MOST_PAIRS = 4_000_000_000


def suppress_own(lattice: Lattice, k: int, max_masks: int = 1 << 20) -> np.ndarray:
    """The cheapest cells of each record without which at least k - 1 others agree with what is left of it.

    Returns
    -------
    array of bool, (n_tuples, n_columns)
        Exact: every set of cells is tried by rising cost, and a record takes the first that serves.
    """
    costs = lattice.least_costs()
    nodes, _ = lattice.nodes_by(costs, max_masks)
    chosen = _first_that_serves(lattice.tuples, lattice.counts, nodes, lattice.up, lattice.keys, k)
    return nodes[chosen] > 0


def suppress_subsets(lattice: Lattice, k: int, most: int) -> np.ndarray:
    """The cheapest cells of each record so that no combination of up to `most` of those left is rare.

    Returns
    -------
    array of bool, (n_tuples, n_columns)
        A smallest set of cells that meets every rare combination of the record.
    """
    n, q = lattice.tuples.shape
    rare: list[tuple[int, np.ndarray]] = []
    for size in range(1, most + 1):
        for chosen in itertools.combinations(range(q), size):
            key = sum(lattice.keys[c][lattice.tuples[:, c]] for c in chosen)
            ids = np.unique(key, return_inverse=True)[1].reshape(-1)
            few = np.bincount(ids, weights=lattice.counts)[ids] < k
            if few.any():
                rare.append((sum(1 << c for c in chosen), few))
    weight = np.array([lattice.cost[c].max() for c in range(q)])
    order = sorted(
        range(1 << q), key=lambda mask: float(weight[[c for c in range(q) if mask >> c & 1]].sum())
    )
    best = np.full(n, -1, np.int64)
    for mask in order:
        open_ = best < 0
        if not open_.any():
            break
        bad = np.zeros(n, bool)
        for combination, few in rare:
            if not combination & mask:
                bad |= few
        best[open_ & ~bad] = mask
    return (best[:, None] >> np.arange(q)) & 1 == 1


def suppress_wildcards(rows: np.ndarray, k: int, importance: np.ndarray) -> np.ndarray:
    """Cells blanked one after the other until each record agrees with k, a blank agreeing with everything.

    As sdcMicro counts: each record loses the cheapest cell that helps, of equal ones that of the column with
    the most values. For comparison only: blank records make company for everyone, so persons stay exposed.
    """
    values = np.array([np.unique(column).size for column in rows.T])
    order = np.lexsort((-values, importance)).astype(np.int64)
    return _wildcards(np.ascontiguousarray(rows, np.int32), k, order)


def exposed(
    original: np.ndarray, counts: np.ndarray, released: np.ndarray, many: np.ndarray, k: int
) -> int | None:
    """Persons who agree with fewer than k released records, a blank (-1) agreeing with everyone.

    Returns None where the table is too large to compare.
    """
    if original.shape[0] * released.shape[0] > MOST_PAIRS:
        return None
    return int(counts[_agreeing(original, released, many, k) < k].sum())


# Kernels: leaves in; a blank is -1.


@kernel()
def _first_that_serves(tuples, counts, nodes, up, keys, k):
    n = tuples.shape[0]
    rows, slots = np.arange(n), slots_for(n)
    places, seen, ids = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    sizes = np.empty(n, np.int64)
    chosen = np.full(n, -1, np.int64)
    left = n
    for a in range(nodes.shape[0]):
        if left == 0:
            break
        classes = number_classes(tuples, rows, n, nodes[a], up, keys, slots, places, seen, ids)
        for j in range(classes):
            sizes[j] = 0
        for i in range(n):
            sizes[ids[i]] += counts[i]
        for i in range(n):
            if chosen[i] < 0 and sizes[ids[i]] >= k:
                chosen[i] = a
                left -= 1
    return chosen


@kernel()
def _agreeing(original, released, many, k):
    found = np.zeros(original.shape[0], np.int64)
    for j in range(original.shape[0]):
        for i in range(released.shape[0]):
            same = True
            for c in range(original.shape[1]):
                if released[i, c] >= 0 and released[i, c] != original[j, c]:
                    same = False
                    break
            if same:
                found[j] += many[i]
                if found[j] >= k:
                    break
    return found


@kernel()
def _company(work, r, skip):
    """Records that agree with record r when one more of its cells is blank, both sides' blanks agreeing."""
    found = 0
    for j in range(work.shape[0]):
        same = True
        for c in range(work.shape[1]):
            if c != skip and work[r, c] >= 0 and work[j, c] >= 0 and work[r, c] != work[j, c]:
                same = False
                break
        if same:
            found += 1
    return found


@kernel()
def _wildcards(rows, k, order):
    work = rows.copy()
    gone = np.zeros(rows.shape, np.bool_)
    for r in range(rows.shape[0]):
        while _company(work, r, -1) < k:
            chosen, most = -1, -1
            for x in range(order.shape[0]):
                c = order[x]
                if work[r, c] < 0:
                    continue
                found = _company(work, r, c)
                if found >= k:
                    chosen = c
                    break
                if found > most:
                    chosen, most = c, found
            if chosen < 0:
                break
            work[r, chosen] = -1
            gone[r, chosen] = True
    return gone
