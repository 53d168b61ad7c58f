"""What every column of a large table is, settled before the first pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from shoal.engine.roles import settled_schema
from shoal.errors import InputError, ParameterError
from shoal.schema import Column, Schema

# Rows from which roles are guessed where no schema gives them.
GUESSED_ROWS = 50_000


@dataclass(frozen=True)
class Roles:
    """What every column is, settled before the first pass."""

    schema: Schema
    quasi: tuple[Column, ...]
    strata: tuple[str, ...]
    weight: str | None
    identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def needed(self) -> list[str]:
        """Columns that decide about groups and their values."""
        return [
            *(fact.name for fact in self.quasi),
            *self.strata,
            *([self.weight] if self.weight else []),
        ]


def settle_roles(
    head: pl.DataFrame,
    schema: Schema | str | Path | None,
    columns: Sequence[str] | None,
    strata: Sequence[str],
    weights: str | None,
    missing: str | None,
) -> tuple[Roles, list[str]]:
    """What every column is, given or guessed from the first rows, and what to say about it."""
    settled, notes = settled_schema(head, schema, columns, list(strata), weights, None)
    names = settled.names("quasi")
    if not names:
        raise InputError(
            "At least one column must be aggregated. None is a number and none has the role 'quasi'."
        )
    if settled.names("household"):
        raise ParameterError(
            "Households are kept whole only where the table is held in memory: protect it without --memory."
        )
    quasi = tuple(
        replace(settled.columns[name], on_missing=missing or settled.columns[name].on_missing)
        for name in names
    )
    roles = Roles(
        settled,
        quasi,
        tuple(settled.names("stratum")),
        next(iter(settled.names("weight")), None),
        tuple(settled.names("identifier")),
        tuple(settled.names("sensitive")),
        tuple(settled.names("leave")),
    )
    left = [*roles.sensitive, *roles.left, *([roles.weight] if roles.weight else [])]
    if left:
        notes.append(f"Not protected, published as they are: {', '.join(left)}.")
    return roles, notes
