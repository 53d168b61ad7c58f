"""How much noise a stream has, how it is drawn, and how far totals lie from the exact ones: from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Sums
from shoal.dp.budget import MICRO
from shoal.dp.continual._toeplitz import Toeplitz, toeplitz
from shoal.dp.continual._tree import PeriodTree, best_tree
from shoal.dp.mechanisms.discrete_gaussian import gaussian, gaussian_scale
from shoal.dp.mechanisms.discrete_laplace import laplace

_SMALL = 300.0  # scales whose noise is summed on a grid
_WIDEST = 1 << 50  # of a noise scale: sums of some hundred draws stay far within 64 bits


@dataclass(frozen=True)
class Design:
    """How much noise a stream has: fixed by public facts."""

    plan: Plan
    periods: int
    millionths: int
    currency: str
    rows: int

    @cached_property
    def shape(self) -> PeriodTree | Toeplitz:
        """The tree, or the weights of the past."""
        return best_tree(self.periods) if self.currency == "pure" else toeplitz(self.periods)

    @property
    def moved(self) -> int:
        """What one unit moves in the periods' numbers together."""
        release = self.plan.releases[0]
        assert isinstance(release, Sums)  # it was checked when the stream was opened
        return release.sensitivity * self.rows

    @cached_property
    def scale(self) -> Fraction:
        """Of the noise of a node, or of a period: a scale, or the square of one."""
        spent = Fraction(self.millionths, MICRO)
        if isinstance(self.shape, PeriodTree):
            return self.moved * self.shape.levels / spent
        return self.moved**2 * self.shape.squared / (2 * spent)

    @property
    def fits(self) -> bool:
        """Whether sums of the noise stay within 64 bits."""
        tree = isinstance(self.shape, PeriodTree)
        return (self.scale if tree else math.isqrt(int(self.scale))) <= _WIDEST

    def draw(self, width: int) -> list[int]:
        """Fresh noise, a number per group."""
        none = np.zeros(width, dtype=np.int64)
        found = (
            laplace(none, self.scale)
            if isinstance(self.shape, PeriodTree)
            else gaussian(none, gaussian_scale(self.scale))
        )
        return [int(each) for each in found]

    def radius(self, period: int) -> int:
        """How far the total after a period lies from the exact one with at most 5 % probability."""
        if isinstance(self.shape, PeriodTree):
            return laplace_sum_radius(float(self.scale), len(self.shape.nodes(period)))
        apart = self.shape.deviation(period) * math.sqrt(float(self.scale))
        return max(0, math.ceil(NormalDist().inv_cdf(0.975) * apart * 1.001 - 0.5))  # totals are rounded


@lru_cache(maxsize=4096)
def laplace_sum_radius(scale: float, count: int) -> int:
    """What the sum of so many discrete Laplace draws exceeds in size with at most 5 % probability.

    Of small scales by the discrete Fourier transform of their characteristic function; of others a discrete draw lies
    within 1 of a continuous one, since a geometric variable is the whole part of an exponential one.

    Examples
    --------
    >>> from shoal.dp.continual._design import laplace_sum_radius
    >>> laplace_sum_radius(10.0, 1)  # as of one draw
    30
    """
    if scale > _SMALL:
        return math.ceil(scale * laplace_sum_quantile(count) + count)
    size = 1 << max(8, math.ceil(math.log2(2 * count + 100 * scale * math.sqrt(count))))
    a = math.exp(-1 / scale)
    one = (1 - a) ** 2 / (1 - 2 * a * np.cos(2 * np.pi * np.arange(size) / size) + a * a)
    chance = np.fft.ifft(one**count).real  # of 0, 1, ..., and backwards of -1, -2, ...
    inside = chance[0] + 2 * np.cumsum(chance[1 : size // 2])
    return int(np.argmax(inside >= 0.95 + 1e-9)) + 1 if chance[0] < 0.95 else 0


@lru_cache(maxsize=512)
def laplace_sum_quantile(count: int) -> float:
    """What the sum of so many Laplace draws of scale 1 exceeds in size with 5 % probability.

    The sum is the difference of two gamma variables.

    Examples
    --------
    >>> from shoal.dp.continual._design import laplace_sum_quantile
    >>> round(laplace_sum_quantile(1), 4)  # ln 20
    2.9957
    """
    from scipy.integrate import quad
    from scipy.optimize import brentq
    from scipy.stats import gamma

    def beyond(x: float) -> float:
        inner = quad(lambda y: gamma.pdf(y, count) * gamma.sf(x + y, count), 0, np.inf, limit=200)[0]
        return 2 * float(inner) - 0.05

    return float(brentq(beyond, 0.0, 8 * math.sqrt(2 * count) + 10)) if count else 0.0
