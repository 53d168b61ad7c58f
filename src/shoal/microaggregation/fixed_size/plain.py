"""The fixed-size family by its plain definitions: O(n^2 / k) distances, ties to the smallest record index.

The kernels for larger tables (`scan`, `tree`) give the labels of these.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squared_between
from shoal.engine.kernels.nearest import sort_in

# Kernels: float64 C-contiguous in, int64 labels out, nothing checked. `free` lists the records without a
# group in ascending order, so that the first of equals is the smallest index.


@kernel()
def plain_mdav(X, k):
    """Two groups of k a round while 2k records are left; what is left then is a group or joins the nearest."""
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    group = 0
    while free.size >= 2 * k:
        free, group = _two_ends(X, labels, free, k, group)
    if free.size >= k:
        for i in free:
            labels[i] = group
    elif free.size > 0:
        to_nearest_group(X, labels, free, group)
    return labels


@kernel()
def plain_mdav_generic(X, k):
    """The textbook's rule: two groups a round while 3k records are left, then one, then the rest."""
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    group = 0
    while free.size >= 3 * k:
        free, group = _two_ends(X, labels, free, k, group)
    if free.size >= 2 * k:
        r = farthest_free(X, free, free_centroid(X, free))
        free = _claim(X, labels, free, X[r], k, group)
        group += 1
    for i in free:
        labels[i] = group
    return labels


@kernel()
def _two_ends(X, labels, free, k, group):
    """Groups around the record r farthest from the centroid and, if still free, the record farthest from r."""
    r = farthest_free(X, free, free_centroid(X, free))
    s = farthest_free(X, free, X[r])
    free = _claim(X, labels, free, X[r], k, group)
    group += 1
    if labels[s] < 0:
        free = _claim(X, labels, free, X[s], k, group)
        group += 1
    return free, group


@kernel()
def plain_cbfs(X, k, towards_centroid):
    """One group a round, around the record farthest from the centroid of what is left."""
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    group = 0
    while free.size >= 2 * k:
        r = farthest_free(X, free, free_centroid(X, free))
        free = _gather(X, labels, free, r, k, group, towards_centroid)
        group += 1
    for i in free:
        labels[i] = group
    return labels


@kernel()
def plain_md(X, k, towards_centroid):
    """Two groups a round, around the two records that are farthest apart."""
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    partner = np.full(n, -1, np.int64)
    reach = np.empty(n)
    for i in range(n):
        partner[i] = farthest_free(X, free, X[i])
        reach[i] = squared_between(X[i], X[partner[i]])
    group = 0
    while free.size >= 2 * k:
        # What is left only shrinks, so an old reach is an upper bound: renew it until the largest is true.
        while True:
            r = free[0]
            for i in free:
                if reach[i] > reach[r]:
                    r = i
            if labels[partner[r]] < 0:
                break
            partner[r] = farthest_free(X, free, X[r])
            reach[r] = squared_between(X[r], X[partner[r]])
        s = partner[r]
        free = _gather(X, labels, free, r, k, group, towards_centroid)
        group += 1
        if labels[s] < 0:
            free = _gather(X, labels, free, s, k, group, towards_centroid)
            group += 1
    if free.size >= k:
        for i in free:
            labels[i] = group
    elif free.size > 0:
        to_nearest_group(X, labels, free, group)
    return labels


@kernel()
def plain_v_mdav(X, k, gamma):
    """Groups of k that take in records nearer to them than to any other free record."""
    n = X.shape[0]
    labels = np.full(n, -1, np.int64)
    free = np.arange(n)
    middle = free_centroid(X, free)
    group = 0
    while free.size >= k:
        r = farthest_free(X, free, middle)
        free = _claim(X, labels, free, X[r], k, group)
        # Squared distance of each free record to the group: to its nearest member.
        near = np.full(n, np.inf)
        members = np.flatnonzero(labels == group)
        for m in members:
            for i in free:
                near[i] = min(near[i], squared_between(X[i], X[m]))
        size = k
        while size < 2 * k - 1 and free.size > 1:
            e = free[0]
            for i in free:
                if near[i] < near[e]:
                    e = i
            out = np.inf
            for i in free:
                if i != e:
                    out = min(out, squared_between(X[i], X[e]))
            if near[e] >= gamma * gamma * out:
                break
            labels[e] = group
            size += 1
            free = free[free != e]
            for i in free:
                near[i] = min(near[i], squared_between(X[i], X[e]))
        group += 1
    if free.size > 0:
        to_nearest_group(X, labels, free, group)
    return labels


@kernel()
def free_centroid(X, free):
    """Centroid of the free records."""
    centre = np.zeros(X.shape[1])
    for i in free:
        for a in range(X.shape[1]):
            centre[a] += X[i, a]
    return centre / free.size


@kernel()
def farthest_free(X, free, point):
    """The free record farthest from a point; the first of several."""
    best, best_d = free[0], -1.0
    for i in free:
        d = squared_between(X[i], point)
        if d > best_d:
            best, best_d = i, d
    return best


@kernel()
def _claim(X, labels, free, point, size, group):
    """Give the `size` free records nearest to a point to a group; what is then free."""
    nearest = np.empty(size, np.int64)
    distance = np.full(size, np.inf)
    filled = 0
    for i in free:
        filled = sort_in(nearest, distance, filled, i, squared_between(X[i], point))
    for i in nearest:
        labels[i] = group
    return still_free(labels, free, size)


@kernel()
def _gather(X, labels, free, r, size, group, towards_centroid):
    """A group around record r: grown towards its centroid, or of its nearest records."""
    if towards_centroid:
        return grow_group(X, labels, free, r, size, group)
    return _claim(X, labels, free, X[r], size, group)


@kernel()
def grow_group(X, labels, free, r, size, group):
    """Grow a group from record r, each time by the free record nearest to its current centroid."""
    p = X.shape[1]
    centre = X[r].copy()
    labels[r] = group
    for members in range(1, size):
        best, best_d = -1, np.inf
        for i in free:
            if labels[i] < 0:
                d = squared_between(X[i], centre)
                if d < best_d:
                    best, best_d = i, d
        labels[best] = group
        for a in range(p):
            centre[a] += (X[best, a] - centre[a]) / (members + 1)
    return still_free(labels, free, size)


@kernel()
def still_free(labels, free, taken):
    """The free records without those that have a group now."""
    rest = np.empty(free.size - taken, np.int64)
    at = 0
    for i in free:
        if labels[i] < 0:
            rest[at] = i
            at += 1
    return rest


@kernel()
def to_nearest_group(X, labels, free, groups):
    """Leftovers, one by one, to the group with the nearest centroid, which moves as they join."""
    n, p = X.shape
    sums = np.zeros((groups, p))
    sizes = np.zeros(groups, np.int64)
    for i in range(n):
        if labels[i] >= 0:
            sizes[labels[i]] += 1
            for a in range(p):
                sums[labels[i], a] += X[i, a]
    for i in free:
        best, best_d = -1, np.inf
        for g in range(groups):
            d = squared_between(X[i], sums[g] / sizes[g])
            if d < best_d:
                best, best_d = g, d
        labels[i] = best
        sizes[best] += 1
        for a in range(p):
            sums[best, a] += X[i, a]
