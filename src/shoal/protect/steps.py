"""Columns that are not aggregated but changed: ends coded, levels recoded, identifiers dropped or hashed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from shoal.engine.columns import read_column
from shoal.engine.frame import Frame
from shoal.engine.pseudonyms import pseudonyms
from shoal.engine.roles import Prepared
from shoal.errors import SchemaError
from shoal.masking import code_ends, recode
from shoal.schema import Schema


def apply_steps(given: Frame, schema: Schema | str | Path | None) -> tuple[Frame, list[str]]:
    """The table with its ends coded and its levels recoded, where the schema asks for it."""
    schema = None if schema is None else Schema.of(schema)
    new: dict[str, pl.Series] = {}
    notes = []
    for name, column in (schema.columns if schema is not None else {}).items():
        if name not in given.columns:
            continue
        if column.bottom is not None or column.top is not None:
            values = read_column(given.narwhals[name].to_polars(), column)
            series = values.native(values.values, values.missing, round_integers=True)
            new[name] = code_ends(series, column.bottom, column.top)
            ends = (("bottom", column.bottom), ("top", column.top))
            notes += [f"Column {name!r} was {word} coded at {end}." for word, end in ends if end is not None]
        if column.recode:
            if column.hierarchy is None:
                raise SchemaError(f"'recode' of column {name!r} needs a hierarchy. The schema has none.")
            new[name] = recode(given.narwhals[name].to_polars(), column.hierarchy, column.recode)
            notes.append(f"Column {name!r} was recoded {column.recode} up its hierarchy.")
    return (Frame(given.replaced(new)) if new else given), notes


def publish(job: Prepared, new: Mapping[str, pl.Series], identifiers: str, key: bytes | None) -> Any:
    """The frame with its new columns, without its identifiers or with keyed hashes in their place."""
    if identifiers == "drop":
        return job.given.without(job.identifiers).replaced(new)
    secret = key if key is not None else secrets.token_bytes(32)
    return job.given.replaced(
        {**new, **{name: pseudonyms(job.table[name], secret) for name in job.identifiers}}
    )
