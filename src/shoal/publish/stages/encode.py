"""Rows made ready: missing cells are filled, and columns become coordinates in which similar records are close."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn
from shoal.engine.encode import Encoder
from shoal.engine.missing import impute
from shoal.engine.roles import row_codes
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.routing import joined_strata
from shoal.publish.stages.survey import weights_of


@dataclass(frozen=True)
class Encoded:
    """The rows of a part, on which groups are formed.

    Attributes
    ----------
    table : polars.DataFrame
        Decoded, small strata joined to others.
    filled : list of TypedColumn
        The quasi-identifiers, missing cells imputed where that is the policy.
    Z : array of float64, (n_records, n_coordinates)
    weights : array of float64
    strata : array of int64
        Stratum 0..s-1 of each row.
    households : array of int64 or None
    widths : list of int
        Coordinates of each quasi-identifier.
    """

    table: pl.DataFrame
    filled: list[TypedColumn]
    Z: np.ndarray
    weights: np.ndarray
    strata: np.ndarray
    households: np.ndarray | None
    widths: list[int]


def encode_part(table: pl.DataFrame, plan: PublishPlan) -> Encoded:
    """Fill the gaps and encode the rows of a part by the whole table's means, deviations and levels."""
    roles = plan.roles
    table = table.with_columns(**joined_strata(table, plan))
    filled = impute(_never_empty(plan.typed(table), plan.encoder))
    codes = row_codes(table, list(roles.strata))
    return Encoded(
        table=table,
        filled=filled,
        Z=plan.encoder.transform(filled),
        weights=weights_of(table, roles.weight),
        strata=np.zeros(table.height, np.int64) if codes is None else codes,
        households=row_codes(table, roles.household),
        widths=plan.encoder.widths(),
    )


def _never_empty(columns: list[TypedColumn], encoder: Encoder) -> list[TypedColumn]:
    """Where a column to be imputed is missing throughout the part, the middle of the whole table."""
    made = []
    for column, standardiser, share in zip(columns, encoder.standardisers, encoder.shares, strict=True):
        if column.facts.on_missing == "impute" and column.missing.all():
            if standardiser is not None:
                middle = float(standardiser.mean[0] * standardiser.unit[0])
                middle = middle if column.levels is None else round(middle)
            else:
                middle = 0.0 if share is None else float(np.argmax(share))
            made.append(replace(column, values=np.full(column.values.size, middle), missing=~column.missing))
        else:
            made.append(column)
    return made
