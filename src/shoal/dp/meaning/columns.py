"""Columns as expressions see them, and expressions as columns: what a schema declares, and what would be declared."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from typing import Any

import polars as pl

from shoal.dp.meaning import days, texts
from shoal.dp.meaning.kinds import Day, Kind, Levels, Number, Text, Truth, Typed, stepped
from shoal.dp.meaning.rowwise import Scope
from shoal.dp.sql.expressions import col
from shoal.errors import QueryError
from shoal.schema import Column, Schema

_MOST_STEPS = 20_000


def scope_of(schema: Schema) -> Scope:
    """Columns of a loaded table as expressions see them."""

    def scope(node: col) -> Typed:
        column = schema.columns.get(node.name)
        return typed_column(column or unknown_column(node.name, schema), str(node))

    return scope


def typed_column(column: Column, text: str) -> Typed:
    """A declared column: its cells as loaded, and what is known of them."""
    from shoal.dp.meaning.check import has_codes, level_text, levels

    cells = pl.col(column.name)
    if column.kind == "number":
        return Typed(_number_kind(column), cells, text)
    if column.kind == "date":
        return Typed(Day() if column.bounds is None else Day(*_ends(column)), cells, text)
    if column.kind == "boolean":
        return Typed(Truth(), cells.cast(pl.Boolean), text)
    if has_codes(column):
        known = tuple(level_text(each) for each in levels(column) or ())
        return Typed(Levels(known, column.kind == "ordered"), cells, text)
    return Typed(Text(), cells, text)


def _number_kind(column: Column) -> Number:
    if column.bounds is None:
        return Number()
    low, high = _ends(column)
    if column.step is None:
        return Number(low, high)
    return stepped(low, high, Fraction(str(low)), Fraction(str(column.step)))


def _ends(column: Column) -> tuple[float, float]:
    from shoal.dp.meaning.bounds import finite_bounds

    return finite_bounds(column)


def unknown_column(name: str, schema: Schema) -> Any:
    """Refuse a column that nobody declared."""
    hint = ""
    if not name.isidentifier():
        hint = " A text is written in single quotes."
    raise QueryError(
        f"Column {name!r} is not declared in the schema. It has: {', '.join(schema.columns)}.{hint}"
    )


class UndeclaredGroupError(QueryError):
    """Groups by a column whose values nobody declared.

    Parameters
    ----------
    column : str
    schema : Schema
        Whose currency says what may be written instead.
    """

    def __init__(self, column: str, schema: Schema) -> None:
        self.column = column
        kind = schema.columns[column].kind
        instead = "declare its 'bounds' and 'step'" if kind in ("number", "date") else "declare its 'levels'"
        more = "reserve part of its delta in the schema: keys = {delta = ..., questions = ...}"
        if schema.currency != "zcdp":
            more = 'count the data set in zCDP (currency = "zcdp", delta) and reserve part of its delta: keys = {delta = ..., questions = ...}'
        super().__init__(
            f"GROUP BY {column} needs groups that the schema declares, as the list of values reveals single rows: "
            f"{instead}, or write CASE. To show common values that nobody declared, {more}."
        )


def coded_levels(found: Typed, what: str) -> tuple[tuple[Any, ...], pl.Expr]:
    """The labels of an expression of finitely many values, and each row's place among them."""
    kind: Kind = found.kind
    if isinstance(kind, Truth):
        return (False, True), found.value.cast(pl.Int32)
    if isinstance(kind, Levels):
        return kind.texts, found.value
    if isinstance(kind, Number):
        values = kind.domain()
        if values:
            return tuple(
                int(each) if each.denominator == 1 else float(each) for each in values
            ), texts.place_of(found.value, kind)
        raise QueryError(
            f"{what} {found.text} needs finitely many values: declare bounds and a step, or write FLOOR(x / width) * width, "
            "WIDTH_BUCKET or CASE."
        )
    known = days.levels_of_days(kind) if isinstance(kind, Day) else None
    if known is not None and len(known) <= 100_000:
        labels = tuple(datetime.date.fromordinal(each).isoformat() for each in known)
        places = pl.Series(list(range(len(known))), dtype=pl.Int32)
        days_known = pl.Series([float(each) for each in known], dtype=pl.Float64)
        return labels, found.value.replace_strict(days_known, places, default=None, return_dtype=pl.Int32)
    raise QueryError(
        f"{what} {found.text} needs declared levels: declare 'levels' of the column, or write CASE."
    )


def declared_as(kind: Kind, name: str) -> Column:
    """What a computed column would be declared as."""
    if isinstance(kind, Number):
        if not kind.bounded:
            return Column(name)
        low, high = kind.low, kind.high
        if not low < high:  # a constant: any range around it will do
            low, high = low - 1.0, high + 1.0
        step = kind.step
        fine = (
            step is None
            or not step
            or (high - low) / float(step) > _MOST_STEPS
            or kind.base is None
            or (Fraction(low) - kind.base) % step
        )
        return Column(name, bounds=(low, high), step=None if fine or step is None else float(step))
    if isinstance(kind, Day):
        if not (math.isfinite(kind.low) and math.isfinite(kind.high)):
            return Column(name, kind="date")
        low_day, high_day = (
            datetime.date.fromordinal(int(each)).isoformat() for each in (kind.low, kind.high)
        )
        return Column(name, kind="date", bounds=(low_day, high_day))
    if isinstance(kind, Levels):
        return Column(name, kind="ordered" if kind.ordered else "category", levels=kind.texts)
    return Column(name, kind="boolean" if isinstance(kind, Truth) else "category")
