"""Queries as values: what is asked, apart from how it was written.

SQL text and Python expressions give the same `Query`, and equal questions give equal canonical text, which
is what the ledger remembers.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from shoal.errors import QueryError
from shoal.schema import Column, Schema

KINDS = ("count", "sum", "avg", "var", "min", "max", "quantile")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
MOST_GROUPS = 100_000
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Predicate:
    """A condition on one row; true, false or unknown. Combine with ``&``, ``|`` and ``~``."""

    def __and__(self, other: Predicate) -> Predicate:
        return And(_flat(And, (self, other)))

    def __or__(self, other: Predicate) -> Predicate:
        return Or(_flat(Or, (self, other)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise QueryError("Conditions are combined with & (and), | (or) and ~ (not), not with Python's words.")


@dataclass(frozen=True)
class Compare(Predicate):
    """A column against a constant."""

    column: str
    operator: str
    value: Any

    def __str__(self) -> str:
        return f"{_name(self.column)} {self.operator} {_constant(self.value)}"


@dataclass(frozen=True)
class In(Predicate):
    """A column against a list of constants."""

    column: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{_name(self.column)} IN ({', '.join(sorted({_constant(value) for value in self.values}))})"


@dataclass(frozen=True)
class IsNull(Predicate):
    """A missing cell."""

    column: str

    def __str__(self) -> str:
        return f"{_name(self.column)} IS NULL"


@dataclass(frozen=True)
class Not(Predicate):
    """The opposite; unknown stays unknown."""

    part: Predicate

    def __str__(self) -> str:
        if isinstance(self.part, Not):
            return str(self.part.part)
        if isinstance(self.part, Compare):  # the same in three-valued logic
            return str(replace(self.part, operator=_OPPOSITE[self.part.operator]))
        return f"NOT ({self.part})"


@dataclass(frozen=True)
class And(Predicate):
    """All parts hold."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(sorted({f"({part})" for part in self.parts}))


