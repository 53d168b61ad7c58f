"""Variance, covariance and correlation from noisy sums of polynomials, each with its interval.

With x and y brought to [0, 1], the terms of a row add up to a constant, so that a noisy sum divided by all of them is the
weight of a point of a small grid. Moments are weighted sums over it. An interval asks how far one fixed combination of the
sums may have moved, docs/theory/intervals.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.dp.answering.intervals import Interval, combination_radius
from shoal.dp.mechanisms.currency import Noise

_VALUES = {2: np.array([1.0, 0.0]), 3: np.array([1.0, 0.0, 0.5])}  # x, of the terms of AVG and of VAR
_MAIN = 0.95  # of the probability to miss: for the combination itself, the rest for the means in it
_SQUARES = np.array([1.0, 0.0, 0.125])  # x^2, of the terms of VAR


@dataclass(frozen=True)
class NoisyTerms:
    """Noisy sums of terms, and how far off they may be.

    Parameters
    ----------
    sums : float array (terms of x, terms of y)
        One column where only x is asked about.
    noise : Laplace or Gaussian
        On each of them.
    lost : float, default 0
        What else they may be off by, all together.
    """

    sums: np.ndarray
    noise: Noise
    lost: float = 0.0

    @property
    def total(self) -> float:
        """All sums together: the number of rows, in what one row's terms add up to."""
        return float(self.sums.sum())

    def radius(self, sizes: np.ndarray, beta: float) -> float:
        """How far a combination with coefficients of at most these sizes has moved, more with probability beta at most."""
        return combination_radius(sizes, self.noise, 1 - beta) + float(sizes.max()) * self.lost

    def mean_radius(self, beta: float) -> float:
        """How far a mean may lie from the estimated one; infinite where the number of rows is too uncertain."""
        reach = self.radius(np.ones(self.sums.shape), beta)
        return reach / self.total if self.total > 2 * reach else math.inf

    def flipped(self) -> NoisyTerms:
        """With x and y exchanged."""
        return NoisyTerms(self.sums.T, self.noise, self.lost)


@dataclass(frozen=True)
class MomentEstimate:
    """A figure and the ends of its interval, in units of the range."""

    value: float
    ends: Interval


def variance(terms: NoisyTerms, beta: float) -> MomentEstimate:
    """Of x: its interval misses with probability beta at most."""
    if terms.total <= 0:
        return MomentEstimate(0.0, (0.0, 0.25))
    weights = terms.sums.sum(axis=1) / terms.total
    mean = float(weights @ _VALUES[3])
    value = float(weights @ _SQUARES) - mean**2
    apart = terms.mean_radius(beta / 20)
    if not math.isfinite(apart):
        return MomentEstimate(value, (0.0, 0.25))
    about = _SQUARES - 2 * mean * _VALUES[3] + mean**2 - value
    loose = 2 * np.abs(_VALUES[3] - mean) * apart + apart**2
    reach = terms.radius(np.ones(terms.sums.shape), _MAIN * beta) / terms.total  # no coefficient is above 1
    sizes = np.abs(about) + loose + reach + apart**2
    reach = terms.radius(np.broadcast_to(sizes[:, None], terms.sums.shape), _MAIN * beta) / terms.total
    return MomentEstimate(
        value, (_within(value - reach, 0.0, 0.25), _within(value + reach + apart**2, 0.0, 0.25))
    )


def covariance(terms: NoisyTerms, beta: float) -> MomentEstimate:
    """Of x and y: its interval misses with probability beta at most."""
    if terms.total <= 0:
        return MomentEstimate(0.0, (-0.25, 0.25))
    x, y, value = _moments(terms)
    apart = terms.mean_radius(beta / 40)  # of each of the two means
    if not math.isfinite(apart):
        return MomentEstimate(value, (-0.25, 0.25))
    first = terms.radius(np.full(terms.sums.shape, 1.25), _MAIN * beta) / terms.total + apart**2
    loose = (np.abs(x)[:, None] + np.abs(y)) * apart + apart**2
    sizes = np.abs(x[:, None] * y - value) + loose + first
    reach = terms.radius(sizes, _MAIN * beta) / terms.total + apart**2
    return MomentEstimate(value, (_within(value - reach, -0.25, 0.25), _within(value + reach, -0.25, 0.25)))


