"""A k-d tree from which records are taken one by one: nearest and farthest among those still in it.

The answers are those of a scan over all records: distances are summed in the order of the columns, as the
plain kernels do, and ties go to the smallest record index. Only what is *skipped* depends on the tree.
Boxes lie along the principal axes of the records, so that correlated columns are cut well. What may be
skipped is found in half the digits, eight numbers to a vector: boxes, and the records of a leaf column by
column, seen from the centre in units of the radius. Records that may count are then looked at in full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.kernels.distance import squares_to

LEAF = 32
FAN = 16
# Rounding of a number in half the digits, with room to spare. Bounds are widened by it, so that no record that
# counts is ever skipped.
EPS = 1.2e-7


class Tree(NamedTuple):
    """Nodes in families of sixteen siblings, level by level; the members of the last level are the leaves.

    The sides of a family's boxes lie beside each other, so that all are bounded at once.
    """

    axes: np.ndarray  # (p, p) rotation to the principal axes
    centre: np.ndarray  # (p,)
    radius: float  # largest distance from the centre, the unit of all that is in half the digits
    low: np.ndarray  # (families, p, FAN) boxes in rotated coordinates around the centre
    high: np.ndarray
    reach: np.ndarray  # (families, FAN) largest squared distance from the centre
    alive: np.ndarray  # (families, FAN) records still in the node
    down: np.ndarray  # (families,) family of the first member's children; of leaves, -1 - first leaf
    up: np.ndarray  # (families,) parent as family * FAN + member, -1 at the top
    cells: np.ndarray  # (leaves, p, LEAF) coordinates around the centre, in half the digits
    rows: np.ndarray  # (leaves, LEAF, p) coordinates as they came
    who: np.ndarray  # (leaves, LEAF) record of each cell
    place: np.ndarray  # (n,) leaf * LEAF + slot of each record


# Kernels


@kernel()
def take(tree, i):
    """Take a record out of the tree."""
    alive, up = tree.alive, tree.up
    at = tree.place[i]
    leaf, slot = at // LEAF, at % LEAF
    family = tree.down.size - (tree.cells.shape[0] + FAN - 1) // FAN + leaf // FAN
    last = alive[family, leaf % FAN] - 1
    if slot != last:
        moved = tree.who[leaf, last]
        tree.who[leaf, slot] = moved
        tree.place[moved] = at
        for a in range(tree.cells.shape[1]):
            tree.cells[leaf, a, slot] = tree.cells[leaf, a, last]
            tree.rows[leaf, slot, a] = tree.rows[leaf, last, a]
    node = family * FAN + leaf % FAN
    while node >= 0:
        alive[node // FAN, node % FAN] -= 1
        node = up[node // FAN]


@kernel()
def nearest(tree, point, size, found, distance):
    """Write the `size` records nearest to a point, nearest first, and their squared distances."""
    # Unpacked here, since numba counts references whenever a field is read.
    low, high, alive, down, cells, who = tree.low, tree.high, tree.alive, tree.down, tree.cells, tree.who
    rows = tree.rows
    seen, asked, error = _seen_from(tree, point)
    stack = np.empty(128, np.int64)
    bounds = np.empty(128, np.float32)
    ds = np.empty(cells.shape[2], np.float32)
    family_bounds = np.empty(low.shape[2], np.float32)
    stack[0], bounds[0], top = 0, 0.0, 1
    limit = np.float32(np.inf)
    filled = 0
    while top > 0:
        top -= 1
        if bounds[top] > limit:
            continue
        node = stack[top]
        if node >= 0:
            _least(low[node], high[node], asked, family_bounds)
            base = top
            for c in range(FAN):
                b = family_bounds[c]
                if b <= limit and alive[node, c] > 0:
                    at = top
                    while at > base and bounds[at - 1] < b:
                        bounds[at] = bounds[at - 1]
                        stack[at] = stack[at - 1]
                        at -= 1
                    bounds[at] = b
                    stack[at] = down[node] + c if down[node] >= 0 else down[node] - c
                    top += 1
            continue
        leaf = -1 - node
        count = alive[down.size - (cells.shape[0] + FAN - 1) // FAN + leaf // FAN, leaf % FAN]
        # All cells, taken or not: whole vectors are faster.
        squares_to(cells[leaf], seen, ds)
        for j in range(count):
            if ds[j] > limit:
                continue
            d, i = _square(rows, leaf, j, point), who[leaf, j]
            if filled == size and (
                d > distance[size - 1] or (d == distance[size - 1] and i > found[size - 1])
            ):
                continue
            at = min(filled, size - 1)
            while at > 0 and (distance[at - 1] > d or (distance[at - 1] == d and found[at - 1] > i)):
                distance[at] = distance[at - 1]
                found[at] = found[at - 1]
                at -= 1
            distance[at] = d
            found[at] = i
            filled = min(filled + 1, size)
            if filled == size:
                limit = np.float32((np.sqrt(distance[size - 1]) / tree.radius + error) ** 2 * (1 + error))
    return filled


@kernel()
def farthest(tree, point):
    """The record farthest from a point, and its squared distance."""
    low, high, alive, down, cells, who = tree.low, tree.high, tree.alive, tree.down, tree.cells, tree.who
    reach, rows = tree.reach, tree.rows
    seen, asked, error = _seen_from(tree, point)
    length = np.float32(0.0)
    for a in range(asked.size):
        length += asked[a] * asked[a]
    stack = np.empty(128, np.int64)
    bounds = np.empty(128, np.float32)
    ds = np.empty(cells.shape[2], np.float32)
    family_bounds = np.empty(low.shape[2], np.float32)
    stack[0], bounds[0], top = 0, np.inf, 1
    work = np.empty((3, low.shape[2]), np.float32)
    best, best_d, limit = -1, -1.0, np.float32(-1.0)
    while top > 0:
        top -= 1
        if bounds[top] < limit:
            continue
        node = stack[top]
        if node >= 0:
            _most(low[node], high[node], reach[node], asked, length, np.float32(error), work, family_bounds)
            base = top
            for c in range(FAN):
                b = family_bounds[c]
                if b >= limit and alive[node, c] > 0:
                    at = top
                    while at > base and bounds[at - 1] > b:
                        bounds[at] = bounds[at - 1]
                        stack[at] = stack[at - 1]
                        at -= 1
                    bounds[at] = b
                    stack[at] = down[node] + c if down[node] >= 0 else down[node] - c
                    top += 1
            continue
        leaf = -1 - node
        count = alive[down.size - (cells.shape[0] + FAN - 1) // FAN + leaf // FAN, leaf % FAN]
        squares_to(cells[leaf], seen, ds)
        for j in range(count):
            if ds[j] < limit:
                continue
            d, i = _square(rows, leaf, j, point), who[leaf, j]
            if d > best_d or (d == best_d and i < best):
                best, best_d = i, d
                limit = np.float32(max(np.sqrt(d) / tree.radius - error, 0.0) ** 2 * (1 - error))
    return best, best_d


# The loops below run over array sizes, not constants: a loop of known length is unrolled before it can be
# turned into vector instructions.


@kernel()
def _seen_from(tree, point):
    """A point around the centre in units of the radius: as it came, along the axes, and what rounding may do.

    Coordinates in half the digits are off by at most EPS of themselves, sums of p of them by p times that.
    """
    axes, centre, radius = tree.axes, tree.centre, tree.radius
    p = point.size
    seen, asked, turned = np.empty(p, np.float32), np.empty(p, np.float32), np.zeros(p)
    length = 0.0
    for b in range(p):
        y = (point[b] - centre[b]) / radius
        seen[b] = y
        length += y * y
        for a in range(p):
            turned[a] += y * axes[b, a]
    for a in range(p):
        asked[a] = turned[a]
    return seen, asked, EPS * (p + 8) * (1 + np.sqrt(length))


@kernel(inline=True)
def _square(rows, leaf, j, point):
    """Squared distance of a record to a point, in full."""
    total = 0.0
    for a in range(point.size):
        t = rows[leaf, j, a] - point[a]
        total += t * t
    return total


@kernel()
def _least(low, high, asked, out):
    """Lower bounds on the squared distances to the records of a family's members."""
    n = out.size
    nothing = np.float32(0.0)
    for c in range(n):
        out[c] = nothing
    for a in range(asked.size):
        q = asked[a]
        lo, hi = low[a], high[a]
        for c in range(n):
            outside = max(lo[c] - q, q - hi[c])
            t = max(outside, nothing)
            out[c] += t * t


