"""The two currencies of a ledger, and what an amount of each buys: noise on sums, and the rates of private choices.

Pure: millionths of epsilon, discrete Laplace noise. zCDP: millionths of rho, discrete Gaussian noise, and the exponential
mechanism by the range of its log-ratios. Proofs: docs/theory/currencies.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from shoal.dp import budget
from shoal.dp.budget import rounded_up_text
from shoal.dp.mechanisms.discrete_gaussian import Gaussian, gaussian_scale
from shoal.dp.mechanisms.discrete_laplace import Laplace
from shoal.dp.mechanisms.selection import exponential, permute_and_flip
from shoal.errors import ParameterError
from shoal.schema import Schema

PURE, ZCDP = "pure", "zcdp"
WORDS = {PURE: "epsilon", ZCDP: "rho"}
Noise = Laplace | Gaussian


@dataclass(frozen=True)
class Currency:
    """What a data set is counted in, for life.

    Parameters
    ----------
    name : {"pure", "zcdp"}
    delta : float, optional
        Of zCDP: the failure probability that is stated beside an epsilon.
    reserved : float, default 0
        The part of delta that groups which are not declared may use; rho has the rest.

    Examples
    --------
    >>> from shoal.dp.mechanisms.currency import Currency
    >>> Currency().millionths(0.5), Currency("zcdp", 1e-6).millionths(0.5)
    (500000, 6641)
    >>> Currency("zcdp", 1e-6).word
    'rho'
    """

    name: str = PURE
    delta: float | None = None
    reserved: float = 0.0

    def __post_init__(self) -> None:
        if self.name == ZCDP and self.delta is None:
            raise ParameterError("'delta' must be declared in the schema, to count in zCDP.")

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """The currency that a schema declares."""
        if schema.currency != ZCDP:
            return cls()
        return cls(schema.currency, schema.delta, schema.keys.delta if schema.keys else 0.0)

    @property
    def word(self) -> str:
        """What its amounts are called."""
        return WORDS[self.name]

    @property
    def pure(self) -> bool:
        """Whether epsilon itself is counted."""
        return self.name == PURE

    def millionths(self, epsilon: Any, name: str = "epsilon") -> int:
        """What an epsilon comes to: itself, or the rho that implies it with the declared delta."""
        micro = budget.micro(epsilon, name)
        return micro if self.delta is None else _rho(micro, rest_of(self.delta, self.reserved))

    def epsilon(self, millionths: int) -> float:
        """The epsilon of an amount alone: itself, or the one that its rho implies with the declared delta."""
        if self.delta is None or millionths < 1:
            return budget.epsilon(millionths)
        return _epsilon(millionths, rest_of(self.delta, self.reserved))

    def least(self, minimum: float) -> int:
        """The least amount of a figure: of rho what a pure answer of that epsilon costs, and a millionth at least."""
        micro = budget.micro(minimum, "minimum")
        return micro if self.pure else -(-(micro**2) // (2 * budget.MICRO))

    def times(self, times: int) -> int:
        """How often a cost counts for so many times the unit: of rho the square."""
        return times if self.pure else times**2

    def guarantee(self, promise: str, total: int, reserved: float = 0.0) -> str:
        """A unit's sentence in this currency; in zCDP with the (epsilon, delta) of the data set's caps."""
        if self.delta is None:
            return promise
        kept = replace(self, reserved=max(self.reserved, reserved))
        said = promise.replace("epsilon-DP", "rho-zCDP", 1)
        return f"{said}; all answers about this data set together {kept.whole(total)}"

    def whole(self, total: int) -> str:
        """What a cap on rho, and on the delta that is reserved, come to."""
        said = f"({rounded_up_text(self.epsilon(total))}, {self.delta:g})-DP"
        part = f" ({self.reserved:g} of delta for groups that are not declared)" if self.reserved else ""
        return said + part


def rest_of(delta: float, reserved: float) -> float:
    """What is left of a delta, rounded down.

    Examples
    --------
    >>> from shoal.dp.mechanisms.currency import rest_of
    >>> rest_of(1e-6, 0.0), rest_of(1e-6, 2e-7) <= 8e-7
    (1e-06, True)
    """
    if not reserved:
        return delta
    rest = float(Fraction(delta) - Fraction(reserved))
    if not rest > 0:
        raise ParameterError(
            f"'delta' must be above what is reserved of it for groups that are not declared, {reserved:g}. Got {delta:g}."
        )
    return math.nextafter(rest, 0.0)


EPSILON = Currency()
"""Pure differential privacy, counted in epsilon."""


@dataclass(frozen=True)
class CurrencyAmount:
    """A number of millionths together with what they are millionths of, so that a rho never passes for an epsilon.

    Parameters
    ----------
    millionths : int
    currency : Currency

    Examples
    --------
    >>> from shoal.dp.mechanisms.currency import Currency, CurrencyAmount
    >>> CurrencyAmount(300_000, Currency()).text
    'epsilon 0.3'
    >>> CurrencyAmount(6641, Currency("zcdp", 1e-6)).text
    'rho 0.006641 ((0.49998, 1e-06)-DP)'
    """

    millionths: int
    currency: Currency = EPSILON

    @property
    def value(self) -> float:
        """The number alone."""
        return budget.epsilon(self.millionths)

    @property
    def word(self) -> str:
        """What it is called: epsilon or rho."""
        return self.currency.word

    @property
    def meaning(self) -> str:
        """Of a rho the (epsilon, delta) that it implies; nothing where epsilon itself is counted."""
        delta = self.currency.delta
        if delta is None or self.millionths < 1:
            return ""
        return f"({rounded_up_text(self.currency.epsilon(self.millionths))}, {delta:g})-DP"

    @property
    def text(self) -> str:
        """With its name, for people."""
        return f"{self.word} {self.value:g}" + (f" ({self.meaning})" if self.meaning else "")

    def to_dict(self) -> dict[str, float]:
        """By its name; a rho with the epsilon and delta that it implies."""
        if self.currency.delta is None:
            return {"epsilon": self.value}
        implied = self.currency.epsilon(self.millionths)
        return {"rho": self.value, "epsilon": implied, "delta": self.currency.delta}


@lru_cache(maxsize=1024)
def _rho(micro: int, delta: float) -> int:
    from shoal.dp.accounting import rho_of_epsilon  # loads an optimiser: only where it is needed

    return rho_of_epsilon(Fraction(micro, budget.MICRO), delta)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def _epsilon(millionths: int, delta: float) -> float:
    from shoal.dp.accounting import epsilon_of_rho

    return epsilon_of_rho(millionths, delta)


def sums_noise(currency: str, amount: Fraction, size: int, square: int) -> Noise:
    """The noise on a vector of whole numbers that one unit moves by at most so much.

    Parameters
    ----------
    currency : {"pure", "zcdp"}
    amount : Fraction
        Of epsilon or rho.
    size, square : int
        L1 length of the move, and square of its L2 length.
    """
    if currency == PURE:
        return Laplace(Fraction(size) / amount)
    return Gaussian(gaussian_scale(Fraction(square) / (2 * amount)))


def choice_range(currency: str, amount: Fraction) -> Fraction:
    """How far apart the log-ratios of a private choice may lie: epsilon, or sqrt(8 rho) rounded down.

    An exponential mechanism whose log-ratios span a range of r is r-DP, and r^2 / 8-zCDP.
    """
    return amount if currency == PURE else root_below(8 * amount)


def choose(currency: str, distances: np.ndarray, rate: Fraction, draws: int) -> np.ndarray:
    """Positions of small distances: by permute-and-flip, whose range is unbounded, in pure differential privacy only."""
    pick = permute_and_flip if currency == PURE else exponential
    return pick(distances, rate, draws=draws)


def root_below(value: Fraction) -> Fraction:
    """A square root, rounded down to 60 bits.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from shoal.dp.mechanisms.currency import root_below
    >>> root_below(Fraction(9, 4)), root_below(Fraction(2)) ** 2 < 2
    (Fraction(3, 2), True)
    """
    shift = max(0, 60 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    return Fraction(math.isqrt((value.numerator << (2 * shift)) // value.denominator), 1 << shift)
