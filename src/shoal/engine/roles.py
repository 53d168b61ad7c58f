"""Settle what every column of a table is: given by a schema, asked for by name, or guessed and said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.frame import Frame
from shoal.engine.guess import guess_schema, looks_like_identifier
from shoal.engine.missing import refuse_missing, rows_to_keep
from shoal.errors import InputError, ParameterError
from shoal.schema import Column, Schema


@dataclass(frozen=True)
class Prepared:
    """The table with its roles settled."""

    given: Frame
    table: pl.DataFrame
    schema: Schema
    quasi: list[TypedColumn]
    sensitive: list[str]
    strata: list[str]
    household: str | None
    weights: np.ndarray
    weight_name: str | None
    identifiers: list[str]
    left: list[str]
    notes: tuple[str, ...]


def listed(value: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Iterable):
        raise ParameterError(f"Names of columns were expected. Got {value!r}.")
    return list(value)


def prepare(
    given: Frame,
    schema: Schema | str | Path | None,
    columns: Sequence[str] | None,
    strata: list[str],
    weights: str | None,
    households: str | None,
    missing: str | None,
    labelled: Collection[str] = (),
) -> Prepared:
    """Settle every column's role, read the quasi-identifiers, drop rows where that is the policy."""
    table = given.to_polars()
    settled, notes = settled_schema(table, schema, columns, strata, weights, households, labelled)
    names = settled.names("quasi")
    if not names:
        raise InputError(
            "At least one column must be aggregated: name it, or give it the role 'quasi' in a schema. "
            "None of the table holds numbers."
        )
    facts = [
        replace(settled.columns[name], on_missing=missing or settled.columns[name].on_missing)
        for name in names
    ]
    quasi = [read_column(table[fact.name], fact) for fact in facts]
    for column in quasi:
        if column.missing.all():
            raise InputError(
                f"Column {column.name!r} must hold values to be aggregated. All its cells are missing."
            )
    refuse_missing(quasi)
    keep = rows_to_keep(quasi)
    if keep.size < len(given):
        notes.append(f"Rows with missing cells that were dropped: {len(given) - keep.size:,}.")
        given, table, quasi = given.taken(keep), table[keep], [column.taken(keep) for column in quasi]
    weight_name = next(iter(settled.names("weight")), None)
    return Prepared(
        given=given,
        table=table,
        schema=settled,
        quasi=quasi,
        sensitive=settled.names("sensitive"),
        strata=settled.names("stratum"),
        household=next(iter(settled.names("household")), None),
        weights=_weights(table, weight_name),
        weight_name=weight_name,
        identifiers=settled.names("identifier"),
        left=settled.names("leave"),
        notes=tuple(notes),
    )


def settled_schema(
    table: pl.DataFrame,
    schema: Schema | str | Path | None,
    columns: Sequence[str] | None,
    strata: list[str],
    weights: str | None,
    households: str | None,
    labelled: Collection[str] = (),
) -> tuple[Schema, list[str]]:
    """The schema with a role for every column of the table: given, asked for by name, or guessed."""
    schema = None if schema is None else Schema.of(schema)
    facts = dict(schema.columns) if schema is not None else {}
    asked = {
        "quasi": columns or [],
        "stratum": strata,
        "weight": [] if weights is None else [weights],
        "household": [] if households is None else [households],
    }
    _refuse_two_roles(asked)
    for name in [*facts, *(name for names in asked.values() for name in names)]:
        if name not in table.columns:
            raise InputError(f"No column {name!r} in the table. It has: {', '.join(table.columns)}.")
    guessed = guess_schema(table, labelled)
    settled: dict[str, Column] = {}
    for name in table.columns:
        column = facts.get(name, guessed.columns[name])
        role = next((role for role, names in asked.items() if name in names), None)
        if role is not None:
            column = replace(column, role=role, kind=_kind_asked(column, role), reason="")
        elif column.effective_role == "quasi" and columns:
            column = replace(column, role="leave")
        elif name not in facts and looks_like_identifier(column):
            raise InputError(
                f"Column {name!r} looks like an identifier ({column.reason}): give it a role in a schema "
                "file ('identifier' drops it, 'leave' publishes it as it is)."
            )
        settled[name] = replace(column, role=column.effective_role)
    notes = [
        f"Column {name!r} was taken as {column.role} ({column.kind}): {column.reason}."
        for name, column in settled.items()
        if name not in facts and column.reason and column.role == "quasi" and column.reason != "numbers"
    ]
    base = schema if schema is not None else Schema({})
    return replace(base, columns=settled), notes


def _refuse_two_roles(asked: Mapping[str, Sequence[str]]) -> None:
    """Raise a sentence if what is asked for is no name, or one column is asked for in two roles."""
    first: dict[str, str] = {}
    for role, names in asked.items():
        for name in names:
            if not isinstance(name, str):
                raise InputError(f"The name of a column was expected as {role}. Got {type(name).__name__}.")
            if first.setdefault(name, role) != role:
                raise InputError(
                    f"A column has one role. {name!r} was asked for as {first[name]} and as {role}."
                )


def _kind_asked(column: Column, role: str) -> str:
    """Weights are numbers and strata categories; any other column keeps its kind."""
    if role == "weight":
        return "number"
    return "category" if role == "stratum" and column.kind == "number" else column.kind


def _weights(table: pl.DataFrame, name: str | None) -> np.ndarray:
    if name is None:
        return np.ones(table.height)
    series = table[name]
    values = (
        series.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
        if series.dtype != pl.Boolean
        else None
    )
    if values is None or not (np.isfinite(values) & (values >= 0)).all() or not (values > 0).any():
        raise InputError(
            f"The weights {name!r} must be finite numbers of at least 0, some above 0, none missing."
        )
    return values


def row_codes(table: pl.DataFrame, names: str | list[str] | None) -> np.ndarray | None:
    """Rows numbered by their values in some columns (missing is a value), or None without columns."""
    if not names:
        return None
    key = pl.struct([names] if isinstance(names, str) else names)
    return table.select(key.rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
