"""95 % intervals from noisy numbers and public scales alone; docs/theory/intervals.md has the proofs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

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


def combination_radius(sizes: np.ndarray, noise: Noise, confidence: float = CONFIDENCE) -> float:
    """Half the width that holds a combination of independent noises with this probability, rounded up.

    Parameters
    ----------
    sizes : float array
        Of the coefficients, none below 0; smaller ones make the combination no wider.
    noise : Laplace or Gaussian
        Each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.answering.intervals import combination_radius
    >>> from shoal.dp.mechanisms.discrete_laplace import Laplace
    >>> round(combination_radius(np.ones(4), Laplace(Fraction(1000))))
    5699
    """
    moved = float(sizes.sum())  # discrete noise is continuous noise moved by less than one on either side
    if isinstance(noise, Gaussian):
        return (
            normal_quantile(confidence) * noise.scale * float(np.linalg.norm(sizes)) * (1 + 1e-9)
            + moved
            + 2.0
        )
    largest = float(sizes.max())
    if largest <= 0:
        return 2.0
    shape = tuple(np.sort(np.ceil(sizes.ravel() / largest * 1e4) / 1e4).tolist())
    return _laplace_quantile(shape, confidence) * largest * float(noise.scale) * (1 + 1e-6) + moved + 2.0


_NODES = 2 * math.pi / 100 * np.arange(1, 1600)  # the trapezoidal rule errs by what lies beyond 100 scales


@lru_cache(maxsize=4096)
def _laplace_quantile(sizes: tuple[float, ...], confidence: float) -> float:
    """Of the size of a combination of Laplace noises of scale 1, the largest coefficient being 1."""
    missed = 1 - confidence
    transform = np.prod(1 / (1 + np.multiply.outer(np.array(sizes), _NODES) ** 2), axis=0)
    beyond = 1.001 * float(transform[-1]) / math.pi  # at most this much of the integral is left out
    low, high = 0.0, sum(sizes) * math.log(len(sizes) / missed)  # where all keep to it, the combination does
    if 4 * beyond > missed:
        return high
    there = transform > 1e-12
    nodes, weights = _NODES[there], transform[there] / _NODES[there]
    for _ in range(26):
        middle = (low + high) / 2
        inside = 0.04 * (middle / 2 + float(np.sin(middle * nodes) @ weights))
        low, high = (low, middle) if inside - beyond >= confidence else (middle, high)
    return high
