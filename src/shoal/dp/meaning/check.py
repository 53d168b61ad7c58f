"""Whether a query can be answered, decided by the schema alone, and how its constants are kept."""

from __future__ import annotations

import datetime
import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.dp.meaning.outputs import check_output
from shoal.dp.sql.expressions import OPERATORS, And, Compare, Expr, In, IsNull, Not, Or, Predicate
from shoal.dp.sql.query import KINDS, MADE, PAIRS, Aggregate, Query, group_names, share
from shoal.dp.sql.statement import InSelect
from shoal.dp.sql.tree import children, walk
from shoal.errors import QueryError
from shoal.schema import Column, Schema, Unit
from shoal.schema.checks import is_text

if TYPE_CHECKING:
    from shoal.dp.meaning.lower import Lowered
    from shoal.dp.meaning.relation import Catalog

Keys = Mapping[str, tuple[Any, ...]]
MOST_GROUPS = 100_000
MOST_FIGURES = 50
MOST_CONSTANTS = 1_000
MOST_LEAVES = 1_000
DEEPEST = 100
LONGEST_TEXT = 1_000
_CONSTANTS = (bool, int, float, str, datetime.date, np.integer, np.floating, np.bool_)
NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"  # one way to match a text, so no retries


def check(
    query: Query,
    schema: Schema,
    unit: str | None = None,
    rows: int | None = None,
    catalog: Catalog | None = None,
    keys: Keys | None = None,
) -> Lowered:
    """Raise `QueryError` unless the query can be answered; the schema alone decides.

    Whatever passes is answered: after the charge nothing is refused, for any query object.

    Parameters
    ----------
    query : Query
    schema : Schema
    unit : str, optional
        The unit's column; the schema's if left open.
    rows : int, optional
        At most so many rows of a unit are counted; the schema's if left open.
    catalog : Catalog, optional
        The tables of a session that has several.
    keys : mapping of str to tuple, optional
        Values that were drawn, of columns that declare none.

    Returns
    -------
    Lowered
        The query over plain columns.
    """
    facts = (unit, rows)
    for known in tuple(_RECENT):
        if (
            known.query is query
            and known.schema is schema
            and known.catalog is catalog
            and known.facts == facts
            and known.keys is keys
        ):
            return known.found
    found = _checked(query, schema, unit, rows, catalog, keys)
    # A session reads a query, then plans it: what was found out is kept for the second look, by the very object.
    _RECENT.append(_Recent(found.asked, schema, catalog, facts, found, keys))
    return found


@dataclass(frozen=True, eq=False)
class _Recent:
    query: Query
    schema: Schema
    catalog: Catalog | None
    facts: tuple[str | None, int | None]
    found: Lowered
    keys: Keys | None


_RECENT: deque[_Recent] = deque(maxlen=8)


def _checked(
    query: Query,
    schema: Schema,
    unit: str | None,
    rows: int | None,
    catalog: Catalog | None,
    keys: Keys | None,
) -> Lowered:
    from shoal.dp.meaning.lower import lower

    if not isinstance(query.aggregates, tuple) or not query.aggregates:
        raise QueryError("A query must ask for at least one of COUNT, SUM, AVG, VAR, MIN, MAX, QUANTILE.")
    if len(query.aggregates) > MOST_FIGURES:
        raise QueryError(
            f"A query may ask for at most {MOST_FIGURES} figures at once. Got {len(query.aggregates)}."
        )
    for aggregate in query.aggregates:
        _check_shape(aggregate)
    if not isinstance(query.groups, tuple):
        raise QueryError("The groups of a query must be a tuple of columns' names or expressions.")
    nested = query.condition is not None and isinstance(query.condition, Expr)
    related = query.source is not None or (
        nested and any(isinstance(each, InSelect) for each in walk(query.condition))  # type: ignore[arg-type]
    )
    if not related:
        _check_condition(query.condition, schema)
    unit = unit_column(schema) if unit is None else unit or None
    found = lower(query, schema, unit, rows or schema.unit.rows, catalog, keys)
    _check_condition(found.core.condition, found.schema)
    for aggregate in found.core.aggregates:
        _check_aggregate(aggregate, found.schema)
    _check_names(found)
    shown = [each.value for each in found.outputs] + [each.value for each in found.ordered]
    for each in shown if found.kept is None else [*shown, found.kept]:
        check_output(each)
    cells = 0
    for chosen in found.asked.sets or (tuple(range(len(found.core.groups))),):
        cells += math.prod(len(_grouped(_declared(found.core.groups[at], found.schema))) for at in chosen)
    if cells > MOST_GROUPS:
        raise QueryError(f"GROUP BY may make at most {MOST_GROUPS} groups of declared levels. Got {cells}.")
    return found


