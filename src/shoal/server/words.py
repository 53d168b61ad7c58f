"""Names and constants as SQL reads them, and what a schema's public facts allow to ask: examples and completion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.dp.sql.expressions import Literal, name_text
from shoal.dp.sql.names import ALIASES, FIGURES, SCALARS
from shoal.dp.sql.words import RESERVED, TYPES, UNITS
from shoal.schema import Column, Schema

_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = frozenset(
    {*RESERVED, *UNITS, *TYPES, *FIGURES, *SCALARS, *ALIASES}
    | {"NULL", "TRUE", "FALSE", "INTERVAL", "ESCAPE", "ALL", "ANY", "SOME", "EXISTS", "CAST", "EXTRACT", "MODE"}
)  # fmt: skip
_SELECT = "SELECT"  # of examples, which are shown and never run as SQL
KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AND", "OR", "NOT", "IN (", "BETWEEN", "IS NULL",
    "IS NOT NULL", "AS", "CASE WHEN", "THEN", "ELSE", "END",
)  # fmt: skip
FUNCTIONS = (
    "COUNT(*)", "COUNT(", "COUNT(DISTINCT ", "SUM(", "AVG(", "MEDIAN(", "QUANTILE(", "MIN(", "MAX(", "VAR_POP(", "STDDEV_POP(",
    "CORR(", "MODE(",
)  # fmt: skip


@dataclass(frozen=True)
class Word:
    """A completion: what is written, what it is, of which column a level is, and how that is written."""

    text: str
    kind: str
    column: str = ""
    owner: str = ""


def name_of(name: str) -> str:
    """A name as a query must write it: in quotes, unless it is plain and means nothing else.

    Examples
    --------
    >>> from shoal.server.words import name_of
    >>> [name_of(each) for each in ("age", "order", "monthly rent", "straße")]
    ['age', '"order"', '"monthly rent"', '"straße"']
    """
    plain = _PLAIN.fullmatch(name) is not None and name.upper() not in _TAKEN
    return name if plain else name_text(name)


def constant_of(value: Any) -> str:
    """A level or bound as a query must write it.

    Examples
    --------
    >>> from shoal.server.words import constant_of
    >>> [constant_of(each) for each in ("O'Hara", 3, True)]
    ["'O''Hara'", '3', 'TRUE']
    """
    return str(Literal(value))


def words_of(schema: Schema, further: Mapping[str, Schema] | None = None) -> list[Word]:
    """All that can be completed: columns and keys, names of tables, every declared level, functions, keywords.

    Parameters
    ----------
    schema : Schema
    further : mapping of str to Schema, optional
        Other tables of the data set, by name.
    """
    further = further or {}
    columns = [column for each in (schema, *further.values()) for column in each.columns.values()]
    keys = [key for link in schema.links for key in link.key] if further else []
    names = dict.fromkeys([*(each.name for each in columns), *keys])
    found = [Word(name_of(each), "column") for each in names]
    found += [Word(name_of(each), "table") for each in (schema.id, *further) if further]
    for column in columns:
        owner = name_of(column.name)
        found += [Word(constant_of(each), "level", column.name, owner) for each in column.levels or ()]
    found += [Word(each, "function") for each in FUNCTIONS]
    return list(dict.fromkeys([*found, *(Word(each, "keyword") for each in KEYWORDS)]))


def joins(schema: Schema) -> list[str]:
    """A query for each link of a data set with several tables."""
    made = []
    for link in schema.links:
        met = " AND ".join(f"a.{name_of(key)} = b.{name_of(key)}" for key in link.key)
        made.append(
            f"{_SELECT} COUNT(*) FROM {name_of(link.from_table)} a JOIN {name_of(link.to_table)} b ON {met}"
        )
    return made


def examples(schema: Schema) -> list[str]:
    """Queries that the schema's public facts allow."""
    numbers = [each for each in schema.columns.values() if each.kind == "number" and each.bounds is not None]
    lists = [each for each in schema.columns.values() if each.levels]
    table, made = name_of(schema.id), []
    if numbers:
        first = numbers[0]
        made.append(f"{_SELECT} COUNT(*) FROM {table} WHERE {name_of(first.name)} >= {_middle(first)}")
        averaged = numbers[-1] if len(numbers) < 2 else numbers[1]
        made.append(f"{_SELECT} AVG({name_of(averaged.name)}) FROM {table}")
    if lists:
        made.append(f"{_SELECT} COUNT(*) FROM {table} GROUP BY {name_of(lists[0].name)}")
    if numbers and lists and lists[-1].levels:
        met = f"{name_of(lists[-1].name)} = {constant_of(lists[-1].levels[0])}"
        made.append(f"{_SELECT} AVG({name_of(numbers[0].name)}) FROM {table} WHERE {met}")
    return made or [f"{_SELECT} COUNT(*) FROM {table}"]


def _middle(column: Column) -> str:
    low, high = column.bounds or (0, 1)
    middle = (low + high) / 2
    return constant_of(round(middle) if abs(high - low) >= 4 else middle)
