"""Nearest published rows by numbers, intervals and categories together.

A person is a row of `T`: standardised numbers, or codes of levels; NaN where a cell is not known. A published row is an
interval `[low, high]` in each column of numbers (a point where both are equal), or the code of a label in each column
of categories; `fits` tells which levels a label may stand for. Equal published rows are given once, with their count.
"""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel, prange

# Distances that differ by less than this share are ties: sums are rounded differently.
TIE = 1e-9


@kernel(inline=True)
def _gap(person, low, high, numeric, weights, offsets, widths, fits, most):
    """Weighted squared distance of a person from a published row; anything above `most` once it is passed."""
    total = 0.0
    for a in range(person.size):
        weight, x = weights[a], person[a]
        if weight == 0.0 or np.isnan(x):
            continue
        if numeric[a]:
            if x < low[a]:
                total += weight * (low[a] - x) ** 2
            elif x > high[a]:
                total += weight * (x - high[a]) ** 2
        elif fits[offsets[a] + int(low[a]) * widths[a] + int(x)] == 0:
            total += weight
        if total > most:
            return total
    return total


@kernel(parallel=True)
def nearest_rows(T, low, high, numeric, weights, offsets, widths, fits, counts, own):
    """For each person the least distance, how many published rows have it, and whether the person's own does.

    `own` holds the place of the person's own row among the different ones, or -1.
    """
    n = T.shape[0]
    best, ties, hit = np.empty(n), np.empty(n), np.zeros(n, np.bool_)
    for i in prange(n):
        least, many, mine = np.inf, 0.0, False
        for r in range(low.shape[0]):
            d = _gap(T[i], low[r], high[r], numeric, weights, offsets, widths, fits, least * (1.0 + TIE))
            if d < least * (1.0 - TIE):
                least, many, mine = d, counts[r], own[i] == r
            elif d <= least * (1.0 + TIE):
                many += counts[r]
                mine = mine or own[i] == r
        best[i], ties[i], hit[i] = least, many, mine
    return best, ties, hit


@kernel(parallel=True)
def tied_sums(T, low, high, numeric, weights, offsets, widths, fits, best, V):
    """For each person the sum of the rows of `V` over the published rows at the least distance."""
    n = T.shape[0]
    out = np.zeros((n, V.shape[1]))
    for i in prange(n):
        most = best[i] * (1.0 + TIE)
        for r in range(low.shape[0]):
            if _gap(T[i], low[r], high[r], numeric, weights, offsets, widths, fits, most) <= most:
                for c in range(V.shape[1]):
                    out[i, c] += V[r, c]
    return out


@kernel(parallel=True)
def meetings(T, low, high, numeric, first, second, offsets, widths, fits, counts, near, far):
    """Rows nearest by either half of the columns: their numbers, and the chance that a draw from both is one.

    `near` and `far` hold the least distances by the columns with weights in `first` and in `second`. The chance is that
    of equal rows, and of the very same row.
    """
    n = T.shape[0]
    equal, same = np.zeros(n), np.zeros(n)
    for i in prange(n):
        a, b = near[i] * (1.0 + TIE), far[i] * (1.0 + TIE)
        left, right, squares, rows = 0.0, 0.0, 0.0, 0.0
        for r in range(low.shape[0]):
            here = _gap(T[i], low[r], high[r], numeric, first, offsets, widths, fits, a) <= a
            there = _gap(T[i], low[r], high[r], numeric, second, offsets, widths, fits, b) <= b
            if here:
                left += counts[r]
            if there:
                right += counts[r]
            if here and there:
                squares += counts[r] * counts[r]
                rows += counts[r]
        equal[i], same[i] = squares / (left * right), rows / (left * right)
    return equal, same