def plain_query(query: Query, schema: Schema) -> Query:
    """A checked query whose figures, groups and conditions are of plain columns, as other than plans understand it."""
    found = check(query, schema)
    if not found.asked.plain or found.computed:
        raise QueryError(
            "Here figures, groups and conditions are of plain columns: no expressions, no joins, no HAVING, ORDER BY or LIMIT."
        )
    return found.asked


def unit_column(schema: Schema) -> str | None:
    """The column of the declared unit or group."""
    group = schema.group
    return schema.unit.column or (group.column if isinstance(group, Unit) else None)


def _check_names(found: Lowered) -> None:
    names = [each.name for each in found.outputs] + group_names(found.asked)
    for name in names:
        if names.count(name) > 1:
            raise QueryError(
                f"The figures and groups of a query must have different names: name them apart by AS. Got {name!r} twice."
            )
        if len(name) > 4_000 or not is_text(name):
            raise QueryError("The name of a figure must be a text of at most 4000 characters in UTF-8.")


def _check_shape(aggregate: Aggregate) -> None:
    """The fields of a figure, whoever made it."""
    if not isinstance(aggregate, Aggregate) or aggregate.kind not in (*KINDS, *MADE):
        raise QueryError(
            f"A figure must be one of {', '.join(KINDS)}. Got {getattr(aggregate, 'kind', aggregate)!r}."
        )
    if (aggregate.kind == "quantile") != (aggregate.q is not None):
        raise QueryError("A share belongs to a quantile, and to no other figure.")
    if aggregate.q is not None and not isinstance(aggregate.q, Fraction):
        raise QueryError(f"The share of a quantile must be a Fraction. Got {aggregate.q!r}.")
    if aggregate.q is not None:
        share(aggregate.q)
    if not isinstance(aggregate.label, str) or len(aggregate.label) > 200 or not is_text(aggregate.label):
        raise QueryError("The label of a figure must be a text of at most 200 characters.")
    if not isinstance(aggregate.column, (str, Expr, type(None))) or not isinstance(
        aggregate.other, (Expr, type(None))
    ):
        raise QueryError(
            f"A figure must be of a column or an expression. Got {type(aggregate.column).__name__}."
        )
    if aggregate.column is None and aggregate.kind != "count":
        raise QueryError(f"{aggregate.kind.upper()} needs a column. Got *.")


def _grouped(column: Column) -> tuple[Any, ...]:
    """The levels of a column to group by, each such as the engine keeps it."""
    found = levels(column) or _no_levels(column.name)
    kept = [level_text(each) if has_codes(column) else number(column, each) for each in found]
    if len(set(kept)) < len(kept):
        raise QueryError(f"The declared levels of column {column.name!r} must differ from each other.")
    return tuple(found)


def _check_condition(condition: Predicate | None, schema: Schema) -> None:
    """Shape, size and constants of a condition, without recursion: however deep it is, this ends in a sentence."""
    waiting: list[tuple[Any, int]] = [] if condition is None else [(condition, 1)]
    tests = constants = 0
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST:
            raise QueryError(f"The conditions of a query may be nested at most {DEEPEST} deep.")
        if isinstance(node, (And, Or)):
            if not isinstance(node.parts, tuple) or not node.parts:
                raise QueryError("AND and OR need at least one condition each.")
            waiting += [(part, depth + 1) for part in node.parts]
        elif isinstance(node, Not):
            waiting.append((node.part, depth + 1))
        elif isinstance(node, (Compare, In, IsNull)):
            if isinstance(node.column, str) and not isinstance(getattr(node, "value", None), Expr):
                constants += _check_leaf(node, _declared(node.column, schema))
            elif isinstance(node.column, (str, Expr)):
                constants += (
                    len(node.values) if isinstance(node, In) and isinstance(node.values, tuple) else 1
                )
                waiting += [(part, depth + 1) for part in children(node)]
            else:
                raise QueryError(
                    f"A condition must compare columns or expressions. Got {type(node.column).__name__}."
                )
        elif isinstance(node, Expr):
            waiting += [(part, depth + 1) for part in children(node)]
        else:
            raise QueryError(
                f"A condition must be made of comparisons, IN, IS NULL, AND, OR and NOT. Got {type(node).__name__}."
            )
        tests += isinstance(node, Predicate)
        if tests > MOST_LEAVES or constants > MOST_CONSTANTS:
            raise QueryError(
                f"A query may have at most {MOST_LEAVES} conditions and {MOST_CONSTANTS} constants; "
                "declare coarser levels, or compare by < and >."
            )


