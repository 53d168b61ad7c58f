"""Arithmetic in each row: total functions, whose every result is a finite number or NULL."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import polars as pl

from shoal.dp.meaning.kinds import INF, Day, Number, Typed, gcd, interval, stepped, wanted
from shoal.errors import QueryError

DIVIDED = (
    "a / b divides exactly, as in DuckDB, BigQuery and Snowflake (7 / 2 is 3.5), and is NULL where b is 0"
)
_NEAR = 1e-6


def arithmetic(sign: str, a: Typed, b: Typed, text: str) -> Typed:
    """A sum, difference, product, quotient or remainder."""
    if isinstance(a.kind, Day) or isinstance(b.kind, Day):
        return _days(sign, a, b, text)
    x, y = (wanted(each, Number, f"{sign!r}") for each in (a, b))
    if sign == "%":
        return _remainder(a, b, x, y, text)
    low, high = interval(sign, x, y)
    base, step = _grid(sign, x, y)
    kind = stepped(low, high, base, step)
    if sign == "/":
        # Where the divisor is 0 the quotient is NULL, whatever stands above.
        value = a.value / pl.when(b.value != 0).then(b.value)
    else:
        value = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}[sign]
    return Typed(kind, tidied(finite(value), kind), text)


def _grid(sign: str, x: Number, y: Number) -> tuple[Fraction | None, Fraction | None]:
    """Base and step of a result."""
    if x.base is None or y.base is None or x.step is None or y.step is None:
        return None, None
    if sign in "+-":
        return (x.base + y.base if sign == "+" else x.base - y.base), gcd(x.step, y.step)
    if sign == "*":
        return x.base * y.base, gcd(x.base * y.step, y.base * x.step, x.step * y.step)
    if y.constant:
        return x.base / y.constant, abs(x.step / y.constant)
    return None, None


def _remainder(a: Typed, b: Typed, x: Number, y: Number, text: str) -> Typed:
    """What is left of a division cut towards 0, with the sign of a, as all dialects have it."""
    most = max(abs(y.low), abs(y.high))
    low, high = (-most if x.low < 0 else 0.0), (most if x.high > 0 else 0.0)
    if math.isinf(most):
        low, high = min(x.low, 0.0), max(x.high, 0.0)
    if x.whole and y.whole:
        low, high = low + (low < 0), high - (high > 0)
        kind = stepped(low, high, Fraction(0), Fraction(1))
    else:
        kind = Number(low, high)
    divisor = pl.when(b.value != 0).then(b.value)
    value = a.value - divisor * truncated(a.value / divisor)
    return Typed(kind, finite(value), text)


def _days(sign: str, a: Typed, b: Typed, text: str) -> Typed:
    if sign == "-" and isinstance(a.kind, Day) and isinstance(b.kind, Day):
        kind = stepped(a.kind.low - b.kind.high, a.kind.high - b.kind.low, Fraction(0), Fraction(1))
        return Typed(kind, a.value - b.value, text)
    if sign == "+" and isinstance(b.kind, Day):
        a, b = b, a
    if sign in "+-" and isinstance(a.kind, Day) and isinstance(b.kind, Number) and b.kind.whole:
        low, high = interval(sign, Number(a.kind.low, a.kind.high), b.kind)
        value = a.value + b.value if sign == "+" else a.value - b.value
        return Typed(Day(low, high), value, text)
    raise QueryError(f"Dates are subtracted from each other, or moved by whole days. Got {text}.")


def scalar(name: str, arguments: list[Typed], text: str) -> Typed:
    """A numeric function of one or more arguments."""
    return _FUNCTIONS[name](arguments, text)


def _abs(arguments: list[Typed], text: str) -> Typed:
    a = arguments[0]
    x = wanted(a, Number, "ABS")
    low = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    whole = (
        (x.base, x.step)
        if x.base is not None and x.low >= 0
        else ((Fraction(0), gcd(x.base, x.step or Fraction(0))) if x.base is not None else (None, None))
    )
    return Typed(stepped(low, max(abs(x.low), abs(x.high)), *whole), a.value.abs(), text)


def _sign(arguments: list[Typed], text: str) -> Typed:
    a = arguments[0]
    x = wanted(a, Number, "SIGN")
    kind = stepped(-1.0 if x.low < 0 else 0.0, 1.0 if x.high > 0 else 0.0, Fraction(0), Fraction(1))
    return Typed(kind, a.value.sign(), text)


def _rounder(
    name: str, function: Callable[[pl.Expr], pl.Expr], bound: Callable[[float], float]
) -> Callable[[list[Typed], str], Typed]:
    def made(arguments: list[Typed], text: str) -> Typed:
        a = arguments[0]
        x = wanted(a, Number, name)
        digits = 0
        if len(arguments) == 2:
            exact = wanted(arguments[1], Number, name).constant
            if exact is None or exact.denominator != 1 or abs(exact) > 9:
                raise QueryError(
                    f"{name} needs a whole number of digits from -9 to 9. Got {arguments[1].text}."
                )
            digits = int(exact)
        size = Fraction(10) ** digits
        ends = [
            float(Fraction(bound(each * float(size))) / size) if math.isfinite(each) else each
            for each in (x.low, x.high)
        ]
        many = float(size) if digits >= 0 else float(1 / size)
        scaled = a.value * many if digits >= 0 else a.value / many
        whole = function(scaled)
        value = whole / many if digits >= 0 else whole * many
        return Typed(stepped(ends[0], ends[1], Fraction(0), 1 / size), finite(value), text)

    return made


def _half_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x) if math.isfinite(x) else x


def truncated(value: pl.Expr) -> pl.Expr:
    """Cut towards 0."""
    return pl.when(value < 0).then(value.ceil()).otherwise(value.floor())


def _guarded(
    name: str,
    function: Callable[[pl.Expr], pl.Expr],
    bound: Callable[[float], float],
    above: float,
    strict: bool,
) -> Callable[[list[Typed], str], Typed]:
    """A rising function that is NULL beyond its domain."""

    def made(arguments: list[Typed], text: str) -> Typed:
        a = arguments[0]
        x = wanted(a, Number, name)
        inside = a.value > above if strict else a.value >= above
        safe = pl.when(inside).then(a.value) if math.isfinite(above) else a.value
        low = (
            -INF
            if strict and x.low <= above
            else bound(max(x.low, above))
            if math.isfinite(max(x.low, above))
            else -INF
        )
        try:
            high = bound(x.high) if x.high > above and math.isfinite(x.high) else INF
        except OverflowError:
            high = INF
        if name == "EXP" and math.isinf(low):
            low = 0.0
        return Typed(stepped(low, max(low, high), None, None), finite(function(safe)), text)

    return made


def _power(arguments: list[Typed], text: str) -> Typed:
    a, b = arguments
    x, y = wanted(a, Number, "POWER"), wanted(b, Number, "POWER")
    n = y.constant
    if n is None or n.denominator != 1 or not 0 <= n <= 8:
        if n == Fraction(1, 2):
            return _FUNCTIONS["SQRT"]([a], text)
        raise QueryError(f"POWER needs a whole exponent from 0 to 8, or 0.5. Got {b.text}.")
    found = Typed(
        Number(1.0, 1.0, Fraction(1), Fraction(0), (Fraction(1),)),
        pl.when(a.value.is_not_null()).then(1.0),
        text,
    )
    for _ in range(int(n)):
        found = arithmetic("*", found, a, text)
    if n % 2 == 0 and isinstance(found.kind, Number) and x.low < 0:
        base = found.kind.base
        kind = stepped(
            0.0,
            found.kind.high,
            Fraction(0) if base is not None else None,
            None if base is None else gcd(base, found.kind.step or Fraction(0)),
        )
        found = Typed(kind, found.value, text)
    return found


def _extreme(least: bool) -> Callable[[list[Typed], str], Typed]:
    def made(arguments: list[Typed], text: str) -> Typed:
        name = "LEAST" if least else "GREATEST"
        kinds = [wanted(each, Number, name) for each in arguments]
        pick = min if least else max
        low, high = pick(each.low for each in kinds), pick(each.high for each in kinds)
        # A missing argument is skipped, so the others' bounds hold as well.
        low, high = (
            (low, max(each.high for each in kinds)) if least else (min(each.low for each in kinds), high)
        )
        bases = [each.base for each in kinds]
        steps = [each.step for each in kinds]
        base = step = None
        if all(each is not None for each in bases) and bases[0] is not None:
            base = bases[0]
            step = gcd(
                *(each for each in steps if each is not None),
                *(each - base for each in bases if each is not None),
            )
        values = [each.value.cast(pl.Float64) for each in arguments]
        return Typed(
            stepped(low, high, base, step), (pl.min_horizontal if least else pl.max_horizontal)(values), text
        )

    return made


def _clamp(arguments: list[Typed], text: str) -> Typed:
    a = arguments[0]
    x = wanted(a, Number, "CLAMP")
    ends = [wanted(each, Number, "CLAMP").constant for each in arguments[1:]]
    if ends[0] is None or ends[1] is None or ends[0] > ends[1]:
        raise QueryError(f"CLAMP needs two rising constants. Got {text}.")
    low, high = float(ends[0]), float(ends[1])
    base, step = x.base, x.step
    if base is not None and step is not None:
        step = gcd(step, ends[0] - base, ends[1] - base)
    kind = stepped(min(max(x.low, low), high), max(min(x.high, high), low), base, step)
    return Typed(kind, a.value.clip(low, high), text)


def _div(arguments: list[Typed], text: str) -> Typed:
    a, b = arguments
    x, y = wanted(a, Number, "DIV"), wanted(b, Number, "DIV")
    if not (x.whole and y.whole):
        raise QueryError(f"DIV needs whole numbers: declare a step of 1, or write FLOOR(a / b). Got {text}.")
    low, high = interval("/", x, y)
    value = truncated(a.value / pl.when(b.value != 0).then(b.value))
    ends = [math.trunc(each) if math.isfinite(each) else each for each in (low, high)]
    return Typed(stepped(float(ends[0]), float(ends[1]), Fraction(0), Fraction(1)), finite(value), text)


def _width_bucket(arguments: list[Typed], text: str) -> Typed:
    a = arguments[0]
    wanted(a, Number, "WIDTH_BUCKET")
    low, high, count = (wanted(each, Number, "WIDTH_BUCKET").constant for each in arguments[1:])
    if (
        low is None
        or high is None
        or count is None
        or not low < high
        or count.denominator != 1
        or not 1 <= count <= 10_000
    ):
        raise QueryError(
            f"WIDTH_BUCKET(x, low, high, n) needs constants low < high and n of 1 to 10000. Got {text}."
        )
    place = ((a.value - float(low)) * float(count) / float(high - low)).floor() + 1
    value = (
        pl.when(a.value < float(low))
        .then(0.0)
        .when(a.value >= float(high))
        .then(float(count + 1))
        .otherwise(place.clip(1, float(count)))
    )
    value = pl.when(a.value.is_not_null()).then(value)
    x = a.kind
    assert isinstance(x, Number)  # as wanted
    first = 0 if x.low < low else 1
    last = count + 1 if x.high >= high else count
    return Typed(stepped(float(first), float(last), Fraction(0), Fraction(1)), value, text)


def finite(value: pl.Expr) -> pl.Expr:
    """A number, or NULL where there is none."""
    return pl.when(value.is_finite()).then(value)


def tidied(value: pl.Expr, kind: Number) -> pl.Expr:
    """Decimal steps without the last bits of binary arithmetic: 3 * 0.1 is 0.3, as decimals have it."""
    if kind.step is None or kind.base is None or not kind.step:
        return value
    unit = max(kind.step.denominator, kind.base.denominator)
    if unit == 1 or not kind.bounded or max(abs(kind.low), abs(kind.high)) * unit > 2**50:
        return value
    unit = math.lcm(kind.step.denominator, kind.base.denominator)
    near = (value * float(unit)).round()
    return pl.when((value * float(unit) - near).abs() < _NEAR).then(near / float(unit)).otherwise(value)


_FUNCTIONS: dict[str, Callable[[list[Typed], str], Typed]] = {
    "ABS": _abs,
    "SIGN": _sign,
    "FLOOR": _rounder("FLOOR", lambda x: x.floor(), math.floor),
    "CEIL": _rounder("CEIL", lambda x: x.ceil(), math.ceil),
    "ROUND": _rounder("ROUND", lambda x: x.round(0, mode="half_away_from_zero"), _half_away),
    "TRUNC": _rounder("TRUNC", truncated, math.trunc),
    "SQRT": _guarded("SQRT", lambda x: x.sqrt(), math.sqrt, 0.0, strict=False),
    "LN": _guarded("LN", lambda x: x.log(), math.log, 0.0, strict=True),
    "LOG10": _guarded("LOG10", lambda x: x.log(10), math.log10, 0.0, strict=True),
    "LOG2": _guarded("LOG2", lambda x: x.log(2), math.log2, 0.0, strict=True),
    "EXP": _guarded("EXP", lambda x: x.exp(), math.exp, -INF, strict=False),
    "POWER": _power,
    "LEAST": _extreme(least=True),
    "GREATEST": _extreme(least=False),
    "CLAMP": _clamp,
    "DIV": _div,
    "WIDTH_BUCKET": _width_bucket,
}
NAMES = tuple(_FUNCTIONS)
