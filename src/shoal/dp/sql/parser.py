"""Expressions of SQL text: an allow-list, so that whatever is not named here is refused with a reason.

A parser of our own, since every construct must have the one meaning that is written down for it: readers of many
dialects guess. Depth and length are bounded, so that any text ends in a query or a sentence.
"""

from __future__ import annotations

import datetime
import re
from abc import ABC, abstractmethod
from typing import Any

from shoal.dp.sql.cursor import Cursor
from shoal.dp.sql.expressions import (
    TOO_LARGE,
    And,
    Call,
    Case,
    Expr,
    In,
    Literal,
    Not,
    Or,
    Predicate,
    as_predicate,
    col,
    compared,
    negated,
    plain_name,
)
from shoal.dp.sql.words import COMPARISONS, RESERVED, TYPES
from shoal.errors import QueryError

_DAYS = re.compile("-?[0-9]{1,9}")


class Parser(Cursor, ABC):
    """Reads expressions; what functions mean is for those who derive from it."""

    # Conditions, from the weakest sign to the strongest

    def expression(self) -> Expr:
        """Any expression or condition."""
        return self.deeper(self._or)

    def _or(self) -> Expr:
        parts = [self._and()]
        while self.skip("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(_flat(Or, parts))

    def _and(self) -> Expr:
        parts = [self._not()]
        while self.skip("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else And(_flat(And, parts))

    def _not(self) -> Expr:
        if self.skip("NOT"):
            return Not(as_predicate(self.deeper(self._not)))
        return self._compared()

    def _compared(self) -> Expr:
        left = self.sum()
        while True:
            if self.now.word in COMPARISONS:
                operator = COMPARISONS[self.take().word]
                right = self.sum()
                _no_null(right)
                left = compared(left, operator, right)
                if self.now.word in COMPARISONS:
                    self.wrong("AND between two comparisons")
                continue
            negative = self.at("NOT") and self.ahead().word in ("IN", "BETWEEN", "LIKE", "ILIKE")
            if negative:
                self.take()
            found = self._tested(left)
            if found is None:
                return left
            left = Not(found) if negative else found

    def _tested(self, left: Expr) -> Predicate | None:
        """IN, BETWEEN, LIKE and IS behind an expression; None if none of them comes."""
        if self.skip("BETWEEN"):
            self.skip("ASYMMETRIC")
            low = self.sum()
            self.expect("AND")
            high = self.sum()
            for each in (low, high):
                _no_null(each)
            return compared(left, ">=", low) & compared(left, "<=", high)
        if self.skip("IN"):
            return self._in(left)
        if self.at("LIKE") or self.at("ILIKE"):
            return self._like(left, self.take().word)
        if self.skip("IS"):
            return self._is(left)
        return None

    def _in(self, left: Expr) -> Predicate:
        self.expect("(")
        if self.at("SELECT") or self.at("WITH"):
            return self.in_query(left)
        values = [self.sum()]
        while self.skip(","):
            values.append(self.sum())
        self.expect(")")
        for each in values:
            _no_null(each)
        if all(isinstance(each, Literal) for each in values):
            return In(plain_name(left), tuple(each.value for each in values))  # type: ignore[attr-defined]
        return Or(tuple(compared(left, "=", each) for each in values))

    def in_query(self, left: Expr) -> Predicate:
        """IN (SELECT ...)."""
        raise QueryError("A query inside IN must name a table; it is read by `shoal.dp.sql.parse`.")

    def _like(self, left: Expr, word: str) -> Predicate:
        pattern = self.sum()
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise QueryError(f"{word} needs a pattern in quotes. Got {pattern}.")
        if self.at("ESCAPE"):
            raise QueryError(
                "LIKE with ESCAPE is not read: write STARTS_WITH, ENDS_WITH, or list the levels by IN."
            )
        if "\\" in pattern.value:
            raise QueryError(
                "A backslash in LIKE means different things in dialects of SQL: list the levels by IN instead."
            )
        return as_predicate(Call(word, (left, pattern)))

    def _is(self, left: Expr) -> Predicate:
        negative = self.skip("NOT")
        if self.skip("NULL") or self.skip("UNKNOWN"):
            found: Predicate = left.is_null()
        elif self.at("TRUE") or self.at("FALSE"):
            wanted = self.take().word == "TRUE"  # never unknown, unlike a comparison
            found = compared(left, "=", wanted) & Not(left.is_null())
        elif self.skip("DISTINCT", "FROM"):
            right = self.sum()
            if isinstance(right, Literal):
                same = (
                    left.is_null()
                    if right.value is None
                    else compared(left, "=", right) & Not(left.is_null())
                )
            else:
                both = left.is_null() & right.is_null()
                same = both | (compared(left, "=", right) & Not(left.is_null()) & Not(right.is_null()))
            found = Not(same)
        else:
            self.wrong("NULL, TRUE, FALSE or DISTINCT FROM after IS")
        return Not(found) if negative else found

    # Arithmetic

    def sum(self) -> Expr:
        """Sums, differences and joined texts."""
        left = self._product()
        while self.now.word in ("+", "-", "||"):
            left = _binary(self.take().word, left, self._product())
        return left

    def _product(self) -> Expr:
        left = self._unary()
        while self.now.word in ("*", "/", "%"):
            left = _binary(self.take().word, left, self._unary())
        return left

    def _unary(self) -> Expr:
        if self.skip("-"):
            return negated(self.deeper(self._unary))
        if self.skip("+"):
            return self.deeper(self._unary)
        return self._suffixed()

    def _suffixed(self) -> Expr:
        found = self.atom()
        while True:
            if self.skip("::"):
                found = cast_to(found, self.type_name())
            elif self.at("["):
                found = self.subscript(found)
            else:
                return found

    def subscript(self, inner: Expr) -> Expr:
        """What stands in square brackets behind a value."""
        return self.wrong("no square bracket")

    def type_name(self) -> str:
        """A type, in its canonical name."""
        word = self.take().word
        if word == "DOUBLE":
            self.skip("PRECISION")
        if word not in TYPES:
            raise QueryError(
                f"CAST may be AS BIGINT, DOUBLE, VARCHAR, DATE or BOOLEAN. Got {word or self.now.text!r}."
            )
        if self.at("("):
            if TYPES[word] == "DECIMAL":
                raise QueryError(
                    "CAST AS DECIMAL(p, s) rounds differently in dialects of SQL: write ROUND(x, s)."
                )
            self.expect("(")
            self.take()
            self.expect(")")
        return "DOUBLE" if TYPES[word] == "DECIMAL" else TYPES[word]

    def atom(self) -> Expr:  # noqa: PLR0911 - a return for each kind
        """A constant, a column, a function, or something in brackets."""
        token = self.now
        if token.kind == "number":
            return Literal(_number(self.take().text))
        if token.kind == "text":
            return Literal(self.take().text)
        if self.skip("("):
            return self.bracketed()
        if token.kind == "word":
            if token.word in ("TRUE", "FALSE", "NULL"):
                self.take()
                return Literal({"TRUE": True, "FALSE": False, "NULL": None}[token.word])
            if token.word == "CASE":
                self.take()
                return self.deeper(self._case)
            if token.word in ("DATE", "TIMESTAMP") and self.ahead().kind == "text":
                self.take()
                return Literal(_date(self.take().text))
            if token.word == "INTERVAL":
                return self._interval()
            if self.ahead().word == "(" and (token.word not in RESERVED or token.word in ("LEFT", "RIGHT")):
                self.take()
                return self.deeper(lambda: self.function(token.word))
            if token.word in ("CURRENT_DATE", "CURRENT_TIMESTAMP", "NOW"):
                raise QueryError(
                    f"{token.word} changes from day to day, so an answer could not be kept: write DATE 'YYYY-MM-DD'."
                )
            if token.word == "EXISTS":
                raise QueryError("EXISTS is not read: write key IN (SELECT key FROM table WHERE ...).")
        return self._column()

    def bracketed(self) -> Expr:
        """Behind an opening bracket."""
        if self.at("SELECT"):
            raise QueryError(
                "A query inside an expression would need an answer of its own first: ask it, then write its figure here."
            )
        found = self.expression()
        self.expect(")")
        return found

    def _column(self) -> Expr:
        quoted = self.now.kind == "quoted"
        found = self.name("a column, a constant or a function")
        if self.skip("."):
            table, quoted = found, self.now.kind == "quoted"
            found = self.name("a column")
            if self.at("."):
                raise QueryError("A column is written table.column or column. Got three names.")
            self.qualified = True
            return col(found, table, quoted)
        return col(found, "", quoted)

    def _case(self) -> Expr:
        subject = None if self.at("WHEN") else self.expression()
        branches: list[tuple[Expr, Expr]] = []
        while self.skip("WHEN"):
            test = self.expression()
            if subject is not None:
                _no_null(test)
                test = compared(subject, "=", test)
            self.expect("THEN")
            branches.append((as_predicate(test), self.expression()))
        if not branches:
            self.wrong("WHEN")
        otherwise = self.expression() if self.skip("ELSE") else None
        self.expect("END")
        return Case(tuple(branches), otherwise)

    def _interval(self) -> Expr:
        self.take()
        amount: Any = self.take()
        parts = amount.text.split() if amount.kind == "text" else [amount.text]
        unit = parts[1].upper() if len(parts) == 2 else self.take().word
        days = {"DAY": 1, "DAYS": 1, "WEEK": 7, "WEEKS": 7}.get(unit)
        if days is None or not parts or not _DAYS.fullmatch(parts[0]):
            raise QueryError("INTERVAL may be a whole number of days or weeks, such as INTERVAL '30' DAY.")
        return Literal(int(parts[0]) * days)

    def arguments(self) -> list[Expr]:
        """Arguments up to the closing bracket, the opening one behind."""
        found: list[Expr] = []
        if self.skip(")"):
            return found
        while True:
            found.append(self.expression())
            if self.skip(")"):
                return found
            self.expect(",")

    @abstractmethod
    def function(self, word: str) -> Expr:
        """A function whose name is behind."""


def cast_to(inner: Expr, kind: str) -> Expr:
    """An expression as another type; a date's text as a date."""
    if kind == "DATE" and isinstance(inner, Literal) and isinstance(inner.value, str):
        return Literal(_date(inner.value))
    return Call(f"CAST:{kind}", (inner,))


def _binary(sign: str, left: Expr, right: Expr) -> Expr:
    return Call(sign, (left, right))


def _flat(kind: type, parts: list[Expr]) -> tuple[Predicate, ...]:
    found: list[Predicate] = []
    for part in parts:
        found += part.parts if isinstance(part, kind) else [as_predicate(part)]  # type: ignore[attr-defined]
    return tuple(found)


def _no_null(node: Expr) -> None:
    if isinstance(node, Literal) and node.value is None:
        raise QueryError("A comparison with NULL is never true; write IS NULL.")


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        value = float(text)
    if abs(value) == float("inf"):
        raise QueryError(TOO_LARGE)
    return value


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text.strip())
    except ValueError:
        raise QueryError(f"A date is written DATE 'YYYY-MM-DD'. Got {text[:40]!r}.") from None