def correlation(terms: NoisyTerms, beta: float, quantum: float) -> MomentEstimate | None:
    """Of x and y, rounded to a quantum; None where a noisy variance is not above 0."""
    spreads = [variance(each, beta / 20) for each in (terms, terms.flipped())]
    if min(each.value for each in spreads) <= 0:
        return None
    _, _, shared = _moments(terms)
    value = shared / math.sqrt(spreads[0].value * spreads[1].value)
    apart = terms.mean_radius(beta / 40)
    least = [each.ends[0] for each in spreads]
    # Rounding turns each column by an angle of which this is the sine.
    turned = [quantum / 2 / math.sqrt(each) if each > 0 else math.inf for each in least]
    if not math.isfinite(apart) or max(turned) >= 1:
        return MomentEstimate(value, (-1.0, 1.0))
    low, high = _correlated(terms, spreads, value, apart, 0.85 * beta)
    angle = sum(math.asin(each) for each in turned)
    return MomentEstimate(value, (max(-1.0, low - angle), min(1.0, high + angle)))


def _correlated(
    terms: NoisyTerms, spreads: list[MomentEstimate], value: float, apart: float, beta: float
) -> Interval:
    """The interval if the means are right within `apart`, the variances within their ends, and one combination is."""
    x, y, _ = _moments(terms)
    least, most = ([each.ends[at] for each in spreads] for at in (0, 1))
    # Estimated over true variances: geometric mean below arithmetic mean.
    ratios = [(each.value / each.ends[1], each.value / each.ends[0]) for each in spreads]
    smallest = sum(low for low, _ in ratios) / 2
    apart_most = max(ratios[0][1] / ratios[1][0], ratios[1][1] / ratios[0][0])
    bent = 2 * math.sqrt(apart_most) / (1 + apart_most)
    deviations = math.sqrt(least[0] * least[1]), math.sqrt(most[0] * most[1])
    product = _quotient(x[:, None] * y, (np.abs(x)[:, None] + np.abs(y)) * apart + apart**2, deviations)
    squares = [
        _quotient(_SQUARES - _VALUES[3] ** 2 + each**2, 2 * np.abs(each) * apart + apart**2, (low, high))
        for each, low, high in zip((x, y), least, most, strict=True)
    ]
    halves = tuple((squares[0][at][:, None] + squares[1][at]) / 2 for at in (0, 1))
    ends = (-1.0, 1.0)
    moved = apart**2 * (1 / deviations[0] + (1 / least[0] + 1 / least[1]) / 2)
    for _ in range(3):  # each from the one before, which holds as well
        parts = [end * half for end in ends for half in halves]
        low, high = product[0] - np.max(parts, axis=0), product[1] - np.min(parts, axis=0)
        reach = terms.radius(np.maximum(np.abs(low), np.abs(high)), beta) / terms.total + moved
        centre = min(value, value * bent), max(value, value * bent)
        ends = max(ends[0], centre[0] - reach / smallest), min(ends[1], centre[1] + reach / smallest)
        if ends[0] >= ends[1]:
            return (-1.0, 1.0)
    return ends


def _quotient(values: np.ndarray, loose: np.ndarray, below: Interval) -> tuple[np.ndarray, np.ndarray]:
    """Ends of every value, known within `loose`, over a number above 0."""
    low, high = values - loose, values + loose
    return np.minimum(low / below[0], low / below[1]), np.maximum(high / below[0], high / below[1])


def _moments(terms: NoisyTerms) -> tuple[np.ndarray, np.ndarray, float]:
    """The points of the grid of x and of y less their means, and the covariance."""
    weights = terms.sums / terms.total
    x, y = (_VALUES[size] for size in weights.shape)
    first, other = float(weights.sum(axis=1) @ x), float(weights.sum(axis=0) @ y)
    return x - first, y - other, float(x @ weights @ y) - first * other


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
