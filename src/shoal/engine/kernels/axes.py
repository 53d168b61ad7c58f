"""Rows cut in two again and again, along the axis on which they spread most."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel

SAMPLE = 500
"""Rows from which an axis is found."""

POWER = 12
"""Steps of the power method."""


def blocks_of(Z: np.ndarray, most: int, share: float = 0.5) -> list[np.ndarray]:
    """Rows cut in two along the axis of largest spread until no block has more than `most`.

    Parameters
    ----------
    share : float, default 0.5
        Share of the rows on the lower side of each cut.
    """
    waiting, blocks = [np.arange(Z.shape[0])], []
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
