"""The sensitive values of each class, sorted, once for every model that asks for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.engine.compile import kernel, prange
from shoal.privacy._classes import Classes
from shoal.privacy._columns import Cells


@dataclass(frozen=True)
class Profile:
    """One sensitive column seen class by class.

    Attributes
    ----------
    cells : Cells
    starts : array of int64, (n_classes + 1,)
        Records of class c stand at starts[c]..starts[c + 1] - 1.
    codes : array of int64, (n_records,)
        Sensitive codes, class by class, ascending within a class.
    totals : array of int64, (n_values,)
        Records of each sensitive value in the whole table.
    """

    cells: Cells
    starts: np.ndarray
    codes: np.ndarray
    totals: np.ndarray


def profile_of(classes: Classes, cells: Cells) -> Profile:
    """Sort the sensitive codes of each class."""
    starts = np.zeros(classes.n_classes + 1, np.int64)
    np.cumsum(classes.sizes, out=starts[1:])
    sensitive = cells.codes.astype(np.int64) - cells.base
    codes = _scatter(classes.labels, sensitive, starts)
    _sort_within(codes, starts)
    return Profile(cells, starts, codes, np.bincount(sensitive, minlength=cells.span))


# Kernels


@kernel()
def _scatter(labels, sensitive, starts):
    at = starts[:-1].copy()
    codes = np.empty(labels.shape[0], np.int64)
    for i in range(labels.shape[0]):
        codes[at[labels[i]]] = sensitive[i]
        at[labels[i]] += 1
    return codes


@kernel(parallel=True)
def _sort_within(codes, starts):
    for c in prange(starts.shape[0] - 1):
        low, high = starts[c], starts[c + 1]
        if high - low > 32:
            codes[low:high] = np.sort(codes[low:high])
            continue
        for i in range(low + 1, high):
            value = codes[i]
            j = i - 1
            while j >= low and codes[j] > value:
                codes[j + 1] = codes[j]
                j -= 1
            codes[j + 1] = value
