"""Is a record's own original the nearest of all? Decided without the distances to all others.

A record asked for is done as soon as one original is nearer than its own, and in a group of k most of them have such a
one among the others of their group. Of the rest, most originals are passed over by the coordinates that spread most.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from shoal.engine.compile import kernel

# Distances that differ by less than this share are ties: sums of squares are rounded differently.
TIE = 1e-9
# Coordinates looked at first.
HEAD = 8
# Records asked for that go through the originals together, and sets of them that a thread takes at a time.
TOGETHER, TAKEN = 8, 16


def nearest_is_own(
    A: np.ndarray,
    B: np.ndarray,
    rows: np.ndarray,
    *,
    blocks: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """For each row asked for, how many originals are as near as its own, and the first of them.

    Parameters
    ----------
    A, B : arrays of float64, (n, p), C-contiguous
        Original and protected records.
    rows : array of int64
        The rows of B asked for.
    blocks : array of int64, optional
        Only originals of the record's own block 0..b-1 are compared.
    labels : array of int64, optional
        The group of each row, whose members are looked at first; the result does not depend on it.
    progress : callable, optional
        Told how many rows are done, of how many.

    Returns
    -------
    ties : array of int64
        0 where another original is nearer than its own.
    firsts : array of int64
        The smallest row among the ties.
    """
    n = A.shape[0]
    A, B = np.ascontiguousarray(A), np.ascontiguousarray(B)
    spread = np.argsort(-A.var(axis=0), kind="stable") if A.shape[1] > HEAD else np.arange(A.shape[1])
    order, starts = _sorted_by(np.zeros(n, np.int64) if blocks is None else blocks)
    of_block = np.zeros(n, np.int64) if blocks is None else blocks
    members, begins = _sorted_by(of_block if labels is None else labels)
    of_group = np.full(n, -1, np.int64) if labels is None else labels
    asked = rows[np.argsort(of_block[rows], kind="stable")]
    sets = _sets(of_block[asked])
    # Rows in the order of their blocks, the coordinates that spread most before the others.
    first = np.ascontiguousarray(A[:, spread[:HEAD]][order] if blocks is not None else A[:, spread[:HEAD]])
    ties, firsts = np.zeros(n, np.int64), np.full(n, -1, np.int64)

    def look(at: int) -> None:
        _own_is_nearest(
            A, B, first, spread, order, starts, of_block, members, begins, of_group, asked,
            sets[at : at + TAKEN + 1], ties, firsts,
        )  # fmt: skip

    # Each set writes to its own rows, so that the result does not depend on the threads.
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        taken = range(0, sets.size - 1, TAKEN)
        for at, _ in zip(taken, workers.map(look, taken), strict=True):
            if progress is not None:
                progress(float(sets[at]), float(rows.size))
    return ties[rows], firsts[rows]


def _sorted_by(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the order of their labels, and where each label begins."""
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))])
    return order, starts.astype(np.int64)


def _sets(blocks: np.ndarray) -> np.ndarray:
    """Where sets of a few rows of one block begin, and the end."""
    edges = np.flatnonzero(np.diff(blocks, prepend=-1, append=-2))
    return np.concatenate([*(np.arange(a, b, TOGETHER) for a, b in pairwise(edges)), [blocks.size]]).astype(
        np.int64
    )


# Kernels


@kernel()
def _own_is_nearest(  # noqa: C901, PLR0912 - one step of a compiled search, case by case
    A, B, first, spread, order, starts, of_block, members, begins, of_group, asked, sets, ties, firsts
):
    """Count the originals as near as the own one for some sets of rows, into `ties` and `firsts`."""
    width, head = A.shape[1], first.shape[1]
    for s in range(sets.size - 1):
        left = np.empty(sets[s + 1] - sets[s], np.int64)  # rows for which no nearer original is known
        own = np.empty(left.size)
        m = 0
        block = of_block[asked[sets[s]]]
        for at in range(sets[s], sets[s + 1]):
            i = asked[at]
            total = 0.0
            for a in range(width):
                total += (A[i, spread[a]] - B[i, spread[a]]) ** 2
            total = np.sqrt(total)
            nearer = False
            if of_group[i] >= 0:
                for place in range(begins[of_group[i]], begins[of_group[i] + 1]):
                    j = members[place]
                    if of_block[j] != block:
                        continue
                    distance = 0.0
                    for a in range(width):
                        distance += (A[j, spread[a]] - B[i, spread[a]]) ** 2
                    if np.sqrt(distance) * (1.0 + TIE) + 1e-300 < total:
                        nearer = True
                        break
            if not nearer:
                left[m], own[m] = i, total
                m += 1
        reach = own * (1.0 + TIE) + 1e-300
        squares = reach * reach * (1.0 + 1e-12)
        for place in range(starts[block], starts[block + 1]):
            q = 0
            while q < m:
                i = left[q]
                distance = 0.0
                for a in range(head):
                    distance += (first[place, a] - B[i, spread[a]]) ** 2
                if distance > squares[q]:
                    q += 1
                    continue
                j = order[place]
                for a in range(head, width):
                    distance += (A[j, spread[a]] - B[i, spread[a]]) ** 2
                distance = np.sqrt(distance)
                if distance * (1.0 + TIE) + 1e-300 < own[q]:
                    ties[i], firsts[i] = 0, -1
                    m -= 1
                    left[q], own[q], reach[q], squares[q] = left[m], own[m], reach[m], squares[m]
                    continue
                if distance <= reach[q]:
                    if ties[i] == 0 or j < firsts[i]:
                        firsts[i] = j
                    ties[i] += 1
                q += 1
            if m == 0:
                break
