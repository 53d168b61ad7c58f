"""Partition inside strata, households kept whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.engine.encode import group_means
from shoal.errors import InputError
from shoal.microaggregation._base import Microaggregator


def join_small_strata(Z: np.ndarray, strata: np.ndarray, k: int) -> np.ndarray:
    """For each stratum 0..s-1, the stratum that it joins: itself, or the nearest one with k records.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import join_small_strata
    >>> join_small_strata(np.array([[0.0], [0.1], [9.0], [9.1], [8.0]]), np.array([0, 0, 1, 1, 2]), 2)
    array([0, 1, 1])
    """
    sizes = np.bincount(strata)
    large, joins = np.flatnonzero(sizes >= k), np.arange(sizes.size)
    if large.size == 0:
        raise InputError(f"A stratum must have at least k = {k} records. The largest has {sizes.max()}.")
    centres = group_means(Z, strata)
    for small in np.flatnonzero(sizes < k):
        joins[small] = large[np.argmin(((centres[large] - centres[small]) ** 2).sum(axis=1))]
    return joins


def split_strata(Z: np.ndarray, strata: np.ndarray, patterns: np.ndarray, k: int) -> np.ndarray:
    """Strata split by patterns, such as which cells are zero; patterns of fewer than k records join the nearest.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import split_strata
    >>> Z = np.array([[0.0], [0.1], [9.0], [9.1], [8.0]])
    >>> split_strata(Z, np.zeros(5, np.int64), Z < 1, 2)
    array([1, 1, 0, 0, 0])
    """
    pattern = np.unique(patterns, axis=0, return_inverse=True)[1].reshape(-1)
    inner = _dense(strata * (int(pattern.max(initial=0)) + 1) + pattern)
    for rows in np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1]):
        numbers, here = np.unique(inner[rows], return_inverse=True)
        here = here.reshape(-1)
        large = bool((np.bincount(here) >= k).any())
        inner[rows] = numbers[join_small_strata(Z[rows], here, k)[here]] if large else numbers[0]
    return _dense(inner)


def _dense(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64).reshape(-1)


def partition_within(
    Z: np.ndarray,
    method: Microaggregator,
    strata: np.ndarray,
    households: np.ndarray | None = None,
    categories: Sequence[tuple[int, int]] = (),
) -> tuple[np.ndarray, list[Microaggregator]]:
    """Label records so that no group crosses a stratum or splits a household.

    Parameters
    ----------
    Z : array of float64, (n_records, n_coordinates)
    method : Microaggregator
        Its time limit or work, if it has any, is shared out by size.
    strata : array of int64
        Stratum 0..s-1 of each record, each with enough records.
    households : array of int64, optional
        Records with one value stay together; groups then hold at least k households.
    categories : sequence of (int, int), default ()
        Coordinates of columns published as their mode, as in `Microaggregator.partition`; not looked at where
        households are kept whole.

    Returns
    -------
    labels : array of int64
    parts : list of Microaggregator
        The method as it ran in each stratum.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MDAV, partition_within
    >>> Z = np.arange(12.0).reshape(-1, 1)
    >>> labels, parts = partition_within(Z, MDAV(k=3), strata=np.repeat([0, 1], 6))
    >>> labels.tolist(), len(parts)
    ([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3], 2)
    """
    labels = np.empty(Z.shape[0], np.int64)
    following = 0
    parts = []
    if households is not None:  # means of households hold no category
        categories = ()
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        part = method.for_part(rows.size, Z.shape[0], Z.shape[1], categories)
        if households is None:
            found = part.partition(Z[rows], categories)
        else:
            inside, of_row = np.unique(households[rows], return_inverse=True)
            of_row = of_row.reshape(-1)
            if np.isin(households[strata != stratum], inside).any():
                raise InputError("A household must lie in one stratum. One has records in two.")
            if inside.size < part.k:
                raise InputError(
                    f"A group needs k = {part.k} households, so there must be at least that many. Got {inside.size}."
                )
            found = part.partition(group_means(Z[rows], of_row))[of_row]
        parts.append(part)
        labels[rows] = following + found
        following += int(found.max()) + 1
    return labels, parts
