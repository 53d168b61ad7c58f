"""The codebook of a published table: computed from it and from what the schema declares, never from the original."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from shoal.io import Variable
from shoal.schema import Column, Schema

MOST_LEVELS = 60
DRAWN = "Made under the guarantee: no cell is a record's own."


def variables_of(
    published: pl.DataFrame, schema: Schema, *, done: Mapping[str, str] | None = None
) -> list[Variable]:
    """The role and the kind of every column of a published table.

    Parameters
    ----------
    published : polars.DataFrame
    schema : Schema
    done : mapping of str to str, optional
        What was done to a column, where its role does not say it.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.evidence import variables_of
    >>> from shoal.schema import Schema
    >>> [each.discrete for each in variables_of(pl.DataFrame({"age": [20.5, 41.0], "town": ["A", "B"]}), Schema({}))]
    [False, True]
    """
    told = done or {}
    return [
        _variable(published[name], schema.columns.get(name), told.get(name)) for name in published.columns
    ]


def _variable(cells: pl.Series, facts: Column | None, done: str | None) -> Variable:
    numeric = cells.dtype.is_numeric()
    discrete = not numeric or (facts is not None and facts.kind in ("category", "ordered", "boolean"))
    present = cells.drop_nulls()
    counts = (
        present.alias("cells").value_counts(sort=False).sort("cells")
        if discrete and present.n_unique() <= MOST_LEVELS
        else None
    )
    categories = (
        () if counts is None else tuple((str(value), "", int(count)) for value, count in counts.iter_rows())
    )
    low = high = None
    if numeric and present.len() and not discrete:
        low, high = float(present.min()), float(present.max())  # type: ignore[arg-type]
    return Variable(
        cells.name, "", numeric, discrete, facts is not None and facts.role == "weight", low, high, categories, (),
        present.len(), cells.len() - present.len(), done or ("" if facts is None else treatment(facts)),
    )  # fmt: skip


def treatment(facts: Column) -> str:
    """What was done to a column of this role, for a reader of the codebook."""
    return {
        "quasi": "Protected: the value of a group of records, or coarsened or left out; not always the record's own.",
        "stratum": "Groups never cross its values; published as it was.",
        "sensitive": "Published as it was; kept apart from who it belongs to.",
        "weight": "Survey weight: the mean of a group's weights, so that totals hold.",
        "leave": "Published as it was.",
    }.get(facts.role or "quasi", "")
