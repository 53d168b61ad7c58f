"""What is publicly known about an expression's values: bounds, steps and levels, derived from the schema.

Bounds follow from declared ones by interval arithmetic. They decide how far a value is clamped, so a bound that is too
wide costs noise and one that is too narrow clamps: neither touches the guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import polars as pl

from shoal.errors import QueryError

INF = math.inf
MOST_VALUES = 1_000
MOST_LEVELS = 100_000
_FINEST = 10**9  # of a step's denominator
_FAR = 1e100


class Kind:
    """What an expression gives."""

    word = "a value"


@dataclass(frozen=True)
class Number(Kind):
    """Numbers within bounds; of a known step, they are base + k * step; or one of some values."""

    low: float = -INF
    high: float = INF
    base: Fraction | None = None
    step: Fraction | None = None
    values: tuple[Fraction, ...] | None = None
    word = "a number"

    @property
    def bounded(self) -> bool:
        """Whether it can be summed."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def whole(self) -> bool:
        """Whether declared steps make it whole."""
        if self.values is not None:
            return all(each.denominator == 1 for each in self.values)
        return (
            self.base is not None
            and self.step is not None
            and self.base.denominator == self.step.denominator == 1
        )

    @property
    def constant(self) -> Fraction | None:
        """The one value, if there is one."""
        return self.values[0] if self.values is not None and len(self.values) == 1 else None

    def domain(self) -> tuple[Fraction, ...] | None:
        """All values it may have, if they are finitely many."""
        if self.values is not None:
            return self.values
        if self.base is None or not self.step or not self.bounded:
            return None
        first = math.ceil((Fraction(self.low) - self.base) / self.step - Fraction(1, 10**6))
        last = math.floor((Fraction(self.high) - self.base) / self.step + Fraction(1, 10**6))
        if last - first >= MOST_LEVELS:
            return None
        return tuple(self.base + k * self.step for k in range(first, last + 1))


@dataclass(frozen=True)
class Day(Kind):
    """Dates, kept as days, within bounds; some are the first of a month, quarter or year."""

    low: float = -INF
    high: float = INF
    values: tuple[int, ...] | None = None
    word = "a date"


@dataclass(frozen=True)
class Levels(Kind):
    """Declared texts, kept as places among them."""

    texts: tuple[str, ...]
    ordered: bool = False
    word = "a text"


@dataclass(frozen=True)
class Text(Kind):
    """Texts that were not declared."""

    word = "a text without declared levels"


@dataclass(frozen=True)
class Truth(Kind):
    """True, false or unknown."""

    word = "a condition"


@dataclass(frozen=True)
class Nothing(Kind):
    """NULL as written."""

    word = "NULL"


@dataclass(frozen=True, eq=False)
class Typed:
    """An expression as the engine computes it in each row, and what is known of it."""

    kind: Kind
    value: pl.Expr
    text: str = ""
    source: Any = field(default=None)


def number(value: Any) -> Number:
    """The kind of a constant."""
    exact = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    return Number(float(value), float(value), exact, Fraction(0), (exact,))


def stepped(low: float, high: float, base: Fraction | None, step: Fraction | None) -> Number:
    """Numbers with the facts that can be kept: steps that are neither too fine nor too far apart."""
    low, high = (
        max(low, -_FAR) if math.isfinite(low) else -INF,
        min(high, _FAR) if math.isfinite(high) else INF,
    )
    if base is None or step is None or max(base.denominator, step.denominator) > _FINEST:
        return Number(low, high)
    if step == 0:
        return Number(low, high, base, step, (base,))
    return Number(low, high, base, step)


def gcd(*steps: Fraction) -> Fraction:
    """The largest step that all these are multiples of."""
    found = Fraction(0)
    for each in steps:
        if each:
            found = (
                Fraction(
                    math.gcd(found.numerator * each.denominator, each.numerator * found.denominator),
                    found.denominator * each.denominator,
                )
                if found
                else abs(each)
            )
    return found


def union(kinds: Sequence[Number]) -> Number:
    """Numbers of any of several kinds."""
    low, high = min(each.low for each in kinds), max(each.high for each in kinds)
    if all(each.values is not None for each in kinds):
        values = tuple(sorted({value for each in kinds for value in each.values or ()}))
        if len(values) <= MOST_VALUES:
            return Number(low, high, values[0], gcd(*(each - values[0] for each in values)), values)
    if any(each.base is None or each.step is None for each in kinds):
        return Number(low, high)
    bases = [each.base for each in kinds if each.base is not None]
    steps = [each.step for each in kinds if each.step is not None]
    return stepped(low, high, bases[0], gcd(*steps, *(each - bases[0] for each in bases)))


def interval(sign: str, a: Number, b: Number) -> tuple[float, float]:
    """Bounds of a sum, difference, product or quotient."""
    if sign == "+":
        return a.low + b.low, a.high + b.high
    if sign == "-":
        return a.low - b.high, a.high - b.low
    if sign == "*":
        corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(corners), max(corners)
    if b.low <= 0 <= b.high:
        return -INF, INF
    corners = [_over(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _over(x: float, y: float) -> float:
    if math.isinf(y):
        return 0.0
    try:
        return x / y
    except OverflowError:
        return math.copysign(INF, x) * math.copysign(1, y)


def wanted(found: Typed, kind: type, what: str) -> Any:
    """The kind of an argument, or the reason why it cannot be one."""
    if isinstance(found.kind, kind):
        return found.kind
    raise QueryError(f"{what} needs {kind.word}. Got {found.text}, {found.kind.word}.")  # type: ignore[attr-defined]
