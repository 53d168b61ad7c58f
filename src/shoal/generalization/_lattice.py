"""What recoding and suppression share: distinct records, and the lattice of levels above them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._hierarchy import Hierarchy

# Levels of all columns multiplied: up to here nodes are numbered without collision.
_WIDEST = 1 << 62


class Joined(NamedTuple):
    """Common ancestors of pairs of nodes, all columns in one flat table, as the kernels take it.

    The entry of nodes a and b of column c stands at `start[c] + a * width[c] + b`.
    """

    start: np.ndarray
    width: np.ndarray
    node: np.ndarray
    cost: np.ndarray


def joined_of(hierarchies: Sequence[Hierarchy], cost: Sequence[np.ndarray]) -> Joined:
    """Pack the common ancestors of hierarchies and their cost."""
    width = np.array([tree.n_nodes for tree in hierarchies], np.int64)
    start = np.concatenate([[0], np.cumsum(width**2)])[:-1].astype(np.int64)
    node = np.concatenate([tree.common_ancestors().ravel() for tree in hierarchies]).astype(np.int32)
    where = np.repeat(np.arange(width.size), width**2)
    table = np.zeros((width.size, int(width.max())))
    for c, each in enumerate(cost):
        table[c, : each.size] = each
    return Joined(start, width, node, table[where, node])


@dataclass(frozen=True)
class Lattice:
    """Distinct records over hierarchies, packed for the kernels.

    Attributes
    ----------
    tuples : array of int64, (n_tuples, n_columns)
        The leaves of each distinct record.
    counts : array of int64, (n_tuples,)
    of_row : array of int64, (n_records,)
        The distinct record of each record.
    hierarchies : tuple of Hierarchy
    up : array of int32, (n_columns, most_levels, most_leaves)
        The node of a leaf at a level.
    keys : array of int64, (n_columns, most_nodes)
        Numbers whose sum over the columns tells combinations of nodes apart.
    cost : array of float64, (n_columns, most_nodes)
        What a cell at a node costs, the column's share included: a record whose every cell is gone costs 1.
    joined : Joined
        The lowest common ancestor of any two nodes, and what it costs.
    """

    tuples: np.ndarray
    counts: np.ndarray
    of_row: np.ndarray
    hierarchies: tuple[Hierarchy, ...]
    up: np.ndarray
    keys: np.ndarray
    cost: np.ndarray
    joined: Joined

    @classmethod
    def of(cls, codes: np.ndarray, hierarchies: Sequence[Hierarchy], cost: Sequence[np.ndarray]) -> Lattice:
        """Pack codes of leaves, (n_records, n_columns), and the cost of each column's nodes."""
        tuples, of_row, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        q, levels = len(hierarchies), max(tree.n_levels for tree in hierarchies)
        nodes, leaves = max(tree.n_nodes for tree in hierarchies), max(len(t.leaves) for t in hierarchies)
        up = np.zeros((q, levels, leaves), np.int32)
        keys = np.zeros((q, nodes), np.int64)
        price = np.zeros((q, nodes))
        span = 1
        fits = np.prod([float(tree.n_nodes) for tree in hierarchies]) < _WIDEST
        random = np.random.default_rng(0x5EED)
        for c, tree in enumerate(hierarchies):
            up[c, : tree.n_levels, : len(tree.leaves)] = tree.up
            up[c, tree.n_levels :, : len(tree.leaves)] = tree.up[-1]
            size = tree.n_nodes
            # Beyond 62 bits sums of random numbers tell combinations apart; what is released is counted again.
            keys[c, :size] = np.arange(size) * span if fits else random.integers(0, 1 << 62, size)
            span = span * size if fits else 1
            price[c, :size] = cost[c]
        return cls(
            np.ascontiguousarray(tuples, np.int64), counts.astype(np.int64), of_row.reshape(-1).astype(np.int64),
            tuple(hierarchies), up, keys, price, joined_of(hierarchies, cost),
        )  # fmt: skip

    def side_by_side(self) -> tuple[Lattice, np.ndarray]:
        """The same records with the costliest columns first and look-alikes side by side, and which record is where."""
        dearest = [float(each.max(initial=0.0)) for each in self.level_costs()]
        first = np.argsort(-np.asarray(dearest), kind="stable")
        ranked = np.lexsort(self.tuples[:, first[::-1]].T)
        place = np.empty(ranked.size, np.int64)
        place[ranked] = np.arange(ranked.size)
        order = np.argsort(place[self.of_row], kind="stable")
        start, width, node, cost = self.joined
        moved = Lattice(
            np.ascontiguousarray(self.tuples[ranked][:, first]), self.counts[ranked], place[self.of_row[order]],
            tuple(self.hierarchies[c] for c in first), self.up[first], self.keys[first], self.cost[first],
            Joined(start[first], width[first], node, cost),
        )  # fmt: skip
        return moved, order

    @property
    def n_records(self) -> int:
        """Records, each counted."""
        return int(self.counts.sum())

    @property
    def n_levels(self) -> list[int]:
        """Levels of each column."""
        return [tree.n_levels for tree in self.hierarchies]

    @property
    def size(self) -> float:
        """Nodes of the lattice."""
        return float(np.prod([float(levels) for levels in self.n_levels]))

    def level_costs(self) -> list[np.ndarray]:
        """The mean cost of each column's cells at each of its levels."""
        n = self.n_records
        found = []
        for c, tree in enumerate(self.hierarchies):
            cells = self.cost[c][tree.up[:, self.tuples[:, c]]]
            found.append((cells * self.counts).sum(axis=1) / n)
        return found

    def least_costs(self) -> list[np.ndarray]:
        """The smallest cost of a cell of each column at each of its levels."""
        return [
            np.array(
                [
                    self.cost[c][tree.up[level, np.unique(self.tuples[:, c])]].min()
                    for level in range(tree.n_levels)
                ]
            )
            for c, tree in enumerate(self.hierarchies)
        ]

    def nodes_by(
        self, costs: Sequence[np.ndarray], most: int, until: float = np.inf
    ) -> tuple[np.ndarray, float]:
        """Nodes (a level for each column) by rising sum of costs, and what every node left out costs at least."""
        ranked = [np.argsort(each, kind="stable") for each in costs]
        sums = [each[order] for each, order in zip(costs, ranked, strict=True)]
        if self.size <= most:
            grid = np.stack(np.meshgrid(*[np.arange(each.size) for each in costs], indexing="ij"), -1)
            nodes = grid.reshape(-1, len(costs))
            total = np.zeros(nodes.shape[0])
            for c, each in enumerate(costs):
                total += each[nodes[:, c]]
            order = np.argsort(total, kind="stable")
            order = order[total[order] < until]
            return np.ascontiguousarray(nodes[order], np.int64), until
        return _rising(ranked, sums, most, until)


