"""Queries as values: what is asked, apart from how it was written.

SQL text and Python expressions give the same `Query`, and equal questions give equal canonical text, which
is what the ledger remembers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from shoal.errors import QueryError

KINDS = ("count", "sum", "avg", "var", "min", "max", "quantile")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
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
        """The label, or one made of kind, share and column."""
        share = "" if self.q is None else f"_{float(self.q):g}"
        return self.label or (self.kind if self.column is None else f"{self.kind}{share}_{self.column}")


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


def _flat(kind: type, parts: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
    return tuple(each for part in parts for each in (part.parts if isinstance(part, kind) else (part,)))  # type: ignore[attr-defined]


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _constant(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        whole = abs(value) < 2**53 and value == int(value)
        return str(int(value)) if whole else repr(value)
    return "'" + str(value).replace("'", "''") + "'"
