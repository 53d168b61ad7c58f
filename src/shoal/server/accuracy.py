"""What an answer would cost and how exact it would be, before anything is charged: public facts and one's own budget only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shoal.dp.session import Cost
from shoal.errors import ParameterError
from shoal.server.shown import number

_RADIUS = math.log(20)  # of Laplace noise: 95 % lie within so many scales
_MICRO = 1_000_000
UNKNOWN = "how exact depends on how many rows answer, which nobody is told; the answer has its interval"


@dataclass(frozen=True)
class Expected:
    """One figure: what it is called, and within how much it will lie with 95 %; None where public facts do not tell."""

    figure: str
    error: float | None


@dataclass(frozen=True)
class Forecast:
    """What an answer would cost this analyst, how exact it would be, and how many such are left.

    Parameters
    ----------
    epsilon : float
        What it would cost; 0 for an answer already held.
    remaining : float
        What this analyst can still spend.
    asked : float
        The epsilon of the question, held already or not.
    expected : tuple of Expected
    parts : tuple of dict
        As of `Cost`.
    """

    epsilon: float
    remaining: float
    asked: float
    expected: tuple[Expected, ...]
    parts: tuple[dict[str, Any], ...]

    @property
    def affordable(self) -> bool:
        """Whether this analyst's budget allows it."""
        return self.epsilon <= self.remaining

    @property
    def questions_left(self) -> int:
        """About how many such questions this analyst can still ask."""
        return int((self.remaining + 1e-9) / self.asked) if self.asked else 0

    @property
    def sentence(self) -> str:
        """For people: accuracy first, then the price."""
        known = [each for each in self.expected if each.error is not None]
        if not known:
            exact = UNKNOWN[0].upper() + UNKNOWN[1:]
        elif len(self.expected) == 1:
            exact = f"Within \N{PLUS-MINUS SIGN}{number(_round(known[0].error))} with 95 %"
        else:
            exact = "With 95 % each: " + ", ".join(
                f"{each.figure} within \N{PLUS-MINUS SIGN}{number(_round(each.error))}"
                if each.error is not None
                else f"{each.figure} by how many rows answer"
                for each in self.expected
            )
        if self.epsilon == 0:
            return f"{exact}. You hold this answer already: asking again costs nothing."
        price = f"costs epsilon {self.epsilon:g}"
        if not self.affordable:
            return f"{exact}: {price}. Your budget does not allow it."
        left = self.questions_left
        return f"{exact}: {price}; about {left:,} such question{'s' if left != 1 else ''} left."

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values."""
        return {
            "epsilon": self.epsilon,
            "remaining": self.remaining,
            "parts": list(self.parts),
            "affordable": self.affordable,
            "asked": self.asked,
            "expected": [{"figure": each.figure, "error": each.error} for each in self.expected],
            "questions_left": self.questions_left,
            "sentence": self.sentence,
        }


def forecast(cost: Cost, asked: float) -> Forecast:
    """What a cost means for people."""
    return Forecast(
        cost.epsilon, cost.remaining, asked, tuple(_expected(each) for each in cost.parts), cost.parts
    )


def epsilon_for(error: float, at_one: Cost) -> float:
    """The epsilon for which every figure lies within an error with 95 %, from the cost at an epsilon of 1.

    Parameters
    ----------
    error : float
    at_one : Cost

    Examples
    --------
    >>> from shoal.dp.session import Cost
    >>> from shoal.server.accuracy import epsilon_for
    >>> epsilon_for(30, Cost(1.0, 2.0, ({"figure": "count", "noise_scale": 1.0},)))
    0.099858
    """
    if not error > 0 or not math.isfinite(error):
        raise ParameterError(f"'error' must be a number above 0. Got {error!r}.")
    known = [_expected(each).error for each in at_one.parts]
    if not known or any(each is None for each in known):
        raise ParameterError(
            "'error' can be given for counts and sums; of other figures, how exact they are depends on how many rows "
            "answer. Give 'epsilon' instead."
        )
    return math.ceil(max(each for each in known if each is not None) / error * _MICRO) / _MICRO


def _expected(part: dict[str, Any]) -> Expected:
    scale = part.get("noise_scale")
    return Expected(str(part.get("figure", "")), None if scale is None else float(scale) * _RADIUS)


def _round(error: float | None) -> float:
    """Two digits are enough."""
    if not error:
        return 0.0
    digits = 1 - math.floor(math.log10(abs(error)))
    rounded = round(error, digits)
    return int(rounded) if digits <= 0 else rounded