def _rising(
    ranked: Sequence[np.ndarray], sums: Sequence[np.ndarray], most: int, until: float
) -> tuple[np.ndarray, float]:
    """The `most` cheapest sums of one entry per column: each node is reached from one parent only."""
    q = len(sums)
    start = (0,) * q
    heap = [(float(sum(each[0] for each in sums)), start, 0)]
    found: list[list[int]] = []
    while heap and len(found) < most and heap[0][0] < until:
        total, at, first = heapq.heappop(heap)
        found.append([int(ranked[c][place]) for c, place in enumerate(at)])
        for c in range(first, q):
            if at[c] + 1 < sums[c].size:
                more = (*at[:c], at[c] + 1, *at[c + 1 :])
                heapq.heappush(heap, (total - float(sums[c][at[c]]) + float(sums[c][at[c] + 1]), more, c))
    left = heap[0][0] if heap else until
    return np.asarray(found, np.int64).reshape(-1, q), min(left, until)


# Kernels: trusted arrays in. A table of slots holds -1 where it is free and is left so.


@kernel()
def slots_for(n):
    """An empty table for n keys, at most half full."""
    bits = 4
    while (1 << bits) < 2 * n:
        bits += 1
    return np.full(1 << bits, -1, np.int64)


@kernel()
def key_at(tuples, i, node, up, keys):
    """The number of record i's combination at a node."""
    key = np.int64(0)
    for c in range(tuples.shape[1]):
        key += keys[c, up[c, node[c], tuples[i, c]]]
    return key


@kernel()
def number_classes(tuples, rows, m, node, up, keys, slots, places, seen, ids):
    """Number the classes of rows[:m] at a node in ids; the table of slots is cleaned again."""
    mask = slots.shape[0] - 1
    classes = 0
    for t in range(m):
        key = key_at(tuples, rows[t], node, up, keys)
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask
        while slots[at] != -1 and seen[slots[at]] != key:
            at = (at + 1) & mask
        if slots[at] == -1:
            slots[at] = classes
            seen[classes] = key
            places[classes] = at
            classes += 1
        ids[t] = slots[at]
    for j in range(classes):
        slots[places[j]] = -1
    return classes
