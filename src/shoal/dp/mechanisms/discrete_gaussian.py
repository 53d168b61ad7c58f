"""Discrete Gaussian noise: exact, from the system's randomness, for concentrated differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from shoal.dp.mechanisms.discrete_laplace import CONFIDENCE, rounded_up
from shoal.errors import MissingExtraError

try:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
except ImportError:
    raise MissingExtraError("opendp", "dp") from None


def gaussian(values: np.ndarray, scale: float) -> np.ndarray:
    """Whole numbers plus discrete Gaussian noise, P(z) proportional to exp(-z^2 / (2 scale^2)).

    Parameters
    ----------
    values : int64 array
    scale : float
        Used as the exact binary fraction it is; `gaussian_scale` rounds up to one.

    Returns
    -------
    int64 array
        Saturated at the ends of int64, which is post-processing.

    Notes
    -----
    rho-zCDP for rho = (L2 sensitivity)^2 / (2 scale^2). The variance of the noise is at most scale^2.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
       arXiv:2004.00010.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.dp.mechanisms.discrete_gaussian import gaussian
    >>> gaussian(np.array([3, 5]), 0.01)
    array([3, 5])
    """
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    return np.array(_gaussian(scale)(flat.tolist()), dtype=np.int64).reshape(np.shape(values))


def gaussian_scale(variance: Fraction) -> float:
    """The smallest float found whose square is at or above a variance.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.discrete_gaussian import gaussian_scale
    >>> Fraction(gaussian_scale(Fraction(2))) ** 2 >= 2
    True
    """
    scale = math.sqrt(rounded_up(variance))
    while Fraction(scale) ** 2 < variance:
        scale = math.nextafter(scale, math.inf)
    return scale


@lru_cache(maxsize=1024)
def _gaussian(scale: float) -> Any:
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="i64"), scale=scale)


def gaussian_radius(scale: float, confidence: float = CONFIDENCE) -> int:
    """The smallest r found such that discrete Gaussian noise stays within [-r, r] with at least this probability.

    Notes
    -----
    Below a scale of 64 the probabilities are added up. Above, P(Z >= r + 1) <= P(N >= r) for the continuous normal N of
    the same scale [1]_, so that r is at most 1 too large.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
       arXiv:2004.00010, proposition 25.

    Examples
    --------
    >>> from shoal.dp.mechanisms.discrete_gaussian import gaussian_radius
    >>> gaussian_radius(10.0), gaussian_radius(1000.0)
    (20, 1960)
    """
    if scale >= 64:
        return math.ceil(scale * normal_quantile(confidence))
    weights = np.exp(-(np.arange(math.ceil(40 * scale) + 2) ** 2) / (2 * scale * scale))
    weights[1:] *= 2
    outside = 1 - np.cumsum(weights) / weights.sum()
    return int(np.argmax(outside <= 1 - confidence - 1e-12))


def normal_quantile(confidence: float) -> float:
    """Z with P(|N| <= z) = confidence, for a standard normal N."""
    return -NormalDist().inv_cdf((1 - confidence) / 2)


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise of a scale.

    Examples
    --------
    >>> from shoal.dp.mechanisms.discrete_gaussian import Gaussian
    >>> Gaussian(10.0).radius(), Gaussian(10.0).deviation
    (20, 10.0)
    """

    scale: float

    def add(self, values: np.ndarray) -> np.ndarray:
        """Whole numbers with this noise on each."""
        return gaussian(values, self.scale)

    def radius(self, confidence: float = CONFIDENCE) -> int:
        """The smallest r found such that the noise stays within [-r, r] with at least this probability."""
        return gaussian_radius(self.scale, confidence)

    @property
    def deviation(self) -> float:
        """Standard deviation, at most."""
        return self.scale

    def log_density(self, apart: np.ndarray) -> np.ndarray:
        """Of a distance from the exact number, up to a constant."""
        return -((np.asarray(apart, dtype=np.float64) / self.scale) ** 2) / 2