@dataclass(frozen=True)
class Or(Predicate):
    """At least one part holds."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(sorted({f"({part})" for part in self.parts}))


@dataclass(frozen=True)
class col:  # noqa: N801 - reads as a word in expressions
    """A column in a Python expression.

    Examples
    --------
    >>> from shoal.dp import col
    >>> print((col("age") >= 40) & ~col("region").is_in(["north"]))
    ("age" >= 40) AND (NOT ("region" IN ('north')))
    """

    name: str

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return Compare(self.name, "=", value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return Compare(self.name, "<>", value)

    def __lt__(self, value: Any) -> Predicate:
        return Compare(self.name, "<", value)

    def __le__(self, value: Any) -> Predicate:
        return Compare(self.name, "<=", value)

    def __gt__(self, value: Any) -> Predicate:
        return Compare(self.name, ">", value)

    def __ge__(self, value: Any) -> Predicate:
        return Compare(self.name, ">=", value)

    __hash__ = None  # type: ignore[assignment]

    def between(self, low: Any, high: Any) -> Predicate:
        """Between two constants, both included."""
        return Compare(self.name, ">=", low) & Compare(self.name, "<=", high)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """One of some constants."""
        return In(self.name, tuple(values))

    def is_null(self) -> Predicate:
        """Missing."""
        return IsNull(self.name)


@dataclass(frozen=True)
class Aggregate:
    """One figure asked for: count, sum, avg, var, min, max or quantile.

    Parameters
    ----------
    kind : str
    column : str, optional
        None only for a count of rows.
    q : Fraction, optional
        Of a quantile, between 0 and 1.
    label : str, default ""
        What the answer calls it; not part of the question.
    """

    kind: str
    column: str | None = None
    q: Fraction | None = None
    label: str = field(default="", compare=False)

    def __str__(self) -> str:
        inner = "*" if self.column is None else _name(self.column)
        return f"{self.kind.upper()}({inner}{'' if self.q is None else f', {self.q}'})"

    @property
    def name(self) -> str:
        """The label, or one made of kind and column."""
        return self.label or (self.kind if self.column is None else f"{self.kind}_{self.column}")


@dataclass(frozen=True)
class Query:
    """What is asked of a table.

    Parameters
    ----------
    aggregates : tuple of Aggregate
    condition : Predicate, optional
        A row answers only where this is true.
    groups : tuple of str, default ()
        Columns with declared levels; every combination is answered.

    Examples
    --------
    >>> from shoal.dp import avg, col, count
    >>> print(count().where(col("age") >= 40).by("region"))
    SELECT COUNT(*) WHERE "age" >= 40 GROUP BY "region"
    >>> print(count() + avg("income"))
    SELECT COUNT(*), AVG("income")
    """

    aggregates: tuple[Aggregate, ...]
    condition: Predicate | None = None
    groups: tuple[str, ...] = ()

    def __add__(self, other: Query) -> Query:
        if (str(self.condition), self.groups) != (str(other.condition), other.groups):
            raise QueryError("Aggregates asked together must share one condition and the same groups.")
        return replace(self, aggregates=self.aggregates + other.aggregates)

    def where(self, condition: Predicate) -> Self:
        """The same figures over the rows for which a condition is true."""
        return replace(self, condition=condition if self.condition is None else self.condition & condition)

    def by(self, *columns: str) -> Self:
        """The same figures for every declared level of some columns."""
        return replace(self, groups=self.groups + columns)

    def named(self, label: str) -> Self:
        """The same query with its last figure labelled."""
        *first, last = self.aggregates
        return replace(self, aggregates=(*first, replace(last, label=label)))

    def __str__(self) -> str:
        text = "SELECT " + ", ".join(str(each) for each in self.aggregates)
        if self.condition is not None:
            text += f" WHERE {self.condition}"
        return text + (" GROUP BY " + ", ".join(_name(each) for each in self.groups) if self.groups else "")


def count(column: str | None = None) -> Query:
    """Number of rows, or of rows in which a column is not missing."""
    return Query((Aggregate("count", column),))


def total(column: str) -> Query:
    """Sum of a column."""
    return Query((Aggregate("sum", column),))


def avg(column: str) -> Query:
    """Mean of a column."""
    return Query((Aggregate("avg", column),))


def var(column: str) -> Query:
    """Population variance of a column."""
    return Query((Aggregate("var", column),))


def minimum(column: str) -> Query:
    """Smallest value of a column, aimed a few ranks inside."""
    return Query((Aggregate("min", column),))


def maximum(column: str) -> Query:
    """Largest value of a column, aimed a few ranks inside."""
    return Query((Aggregate("max", column),))


def quantile(column: str, q: float | Fraction) -> Query:
    """The value below which a share `q` of the rows lies."""
    return Query((Aggregate("quantile", column, share(q)),))


def share(q: Any) -> Fraction:
    """A quantile's share as an exact fraction in (0, 1) with at most four decimals."""
    try:
        exact = q if isinstance(q, Fraction) else Fraction(str(q))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(-1)
    if not 0 < exact < 1 or 10_000 % exact.denominator:
        raise QueryError(
            f"The share of a quantile must be a number in (0, 1) with at most 4 decimals. Got {q}."
        )
    return exact


def check(query: Query, schema: Schema) -> None:
    """Raise `QueryError` unless the query can be answered; the schema alone decides."""
    if not query.aggregates:
        raise QueryError("A query must ask for at least one of COUNT, SUM, AVG, VAR, MIN, MAX, QUANTILE.")
    if len(query.aggregates) > 50:
        raise QueryError(f"A query may ask for at most 50 figures at once. Got {len(query.aggregates)}.")
    for aggregate in query.aggregates:
        _check_aggregate(aggregate, schema)
    names = [aggregate.name for aggregate in query.aggregates] + list(query.groups)
    for name in names:
        if names.count(name) > 1:
            raise QueryError(
                f"The figures and groups of a query must have different names. Got {name!r} twice."
            )
    for leaf in leaves(query.condition):
        _check_leaf(leaf, _declared(leaf.column, schema))
    cells = 1
    for name in query.groups:
        cells *= len(levels(_declared(name, schema)) or _no_levels(name))
    if cells > MOST_GROUPS:
        raise QueryError(f"GROUP BY may make at most {MOST_GROUPS} groups of declared levels. Got {cells}.")


def leaves(condition: Predicate | None) -> Iterator[Any]:
    """The comparisons, lists and null tests in a condition."""
    if isinstance(condition, (And, Or)):
        for part in condition.parts:
            yield from leaves(part)
    elif isinstance(condition, Not):
        yield from leaves(condition.part)
    elif condition is not None:
        yield condition


