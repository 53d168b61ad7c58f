"""Functions of dates: parts, beginnings and differences, in each row."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from fractions import Fraction

import polars as pl

from shoal.dp.meaning.kinds import Day, Number, Typed, stepped, wanted
from shoal.errors import QueryError

EPOCH = 719_163  # ordinal of 1970-01-01
_PARTS = {
    "month": (1, 12),
    "quarter": (1, 4),
    "day": (1, 31),
    "isoweek": (1, 53),
    "dow": (0, 6),
    "isodow": (1, 7),
    "dayofweek": (1, 7),
    "dayofyear": (1, 366),
}
_EVERY = {"day": "1d", "isoweek": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}


def date_of(days: pl.Expr) -> pl.Expr:
    """Days as the engine's dates."""
    return (days - EPOCH).floor().cast(pl.Int32, strict=False).cast(pl.Date)


def days_of(dates: pl.Expr) -> pl.Expr:
    """The engine's dates as days."""
    return (dates.cast(pl.Int32) + EPOCH).cast(pl.Float64)


def part(unit: str, found: Typed, text: str) -> Typed:
    """EXTRACT(unit FROM d)."""
    kind = wanted(found, Day, f"EXTRACT({unit.upper()})")
    date = date_of(found.value)
    read: dict[str, Callable[[], pl.Expr]] = {
        "year": date.dt.year,
        "month": date.dt.month,
        "quarter": date.dt.quarter,
        "day": date.dt.day,
        "isoweek": date.dt.week,
        "dow": lambda: date.dt.weekday() % 7,
        "isodow": date.dt.weekday,
        "dayofweek": lambda: date.dt.weekday() % 7 + 1,
        "dayofyear": date.dt.ordinal_day,
    }
    if unit == "year":
        low, high = (
            float(_day(each).year) if math.isfinite(each) else each for each in (kind.low, kind.high)
        )
    else:
        low, high = _PARTS[unit]
    return Typed(
        stepped(float(low), float(high), Fraction(0), Fraction(1)), read[unit]().cast(pl.Float64), text
    )


def truncated(unit: str, found: Typed, text: str) -> Typed:
    """DATE_TRUNC(unit, d): the first day of its week, month, quarter or year."""
    kind = wanted(found, Day, "DATE_TRUNC")
    value = days_of(date_of(found.value).dt.truncate(_EVERY[unit]))
    if not (math.isfinite(kind.low) and math.isfinite(kind.high)):
        return Typed(Day(), value, text)
    firsts = sorted({begin(unit, day) for day in _steps(unit, int(kind.low), int(kind.high))})
    return Typed(Day(float(firsts[0]), float(firsts[-1]), tuple(firsts)), value, text)


def begin(unit: str, ordinal: int) -> int:
    """The first day of a day's week, month, quarter or year."""
    day = _day(ordinal)
    if unit == "isoweek":
        return ordinal - day.weekday()
    month = {"month": day.month, "quarter": 3 * ((day.month - 1) // 3) + 1, "year": 1}.get(unit)
    return ordinal if month is None else datetime.date(day.year, month, 1).toordinal()


def _steps(unit: str, low: int, high: int) -> list[int]:
    """Days at most as far apart as the shortest unit, the last among them."""
    return [*range(low, high, {"day": 1, "isoweek": 7, "month": 28, "quarter": 90, "year": 365}[unit]), high]


def difference(unit: str, first: Typed, second: Typed, text: str) -> Typed:
    """DATE_DIFF(unit, a, b): how many begin between a and b."""
    a, b = wanted(first, Day, "DATE_DIFF"), wanted(second, Day, "DATE_DIFF")
    ends = (b.low - a.high, b.high - a.low)
    if unit == "day":
        value = second.value - first.value
    else:
        value = _count(unit, second.value) - _count(unit, first.value)
        if all(map(math.isfinite, ends)):
            least = {"month": 28, "quarter": 90, "year": 365}[unit]
            ends = (float(math.floor(ends[0] / least) - 1), float(math.ceil(ends[1] / least) + 1))
    return Typed(stepped(ends[0], ends[1], Fraction(0), Fraction(1)), value.cast(pl.Float64), text)


def _count(unit: str, days: pl.Expr) -> pl.Expr:
    date = date_of(days)
    year, month = date.dt.year().cast(pl.Int64), date.dt.month().cast(pl.Int64)
    return {"year": year, "quarter": year * 4 + (month - 1) // 3, "month": year * 12 + month}[unit]


def levels_of_days(kind: Day) -> tuple[int, ...] | None:
    """All days that an expression may be, if they are known."""
    if kind.values is not None:
        return kind.values
    if not (math.isfinite(kind.low) and math.isfinite(kind.high)):
        return None
    return tuple(range(int(kind.low), int(kind.high) + 1))


def _day(ordinal: float) -> datetime.date:
    return datetime.date.fromordinal(min(max(int(ordinal), 1), 3_652_059))


def literal(value: datetime.date) -> Typed:
    """A date as written."""
    day = float(value.toordinal())
    return Typed(Day(day, day), pl.lit(day), f"DATE '{value.isoformat()}'", value)


def read_date(text: str, what: str) -> datetime.date:
    """A text beside a date, as a date."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise QueryError(f"{what} is compared with dates 'YYYY-MM-DD'. Got {text[:40]!r}.") from None


__all__ = [
    "Number",
    "begin",
    "date_of",
    "days_of",
    "difference",
    "levels_of_days",
    "literal",
    "part",
    "read_date",
    "truncated",
]
