"""95 % intervals from noisy numbers and public scales alone; docs/theory/intervals.md has the proofs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from shoal.dp.mechanisms.currency import Noise
from shoal.dp.mechanisms.discrete_gaussian import Gaussian, normal_quantile
from shoal.dp.mechanisms.discrete_laplace import CONFIDENCE

Interval = tuple[float, float]


def share_interval(above: float, below: float, noise: Noise, confidence: float = CONFIDENCE) -> Interval:
    """Of p = A / (A + B), where A and B are known with independent noise of one kind.

    Parameters
    ----------
    above, below : float
        Noisy A and B, whose true values are at least 0.
    noise : Laplace or Gaussian

    Returns
    -------
    (float, float)
        Every p with |(1-p) above - p below| within the 95 % radius of (1-p) Z1 - p Z2.
    """
    total = above + below
    if total <= _steepest(noise, confidence):  # from here on the set is an interval
        return 0.0, 1.0
    middle = min(max(above / total, 0.0), 1.0)
    low = _crossing(lambda p: _is_beyond(above - p * total, p, noise, confidence), 0.0, middle)
    high = _crossing(lambda p: _is_beyond(p * total - above, p, noise, confidence), 1.0, middle)
    return low, high


def _steepest(noise: Noise, confidence: float) -> float:
    """More than the slope of the radius in p: below 3.1 scales at 95 % (Laplace), the quantile itself (Gaussian)."""
    if isinstance(noise, Gaussian):
        return 1.1 * noise.scale * normal_quantile(confidence)
    return 4 * float(noise.scale) * max(1.0, math.log(1 - confidence) / math.log(1 - CONFIDENCE))


def difference_radius(p: float, noise: Noise, confidence: float = CONFIDENCE) -> float:
    """Half the width that holds (1-p) Z1 - p Z2 with this probability, rounded up."""
    u, v = max(p, 1 - p), min(p, 1 - p)
    # Discrete noise is continuous noise moved by less than one on either side.
    if isinstance(noise, Gaussian):
        return normal_quantile(confidence) * noise.scale * math.hypot(u, v) * (1 + 1e-9) + 2.0
    low, high = 0.0, -math.log(1 - confidence) + 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _outside(middle, u, v) <= 1 - confidence else (middle, high)
    return high * float(noise.scale) * (1 + 1e-9) + 2.0


def _is_beyond(distance: float, p: float, noise: Noise, confidence: float) -> bool:
    """Whether a distance is larger than `difference_radius`; its probability decides, so that no radius is searched for."""
    if isinstance(noise, Gaussian):
        return distance > difference_radius(p, noise, confidence)
    c = (distance - 2.0) / (float(noise.scale) * (1 + 1e-9))
    return c > 0 and _outside(c, max(p, 1 - p), min(p, 1 - p)) < 1 - confidence


def _outside(c: float, u: float, v: float) -> float:
    """P(|u Z1 - v Z2| > c) for Laplace noise of scale 1 and u >= v >= 0."""
    if v < 1e-9:
        return math.exp(-c / u)
    if u - v < 1e-6 * u:
        return (1 + c / (2 * u)) * math.exp(-c / u)
    return (u * u * math.exp(-c / u) - v * v * math.exp(-c / v)) / (u * u - v * v)


def _crossing(holds: Callable[[float], bool], outer: float, inner: float) -> float:
    """Where a condition that does not hold at `inner` begins to hold on the way to `outer`."""
    if not holds(outer):
        return outer
    for _ in range(80):
        middle = (outer + inner) / 2
        outer, inner = (middle, inner) if holds(middle) else (outer, middle)
    return outer


def variance_interval(
    terms: Sequence[float], radius: float, whole: Callable[..., np.ndarray]
) -> Interval | None:
    """Of the variance, if each of three noisy sums is right within a radius.

    Parameters
    ----------
    terms : three float
        Noisy sums.
    radius : float
    whole : callable
        Three sums to number of rows, sum and sum of squares.

    Returns
    -------
    (float, float) or None
        None where the number of rows may be zero.

    Notes
    -----
    Variance is concave in the distribution, so that its least value over the box lies at a corner. It is at most
    the mean square about any fixed point, which is a quotient of linear functions: largest at a corner.
    """
    corners = [
        whole(*(each + sign * radius for each, sign in zip(terms, signs, strict=True)))
        for signs in itertools.product((-1, 1), repeat=3)
    ]
    if min(rows for rows, _, _ in corners) < 1:
        return None
    rows, first, _ = whole(*terms)
    centre = first / rows
    low = min(second / n - (first / n) ** 2 for n, first, second in corners)
    high = max((second - 2 * centre * first) / n + centre**2 for n, first, second in corners)
    return max(low, 0.0), max(high, 0.0)
