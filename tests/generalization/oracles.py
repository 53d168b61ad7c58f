"""Slow plain versions: every partition of a few records, every node of a small lattice."""

import itertools

import numpy as np


def partitions(items, k):
    """Every partition into sets of at least k."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for size in range(k - 1, len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            for tail in partitions(left, k):
                yield [[first, *others], *tail]


def best_partition(codes, trees, costs, k):
    """The least mean cost of a record over all partitions, classes at their common ancestors."""
    n = codes.shape[0]
    price = {}
    for size in range(k, n + 1):
        for rows in itertools.combinations(range(n), size):
            price[rows] = size * class_cost(codes[list(rows)], trees, costs)
    return min(sum(price[tuple(sorted(part))] for part in each) for each in partitions(list(range(n)), k)) / n


def class_cost(rows, trees, costs):
    """What a record of a class costs: in each column at the lowest level where all its values meet."""
    total = 0.0
    for c, tree in enumerate(trees):
        level = next(lv for lv in range(tree.n_levels) if np.unique(tree.up[lv][rows[:, c]]).size == 1)
        total += costs[c][tree.up[level][rows[0, c]]]
    return total


def best_level(codes, trees, cells, k, most, together):
    """The least loss over all nodes, classes below k suppressed; cells[c] costs 0 to 1."""
    best = np.inf
    for node in itertools.product(*[range(tree.n_levels) for tree in trees]):
        at = np.stack(
            [tree.up[level][codes[:, c]] for c, (tree, level) in enumerate(zip(trees, node, strict=True))], 1
        )
        _, ids, sizes = np.unique(at, axis=0, return_inverse=True, return_counts=True)
        gone = sizes[ids.reshape(-1)] < k
        if gone.sum() > most or 0 < gone.sum() < k:
            continue
        columns = np.array([np.where(gone, 1.0, cells[c][at[:, c]]).mean() for c in range(len(trees))])
        best = min(best, together(columns))
    return best


def fewest_own_cells(codes, k):
    """Cells under the own reading: each record alone, the smallest mask that k records agree with."""
    n, q = codes.shape
    total = 0
    for i in range(n):
        total += next(
            size
            for size in range(q + 1)
            if any(
                sum(all(codes[j, c] == codes[i, c] for c in range(q) if c not in mask) for j in range(n)) >= k
                for mask in itertools.combinations(range(q), size)
            )
        )
    return total
