"""Running totals under concentrated differential privacy: noise on weighted sums of the past.

With C(x) = sum of C_k x^k, C_k whole numbers near S binom(2k, k) / 4^k, the mechanism releases q_t = sum over j of
C_(t-j) x_j plus discrete Gaussian noise. Running totals are made of these: they are the coefficients of q(x) / (C(x)
(1 - x)). Without rounding C is S times the square root of 1 / (1 - x), which splits the work evenly between what is
released and what is made of it (docs/theory/streams.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

_FINE = 1 << 12  # C_0


@dataclass(frozen=True)
class Toeplitz:
    """Weights of the past for a number of periods.

    Parameters
    ----------
    periods : int
    weights : tuple of int
        C_0, C_1, ...

    References
    ----------
    .. [1] H. Fichtenberger, M. Henzinger, J. Upadhyay, "Constant matters: fine-grained error bound on differentially
       private continual observation", ICML 2023.

    Examples
    --------
    >>> from shoal.dp.continual import toeplitz
    >>> toeplitz(4).weights
    (4096, 2048, 1536, 1280)
    """

    periods: int
    weights: tuple[int, ...]

    @property
    def squared(self) -> int:
        """Square of the L2 norm by which one row moves everything that is released."""
        return sum(each * each for each in self.weights)

    @cached_property
    def back(self) -> np.ndarray:
        """Coefficients of 1 / (C(x) (1 - x)): what noise of a period becomes in the running totals after it."""
        inverse = np.zeros(self.periods)
        weights = np.array(self.weights, dtype=np.float64)
        inverse[0] = 1 / weights[0]
        for at in range(1, self.periods):
            inverse[at] = -(weights[1 : at + 1] @ inverse[at - 1 :: -1][:at]) / weights[0]
        return np.cumsum(inverse)

    def weighted(self, exact: list[int]) -> int:
        """q_t without noise: what is released after the last of these periods."""
        return sum(weight * each for weight, each in zip(self.weights, reversed(exact), strict=False))

    def total(self, released: list[int]) -> int:
        """The running total made of what was released so far, noise included: post-processing."""
        return math.floor(
            sum(back * each for back, each in zip(self.back.tolist(), reversed(released), strict=False)) + 0.5
        )

    def deviation(self, period: int) -> float:
        """Standard deviation of the running total after so many periods, for noise of deviation 1."""
        return float(np.sqrt(np.sum(self.back[:period] ** 2)))


@lru_cache(maxsize=16)
def toeplitz(periods: int) -> Toeplitz:
    """The weights for a number of periods."""
    near, weights = float(_FINE), []
    for at in range(periods):
        weights.append(round(near))
        near *= (2 * at + 1) / (2 * at + 2)
    return Toeplitz(periods, tuple(weights))
