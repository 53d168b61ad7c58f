"""Differences of halves, quarters and so on of a row of positions: what ranges are put together from."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=64)
def level_matrices(size: int) -> tuple[np.ndarray, ...]:
    """The rows of each level over the positions of a column; rows that hold no position are left out.

    A column is laid out on the next power of two. Level 0 is the total; level l has 2^(l-1) entries, each the count in the
    left half of a dyadic interval less that in the right half. A record changes exactly one entry of each level, by one.

    Examples
    --------
    >>> from shoal.dp.mechanisms.dyadic import level_matrices
    >>> [each.astype(int).tolist() for each in level_matrices(3)]
    [[[1, 1, 1]], [[1, 1, -1]], [[1, -1, 0], [0, 0, 1]]]
    """
    depth = depth_of(size)
    padded = 1 << depth
    found = [np.ones((1, size))]
    for level in range(depth):
        width = padded >> level
        rows = np.zeros((1 << level, padded))
        for at in range(1 << level):
            rows[at, at * width : at * width + width // 2] = 1
            rows[at, at * width + width // 2 : (at + 1) * width] = -1
        kept = rows[:, :size]
        found.append(kept[(kept != 0).any(axis=1)])
    return tuple(found)


def depth_of(size: int) -> int:
    """Levels below the total."""
    return max(0, (size - 1).bit_length())


def widths(size: int) -> list[int]:
    """What the entries of each level are divided by when counts are put together again."""
    padded = 1 << depth_of(size)
    return [padded] + [padded >> level for level in range(depth_of(size))]
