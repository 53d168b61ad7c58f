"""Weighted figures with their 95 % intervals, by linearisation: totals, means, shares, ratios, quantiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Z = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval.

    Attributes
    ----------
    value, low, high : float
        NaN where there is nothing to estimate from.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.utility import total
    >>> found = total(np.array([1.0, 2.0, 3.0]), np.array([10.0, 10.0, 10.0]))
    >>> found.low < found.value < found.high
    True
    """

    value: float
    low: float
    high: float

    @classmethod
    def within(cls, value: float, deviation: float) -> Estimate:
        """A figure with a normal error."""
        return cls(value, value - Z * deviation, value + Z * deviation)


NOTHING = Estimate(np.nan, np.nan, np.nan)


def total(x: np.ndarray, w: np.ndarray) -> Estimate:
    """Sum of w x over the records, drawn independently with unequal chances.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.utility import total
    >>> total(np.array([1.0, 2.0, 3.0]), np.array([10.0, 10.0, 10.0])).value
    60.0
    """
    return Estimate.within(float((w * x).sum()), _deviation(w * x))


def ratio(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> Estimate:
    """Sum of w x over sum of w y: a mean if y is 1, a share if x is 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.utility import ratio
    >>> round(ratio(np.array([1.0, 2.0, 6.0]), np.ones(3), np.array([1.0, 1.0, 2.0])).value, 2)
    3.75
    """
    below = float((w * y).sum())
    if below == 0:
        return NOTHING
    value = float((w * x).sum()) / below
    return Estimate.within(value, _deviation(w * (x - value * y) / below))


def quantile(x: np.ndarray, w: np.ndarray, inside: np.ndarray, q: float) -> Estimate:
    """The weighted quantile of the records inside; its interval comes from that of the share below it.

    References
    ----------
    .. [1] R. S. Woodruff (1952). Confidence intervals for medians and other position measures. Journal of the American
       Statistical Association 47, 635-646. doi:10.1080/01621459.1952.10483443

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.utility import quantile
    >>> x = np.arange(1.0, 10.0)
    >>> quantile(x, np.ones(9), np.ones(9, bool), 0.5).value
    5.0
    """
    if not inside.any() or w[inside].sum() <= 0:
        return NOTHING
    order = np.argsort(x[inside], kind="stable")
    values, weights = x[inside][order], w[inside][order]
    shares = np.cumsum(weights) / weights.sum()
    value = _at(values, shares, q)
    below = ratio(inside * (x <= value), inside.astype(np.float64), w)
    half = (below.high - below.low) / 2
    return Estimate(value, _at(values, shares, max(0.0, q - half)), _at(values, shares, min(1.0, q + half)))


def _at(values: np.ndarray, shares: np.ndarray, q: float) -> float:
    return float(values[min(int(np.searchsorted(shares, q - 1e-12)), values.size - 1)])


def _deviation(parts: np.ndarray) -> float:
    n = parts.size
    return float(np.sqrt(n / (n - 1) * ((parts - parts.mean()) ** 2).sum())) if n > 1 else 0.0


def overlap(before: Estimate, after: Estimate) -> float:
    """How much two intervals overlap: 1 if they are equal, 0 if they touch, below 0 if they are apart.

    Two intervals without width count 1 where the figures are equal and 0 where not.

    References
    ----------
    .. [1] A. F. Karr, C. N. Kohnen, A. Oganian, J. P. Reiter, A. P. Sanil (2006). A framework for evaluating the utility
       of data altered to protect confidentiality. The American Statistician 60(3), 224-232.
       doi:10.1198/000313006X124640

    Examples
    --------
    >>> from shoal.utility import Estimate, overlap
    >>> overlap(Estimate(1, 0, 2), Estimate(2, 1, 3))
    0.5
    """
    if np.isnan(before.value) or np.isnan(after.value):
        return 1.0 if np.isnan(before.value) and np.isnan(after.value) else 0.0
    wide, other = before.high - before.low, after.high - after.low
    common = min(before.high, after.high) - max(before.low, after.low)
    if wide <= 0 or other <= 0:
        near = abs(before.value - after.value) <= 1e-9 * max(abs(before.value), abs(after.value), 1e-300)
        inside = common >= 0 and max(wide, other) > 0
        return 1.0 if near else 0.5 if inside else 0.0
    return (common / wide + common / other) / 2
