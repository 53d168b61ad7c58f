"""Whether a query can be answered, decided by the schema alone, and how its constants are kept."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from typing import Any

from shoal.dp.query import KINDS, OPERATORS, Aggregate, And, Compare, In, IsNull, Not, Or, Predicate, Query
from shoal.errors import QueryError
from shoal.schema import Column, Schema

MOST_GROUPS = 100_000
NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


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
        if value is None or (isinstance(value, float) and math.isnan(value)):
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
