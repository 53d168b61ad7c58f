"""Functions of SQL text with a syntax of their own: casts, dates and parts of texts."""

from __future__ import annotations

from typing import Any

from shoal.dp.sql.expressions import Call, Case, Expr, Literal, as_predicate
from shoal.dp.sql.names import WITHOUT
from shoal.dp.sql.parser import Parser, cast_to
from shoal.dp.sql.words import UNITS
from shoal.errors import QueryError

SPECIAL = [
    "CAST",
    "SAFE_CAST",
    "TRY_CAST",
    "EXTRACT",
    "IF",
    "IFF",
    "DATE_TRUNC",
    "DATETRUNC",
    "TIMESTAMP_TRUNC",
    "DATE_PART",
    "DATEPART",
    "DATE_DIFF",
    "DATEDIFF",
    "DATE_ADD",
    "DATE_SUB",
    "DATEADD",
    "DATE",
    "TO_DATE",
    "YEAR",
    "QUARTER",
    "MONTH",
    "DAY",
    "DAYOFMONTH",
    "SUBSTRING",
    "SUBSTR",
]


class SpecialCalls(Parser):
    """A method for each, called with the opening bracket behind."""

    def _cast(self) -> Expr:
        inner = self.expression()
        self.expect("AS")
        kind = self.type_name()
        self.expect(")")
        return cast_to(inner, kind)

    _safe_cast = _try_cast = _cast

    def _extract(self) -> Expr:
        unit = self._unit(self.take())
        self.expect("FROM")
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    def _if(self) -> Expr:
        found = self.arguments()
        if len(found) not in (2, 3):
            raise QueryError(f"IF takes a condition and two values. Got {len(found)} arguments.")
        return Case(((as_predicate(found[0]), found[1]),), found[2] if len(found) == 3 else None)

    _iff = _if

    def _date_trunc(self) -> Expr:
        """Either order: DATE_TRUNC('month', d), and DATE_TRUNC(d, MONTH)."""
        if self.now.kind == "text" or (self.now.word in UNITS and self.ahead().word == ","):
            unit = self._unit(self.take())
            self.expect(",")
            inner = self.expression()
        else:
            inner = self.expression()
            self.expect(",")
            unit = self._unit(self.take())
        self.expect(")")
        if unit not in ("day", "isoweek", "month", "quarter", "year"):
            raise QueryError(
                "DATE_TRUNC may be to day, ISOWEEK, month, quarter or year; weeks begin on another day elsewhere."
            )
        return Call("DATE_TRUNC", (Literal(unit), inner))

    _datetrunc = _timestamp_trunc = _date_trunc

    def _date_part(self) -> Expr:
        unit = self._unit(self.take())
        self.expect(",")
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    _datepart = _date_part

    def _date_diff(self) -> Expr:
        """DATE_DIFF('day', a, b) and DATEDIFF(day, a, b) are b - a; DATE_DIFF(b, a, DAY) and DATEDIFF(b, a) likewise."""
        if self.now.kind == "text" or (self.now.word in UNITS and self.ahead().word == ","):
            unit = self._unit(self.take())
            self.expect(",")
            first, second = self._two()
        else:
            second, first = self._two()
            unit = self._unit(self.take()) if self.skip(",") else "day"
        self.expect(")")
        if unit not in ("day", "month", "quarter", "year"):
            raise QueryError("DATE_DIFF may be in days, months, quarters or years.")
        return Call("DATE_DIFF", (Literal(unit), first, second))

    _datediff = _date_diff

    def _two(self) -> tuple[Expr, Expr]:
        first = self.expression()
        self.expect(",")
        return first, self.expression()

    def _date_add(self) -> Expr:
        """DATE_ADD(d, INTERVAL 3 DAY)."""
        first, second = self._two()
        self.expect(")")
        return Call("+", (first, second))

    def _date_sub(self) -> Expr:
        first, second = self._two()
        self.expect(")")
        return Call("-", (first, second))

    def _dateadd(self) -> Expr:
        """DATEADD(day, 3, d)."""
        unit = self._unit(self.take())
        self.expect(",")
        amount, inner = self._two()
        self.expect(")")
        if unit != "day":
            raise QueryError("DATEADD may be in days.")
        return Call("+", (inner, amount))

    def _date(self) -> Expr:
        inner = self.expression()
        self.expect(")")
        return cast_to(inner, "DATE")

    _to_date = _date

    def _part(self, unit: str) -> Expr:
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    def _year(self) -> Expr:
        return self._part("year")

    def _quarter(self) -> Expr:
        return self._part("quarter")

    def _month(self) -> Expr:
        return self._part("month")

    def _day(self) -> Expr:
        return self._part("day")

    _dayofmonth = _day

    def _substring(self) -> Expr:
        inner = self.expression()
        rest: list[Expr] = []
        if self.skip("FROM"):
            rest.append(self.expression())
            if self.skip("FOR"):
                rest.append(self.expression())
            self.expect(")")
        else:
            self.expect(",")
            rest = self.arguments()
        if len(rest) not in (1, 2):
            raise QueryError("SUBSTRING takes a text, a place and a length.")
        return Call("SUBSTR", (inner, *rest))

    _substr = _substring

    def _unit(self, token: Any) -> str:
        word = token.text.upper() if token.kind == "text" else token.word
        word = {
            "DAYS": "DAY",
            "MONTHS": "MONTH",
            "YEARS": "YEAR",
            "QUARTERS": "QUARTER",
            "DOY": "DAYOFYEAR",
        }.get(word, word)
        if word == "WEEK":
            raise QueryError(f"WEEK is not answered: {WITHOUT['WEEK']}.")
        if word not in UNITS:
            raise QueryError(
                f"A part of a date is YEAR, QUARTER, MONTH, ISOWEEK, DAY, DOW, ISODOW or DAYOFYEAR. Got {token.text[:20]!r}."
            )
        return str(word.lower())
