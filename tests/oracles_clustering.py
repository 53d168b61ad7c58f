"""Plain, slow versions of the clustering kernels, and the benchmark tables."""

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

_EIA = ["UTILITYID"] + [
    f"{sector}{what}" for sector in ("RES", "COM", "IND", "OTHR", "TOT") for what in ("REVENUE", "SALES")
]


def table(name):
    """A benchmark table as a float matrix; skips the test where the data are absent."""
    root = Path(__file__).resolve().parents[1]
    for folder in (os.environ.get("SHOAL_DATA"), root.parent / "shared" / "data"):
        path = Path(folder) / f"{name}.csv" if folder else None
        if path and path.exists():
            frame = pl.read_csv(path)
            return (frame.select(_EIA) if name == "eia" else frame).to_numpy().astype(float)
    pytest.skip(f"the benchmark table {name!r} is not on this machine (set SHOAL_DATA)")


def same_partition(a, b):
    """Whether two labellings group the records alike."""
    a, b = np.asarray(a), np.asarray(b)
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a)) == len(set(b))


def sse(X, labels):
    return sum(((X[labels == g] - X[labels == g].mean(axis=0)) ** 2).sum() for g in np.unique(labels))


def k_ward_pass(X, k):
    """One pass of k-Ward by looking at every pair of groups at every step."""
    n = len(X)
    d = ((X[:, None] - X[None]) ** 2).sum(-1)
    ends = np.unravel_index(np.argmax(d), d.shape)
    groups, free = [], list(range(n))
    for end in ends:
        group = [end]
        free.remove(end)
        while len(group) < k:
            centre = X[group].mean(axis=0)
            gaps = [((X[i] - centre) ** 2).sum() for i in free]
            group.append(free.pop(int(np.argmin(gaps))))
        groups.append(group)
    groups += [[i] for i in free]
    while min(map(len, groups)) < k:
        best = None
        for i, g in enumerate(groups):
            for j in range(i + 1, len(groups)):
                h = groups[j]
                if len(g) >= k and len(h) >= k:
                    continue
                gap = ((X[g].mean(axis=0) - X[h].mean(axis=0)) ** 2).sum()
                cost = gap * len(g) * len(h) / (len(g) + len(h))
                if best is None or cost < best[0] - 1e-12:
                    best = (cost, i, j)
        _, i, j = best
        groups[i] = groups[i] + groups.pop(j)
    labels = np.empty(n, int)
    for number, group in enumerate(groups):
        labels[group] = number
    return labels


def cut_tree(X, k):
    """Components of scipy's minimum spanning tree, cut edge by edge with a fresh component count."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
    from scipy.spatial.distance import cdist

    tree = minimum_spanning_tree(csr_matrix(cdist(X, X))).tocoo()
    edges = sorted(zip(tree.data, tree.row, tree.col, strict=True), reverse=True)
    kept = list(edges)
    for edge in edges:
        rest = [each for each in kept if each is not edge]
        rows, columns = [e[1] for e in rest], [e[2] for e in rest]
        graph = csr_matrix((np.ones(len(rest)), (rows, columns)), shape=(len(X), len(X)))
        labels = connected_components(graph, directed=False)[1]
        if min(np.sum(labels == labels[edge[1]]), np.sum(labels == labels[edge[2]])) >= k:
            kept = rest
    rows, columns = [e[1] for e in kept], [e[2] for e in kept]
    graph = csr_matrix((np.ones(len(kept)), (rows, columns)), shape=(len(X), len(X)))
    return connected_components(graph, directed=False)[1]


def h_means(X, labels, c, least_to_leave):
    """Best single relocation by trying every record in every group at every step."""
    labels = labels.copy()
    while True:
        best = (1e-9, None, None)
        for i in range(len(X)):
            own = labels[i]
            size = np.sum(labels == own)
            if size < least_to_leave:
                continue
            leave = ((X[i] - X[labels == own].mean(axis=0)) ** 2).sum() * size / (size - 1)
            for g in range(c):
                if g == own:
                    continue
                room = np.sum(labels == g)
                join = ((X[i] - X[labels == g].mean(axis=0)) ** 2).sum() * room / (room + 1)
                if leave - join > best[0] + 1e-12:
                    best = (leave - join, i, g)
        if best[1] is None:
            return labels
        labels[best[1]] = best[2]


def fill(X, labels, c, k):
    """The feasibility routine, SSE computed afresh for every candidate."""
    labels = labels.copy()
    for g in range(c):
        while np.sum(labels == g) < k:
            best = None
            for i in range(len(X)):
                if labels[i] == g or np.sum(labels == labels[i]) <= k:
                    continue
                trial = labels.copy()
                trial[i] = g
                cost = sse(X, trial)
                if best is None or cost < best[0] - 1e-12:
                    best = (cost, i)
            labels[best[1]] = g
    return labels


def nearest_medoid(X, medoids):
    """Each record to its nearest medoid, medoids to themselves."""
    d = ((X[:, None] - X[medoids][None]) ** 2).sum(-1)
    labels = d.argmin(axis=1)
    labels[medoids] = np.arange(len(medoids))
    return labels


def best_partition_sse(X, k):
    """The optimum for a handful of records, by trying all partitions into groups of k..2k-1."""
    n = len(X)
    best = [np.inf]

    def place(i, groups):
        if len(groups) * k - sum(min(len(g), k) for g in groups) > n - i:
            return
        if i == n:
            best[0] = min(best[0], sum(((X[g] - X[g].mean(axis=0)) ** 2).sum() for g in groups))
            return
        for g in groups:
            if len(g) < 2 * k - 1:
                g.append(i)
                place(i + 1, groups)
                g.pop()
        groups.append([i])
        place(i + 1, groups)
        groups.pop()

    place(0, [])
    return best[0]
