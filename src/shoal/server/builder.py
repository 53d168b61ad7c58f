"""A question put together from the fields of a form, for those who write no SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.errors import QueryError
from shoal.schema import Column, Schema
from shoal.server.words import constant_of, name_of

CONDITIONS = 4
MOST_ONE_OF = 200
FIGURES = {
    "count": "How many",
    "avg": "Average of",
    "sum": "Sum of",
    "median": "Median of",
    "min": "Smallest",
    "max": "Largest",
    "std": "Spread (standard deviation) of",
}
_SQL = {"avg": "AVG", "sum": "SUM", "median": "MEDIAN", "min": "MIN", "max": "MAX", "std": "STDDEV_POP"}
OPERATORS = {
    "=": "is",
    "<>": "is not",
    "in": "is one of",
    ">=": "is at least",
    "<=": "is at most",
    ">": "is above",
    "<": "is below",
    "null": "is missing",
    "known": "is known",
}
_SELECT = "SELECT"
_NUMBER = re.compile(r"[+-]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})")


@dataclass(frozen=True)
class ConditionLine:
    """One line of the form: a column, how it is compared, and with what."""

    column: str = ""
    operator: str = "="
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What the form says.

    Parameters
    ----------
    figure : str
        Of `FIGURES`.
    column : str
        Of what; empty for a count.
    groups : tuple of str
        A figure for each level of these columns.
    conditions : tuple of Condition
    """

    figure: str = "count"
    column: str = ""
    groups: tuple[str, ...] = ()
    conditions: tuple[ConditionLine, ...] = ()

    @classmethod
    def of_form(cls, fields: Sequence[tuple[str, str]]) -> Choice:
        """The choice that a form sent; a field may come several times."""
        named: dict[str, list[str]] = {}
        for name, value in fields:
            named.setdefault(name, []).append(value)

        def first(name: str, otherwise: str = "") -> str:
            return named.get(name, [otherwise])[0]

        lines = [
            ConditionLine(
                first(f"column-{at}"),
                first(f"operator-{at}", "="),
                tuple(each for each in named.get(f"value-{at}", []) if each),
            )
            for at in range(CONDITIONS)
        ]
        groups = tuple(each for each in dict.fromkeys(named.get("group", [])) if each)
        return cls(
            first("figure", "count"), first("of"), groups, tuple(each for each in lines if each.column)
        )

    def sql(self, schema: Schema) -> str:
        """The question as SQL; one sentence where the form makes no sense.

        Examples
        --------
        >>> from shoal.schema import Column, Schema
        >>> from shoal.server.builder import Choice, ConditionLine
        >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
        >>> Choice("avg", "age", conditions=(ConditionLine("age", ">=", ("40",)),)).sql(schema)
        'SELECT AVG(age) FROM survey WHERE age >= 40'
        """
        columns = askable(schema)
        figure = self._figure(columns)
        for each in self.groups:
            if each not in columns or not _grouped(columns[each]):
                raise QueryError(
                    f"A figure for each level needs a column with declared levels. Got {each[:60]!r}."
                )
        text = f"{_SELECT} {figure} FROM {name_of(schema.id)}"
        met = [_condition(each, columns) for each in self.conditions]
        text += f" WHERE {' AND '.join(met)}" if met else ""
        return text + (f" GROUP BY {', '.join(name_of(each) for each in self.groups)}" if self.groups else "")

    def _figure(self, columns: Mapping[str, Column]) -> str:
        if self.figure not in FIGURES:
            raise QueryError(f"'figure' must be one of {', '.join(FIGURES)}. Got {self.figure[:40]!r}.")
        if self.figure == "count":
            return "COUNT(*)"
        column = columns.get(self.column)
        if column is None or column.kind != "number" or column.bounds is None:
            raise QueryError(
                f"'{FIGURES[self.figure].lower()}' needs a number with declared bounds. Got {self.column[:60]!r}."
            )
        return f"{_SQL[self.figure]}({name_of(column.name)})"


def askable(schema: Schema) -> dict[str, Column]:
    """The columns by name."""
    return {each.name: each for each in schema.columns.values()}


def numbers(schema: Schema) -> list[str]:
    """Columns of which an average can be asked."""
    return [
        each.name for each in schema.columns.values() if each.kind == "number" and each.bounds is not None
    ]


def grouped(schema: Schema) -> list[str]:
    """Columns by whose levels a figure can be asked."""
    return [each.name for each in schema.columns.values() if _grouped(each)]


def _grouped(column: Column) -> bool:
    return bool(column.levels) or column.kind == "boolean"


def _condition(condition: ConditionLine, columns: Mapping[str, Column]) -> str:
    column, operator = columns.get(condition.column), condition.operator
    if column is None or operator not in OPERATORS:
        raise QueryError(
            f"A condition needs a column and a comparison. Got {condition.column[:60]!r}, {operator[:20]!r}."
        )
    name = name_of(column.name)
    if operator in ("null", "known"):
        return f"{name} IS {'NOT ' if operator == 'known' else ''}NULL"
    texts = condition.values
    if operator == "in" and len(texts) == 1:
        texts = tuple(each.strip() for each in texts[0].split("|") if each.strip())
    if not texts or (operator != "in" and len(texts) != 1) or len(texts) > MOST_ONE_OF:
        raise QueryError(f"The condition on {column.name!r} needs a value to compare with.")
    values = [constant_of(_value(column, each)) for each in texts]
    return f"{name} IN ({', '.join(values)})" if operator == "in" else f"{name} {operator} {values[0]}"


def _value(column: Column, text: str) -> Any:
    """What a text of the form means for a column; a declared level by what it looks like, a number by its digits."""
    for level in column.levels or ():
        if text in (str(level), constant_of(level)):
            return level
    if column.levels:
        raise QueryError(f"{text[:60]!r} is no declared level of {column.name!r}.")
    if column.kind == "boolean":
        if text.lower() not in ("true", "false"):
            raise QueryError(f"{column.name!r} is true or false. Got {text[:40]!r}.")
        return text.lower() == "true"
    if column.kind == "number":
        plain = text.strip().replace("\N{MINUS SIGN}", "-")
        if _NUMBER.fullmatch(plain) is None or not math.isfinite(float(plain)):
            raise QueryError(f"{column.name!r} is a number. Got {text[:40]!r}.")
        return int(plain) if re.fullmatch(r"[+-]?\d+", plain) else float(plain)
    return text
