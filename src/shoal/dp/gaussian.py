"""Discrete Gaussian noise: exact, from the system's randomness, for concentrated differential privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from shoal.dp.mechanisms import rounded_up
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
    >>> from shoal.dp.gaussian import gaussian
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
    >>> from shoal.dp.gaussian import gaussian_scale
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
