"""What a release may spend, in either currency, and the noise that each part of it buys."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from shoal.dp.mechanisms.discrete_gaussian import gaussian, gaussian_scale
from shoal.dp.mechanisms.discrete_laplace import laplace, rounded_up
from shoal.dp.mechanisms.selection import exponential
from shoal.errors import InternalError
from shoal.release.marginals._residuals import (
    Key,
    Residual,
    Sizes,
    moved,
    noisy_residual,
    pooled,
    residual,
    residuals_of_table,
)


@dataclass(frozen=True)
class Measurement:
    """Released whole numbers about one set of columns, and the scale of their noise.

    Parameters
    ----------
    key : tuple of int
        The columns.
    kind : {"residual", "table", "block", "laplace block"}
        A scaled residual with discrete Gaussian noise; a marginal with discrete Laplace noise; a block of differences
        with either.
    scale : float
        0 where the numbers are public.
    numbers : int64 array
    levels : tuple of int
        Of a block: the level of each column.
    """

    key: Key
    kind: str
    scale: float
    numbers: np.ndarray
    levels: tuple[int, ...] = ()

    @property
    def variance(self) -> float:
        """Of the noise on each number."""
        return laplace_variance(self.scale) if self.kind in ("table", "laplace block") else self.scale**2

    def residuals(self) -> dict[Key, Residual]:
        """What it says about residuals."""
        if self.kind == "residual":
            return {self.key: residual(self.numbers, self.scale)}
        return residuals_of_table(self.numbers, self.key, self.variance) if self.kind == "table" else {}

    def to_json(self) -> list[Any]:
        """As the ledger keeps it."""
        packed = base64.b85encode(zlib.compress(self.numbers.astype("<i8").tobytes())).decode()
        return [
            list(self.key),
            list(self.levels),
            self.kind,
            self.scale.hex(),
            list(self.numbers.shape),
            packed,
        ]

    @classmethod
    def from_json(cls, kept: Sequence[Any]) -> Self:
        """As the ledger kept it."""
        key, levels, kind, scale, shape, packed = kept
        numbers = np.frombuffer(zlib.decompress(base64.b85decode(packed)), dtype="<i8").reshape(shape)
        return cls(tuple(key), kind, float.fromhex(scale), numbers.astype(np.int64), tuple(levels))


@dataclass(frozen=True)
class Purse:
    """An amount of privacy and the unit it is counted for.

    Parameters
    ----------
    currency : {"pure", "zcdp"}
        Epsilon or rho.
    amount : Fraction
    rows : int
        Rows that one unit can bring.
    replaced : bool
        Whether units are replaced rather than added or removed.
    """

    currency: str
    amount: Fraction
    rows: int = 1
    replaced: bool = False

    @property
    def moves(self) -> int:
        """Counts that one unit can move by 1."""
        return self.rows * (2 if self.replaced else 1)

    def part(self, share: Fraction) -> Purse:
        """A share of it."""
        return self.with_amount(self.amount * share)

    def with_amount(self, amount: Fraction) -> Purse:
        """Another amount for the same unit."""
        return Purse(self.currency, amount, self.rows, self.replaced)

    def split(self, weights: Sequence[float]) -> list[Purse]:
        """Parts in proportion to weights; they add up to no more than the whole."""
        exact = [Fraction(each) for each in weights]
        return [self.part(each / sum(exact)) for each in exact]

    def measure(self, table: np.ndarray, key: Key, sizes: Sizes) -> Measurement:
        """Spend all of it on one marginal: on its residual in zCDP, on the marginal itself in pure DP."""
        if self.currency == "pure":
            scale = rounded_up(Fraction(self.moves) / self.amount)
            return Measurement(key, "table", scale, laplace(table, Fraction(scale)))
        square = self.rows**2 * moved(key, sizes, self.replaced)
        scale = gaussian_scale(Fraction(square) / (2 * self.amount)) if square else 0.0
        return Measurement(key, "residual", scale, noisy_residual(table, scale))

    def measure_block(self, exact: np.ndarray, key: Key, levels: tuple[int, ...]) -> Measurement:
        """Spend all of it on one block, of which a record moves a single number by 1."""
        each = self.moves
        if self.currency == "pure":
            scale = rounded_up(Fraction(each) / self.amount)
            return Measurement(key, "laplace block", scale, laplace(exact, Fraction(scale)), levels)
        scale = gaussian_scale(Fraction(each**2) / (2 * self.amount))
        return Measurement(key, "block", scale, gaussian(exact, scale), levels)

    def noisy_scores(self, scores: np.ndarray) -> np.ndarray:
        """Whole-number scores, each moved by at most 1 by a record, with noise."""
        scale = self._score_scale(len(scores))
        return laplace(scores, Fraction(scale)) if self.currency == "pure" else gaussian(scores, scale)

    def score_deviation(self, count: int) -> float:
        """The standard deviation of the noise on each of so many scores."""
        scale = self._score_scale(count)
        return math.sqrt(laplace_variance(scale)) if self.currency == "pure" else scale

    def _score_scale(self, count: int) -> float:
        if self.currency == "pure":
            return rounded_up(Fraction(self.moves * count) / self.amount)
        return gaussian_scale(Fraction(self.moves**2 * count) / (2 * self.amount))

    def choose(self, scores: np.ndarray, draws: int = 1) -> np.ndarray:
        """Positions of high scores by the exponential mechanism, one after another without those chosen before.

        Each of the draws is an epsilon_1-DP exponential mechanism: draws * epsilon_1 in pure DP, and
        draws * epsilon_1^2 / 8 in zCDP, as its log-ratios span a range of at most epsilon_1.
        """
        left, chosen = np.arange(len(scores)), []
        rate = self.rate(draws)
        for _ in range(min(draws, len(scores))):
            at = int(exponential(scores[left].max() - scores[left], rate)[0])
            chosen.append(int(left[at]))
            left = np.delete(left, at)
        return np.array(chosen, dtype=np.int64)

    def rate(self, draws: int) -> Fraction:
        """The rate of each of so many exponential mechanisms: epsilon_1 over twice the sensitivity of a score."""
        if self.currency == "pure":
            epsilon = self.amount / draws
        else:
            epsilon = Fraction(math.sqrt(8 * float(self.amount) / draws) * (1 - 1e-12))
            if epsilon**2 / 8 * draws > self.amount:
                raise InternalError("The share of the selection was rounded the wrong way.")
        return epsilon / (2 * self.moves)


def laplace_variance(scale: float) -> float:
    """The variance of discrete Laplace noise; not stated below a millionth."""
    return max(1e-6, 1 / (2 * math.sinh(min(50.0, 1 / (2 * scale))) ** 2))


def residuals_of(measurements: Iterable[Measurement]) -> dict[Key, Residual]:
    """All residuals that measurements tell about, each pooled from all that tell about it."""
    found: dict[Key, list[Residual]] = {}
    for each in measurements:
        for key, value in each.residuals().items():
            found.setdefault(key, []).append(value)
    ordered = sorted(found, key=lambda key: (len(key), key))
    return {key: pooled(found[key]) for key in ordered}
