"""Noise: the exact discrete Laplace distribution of `opendp`, fed by the system's randomness.

No floating-point number is ever drawn. Choices among candidates are in `shoal.dp.mechanisms.selection`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from shoal.errors import MissingExtraError

try:  # the narrow modules only: opendp's prelude loads scikit-learn
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features
except ImportError:
    raise MissingExtraError("opendp", "dp") from None

# Before this version its discrete Laplace noise had a wrong distribution; a bound of an extra binds nobody who
# installed opendp apart.
if tuple(int(part) for part in re.findall(r"\d+", version("opendp"))[:3]) < (0, 14, 2):
    raise MissingExtraError("opendp>=0.14.2", "dp")

enable_features("contrib")

CONFIDENCE = 0.95


def laplace(values: np.ndarray, scale: Fraction) -> np.ndarray:
    """Whole numbers plus discrete Laplace noise, P(z) proportional to exp(-|z| / scale).

    Parameters
    ----------
    values : int64 array
    scale : Fraction
        Rounded up to the next float, so that the noise is never less than asked for.

    Returns
    -------
    int64 array
        Saturated at the ends of int64, which is post-processing.

    Notes
    -----
    epsilon-DP for epsilon = (L1 sensitivity) / scale.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", 2020,
       arXiv:2004.00010, section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.discrete_laplace import laplace
    >>> laplace(np.array([3, 5]), Fraction(1, 1000))
    array([3, 5])
    """
    draw = _laplace(rounded_up(scale))
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    return np.array(draw(flat.tolist()), dtype=np.int64).reshape(np.shape(values))


def rounded_up(value: Fraction) -> float:
    """The smallest float at or above a fraction."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


def laplace_radius(scale: Fraction, confidence: float = CONFIDENCE) -> int:
    """The smallest r such that discrete Laplace noise stays within [-r, r] with at least this probability.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.discrete_laplace import laplace_radius
    >>> laplace_radius(Fraction(10))
    30
    """
    rate = 1 / float(scale)  # P(|Z| > r) = 2 exp(-(r + 1) rate) / (1 + exp(-rate))
    tail = (1 - confidence) * (1 + math.exp(-rate)) / 2
    return max(0, math.ceil(-math.log(tail) / rate - 1 - 1e-9))


@dataclass(frozen=True)
class Laplace:
    """Discrete Laplace noise of a scale.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.discrete_laplace import Laplace
    >>> Laplace(Fraction(10)).radius(), round(Laplace(Fraction(10)).deviation, 2)
    (30, 14.14)
    """

    scale: Fraction

    def add(self, values: np.ndarray) -> np.ndarray:
        """Whole numbers with this noise on each."""
        return laplace(values, self.scale)

    def radius(self, confidence: float = CONFIDENCE) -> int:
        """The smallest r such that the noise stays within [-r, r] with at least this probability."""
        return laplace_radius(self.scale, confidence)

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        rate = 1 / float(self.scale)
        return 0.0 if rate > 700 else 1 / (math.sqrt(2) * math.sinh(rate / 2))

    def log_density(self, apart: np.ndarray) -> np.ndarray:
        """Of a distance from the exact number, up to a constant."""
        return -np.abs(apart) / float(self.scale)
