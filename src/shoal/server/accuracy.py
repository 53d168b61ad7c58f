"""What an answer would cost and how exact it would be, told accuracy first: public facts and one's own budget only."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from shoal.dp.answering.cost import Cost, CostPart
from shoal.dp.budget import micro
from shoal.dp.mechanisms.currency import EPSILON, Currency, CurrencyAmount
from shoal.server.shown import number
from shoal.typing import Json

UNKNOWN = "The error depends on how many rows answer, which is private; the answer has its interval"


_IN_ROWS = {
    "quantile": "right within {} ranks",
    "min": "with at most {} rows below it",
    "max": "with at most {} rows above it",
    "mode": "with no level {} rows more frequent",
}


@dataclass(frozen=True)
class Expected:
    """One figure: what it is called, and within how much it will lie with 95 %; None where public facts do not tell.

    Of an average, variance or covariance they tell it for a number of rows: `by_rows` is for 1,000. Of a deviation
    `square_by_rows` is that of its square. Of a quantile, MIN, MAX or MODE they tell `in_rows` by how many rows it is off.
    `inside` if it is not itself a figure of the answer, but what one is computed from.
    """

    figure: str
    error: float | None
    by_rows: float | None = None
    square_by_rows: float | None = None
    in_rows: int | None = None
    release: str = ""
    inside: bool = False

    @classmethod
    def of(cls, part: CostPart) -> Expected:
        """What a part of a cost tells."""
        return cls(
            part.get("figure", ""),
            part.get("error"),
            part.get("error_of_1000_rows"),
            part.get("square_of_1000_rows"),
            part.get("error_in_rows"),
            part.get("release", ""),
            part.get("inside", False),
        )

    @property
    def known(self) -> bool:
        """Whether public facts tell anything."""
        return any(each is not None for each in (self.error, self.in_rows)) or self.falls

    @property
    def falls(self) -> bool:
        """Whether it falls with the number of rows."""
        return self.by_rows is not None or self.square_by_rows is not None

    @property
    def words(self) -> str:
        """Within how much."""
        if self.error is not None:
            return f"within \N{PLUS-MINUS SIGN}{number(_round(self.error))}"
        if self.by_rows is not None:
            return f"within about \N{PLUS-MINUS SIGN}{number(_round(self.by_rows))} for 1,000 rows in a group"
        if self.square_by_rows is not None:
            square = number(_round(self.square_by_rows))
            return f"its square within about \N{PLUS-MINUS SIGN}{square} for 1,000 rows in a group"
        if self.in_rows is not None and self.release in _IN_ROWS:
            return _IN_ROWS[self.release].format(f"{self.in_rows:,}")
        return "by how many rows answer"


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
        return tuple(Expected.of(each) for each in self.cost.parts)

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
            "expected": [asdict(each) for each in self.expected],
            "questions_left": cost.questions_left,
            "sentence": self.sentence,
        }


def _exact(expected: tuple[Expected, ...]) -> str:
    if not any(each.known for each in expected):
        return UNKNOWN
    more_rows = " (ten times the rows, a tenth)" if any(each.falls for each in expected) else ""
    if len(expected) == 1 and not expected[0].inside:
        words = expected[0].words
        return f"{words[0].upper()}{words[1:]} with 95 %{more_rows}"
    return f"With 95 % each{more_rows}: " + ", ".join(f"{each.figure} {each.words}" for each in expected)


def _round(error: float | None) -> float:
    """Two digits are enough."""
    if not error or not math.isfinite(error):
        return 0.0
    digits = 1 - math.floor(math.log10(abs(error)))
    rounded = round(error, digits)
    return int(rounded) if digits <= 0 else rounded
