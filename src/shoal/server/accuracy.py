"""What an answer would cost and how exact it would be, told accuracy first: public facts and one's own budget only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal.dp.answering.cost import Cost
from shoal.dp.budget import micro
from shoal.dp.mechanisms.currency import EPSILON, Currency, CurrencyAmount
from shoal.server.shown import number
from shoal.typing import Json

UNKNOWN = "How exact depends on how many rows answer, which nobody is told; the answer has its interval"


@dataclass(frozen=True)
class Expected:
    """One figure: what it is called, and within how much it will lie with 95 %; None where public facts do not tell."""

    figure: str
    error: float | None


@dataclass(frozen=True)
class Forecast:
    """What an answer would cost this analyst, how exact it would be, and how many such are left.

    Examples
    --------
    >>> from shoal.dp.answering.cost import Cost
    >>> from shoal.server.accuracy import Forecast
    >>> Forecast(Cost(0.1, 2.0, ({"figure": "count", "error": 30.0},), questions_left=20)).sentence
    'Within ±30 with 95 %: costs epsilon 0.1; about 20 such questions left.'
    """

    cost: Cost
    currency: Currency = EPSILON

    @property
    def expected(self) -> tuple[Expected, ...]:
        """Each figure with its error."""
        return tuple(Expected(str(each.get("figure", "")), each.get("error")) for each in self.cost.parts)

    @property
    def sentence(self) -> str:
        """For people: accuracy first, then the price."""
        exact, cost = _exact(self.expected), self.cost
        if cost.spent == 0:
            return f"{exact}. You hold this answer already: asking again costs nothing."
        price = f"costs {CurrencyAmount(micro(cost.spent), self.currency).text}"
        if not cost.affordable:
            return f"{exact}: {price}. Your budget does not allow it."
        left = cost.questions_left or 0
        return f"{exact}: {price}; about {left:,} such question{'s' if left != 1 else ''} left."

    def to_dict(self) -> Json:
        """The facts as plain values."""
        cost = self.cost
        return {
            "epsilon": cost.epsilon,
            "rho": cost.rho,
            "delta": self.currency.delta,
            "counted_in": self.currency.word,
            "remaining": cost.remaining,
            "parts": list(cost.parts),
            "affordable": cost.affordable,
            "expected": [{"figure": each.figure, "error": each.error} for each in self.expected],
            "questions_left": cost.questions_left,
            "sentence": self.sentence,
        }


def _exact(expected: tuple[Expected, ...]) -> str:
    if all(each.error is None for each in expected):
        return UNKNOWN
    if len(expected) == 1:
        return f"Within \N{PLUS-MINUS SIGN}{number(_round(expected[0].error))} with 95 %"
    return "With 95 % each: " + ", ".join(
        f"{each.figure} by how many rows answer"
        if each.error is None
        else f"{each.figure} within \N{PLUS-MINUS SIGN}{number(_round(each.error))}"
        for each in expected
    )


def _round(error: float | None) -> float:
    """Two digits are enough."""
    if not error or not math.isfinite(error):
        return 0.0
    digits = 1 - math.floor(math.log10(abs(error)))
    rounded = round(error, digits)
    return int(rounded) if digits <= 0 else rounded
