"""Bins by rank: where a column's records lie is bought with a small share, so that skewed numbers fill their bins.

Each level splits every bin made so far at about its middle record, drawn by the exponential mechanism. A record lies in
one bin of each level, so that a level costs one draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.mechanisms.selection import exponential
from shoal.release.marginals._axes import MarginalAxis
from shoal.release.marginals._spend import Purse

SHARE = Fraction(1, 16)  # of a release, for all its bins by rank
MOST_CUTS = 1 << 14  # places that a split may have


def bins_by_rank(cells: np.ndarray, axis: MarginalAxis, count: int, purse: Purse) -> tuple[float, ...]:
    """Edges of about as many bins as asked for, each with about as many records.

    Parameters
    ----------
    cells : float64 array
        As loaded; NaN where missing, which is not looked at.
    axis : MarginalAxis
        Gives the declared bounds and grid.
    count : int
        A power of two; bins that hold a single value of the grid are not split.
    purse : Purse
        All of it is spent, whatever comes out.

    Returns
    -------
    tuple of float
    """
    low, high = finite_bounds(axis.column)
    held = np.sort(np.clip(cells[~np.isnan(cells)], low, high))
    levels = count.bit_length() - 1
    rate = purse.rate(levels)
    edges = [low, high]
    for _ in range(levels):
        made = [edges[0]]
        for at, (first, last) in enumerate(pairwise(edges)):
            cuts = _cuts(low, first, last, axis.step)
            if len(cuts):
                made.append(_middle(held, first, last, at == len(edges) - 2, cuts, rate))
            made.append(last)
        edges = made
    return tuple(edges)


def _cuts(base: float, first: float, last: float, step: float | None) -> np.ndarray:
    """Places within a bin at which it may be split, on the declared grid where there is one; public."""
    if step is None:
        return np.linspace(first, last, MOST_CUTS + 2)[1:-1] if last > first else np.empty(0)
    begin, end = round((first - base) / step) + 1, int(np.ceil((last - base) / step - 1e-9)) - 1
    if begin > end:
        return np.empty(0)
    places = (
        np.arange(begin, end + 1) if end - begin < MOST_CUTS else np.linspace(begin, end, MOST_CUTS).round()
    )
    return np.asarray(base + np.unique(places) * step, dtype=np.float64)


def _middle(
    held: np.ndarray, first: float, last: float, closed: bool, cuts: np.ndarray, rate: Fraction
) -> float:
    """A cut with about as many records before it as after it: one record moves each difference by 1."""
    begin = np.searchsorted(held, first)
    end = len(held) if closed else np.searchsorted(held, last)
    before = np.searchsorted(held[begin:end], cuts)
    apart = np.abs(2 * before - (end - begin)).astype(np.int64)
    return float(cuts[int(exponential(apart, rate)[0])])


def quantile_axes(
    axes: Sequence[MarginalAxis], asked: Sequence[tuple[str, int]], cells: dict[str, np.ndarray], purse: Purse
) -> tuple[MarginalAxis, ...]:
    """The axes with the bins of some columns bought."""
    wanted = dict(asked)
    each = purse.part(Fraction(1, max(1, len(wanted))))
    return tuple(
        replace(axis, edges=bins_by_rank(cells[axis.name], axis, wanted[axis.name], each))
        if axis.name in wanted
        else axis
        for axis in axes
    )
