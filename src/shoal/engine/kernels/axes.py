"""Rows cut in two again and again, along the axis on which they spread most."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from shoal.engine.compile import kernel

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Applies a function to each of some arguments, perhaps on several threads, and gives the results in their order: `map`."""

SAMPLE = 500
"""Rows from which an axis is found."""

POWER = 12
"""Steps of the power method."""


PARTS = 8
"""Parts of the rows, about, that are cut further side by side."""


def blocks_of(Z: np.ndarray, most: int, share: float = 0.5, each: Each = map) -> list[np.ndarray]:
    """Rows cut in two along the axis of largest spread until no block has more than `most`.

    Parameters
    ----------
    share : float, default 0.5
        Share of the rows on the lower side of each cut.
    each : function, default map
        Applies a function to all of its arguments, perhaps on several threads: the blocks are the same.
    """
    rows = np.arange(Z.shape[0])
    parts = _cut(Z, rows, max(most, rows.size // PARTS), share)
    return [block for blocks in each(lambda part: _cut(Z, part, most, share), parts) for block in blocks]


def _cut(Z: np.ndarray, rows: np.ndarray, most: int, share: float) -> list[np.ndarray]:
    """Blocks of some rows, from one end of the first axis to the other."""
    waiting, blocks = [rows], []
    while waiting:
        rows = waiting.pop()
        if rows.size <= most:
            blocks.append(rows)
            continue
        along = project(Z, rows, widest_axis(Z, rows, max(1, rows.size // SAMPLE)))
        at = int(rows.size * share)
        halves = np.argpartition(along, at)
        waiting += [rows[halves[at:]], rows[halves[:at]]]
    return blocks


# Kernels


@kernel()
def widest_axis(Z, rows, step):
    """The direction in which every `step`-th row spreads most, about: the power method from the widest column."""
    p = Z.shape[1]
    count = (rows.size + step - 1) // step
    middle, squares = np.zeros(p), np.zeros((p, p))
    for j in range(0, rows.size, step):
        for a in range(p):
            middle[a] += Z[rows[j], a] / count
    y = np.empty(p)
    for j in range(0, rows.size, step):
        for a in range(p):
            y[a] = Z[rows[j], a] - middle[a]
        for a in range(p):
            for b in range(p):
                squares[a, b] += y[a] * y[b]
    axis = np.zeros(p)
    axis[np.argmax(np.diag(squares))] = 1.0
    for _ in range(POWER):
        length = 0.0
        for a in range(p):
            y[a] = 0.0
            for b in range(p):
                y[a] += squares[a, b] * axis[b]
            length = max(length, abs(y[a]))
        if length == 0.0:
            break
        for a in range(p):
            axis[a] = y[a] / length
    return axis


@kernel()
def project(Z, rows, axis):
    """How far along an axis some rows lie."""
    p = axis.size
    along = np.empty(rows.size)
    # Sums of four strands: each waits for itself alone, and four fit into one vector.
    for j in range(rows.size):
        i = rows[j]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for q in range(p // 4):
            c = 4 * q
            s0 += Z[i, c] * axis[c]
            s1 += Z[i, c + 1] * axis[c + 1]
            s2 += Z[i, c + 2] * axis[c + 2]
            s3 += Z[i, c + 3] * axis[c + 3]
        for c in range(p - p % 4, p):
            s0 += Z[i, c] * axis[c]
        along[j] = (s0 + s1) + (s2 + s3)
    return along


@kernel()
def random_cuts(M, mass, most, draws):
    """Cut rows by mass into parts of at most `most`, near the middle of an axis of large variance each time.

    The axis is two steps of the power method from a random vector and the cut lies between 45 and 55 per cent,
    so that other draws give other borders: `draws` holds normal variates for the vectors and, last, uniform ones
    for the cuts, one row for each cut, used again from the first when there are more cuts. The part of each row,
    and the number of parts.
    """
    n, p = M.shape
    order, part = np.arange(n), np.empty(n, np.int32)
    other = np.empty(n, np.int64)
    starts, ends = np.empty(64, np.int64), np.empty(64, np.int64)
    starts[0], ends[0], waiting, parts, cuts = 0, n, 1, 0, 0
    while waiting > 0:
        waiting -= 1
        s, e = starts[waiting], ends[waiting]
        total = 0.0
        for x in range(s, e):
            total += mass[order[x]]
        if total <= most or e - s < 2 or waiting > 60:
            for x in range(s, e):
                part[order[x]] = parts
            parts += 1
            continue
        step = max(1, (e - s) // SAMPLE)
        draw = draws[cuts % draws.shape[0]]
        cuts += 1
        axis = _axis_from(M, order[s:e], step, draw)
        seen = project(M, order[s:e], axis)
        at = np.sort(seen[::step])
        cut = at[int(at.size * (0.45 + 0.1 * draw[p]))]
        below, above = s, 0
        for x in range(s, e):
            if seen[x - s] < cut:
                order[below] = order[x]
                below += 1
            else:
                other[above] = order[x]
                above += 1
        order[below:e] = other[:above]
        if below in (s, e):  # all alike
            below = (s + e) // 2
        starts[waiting], ends[waiting] = below, e
        starts[waiting + 1], ends[waiting + 1] = s, below
        waiting += 2
    return part, parts


@kernel()
def _axis_from(M, rows, step, first):
    """Two steps of the power method from a vector, on every `step`-th row."""
    p = M.shape[1]
    middle, axis, new = np.zeros(p), np.empty(p), np.empty(p)
    count = (rows.size + step - 1) // step
    for j in range(0, rows.size, step):
        for a in range(p):
            middle[a] += M[rows[j], a] / count
    for a in range(p):
        axis[a] = first[a]
    for _ in range(2):
        new[:] = 0.0
        for j in range(0, rows.size, step):
            dot = 0.0
            for a in range(p):
                dot += (M[rows[j], a] - middle[a]) * axis[a]
            for a in range(p):
                new[a] += dot * (M[rows[j], a] - middle[a])
        length = np.abs(new).max()
        if length == 0.0:
            break
        for a in range(p):
            axis[a] = new[a] / length
    return axis
