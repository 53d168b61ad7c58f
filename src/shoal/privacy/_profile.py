"""The sensitive values of each class, sorted, once for every model that asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.engine.compile import kernel
from shoal.privacy.cells import CodedCells
from shoal.privacy.classes import Classes


@dataclass(frozen=True)
class Profile:
    """One sensitive column seen class by class.

    Attributes
    ----------
    cells : CodedCells
    starts : array of int64, (n_classes + 1,)
        Records of class c stand at starts[c] to starts[c + 1] - 1.
    codes : array of int64, (n_records,)
        Sensitive codes, class by class, ascending within a class.
    totals : array of int64, (n_values,)
        Records of each sensitive value in the whole table.
    """

    cells: CodedCells
    starts: np.ndarray
    codes: np.ndarray
    totals: np.ndarray


def profile_of(classes: Classes, cells: CodedCells) -> Profile:
    """Sort the sensitive codes of each class."""
    starts = np.zeros(classes.n_classes + 1, np.int64)
    np.cumsum(classes.sizes, out=starts[1:])
    sensitive = cells.codes.astype(np.int64) - cells.base
    totals = np.bincount(sensitive, minlength=cells.span)
    return Profile(cells, starts, _scatter(classes.labels, sensitive, starts, totals), totals)


# Kernels


@kernel()
def _scatter(labels, sensitive, starts, totals):
    """Two counting sorts, by value and then by class, so that values ascend within a class."""
    n = labels.shape[0]
    at = np.zeros(totals.shape[0], np.int64)
    for v in range(1, totals.shape[0]):
        at[v] = at[v - 1] + totals[v - 1]
    by_value = np.empty(n, np.int64)
    for i in range(n):
        by_value[at[sensitive[i]]] = labels[i]
        at[sensitive[i]] += 1
    # Now at[v] is where the run of v ends.
    place = np.empty(starts.shape[0] - 1, np.int64)
    for g in range(place.shape[0]):
        place[g] = starts[g]
    codes = np.empty(n, np.int64)
    v = 0
    for i in range(n):
        while i >= at[v]:
            v += 1
        g = by_value[i]
        codes[place[g]] = v
        place[g] += 1
    return codes


@kernel()
def ascend(values):
    """Sort a short array in place (shell sort: compiles in no time, and groups are small)."""
    size = values.shape[0]
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, size):
            value = values[i]
            j = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3
