"""The best node of the lattice: one level for each column, classes that are too small suppressed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shoal.engine.compile import kernel
from shoal.generalization._conditions import Conditions, class_holds
from shoal.generalization._lattice import Lattice, slots_for

# Up to so many nodes each keeps a bound of its own; a larger lattice is walked from the top.
LISTED = 300_000


@dataclass(frozen=True)
class GlobalRecoding:
    """A node of the lattice and what it costs.

    Attributes
    ----------
    node : tuple of int
        A level for each column.
    labels : array of int64, (n_records,)
        Classes; -1 for suppressed records.
    suppressed : int
        Records suppressed.
    loss : float
        Mean loss of a cell, by the arithmetic or the geometric mean of the columns.
    bound : float
        No node of the lattice loses less.
    evaluated : int
        Nodes whose classes were counted.
    """

    node: tuple[int, ...]
    labels: np.ndarray
    suppressed: int
    loss: float
    bound: float
    evaluated: int


@dataclass(frozen=True)
class _Value:
    """A node evaluated: its loss (infinite where it is not allowed), and what bounds the nodes below it."""

    loss: float
    suppressed: int
    below: tuple[np.ndarray, ...]


class _Search:
    """Evaluations of nodes, each counted once."""

    def __init__(
        self, lattice: Lattice, conditions: Conditions, most: int, weights: np.ndarray, geometric: bool
    ) -> None:
        self.lattice, self.conditions, self.most = lattice, conditions, most
        self.weights, self.geometric = weights, geometric
        self.table, self.packed = conditions.table(lattice), conditions.packed()
        # Cells cost between 0 and 1 here: the weight of a column comes in when columns are put together.
        self.cells = [
            lattice.cost[c][tree.up[:, : len(tree.leaves)]] / weights[c]
            for c, tree in enumerate(lattice.hierarchies)
        ]
        counts = lattice.counts.astype(np.float64)
        self.whole = [
            np.bincount(lattice.tuples[:, c], weights=counts, minlength=cells.shape[1])
            for c, cells in enumerate(self.cells)
        ]
        self.slots = slots_for(lattice.tuples.shape[0])
        self.done: dict[tuple[int, ...], _Value] = {}
        self.best: tuple[float, tuple[int, ...]] = (np.inf, ())

    def put_together(self, columns: np.ndarray) -> np.ndarray:
        """The loss of nodes from the losses of their columns, (n_nodes, n_columns)."""
        if self.geometric:
            return np.exp((np.log1p(columns) * self.weights).sum(axis=1)) - 1.0
        return (columns * self.weights).sum(axis=1)

    def value(self, node: tuple[int, ...]) -> _Value:
        """Evaluate a node, or look it up."""
        if node in self.done:
            return self.done[node]
        gone, away, small = self.suppressed_at(node)
        n = self.lattice.n_records
        lost, sure = int(away[0].sum()), float(small[0].sum())
        mean = np.empty(len(node))
        below = []
        for c, (cells, level) in enumerate(zip(self.cells, node, strict=True)):
            whole, leaves = self.whole[c], cells.shape[1]
            mean[c] = float(cells[level] @ (whole - away[c, :leaves])) + lost
            below.append((cells[: level + 1] @ (whole - small[c, :leaves]) + sure) / n)
        mean /= n
        loss = float(self.put_together(mean[None])[0]) if self.allowed(gone, lost) else np.inf
        if sure > self.most:  # too many records are lost here, so below as well
            below = [np.full_like(each, np.inf) for each in below]
        found = _Value(loss, lost, tuple(below))
        self.done[node] = found
        if loss < self.best[0] - 1e-12:
            self.best = (loss, node)
        return found

    def suppressed_at(self, node: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which distinct records lie in classes that fail; how many at each leaf, and how many by size alone.

        What fails by size does so at every finer node.
        """
        lattice = self.lattice
        return _failing(
            lattice.tuples, lattice.counts, np.asarray(node, np.int64), lattice.up, lattice.keys, self.conditions.k,
            self.table, *self.packed, self.slots,
        )  # fmt: skip

    def allowed(self, gone: np.ndarray, lost: int) -> bool:
        """Whether so many may be suppressed, and whether they hide among themselves."""
        if lost == 0:
            return True
        if lost > self.most or lost < self.conditions.k:
            return False
        if not self.conditions.width:
            return True
        counts = self.table[gone].sum(axis=0)
        return bool(class_holds(counts, lost, *self.packed))


def best_node(
    lattice: Lattice,
    conditions: Conditions,
    suppress_at_most: float,
    weights: np.ndarray,
    *,
    geometric: bool = False,
    max_nodes: int = 20_000,
) -> GlobalRecoding | None:
    """The node that loses least, proven where the lattice could be searched to the end.

    Parameters
    ----------
    lattice : Lattice
    conditions : Conditions
    suppress_at_most : float
        Share of the records that may be suppressed.
    weights : array of float64
        Share of each column in the loss.
    geometric : bool, default False
        Put columns together as product(1 + x) ^ weight - 1, as ARX does, instead of by their mean.
    max_nodes : int, default 20000
        Nodes evaluated at most; what is left open then lowers the bound.
    """
    most = int(np.floor(suppress_at_most * lattice.n_records + 1e-9))
    search = _Search(lattice, conditions, most, weights, geometric)
    top = tuple(levels - 1 for levels in lattice.n_levels)
    search.value(top)
    _descend(search, top)
    bound = _listed(search, max_nodes) if lattice.size <= LISTED else _walked(search, top, max_nodes)
    loss, node = search.best
    if not node:
        return None
    gone, _, _ = search.suppressed_at(node)
    codes = np.stack(
        [
            tree.up[level][lattice.tuples[:, c]]
            for c, (tree, level) in enumerate(zip(lattice.hierarchies, node, strict=True))
        ],
        axis=1,
    )
    labels = np.full(lattice.tuples.shape[0], -1, np.int64)
    labels[~gone] = np.unique(codes[~gone], axis=0, return_inverse=True)[1].reshape(-1)
    return GlobalRecoding(
        node,
        labels[lattice.of_row],
        int(lattice.counts[gone].sum()),
        loss,
        min(bound, loss),
        len(search.done),
    )