@kernel()
def _most(low, high, reach, asked, length, error, work, out):
    """Upper bounds on the squared distances to the records of a family's members.

    The farthest corner of the box, or the farthest point of the box within the node's reach R of the
    centre, whichever is nearer: for any v > 0, |x - q|^2 <= |q|^2 + (1 + v) R^2 + sum of the maxima of
    -v x^2 - 2 q x over the sides of the box. v = |q| / R is best where the box does not bind.
    """
    n = out.size
    corner, v, inverse = work[0], work[1], work[2]
    one, two, least = np.float32(1.0), np.float32(2.0), np.float32(1e-3)
    for c in range(n):
        corner[c] = 0.0
        v[c] = max(np.sqrt(length / reach[c]), least)
        inverse[c] = one / v[c]
        out[c] = (length + (one + v[c]) * reach[c]) * (one + error)
    for a in range(asked.size):
        q = asked[a]
        lo, hi = low[a], high[a]
        for c in range(n):
            t = max(q - lo[c], hi[c] - q)
            corner[c] += t * t
            x = min(max(-q * inverse[c], lo[c]), hi[c])
            out[c] -= (v[c] * x + two * q) * x
    for c in range(n):
        out[c] = min(out[c] + error * (length + v[c] + one), corner[c])


@kernel()
def tighten(tree):
    """Shrink all boxes to the records still in them."""
    low, high, reach, alive, up, cells = tree.low, tree.high, tree.reach, tree.alive, tree.up, tree.cells
    leaves, p, _ = cells.shape
    first = up.size - (leaves + FAN - 1) // FAN
    axes = tree.axes.astype(np.float32)
    error = np.float32(EPS * (p + 8))
    low[:] = np.inf
    high[:] = -np.inf
    reach[:] = error
    turned = np.empty(cells.shape[2], np.float32)
    length = np.empty(cells.shape[2], np.float32)
    for leaf in range(leaves):
        f, c = first + leaf // FAN, leaf % FAN
        count = alive[f, c]
        length[:] = 0.0
        for a in range(p):
            turned[:] = 0.0
            for b in range(p):
                column, share = cells[leaf, b], axes[b, a]
                for j in range(turned.size):
                    turned[j] += column[j] * share
            for j in range(turned.size):
                length[j] += turned[j] * turned[j]
            if count > 0:
                least = most = turned[0]
                for j in range(1, count):
                    least, most = min(least, turned[j]), max(most, turned[j])
                low[f, a, c], high[f, a, c] = least - error, most + error
        far = np.float32(0.0)
        for j in range(count):
            far = max(far, length[j])
        reach[f, c] = far + error
    for f in range(up.size - 1, 0, -1):
        g, b = up[f] // FAN, up[f] % FAN
        for c in range(FAN):
            reach[g, b] = max(reach[g, b], reach[f, c])
            for a in range(p):
                low[g, a, b] = min(low[g, a, b], low[f, a, c])
                high[g, a, b] = max(high[g, a, b], high[f, a, c])
