"""Drawn rows that keep the schema's rules: repaired where they can be, else exchanged for rows that do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from shoal.rules import Edit, edits_of, repair
from shoal.schema import Rule, Schema


def edits_within(schema: Schema, names: Sequence[str]) -> tuple[Edit, ...]:
    """The rules that speak of released columns alone."""
    found: list[Rule] = []
    for rule in schema.rules:
        edit = edits_of([rule], list(schema.columns))[0]
        if set(edit.columns) <= set(names):
            found.append(rule)
    return tuple(replace(edit, exact=True) for edit in edits_of(found, names))


def keep_rules(
    rows: pl.DataFrame,
    edits: Sequence[Edit],
    rng: np.random.Generator | None,
    treated: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Rows of the same number and columns that keep all rules, if any of them can.

    Parameters
    ----------
    rows : polars.DataFrame
        Drawn from a release, so that nothing here touches private rows.
    edits : sequence of Edit
    rng : numpy.random.Generator or None
        Of the rows that take the place of those that cannot be repaired; None where no row may be exchanged.
    treated : sequence of str, optional
        Columns that may be moved; all if left open.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from shoal.release.marginals._rules import keep_rules
    >>> from shoal.rules import edits_of
    >>> from shoal.schema import Rule
    >>> edits = edits_of([Rule(order="net <= gross")], ["net", "gross"])
    >>> rows = keep_rules(pl.DataFrame({"net": [5, 1], "gross": [4, 2]}), edits, np.random.default_rng(0))
    >>> (rows["net"] <= rows["gross"]).all()
    True
    """
    if not edits or not rows.height:
        return rows
    whole = [name for name, kind in rows.schema.items() if kind.is_integer()]
    kinds = edits_of([Rule(integer=name) for name in whole], whole)
    repaired = _in_kind(repair(rows, rows, [*edits, *kinds], treated or rows.columns).table, rows)
    broken = broken_rows(repaired, edits)
    if rng is not None and broken.any() and not broken.all():
        place = np.arange(rows.height)
        place[broken] = rng.choice(np.flatnonzero(~broken), int(broken.sum()))
        repaired = repaired[place]
    return repaired


def broken_rows(rows: pl.DataFrame, edits: Sequence[Edit]) -> np.ndarray:
    """Which rows break a rule."""
    found = np.zeros(rows.height, dtype=bool)
    for edit in edits:
        found |= edit.broken(rows, rows)
    return found


def _in_kind(repaired: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Whole numbers stay whole numbers."""
    whole = [
        name for name, kind in rows.schema.items() if kind.is_integer() and repaired[name].dtype.is_float()
    ]
    return repaired.with_columns(pl.col(name).round().cast(rows.schema[name]) for name in whole)