def levels(column: Column) -> tuple[Any, ...] | None:
    """The declared levels of a column; a boolean has two."""
    return (False, True) if column.kind == "boolean" else column.levels


def has_codes(column: Column) -> bool:
    """Whether the engine keeps this column as positions in its declared levels."""
    return levels(column) is not None and column.kind not in ("number", "date")


def level_code(column: Column, value: Any) -> int:
    """Position of a constant among the declared levels."""
    try:
        return _level_texts(column).index(level_text(value))
    except ValueError:
        raise QueryError(
            f"Column {column.name!r} is compared with {value!r}, which is not one of its declared levels."
        ) from None


def _level_texts(column: Column) -> list[str]:
    return [level_text(each) for each in levels(column) or ()]


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
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        raise QueryError(f"Column {column.name!r} is compared with numbers. Got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise QueryError(f"Column {column.name!r} is compared with a number beyond 1e308.") from None


def _check_aggregate(aggregate: Aggregate, schema: Schema) -> None:
    if aggregate.column is None or aggregate.kind == "distinct":  # `lower` has seen to its domain
        return
    column = _declared(aggregate.column, schema)
    if aggregate.kind in ("count", "distinct", *PAIRS):  # `lower` has seen to both of a pair
        return
    kinds = (
        ("number",) if aggregate.kind in ("sum", "avg", "var", "var_samp") else ("number", "date", "ordered")
    )
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


def _check_leaf(leaf: Compare | In | IsNull, column: Column) -> int:
    """Raise unless a test can be made; its number of constants."""
    if isinstance(leaf, IsNull):
        return 0
    values = leaf.values if isinstance(leaf, In) else (leaf.value,)
    if not isinstance(values, tuple) or not values:
        raise QueryError(f"IN needs at least one value for column {column.name!r}.")
    if isinstance(leaf, Compare) and leaf.operator not in OPERATORS:
        raise QueryError(f"A comparison must be one of {', '.join(OPERATORS)}. Got {leaf.operator!r}.")
    if len(values) > MOST_CONSTANTS:
        return len(values)
    known = set(_level_texts(column)) if has_codes(column) else set()
    for value in values:
        _check_constant(value, column, known)
    orders = isinstance(leaf, Compare) and leaf.operator not in ("=", "<>")
    if orders and column.kind in ("category", "boolean"):
        raise QueryError(
            f"Column {column.name!r} has no order: compare it by =, <> or IN. Got {leaf.operator}."  # type: ignore[union-attr]
        )
    if orders and column.kind == "ordered" and column.levels is None:
        _no_levels(column.name)
    return len(values)


def _check_constant(value: Any, column: Column, known: set[str]) -> None:
    if value is None or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        raise QueryError(f"Column {column.name!r} is compared with NULL; write IS NULL.")
    if not isinstance(value, _CONSTANTS):
        raise QueryError(f"Column {column.name!r} is compared with a constant. Got {type(value).__name__}.")
    if isinstance(value, str) and (len(value) > LONGEST_TEXT or not is_text(value)):
        raise QueryError(
            f"Column {column.name!r} is compared with a text of at most {LONGEST_TEXT} characters in UTF-8."
        )
    if column.kind in ("number", "date"):
        number(column, value)
    elif isinstance(value, int) and abs(value) > 10**300:
        raise QueryError(f"Column {column.name!r} is compared with a number beyond 1e300.")
    elif has_codes(column) and level_text(value) not in known:
        level_code(column, value)


def _declared(name: Any, schema: Schema) -> Column:
    if not isinstance(name, str) or name not in schema.columns:
        raise QueryError(
            f"Column {name!r} is not declared in the schema. It has: {', '.join(schema.columns)}."
        )
    return schema.columns[name]


def _no_levels(name: str) -> Any:
    raise QueryError(f"Column {name!r} needs declared levels for this, and has none.")