def levels(column: Column) -> tuple[Any, ...] | None:
    """The declared levels of a column; a boolean has two."""
    return (False, True) if column.kind == "boolean" else column.levels


def has_codes(column: Column) -> bool:
    """Whether the engine keeps this column as positions in its declared levels."""
    return levels(column) is not None and column.kind not in ("number", "date")


def level_code(column: Column, value: Any) -> int:
    """Position of a constant among the declared levels."""
    declared = [level_text(each) for each in levels(column) or ()]
    try:
        return declared.index(level_text(value))
    except ValueError:
        raise QueryError(
            f"Column {column.name!r} is compared with {value!r}, which is not one of its declared levels."
        ) from None


def level_text(value: Any) -> str:
    """A cell's canonical text: numbers as numbers whatever they were stored as, text without outer blanks."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).strip()
    if not re.fullmatch(NUMBER, text):
        return text
    value = float(text)
    return str(int(value)) if abs(value) < 2**53 and value == int(value) else text


def number(column: Column, value: Any) -> float:
    """A constant compared with a number or date, as the engine keeps it (dates in days)."""
    if column.kind == "date":
        try:
            day = value if isinstance(value, datetime.date) else datetime.date.fromisoformat(str(value))
        except ValueError:
            raise QueryError(
                f"Column {column.name!r} is compared with dates 'YYYY-MM-DD'. Got {value!r}."
            ) from None
        return float(day.toordinal())
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise QueryError(f"Column {column.name!r} is compared with numbers. Got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise QueryError(f"Column {column.name!r} is compared with a number beyond 1e308.") from None


def _check_aggregate(aggregate: Aggregate, schema: Schema) -> None:
    if aggregate.kind not in KINDS:
        raise QueryError(f"A figure must be one of {', '.join(KINDS)}. Got {aggregate.kind!r}.")
    if aggregate.column is None:
        if aggregate.kind != "count":
            raise QueryError(f"{aggregate.kind.upper()} needs a column. Got *.")
        return
    column = _declared(aggregate.column, schema)
    if aggregate.kind == "count":
        return
    kinds = ("number",) if aggregate.kind in ("sum", "avg", "var") else ("number", "date", "ordered")
    if column.kind not in kinds:
        raise QueryError(
            f"{aggregate.kind.upper()} needs a column of kind {' or '.join(kinds)}. "
            f"Got {column.name!r}, a {column.kind}."
        )
    if column.kind == "ordered":
        if column.levels is None:
            _no_levels(column.name)
    elif column.bounds is None:
        raise QueryError(
            f"{aggregate.kind.upper()} needs declared bounds, and column {column.name!r} has none."
        )


def _check_leaf(leaf: Any, column: Column) -> None:
    if isinstance(leaf, IsNull):
        return
    values = leaf.values if isinstance(leaf, In) else (leaf.value,)
    if not values:
        raise QueryError(f"IN needs at least one value for column {column.name!r}.")
    if isinstance(leaf, Compare) and leaf.operator not in OPERATORS:
        raise QueryError(f"A comparison must be one of {', '.join(OPERATORS)}. Got {leaf.operator!r}.")
    for value in values:
        if value is None or value != value:
            raise QueryError(f"Column {column.name!r} is compared with NULL; write IS NULL.")
        if column.kind in ("number", "date"):
            number(column, value)
        elif has_codes(column):
            level_code(column, value)
    orders = isinstance(leaf, Compare) and leaf.operator not in ("=", "<>")
    if orders and column.kind in ("category", "boolean"):
        raise QueryError(
            f"Column {column.name!r} has no order: compare it by =, <> or IN. Got {leaf.operator}."
        )
    if orders and column.kind == "ordered" and column.levels is None:
        _no_levels(column.name)


def _declared(name: str, schema: Schema) -> Column:
    if name not in schema.columns:
        raise QueryError(
            f"Column {name!r} is not declared in the schema. It has: {', '.join(schema.columns)}."
        )
    return schema.columns[name]


def _no_levels(name: str) -> Any:
    raise QueryError(f"Column {name!r} needs declared levels for this, and has none.")


def _flat(kind: type, parts: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    return tuple(each for part in parts for each in (part.parts if isinstance(part, kind) else (part,)))  # type: ignore[attr-defined]


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return (
            str(int(value)) if value == value and abs(value) < 2**53 and value == int(value) else repr(value)
        )
    return "'" + str(value).replace("'", "''") + "'"