def _finer(node: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for c, level in enumerate(node):
        if level > 0:
            yield (*node[:c], level - 1, *node[c + 1 :])


def _descend(search: _Search, top: tuple[int, ...]) -> None:
    """Go to the best finer node as long as there is a better one."""
    here = top
    while True:
        nodes = list(_finer(here))
        if not nodes:
            return
        values = [search.value(node).loss for node in nodes]
        best = int(np.argmin(values))
        if values[best] >= search.value(here).loss:
            return
        here = nodes[best]


def _listed(search: _Search, max_nodes: int) -> float:
    """Evaluate nodes from the coarsest on until no other can be better; the bound."""
    levels = search.lattice.n_levels
    nodes = np.stack(np.meshgrid(*[np.arange(each) for each in levels], indexing="ij"), -1).reshape(
        -1, len(levels)
    )
    number = {tuple(node): at for at, node in enumerate(nodes.tolist())}
    lower = search.put_together(
        np.stack(
            [
                (search.cells[c] @ search.whole[c] / search.lattice.n_records)[nodes[:, c]]
                for c in range(len(levels))
            ],
            axis=1,
        )
    )
    order = np.argsort(-np.prod(nodes + 1.0, axis=1), kind="stable")
    open_ = np.ones(nodes.shape[0], bool)

    def tighten(node: tuple[int, ...]) -> None:
        at = number[node]
        open_[at] = False
        below = search.done[node].below
        rows = np.flatnonzero(open_ & (nodes <= nodes[at]).all(axis=1))
        rows = rows[lower[rows] < search.best[0]]
        if rows.size:
            columns = np.stack([below[c][nodes[rows, c]] for c in range(len(levels))], axis=1)
            lower[rows] = np.maximum(lower[rows], search.put_together(columns))

    for node in list(search.done):
        tighten(node)
    for at in order:
        if len(search.done) >= max_nodes:
            break
        if open_[at] and lower[at] < search.best[0] - 1e-12:
            node = tuple(int(level) for level in nodes[at])
            search.value(node)
            tighten(node)
    left = open_ & (lower < search.best[0] - 1e-12)
    return float(lower[left].min()) if left.any() else search.best[0]


def _walked(search: _Search, top: tuple[int, ...], max_nodes: int) -> float:
    """From the top down, the most promising first, each node reached from one parent; the bound."""
    start = 0.0
    heap: list[tuple[float, tuple[int, ...], int]] = [(start, top, 0)]
    while heap and len(search.done) < max_nodes and heap[0][0] < search.best[0] - 1e-12:
        _, node, first = heapq.heappop(heap)
        below = search.value(node).below
        for c in range(first, len(node)):
            if node[c] == 0:
                continue
            child = (*node[:c], node[c] - 1, *node[c + 1 :])
            # Columns before c stay where they are in this branch, the others may go down to the end.
            least = [below[d][child[d]] if d < c else below[d][0] for d in range(len(node))]
            bound = float(search.put_together(np.asarray([least]))[0])
            if bound < search.best[0] - 1e-12:
                heapq.heappush(heap, (bound, child, c))
    return min((each[0] for each in heap), default=search.best[0])


# Kernel: distinct records and a node in; which of them lie in classes that fail, and how many at each leaf.


@kernel()
def _failing(tuples, counts, node, up, keys, k, sensitive, spans, limits, shares, slots):  # noqa: C901 - one count, step by step
    n, q, width = tuples.shape[0], tuples.shape[1], sensitive.shape[1]
    code = np.empty((q, up.shape[2]), np.int64)
    for c in range(q):
        for leaf in range(up.shape[2]):
            code[c, leaf] = keys[c, up[c, node[c], leaf]]
    places, seen, ids = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    mask, classes = slots.shape[0] - 1, 0
    sizes = np.zeros(n, np.int64)
    for i in range(n):
        key = np.int64(0)
        for c in range(q):
            key += code[c, tuples[i, c]]
        at = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask
        while slots[at] != -1 and seen[slots[at]] != key:
            at = (at + 1) & mask
        if slots[at] == -1:
            slots[at], seen[classes], places[classes] = classes, key, at
            classes += 1
        ids[i] = slots[at]
        sizes[ids[i]] += counts[i]
    for j in range(classes):
        slots[places[j]] = -1
    table = np.zeros((classes if width else 1, width), np.int64)
    if width:
        for i in range(n):
            for v in range(width):
                table[ids[i], v] += sensitive[i, v]
    gone = np.zeros(n, np.bool_)
    lost, sure = np.zeros((q, up.shape[2])), np.zeros((q, up.shape[2]))
    for i in range(n):
        j = ids[i]
        small = sizes[j] < k
        gone[i] = small or (width > 0 and not class_holds(table[j], sizes[j], spans, limits, shares))
        if gone[i]:
            for c in range(q):
                lost[c, tuples[i, c]] += counts[i]
                if small:
                    sure[c, tuples[i, c]] += counts[i]
    return gone, lost, sure
