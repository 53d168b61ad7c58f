"""Settle what every column of a table is: given by a schema, asked for by name, or guessed and said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from shoal.engine.guess import guess_schema
from shoal.errors import InputError, ParameterError
from shoal.schema import Column, Schema


def listed(value: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Iterable):
        raise ParameterError(f"Names of columns were expected. Got {value!r}.")
    return list(value)


def settled_schema(
    table: pl.DataFrame,
    schema: Schema | None,
    asked: Mapping[str, Sequence[str]],
    labelled: Collection[str] = (),
) -> tuple[Schema, list[str]]:
    """The schema with a role for every column of the table: given, asked for by name, or guessed.

    Parameters
    ----------
    table : polars.DataFrame
        Rows from which roles and kinds are guessed, declared codes already missing cells.
    schema : Schema or None
    asked : mapping of role to names of columns
        Goes before the schema. Where quasi-identifiers are named, the others are left as they are.
    labelled : collection of str, optional
        Columns whose values have labels in their file: categories.
    """
    facts = dict(schema.columns) if schema is not None else {}
    columns = asked.get("quasi", ())
    for name in [*facts, *(name for names in asked.values() for name in names)]:
        if name not in table.columns:
            raise InputError(f"No column {name!r} in the table. It has: {', '.join(table.columns)}.")
    open_names = [name for name in table.columns if name not in facts]
    guessed = guess_schema(table.select(open_names) if open_names and facts else table, labelled).columns
    settled: dict[str, Column] = {}
    for name in table.columns:
        column = facts[name] if name in facts else guessed[name]
        role = next((role for role, names in asked.items() if name in names), None)
        if role is not None:
            column = replace(column, role=role, kind=_kind_asked(column, role), reason="")
        elif column.effective_role == "quasi" and columns:
            column = replace(column, role="leave")
        settled[name] = replace(column, role=column.effective_role)
    notes = [
        f"Column {name!r} was taken as {column.role} ({column.kind}): {column.reason}."
        for name, column in settled.items()
        if name not in facts and column.reason and column.role == "quasi" and column.reason != "numbers"
    ]
    base = schema if schema is not None else Schema({})
    return replace(base, columns=settled), notes


def _kind_asked(column: Column, role: str) -> str:
    """Weights are numbers and strata categories; any other column keeps its kind."""
    if role == "weight":
        return "number"
    return "category" if role == "stratum" and column.kind == "number" else column.kind


def row_codes(table: pl.DataFrame, names: str | list[str] | None) -> np.ndarray | None:
    """Rows numbered by their values in some columns (missing is a value), or None without columns."""
    if not names:
        return None
    key = pl.struct([names] if isinstance(names, str) else names)
    return table.select(key.rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
