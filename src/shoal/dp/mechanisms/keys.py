"""Groups that nobody declared: those whose noisy number of units reaches a threshold are shown (docs/theory/keys.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from shoal.dp.mechanisms.discrete_gaussian import Gaussian, gaussian_scale

LEAST_DRAWN = 1024  # so many numbers are drawn at least, and then twice as many: time tells no nearer how many keys there are
_SHARE = 1 + 1e-9  # of a probability computed in floating point


@dataclass(frozen=True)
class KeyChoice:
    """How keys are chosen, from public facts alone.

    Parameters
    ----------
    rho : Fraction
    delta : Fraction
        The probability, at most, that a key is shown which one unit alone has.
    keys : int
        So many keys a unit may have.
    move : int, default 1
        By so much a unit may raise the number of one key; by `keys` in all, or where it is more by `move`.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.keys import KeyChoice
    >>> choice = KeyChoice(Fraction(1, 50), Fraction(1, 10**8), 1)
    >>> choice.noise.scale, choice.threshold
    (5.0, 31)
    """

    rho: Fraction
    delta: Fraction
    keys: int
    move: int = 1

    @cached_property
    def noise(self) -> Gaussian:
        """On every key's number, by the square of what one unit moves in L2: ones on so many keys, or all on one."""
        return Gaussian(gaussian_scale(Fraction(max(self.keys, self.move**2)) / (2 * self.rho)))

    @cached_property
    def threshold(self) -> int:
        """The least noisy number that is shown: each of a unit's own keys reaches it with probability delta / keys at most."""
        allowed = float(self.delta / self.keys)
        low, high = 0, 1
        while _beyond(high, self.noise.scale) > allowed:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _beyond(middle, self.noise.scale) > allowed else (low, middle)
        return self.move + high + 1  # P(Z >= r + 1) <= P(N >= r)

    def choose(self, counts: np.ndarray) -> np.ndarray:
        """Places of the keys to show, those of the largest noisy numbers first.

        Parameters
        ----------
        counts : int64 array
            Units of each key that is there at all, at least 1.
        """
        drawn = LEAST_DRAWN
        while drawn < len(counts):
            drawn *= 2
        padded = np.zeros(drawn, dtype=np.int64)
        padded[: len(counts)] = counts
        noisy = self.noise.add(padded)[: len(counts)]
        order = np.argsort(-noisy, kind="stable")
        return order[noisy[order] >= self.threshold]


def _beyond(r: int, scale: float) -> float:
    """At least P(N >= r) of a normal N of this scale, r > 0 (Mills)."""
    x = r / scale
    return min(1.0, math.exp(-x * x / 2) / (x * math.sqrt(2 * math.pi))) * _SHARE
