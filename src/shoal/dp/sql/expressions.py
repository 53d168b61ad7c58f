"""Expressions as values: columns, constants, functions and conditions, each with one canonical text.

SQL text and Python expressions give the same values. What an expression means for a row is
`shoal.dp.meaning.rowwise`; what it means for noisy figures is `shoal.dp.meaning.outputs`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.errors import QueryError

if TYPE_CHECKING:
    from shoal.dp.sql.query import Aggregate, Query

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
INFIX = ("+", "-", "*", "/", "%", "||")
TOO_LARGE = "A number in a query must be below 1e308."
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Expr:
    """Something that has a value in each row: a column, a constant, or a function of such.

    Arithmetic and comparisons of Python make further expressions; conditions are combined by ``&``, ``|`` and ``~``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Expr:
        return Call("+", (self, as_expr(other)))

    def __radd__(self, other: Any) -> Expr:
        return Call("+", (as_expr(other), self))

    def __sub__(self, other: Any) -> Expr:
        return Call("-", (self, as_expr(other)))

    def __rsub__(self, other: Any) -> Expr:
        return Call("-", (as_expr(other), self))

    def __mul__(self, other: Any) -> Expr:
        return Call("*", (self, as_expr(other)))

    def __rmul__(self, other: Any) -> Expr:
        return Call("*", (as_expr(other), self))

    def __truediv__(self, other: Any) -> Expr:
        return Call("/", (self, as_expr(other)))

    def __rtruediv__(self, other: Any) -> Expr:
        return Call("/", (as_expr(other), self))

    def __mod__(self, other: Any) -> Expr:
        return Call("%", (self, as_expr(other)))

    def __neg__(self) -> Expr:
        return negated(self)

    def __abs__(self) -> Expr:
        return Call("ABS", (self,))

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return compared(self, "=", other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return compared(self, "<>", other)

    def __lt__(self, other: Any) -> Predicate:
        return compared(self, "<", other)

    def __le__(self, other: Any) -> Predicate:
        return compared(self, "<=", other)

    def __gt__(self, other: Any) -> Predicate:
        return compared(self, ">", other)

    def __ge__(self, other: Any) -> Predicate:
        return compared(self, ">=", other)

    def __bool__(self) -> bool:
        raise QueryError("Conditions are combined with & (and), | (or) and ~ (not), not with Python's words.")

    def between(self, low: Any, high: Any) -> Predicate:
        """Between two values, both included."""
        return compared(self, ">=", low) & compared(self, "<=", high)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """One of some constants."""
        return In(_subject(self), tuple(values))

    def is_null(self) -> Predicate:
        """Missing."""
        return IsNull(_subject(self))

    def like(self, pattern: str) -> Predicate:
        """A text that matches a pattern of SQL: ``%`` any characters, ``_`` one."""
        return Test(Call("LIKE", (self, Literal(pattern))))

    def call(self, function: str, *arguments: Any) -> Expr:
        """A function of SQL with this as its first argument, such as ``col("x").call("round", 1)``."""
        return Call(function.upper(), (self, *(as_expr(each) for each in arguments)))

    def clamp(self, low: float, high: float) -> Expr:
        """Within bounds given here, so that it can be summed."""
        return Call("CLAMP", (self, as_expr(low), as_expr(high)))

    def _ask(self, kind: str, *more: Any) -> Query:
        from shoal.dp.sql import query

        return query.figure(kind, self, *more)

    def count(self) -> Query:
        """Number of rows in which this is not missing."""
        return self._ask("count")

    def sum(self) -> Query:
        """Sum."""
        return self._ask("sum")

    def mean(self) -> Query:
        """Mean."""
        return self._ask("avg")

    def min(self) -> Query:
        """Smallest value, aimed a few ranks inside."""
        return self._ask("min")

    def max(self) -> Query:
        """Largest value, aimed a few ranks inside."""
        return self._ask("max")

    def median(self) -> Query:
        """Median."""
        return self._ask("quantile", "0.5")

    def quantile(self, q: Any) -> Query:
        """The value below which a share of the rows lies."""
        return self._ask("quantile", q)

    def var(self, ddof: int = 1) -> Query:
        """Variance: of a sample, or with ``ddof=0`` of a population."""
        return self._ask("var_samp" if ddof else "var")

    def std(self, ddof: int = 1) -> Query:
        """Standard deviation: of a sample, or with ``ddof=0`` of a population."""
        return self._ask("std_samp" if ddof else "std")

    def n_unique(self) -> Query:
        """Number of different values."""
        return self._ask("distinct")


@dataclass(frozen=True, eq=False)
class col(Expr):  # noqa: N801 - reads as a word in expressions
    """A column in a Python expression.

    Examples
    --------
    >>> from shoal.dp import col
    >>> print((col("age") >= 40) & ~col("region").is_in(["north"]))
    ("age" >= 40) AND (NOT ("region" IN ('north')))
    >>> print(col("income") / 12 - col("rent"))
    ("income" / 12) - "rent"
    """

    name: str
    table: str = ""
    quoted: bool = True  # a bare name of SQL matches in any case

    def __str__(self) -> str:
        return f"{name_text(self.table)}.{name_text(self.name)}" if self.table else name_text(self.name)


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A constant."""

    value: Any

    def __post_init__(self) -> None:
        if isinstance(self.value, int) and abs(self.value) >= 10**308:  # which no float can hold
            raise QueryError(TOO_LARGE)

    def __str__(self) -> str:
        text = constant_text(self.value)
        return f"DATE {text}" if isinstance(self.value, datetime.date) else text


@dataclass(frozen=True, eq=False)
class Call(Expr):
    """A function or operator, by its canonical name, of some arguments."""

    function: str
    arguments: tuple[Expr, ...]

    def __str__(self) -> str:
        if self.function in INFIX:
            return f" {self.function} ".join(enclosed(each) for each in self.arguments)
        if self.function in ("LIKE", "ILIKE"):
            return f"{enclosed(self.arguments[0])} {self.function} {self.arguments[1]}"
        if self.function.startswith("CAST:"):
            return f"CAST({self.arguments[0]} AS {self.function[5:]})"
        return f"{self.function}({', '.join(str(each) for each in self.arguments)})"


@dataclass(frozen=True, eq=False)
class Case(Expr):
    """The value of the first branch whose condition is true."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None

    def __str__(self) -> str:
        inner = " ".join(f"WHEN {test} THEN {value}" for test, value in self.branches)
        last = "" if self.otherwise is None else f" ELSE {self.otherwise}"
        return f"CASE {inner}{last} END"


@dataclass(frozen=True, eq=False)
class FigureOf(Expr):
    """A noisy figure in an expression of figures."""

    aggregate: Aggregate

    def __str__(self) -> str:
        return str(self.aggregate)


class Predicate(Expr):
    """A condition on one row; true, false or unknown. Combine with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Predicate) -> Predicate:
        return And(_flat(And, (self, as_predicate(other))))

    def __or__(self, other: Predicate) -> Predicate:
        return Or(_flat(Or, (self, as_predicate(other))))

    def __invert__(self) -> Predicate:
        return Not(self)


@dataclass(frozen=True, eq=False)
class Compare(Predicate):
    """A column against a constant; or one expression against another."""

    column: str | Expr
    operator: str
    value: Any

    def __str__(self) -> str:
        value = enclosed(self.value) if isinstance(self.value, Expr) else constant_text(self.value)
        return f"{_subject_text(self.column)} {self.operator} {value}"


@dataclass(frozen=True, eq=False)
class In(Predicate):
    """A column or expression against a list of constants."""

    column: str | Expr
    values: tuple[Any, ...]

    def __str__(self) -> str:
        inner = ", ".join(sorted({constant_text(value) for value in self.values}))
        return f"{_subject_text(self.column)} IN ({inner})"


@dataclass(frozen=True, eq=False)
class IsNull(Predicate):
    """A missing cell or value."""

    column: str | Expr

    def __str__(self) -> str:
        return f"{_subject_text(self.column)} IS NULL"


@dataclass(frozen=True, eq=False)
class Test(Predicate):
    """A true or false value as a condition: a boolean column, LIKE, CASE."""

    __test__ = False  # no test of pytest
    value: Expr

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, eq=False)
class Not(Predicate):
    """The opposite; unknown stays unknown."""

    part: Predicate

    def __str__(self) -> str:
        if isinstance(self.part, Not):
            return str(self.part.part)
        if isinstance(self.part, Compare):  # the same in three-valued logic
            return str(replace(self.part, operator=_OPPOSITE[self.part.operator]))
        return f"NOT ({self.part})"


@dataclass(frozen=True, eq=False)
class And(Predicate):
    """All parts hold."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(sorted({f"({part})" for part in self.parts}))


@dataclass(frozen=True, eq=False)
class Or(Predicate):
    """At least one part holds."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(sorted({f"({part})" for part in self.parts}))


def as_expr(value: Any) -> Expr:
    """An expression, or a constant as one; a query of one figure as that figure."""
    if isinstance(value, Expr):
        return value
    if hasattr(value, "as_figure"):
        found: Expr = value.as_figure()
        return found
    return Literal(value)


def as_predicate(value: Any) -> Predicate:
    """A condition, or an expression that is true or false as one."""
    return value if isinstance(value, Predicate) else Test(as_expr(value))


def compared(left: Expr, operator: str, right: Any) -> Predicate:
    """A comparison, with a constant on the right where there is one."""
    right = right.value if isinstance(right, Literal) else right
    right = as_expr(right) if hasattr(right, "as_figure") else right
    if isinstance(left, Literal) and isinstance(right, Expr):
        return Compare(_subject(right), _MIRRORED[operator], left.value)
    return Compare(_subject(left), operator, right)


def negated(inner: Expr) -> Expr:
    """Minus an expression; a number by its sign."""
    if (
        isinstance(inner, Literal)
        and isinstance(inner.value, (int, float))
        and not isinstance(inner.value, bool)
    ):
        return Literal(-inner.value)
    return Call("-", (Literal(0), inner))


def subject(column: str | Expr) -> Expr:
    """What a condition looks at, as an expression."""
    return col(column) if isinstance(column, str) else column


def name_text(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'


def constant_text(value: Any) -> str:
    """A constant as SQL writes it."""
    value = value.item() if hasattr(value, "item") else value  # of numpy
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        whole = abs(value) < 2**53 and value == int(value)
        return str(int(value)) if whole else repr(value)
    if isinstance(value, datetime.date):
        value = value.isoformat()[:10]
    return "'" + str(value).replace("'", "''") + "'"


def enclosed(node: Expr) -> str:
    """An expression in brackets, unless it is one word."""
    plain = isinstance(node, (col, FigureOf, Case)) or (
        isinstance(node, Call) and node.function not in (*INFIX, "LIKE", "ILIKE")
    )
    if isinstance(node, Literal):
        plain = not (
            isinstance(node.value, (int, float)) and not isinstance(node.value, bool) and node.value < 0
        )
    return str(node) if plain else f"({node})"


def _subject(node: Expr) -> str | Expr:
    """A plain column by its name alone."""
    return node.name if isinstance(node, col) and node.quoted and not node.table else node


def _subject_text(column: str | Expr) -> str:
    return name_text(column) if isinstance(column, str) else enclosed(column)


def _flat(kind: type, parts: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    return tuple(each for part in parts for each in (part.parts if isinstance(part, kind) else (part,)))  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class LabelOf(Expr):
    """The label of a group, in an expression of figures."""

    group: str | Expr
    place: int

    def __str__(self) -> str:
        return _subject_text(self.group)


def plain_name(node: Any) -> Any:
    """A plain column by its name alone; anything else as it is."""
    return _subject(node) if isinstance(node, Expr) else node
