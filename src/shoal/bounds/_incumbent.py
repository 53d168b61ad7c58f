"""A good partition to measure the bound against."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from shoal.engine.compile import kernel
from shoal.microaggregation import methods


def incumbent(Z: np.ndarray, k: int, seconds: float | None) -> np.ndarray:
    """Labels of a good partition by annealing, for its default work where no seconds are given.

    Given zero seconds, by MDAV improved by exchanges.
    """
    anneal = methods()["anneal"]
    if seconds is None:
        return anneal(k=k, random_state=0).fit(Z).labels_
    if seconds > 0:
        return anneal(k=k, time_limit=seconds, random_state=0).fit(Z).labels_
    labels = methods()["mdav"](k=k).fit(Z).labels_
    near = cKDTree(Z).query(Z, k=min(Z.shape[0], 4 * k), workers=-1)[1]
    return exchange(Z, labels, np.ascontiguousarray(near, dtype=np.int64), k, 50)


def exchange(Z: np.ndarray, labels: np.ndarray, near: np.ndarray, k: int, sweeps: int) -> np.ndarray:
    """Move and swap records between the groups of near records for as long as the sum of squares falls."""
    labels = labels.copy()
    _exchange(Z, labels, near, k, sweeps, int(labels.max()) + 1)
    return labels


# Kernels


@kernel()
def _change(total, size, gone, come):
    """How the sum of squares of a group changes when a record goes, comes, or is replaced.

    `total` is the sum of the group's records; `gone` or `come` may be empty.
    """
    old = new = plain = 0.0
    after = size
    if gone.size > 0:
        after -= 1
    if come.size > 0:
        after += 1
    for a in range(total.size):
        t = total[a]
        old += t * t
        if gone.size > 0:
            t -= gone[a]
            plain -= gone[a] * gone[a]
        if come.size > 0:
            t += come[a]
            plain += come[a] * come[a]
        new += t * t
    return plain - new / after + old / size


@kernel()
def _exchange(Z, labels, near, k, sweeps, groups):  # noqa: C901 - one step of a compiled search, case by case
    n, p = Z.shape
    total = np.zeros((groups, p))
    size = np.zeros(groups, np.int64)
    members = np.full((groups, 2 * k - 1), -1, np.int64)
    for i in range(n):
        total[labels[i]] += Z[i]
        members[labels[i], size[labels[i]]] = i
        size[labels[i]] += 1
    nobody = np.zeros(0)
    for _ in range(sweeps):
        moved = False
        for i in range(n):
            a = labels[i]
            best, with_group, with_place = -1e-9, -1, -1
            for j in near[i]:
                b = labels[j]
                if b == a:
                    continue
                if size[a] > k and size[b] < 2 * k - 1:
                    gain = _change(total[a], size[a], Z[i], nobody) + _change(total[b], size[b], nobody, Z[i])
                    if gain < best:
                        best, with_group, with_place = gain, b, -1
                for t in range(size[b]):
                    y = members[b, t]
                    gain = _change(total[a], size[a], Z[i], Z[y]) + _change(total[b], size[b], Z[y], Z[i])
                    if gain < best:
                        best, with_group, with_place = gain, b, t
            if with_group < 0:
                continue
            moved = True
            b = with_group
            own = 0
            while members[a, own] != i:
                own += 1
            total[a] -= Z[i]
            total[b] += Z[i]
            labels[i] = b
            if with_place >= 0:
                y = members[b, with_place]
                total[a] += Z[y]
                total[b] -= Z[y]
                labels[y] = a
                members[a, own] = y
                members[b, with_place] = i
            else:
                size[a] -= 1
                members[a, own] = members[a, size[a]]
                members[b, size[b]] = i
                size[b] += 1
        if not moved:
            return
