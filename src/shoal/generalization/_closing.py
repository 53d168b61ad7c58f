"""A first local recoding: classes closed at the cheapest node of the lattice where they have k records."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._conditions import Conditions, class_holds
from shoal.generalization._lattice import Joined, Lattice, number_classes, slots_for


def close_classes(lattice: Lattice, conditions: Conditions, nodes: np.ndarray) -> np.ndarray:
    """Label every record: groups of open records become classes, nodes by rising cost; what is left joins.

    Parameters
    ----------
    lattice : Lattice
    conditions : Conditions
        What a class must hold; k among them.
    nodes : array of int64, (n_nodes, n_columns)
        The order in which levels are tried.
    """
    # Whoever k counts instead of records is looked at when classes that fail are joined: a table of all would be large.
    conditions = conditions.by_record()
    k, few = conditions.k, conditions.packed()
    by_tuple, groups = _close(
        lattice.tuples, lattice.counts, nodes, lattice.up, lattice.keys, k, conditions.table(lattice), *few
    )
    labels = by_tuple[lattice.of_row]
    left = np.flatnonzero(labels < 0)
    if left.size == 0:
        return labels
    if groups == 0:
        return np.zeros(labels.size, np.int64)
    rows = lattice.tuples[lattice.of_row]
    nodes_of = class_nodes(rows, labels, groups, lattice.joined)
    sizes = np.bincount(labels[labels >= 0], minlength=groups)
    order = left[np.argsort(lattice.of_row[left], kind="stable")]
    _join(rows, order, labels, nodes_of, sizes.astype(np.int64), lattice.joined)
    return labels


def class_nodes(rows: np.ndarray, labels: np.ndarray, groups: int, joined: Joined) -> np.ndarray:
    """The lowest common ancestors of each class, (n_classes, n_columns); -1 for an empty one."""
    nodes = np.full((groups, rows.shape[1]), -1, np.int64)
    _class_nodes(rows, labels, nodes, joined)
    return nodes


# Kernels: leaves of records, labels (-1 for nobody's) and nodes of classes, changed in place.


@kernel()
def _close(tuples, counts, nodes, up, keys, k, sensitive, spans, limits, shares):
    n = tuples.shape[0]
    labels = np.full(n, -1, np.int64)
    active = np.arange(n)
    slots = slots_for(n)
    places, ids, sizes = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    seen, given = np.empty(n, np.int64), np.empty(n, np.int64)
    width = sensitive.shape[1]
    table = np.zeros((n if width else 1, width), np.int64)
    m, groups = n, 0
    for a in range(nodes.shape[0]):
        if m == 0:
            break
        classes = number_classes(tuples, active, m, nodes[a], up, keys, slots, places, seen, ids)
        for j in range(classes):
            sizes[j] = 0
            for v in range(width):
                table[j, v] = 0
        for t in range(m):
            sizes[ids[t]] += counts[active[t]]
            for v in range(width):
                table[ids[t], v] += sensitive[active[t], v]
        closed = False
        for j in range(classes):
            given[j] = -1
            if sizes[j] >= k and (width == 0 or class_holds(table[j], sizes[j], spans, limits, shares)):
                given[j] = groups
                groups += 1
                closed = True
        if closed:
            kept = 0
            for t in range(m):
                if given[ids[t]] >= 0:
                    labels[active[t]] = given[ids[t]]
                else:
                    active[kept] = active[t]
                    kept += 1
            m = kept
    return labels, groups


@kernel()
def _class_nodes(rows, labels, nodes, joined):
    for r in range(rows.shape[0]):
        g = labels[r]
        if g < 0:
            continue
        for c in range(rows.shape[1]):
            nodes[g, c] = (
                rows[r, c]
                if nodes[g, c] < 0
                else joined.node[joined.start[c] + nodes[g, c] * joined.width[c] + rows[r, c]]
            )


@kernel()
def _join(rows, order, labels, nodes, sizes, joined):
    """Each record goes where it raises the loss least."""
    q = rows.shape[1]
    for t in range(order.shape[0]):
        r = order[t]
        best, chosen = np.inf, -1
        for g in range(nodes.shape[0]):
            before, after = 0.0, 0.0
            for c in range(q):
                before += joined.cost[joined.start[c] + nodes[g, c] * (joined.width[c] + 1)]
                after += joined.cost[joined.start[c] + nodes[g, c] * joined.width[c] + rows[r, c]]
            more = (sizes[g] + 1) * after - sizes[g] * before
            if more < best:
                best, chosen = more, g
        labels[r] = chosen
        sizes[chosen] += 1
        for c in range(q):
            nodes[chosen, c] = joined.node[joined.start[c] + nodes[chosen, c] * joined.width[c] + rows[r, c]]
