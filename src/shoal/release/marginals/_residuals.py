"""Marginals through residuals: what a marginal adds to those inside it, measured once and exactly.

With ``C = I - 11'/d`` for a column of d positions, the residual of a set A of columns is the product of their C
applied to the marginal of A. Residuals of different sets are orthogonal, every marginal is a sum of residuals
spread evenly over its other columns, and all marginals agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from shoal.dp.mechanisms.discrete_gaussian import gaussian, gaussian_scale

Key = tuple[int, ...]  # positions of columns, rising
Sizes = Sequence[int]


@dataclass(frozen=True)
class Residual:
    """A measured residual.

    Parameters
    ----------
    values : float64 array
        Centred along every axis, in records.
    variance : float
        sigma^2: the noise has the covariance sigma^2 times the product of the C.
    """

    values: np.ndarray
    variance: float


Residuals = Mapping[Key, Residual]


def subsets(key: Key) -> Iterable[Key]:
    """All subsets, the empty one first."""
    for count in range(len(key) + 1):
        yield from combinations(key, count)


def closure(keys: Iterable[Key], sizes: Sizes) -> list[Key]:
    """All subsets of some sets, short ones first; columns with a single position have no residual."""
    found = {part for key in keys for part in subsets(key) if all(sizes[at] > 1 for at in part)}
    return sorted(found, key=lambda key: (len(key), key))


def count_table(codes: np.ndarray, key: Key, sizes: Sizes) -> np.ndarray:
    """The exact marginal of some columns, as whole numbers."""
    shape = [sizes[at] for at in key]
    if not key:
        return np.array(len(codes), dtype=np.int64)
    place = codes[:, key[0]].copy()
    for at in key[1:]:
        place = place * sizes[at] + codes[:, at]
    return np.bincount(place, minlength=math.prod(shape)).reshape(shape).astype(np.int64)


def scaled_residual(table: np.ndarray) -> np.ndarray:
    """The residual times the product of the sizes, in whole numbers: product of (d I - 11') applied to a marginal.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release.marginals._residuals import scaled_residual
    >>> scaled_residual(np.array([1, 0, 0]))
    array([ 2, -1, -1])
    """
    for axis, size in enumerate(table.shape):
        table = size * table - table.sum(axis=axis, keepdims=True)
    return table


def centred(values: np.ndarray) -> np.ndarray:
    """An array with its mean along every axis taken off."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def moved(key: Key, sizes: Sizes, replaced: bool = False) -> int:
    """Largest squared change of a scaled residual when one record comes or goes, or is replaced by another.

    A record adds a product of columns of ``d I - 11'``, of squared length product d (d - 1). Two records that
    agree in the columns B and differ in the rest have the inner product product over B of d (d - 1) times product
    over the rest of (-d).
    """
    square = math.prod(sizes[at] * (sizes[at] - 1) for at in key)
    if not replaced:
        return square
    inner = [
        math.prod(sizes[at] * (sizes[at] - 1) if at in same else -sizes[at] for at in key)
        for same in subsets(key)
        if len(same) < len(key)
    ]
    return 2 * (square - min(inner, default=square))


def optimal_scales(
    weights: Mapping[Key, float], sizes: Sizes, rho: Fraction, rows: int = 1, replaced: bool = False
) -> dict[Key, float]:
    """Scales of the noise on scaled residuals that minimise the weighted variance of some marginals.

    Parameters
    ----------
    weights : mapping of columns to float
        The marginals wanted and how much the variance of a cell of each counts.
    sizes : sequence of int
    rho : Fraction
        What all of it may cost, in concentrated differential privacy.
    rows : int, default 1
        Rows that one unit can bring.
    replaced : bool, default False
        Whether units are replaced rather than added or removed.

    Returns
    -------
    dict of columns to float
        One scale for each set in the closure of the marginals wanted; the cost is at most `rho`, exactly.

    References
    ----------
    .. [1] Y. Xiao, G. He, D. Zhang, D. Kifer, "An optimal and scalable matrix mechanism for noisy marginals under
       convex loss functions", NeurIPS 2023.
    """
    gain: dict[Key, float] = dict.fromkeys(closure(weights, sizes), 0.0)
    for key, weight in weights.items():
        for part in subsets(key):
            if part in gain:
                spread = math.prod(sizes[at] ** -2.0 for at in key if at not in part)
                gain[part] += weight * spread * math.prod(1 - 1 / sizes[at] for at in part)
    cost = {key: rows**2 * moved(key, sizes, replaced) for key in gain}
    cost = {key: value for key, value in cost.items() if value > 0}  # a public total costs nothing
    scale = {key: math.prod(sizes[at] for at in key) for key in gain}
    root = {key: math.sqrt(cost[key] * gain[key]) / scale[key] for key in cost}
    total = sum(root.values())
    slack = Fraction(1)
    while True:
        variances = {key: Fraction(cost[key] * total / (2 * root[key])) / rho * slack for key in cost}
        scales = {key: gaussian_scale(each) for key, each in variances.items()}
        if cost_of(scales, sizes, rows, replaced) <= rho:
            return {key: scales.get(key, 0.0) for key in gain}
        slack *= 1 + Fraction(1, 10**12)


def cost_of(scales: Mapping[Key, float], sizes: Sizes, rows: int = 1, replaced: bool = False) -> Fraction:
    """What measuring scaled residuals with these scales costs in rho, exactly."""
    spent = Fraction(0)
    for key, scale in scales.items():
        square = rows**2 * moved(key, sizes, replaced)
        if square:
            spent += Fraction(square) / (2 * Fraction(scale) ** 2)
    return spent


def noisy_residual(table: np.ndarray, scale: float) -> np.ndarray:
    """The scaled residual of a marginal with exact discrete noise: what is released, in whole numbers."""
    exact = scaled_residual(table)
    return gaussian(exact, scale) if scale > 0 else exact


def residual(noisy: np.ndarray, scale: float) -> Residual:
    """What released numbers say about a residual: divided and centred."""
    size = math.prod(noisy.shape)
    return Residual(centred(np.asarray(noisy, dtype=np.float64) / size), scale**2 / float(size) ** 2)


def pooled(found: Sequence[Residual]) -> Residual:
    """One residual from independent measurements of it, weighted by what each is worth."""
    exact = [each for each in found if each.variance == 0]
    if exact or len(found) == 1:
        return (exact or found)[0]
    worth = np.array([1 / each.variance for each in found])
    values = sum(each.values * share for each, share in zip(found, worth / worth.sum(), strict=True))
    return Residual(np.asarray(values), float(1 / worth.sum()))


def residuals_of_table(noisy: np.ndarray, key: Key, variance: float) -> dict[Key, Residual]:
    """All residuals inside a marginal that was itself measured with independent noise on its cells."""
    found = {}
    for part in subsets(key):
        if any(noisy.shape[key.index(at)] == 1 for at in part):
            continue
        others = tuple(axis for axis, at in enumerate(key) if at not in part)
        spread = math.prod(noisy.shape[axis] for axis in others)
        summed = np.asarray(noisy, dtype=np.float64).sum(axis=others)
        found[part] = Residual(centred(np.asarray(summed)), variance * spread)
    return found


def reconstruct(key: Key, residuals: Residuals, sizes: Sizes) -> np.ndarray:
    """The marginal of some columns as the sum of its residuals; those not measured count as nothing."""
    table = np.zeros([sizes[at] for at in key])
    for part in subsets(key):
        if part in residuals:
            shape = [sizes[at] if at in part else 1 for at in key]
            spread = math.prod(sizes[at] for at in key if at not in part)
            table = table + residuals[part].values.reshape(shape) / spread
    return table


def covers(key: Key, residuals: Residuals, sizes: Sizes) -> bool:
    """Whether every residual of a marginal was measured."""
    return all(part in residuals for part in closure([key], sizes))


def variance_of(query: np.ndarray, key: Key, residuals: Residuals, sizes: Sizes) -> float:
    """The exact variance of a linear query on a measured marginal.

    Parameters
    ----------
    query : array
        What each cell of the marginal counts.
    key : tuple of int
        The columns of the marginal.
    """
    total = 0.0
    for part in closure([key], sizes):
        others = tuple(axis for axis, at in enumerate(key) if at not in part)
        total += residuals[part].variance * float((centred(query.mean(axis=others)) ** 2).sum())
    return total


def cell_variance(key: Key, residuals: Residuals, sizes: Sizes) -> float:
    """The variance of a cell of a measured marginal, the same for all its cells."""
    total = 0.0
    for part in closure([key], sizes):
        inside = math.prod(1 - 1 / sizes[at] for at in part)
        total += (
            residuals[part].variance * inside * math.prod(sizes[at] ** -2.0 for at in key if at not in part)
        )
    return total


def keys_of(count: int, ways: Iterable[int]) -> list[Key]:
    """All sets of so many columns."""
    return [key for way in ways for key in combinations(range(count), way)]
