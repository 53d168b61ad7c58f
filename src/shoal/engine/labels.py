"""What a published label says of a number or a date: `35-64`, `65+`, `below 18`, `1980-05`, `1980-1989`."""

from __future__ import annotations

import calendar
import datetime
import re

import numpy as np

# A published cell that may stand for anything.
OPEN = ("", "*")
Interval = tuple[float, float]
ANYTHING: Interval = (-np.inf, np.inf)

_FIGURE = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_DASH = r"(?:-|–|—|−|\.\.\.?|:|;|to)"
_BETWEEN = re.compile(rf"^[\[(\]]?\s*({_FIGURE})\s*{_DASH}\s*<?\s*({_FIGURE})\s*[\])\[]?$")
_BRACKETS = re.compile(rf"^[\[(\]]\s*({_FIGURE})\s*,\s*({_FIGURE})\s*[\])\[]$")
_BELOW = re.compile(
    rf"^(?:below|under|less than|<=?|≤|up to)\s*({_FIGURE})$|^({_FIGURE})\s*(?:or|and) (?:less|under)$"
)
_ABOVE = re.compile(
    rf"^(?:from|over|above|more than|>=?|≥)\s*({_FIGURE})$|^({_FIGURE})\s*(?:\+|(?:or|and) (?:more|over))$"
)
_MONTH = re.compile(r"^(\d{4})-(\d{2})$")
_YEARS = re.compile(rf"^(\d{{4}})(?:\s*{_DASH}\s*(\d{{4}}))?$")
_DECADE = re.compile(r"^(\d{3})0s$")


def limits(label: str, *, date: bool) -> Interval | None:
    """The interval that a label names, ends included, dates as days since 1970; None where it names none.

    Examples
    --------
    >>> from shoal.engine.labels import limits
    >>> limits("35-64", date=False), limits("65+", date=False), limits("young", date=False)
    ((35.0, 64.0), (65.0, inf), None)
    >>> limits("1970-02", date=True)
    (31.0, 58.0)
    """
    text = label.strip().lower()
    if text in OPEN:
        return ANYTHING
    found = _days(text) if date else _numbers(text)
    return found if found is None or found[0] <= found[1] else None


def _numbers(text: str) -> Interval | None:
    if found := _BETWEEN.match(text) or _BRACKETS.match(text):
        return float(found[1]), float(found[2])
    if found := _BELOW.match(text):
        return -np.inf, float(found[1] or found[2])
    if found := _ABOVE.match(text):
        return float(found[1] or found[2]), np.inf
    return None


def _days(text: str) -> Interval | None:
    """Months, years, spans of years and decades."""
    if (found := _MONTH.match(text)) and 1 <= int(found[2]) <= 12 and int(found[1]) > 0:
        year, month = int(found[1]), int(found[2])
        return _day(year, month, 1), _day(year, month, calendar.monthrange(year, month)[1])
    if found := _DECADE.match(text):
        first = 10 * int(found[1])
        last = first + 9
    elif found := _YEARS.match(text):
        first, last = int(found[1]), int(found[2] or found[1])
    else:
        return None
    return (_day(first, 1, 1), _day(last, 12, 31)) if first > 0 and last > 0 else None


def _day(year: int, month: int, day: int) -> float:
    return float((datetime.date(year, month, day) - datetime.date(1970, 1, 1)).days)
