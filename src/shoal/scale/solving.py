"""One part: its records grouped by the method, borders of blocks mended, and each group one value."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from shoal.engine.aggregate import aggregate_column, medoids_of
from shoal.engine.columns import TypedColumn
from shoal.engine.encode import Encoder
from shoal.engine.kernels.axes import blocks_of
from shoal.engine.missing import impute
from shoal.engine.roles import row_codes
from shoal.measures._risk import linked_share
from shoal.microaggregation._mend import mend
from shoal.scale.plan import Plan
from shoal.scale.routing import joined_strata
from shoal.scale.survey import ROW

# Within a part, methods of more than linear time work on blocks of this many records.
BLOCK_ROWS = 2_000
# Rounds of exchanges across the borders of these blocks.
MENDING = 6
# Records of a part for which linkage is measured.
MEASURED = 500


@dataclass(frozen=True)
class Solved:
    """The groups of a part.

    Attributes
    ----------
    labels : array of int64
        Group 0..c-1 of each row.
    values : array of float64, (c, n_columns)
        The published value of each group and quasi-identifier, as number or code.
    gone : array of bool, (c, n_columns)
        Where it is missing.
    loss, total : float
        Squared distances to the published values and to the middle, summed.
    linked : float
        Share of the part's records whose nearest record in the part is their own; NaN if not measured.
    """

    labels: np.ndarray
    values: np.ndarray
    gone: np.ndarray
    loss: float
    total: float
    linked: float


def solve_part(table: pl.DataFrame, plan: Plan, *, measure: bool = True) -> Solved:
    """Group and aggregate the records of a part.

    The records are taken in the order of their row numbers, so that the groups do not depend on the order
    in which they arrive.

    Parameters
    ----------
    table : polars.DataFrame
        The part's rows, with the columns the plan needs and their row number `__row__`.
    plan : Plan
    measure : bool, default True
        Whether linkage is measured.
    """
    order = np.argsort(table[ROW].to_numpy(), kind="stable")
    if not table[ROW].is_sorted():
        table = table[order]
    filled = impute(_never_empty(plan.typed(table), plan.encoder))
    Z = plan.encoder.transform(filled)
    labels = _groups(Z, table.with_columns(**joined_strata(table, plan)), plan)
    weights = np.ones(table.height)
    if plan.roles.weight is not None:
        weights = table[plan.roles.weight].cast(pl.Float64).to_numpy().copy()
        weights[np.bincount(labels, weights)[labels] == 0] = 1.0
    asked = any(each.facts.aggregate == "medoid" for each in filled)
    medoids = medoids_of(Z, labels) if asked else np.empty(0, np.int64)
    pairs = [aggregate_column(column, labels, weights, medoids) for column in filled]
    values, gone = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    published = [replace(each, values=values[:, j], missing=gone[:, j]) for j, each in enumerate(filled)]
    Y = np.take(plan.encoder.transform(published), labels, axis=0, mode="clip")
    moved = Z - Y
    back = np.empty_like(labels)
    back[order] = labels
    return Solved(
        back,
        values,
        gone,
        float(np.vdot(moved, moved)),
        float(np.vdot(Z, Z)),
        linked_share(Z, Y, max_records=MEASURED) if measure else np.nan,
    )


def replaced(batch: pl.DataFrame, plan: Plan, values: np.ndarray, gone: np.ndarray) -> pl.DataFrame:
    """A batch as published: its rows' group values in place of the quasi-identifiers, identifiers gone."""
    new = [
        each.native(values[:, j], gone[:, j], round_integers=plan.round_integers)
        for j, each in enumerate(plan.templates)
    ]
    return batch.with_columns(*new, **joined_strata(batch, plan)).drop(plan.roles.identifiers, strict=False)


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


def _groups(Z: np.ndarray, table: pl.DataFrame, plan: Plan) -> np.ndarray:
    """Labels of a part, stratum by stratum."""
    strata = row_codes(table, list(plan.roles.strata))
    if strata is None or strata.max() == 0:
        return _in_blocks(Z, plan)
    labels, following = np.empty(Z.shape[0], np.int64), 0
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        labels[rows] = following + _in_blocks(Z[rows], plan)
        following = int(labels[rows].max()) + 1
    return labels


def _in_blocks(Z: np.ndarray, plan: Plan) -> np.ndarray:
    """The method within blocks, then exchanges across the blocks' borders."""
    most = max(BLOCK_ROWS, 10 * plan.method.k)
    if plan.method.takes("max_proposals"):  # a search cuts large tables into blocks by itself
        most = Z.shape[0]
    blocks = [np.sort(rows) for rows in blocks_of(Z, most)]
    labels, following = np.empty(Z.shape[0], np.int64), 0
    for rows in blocks:
        method = plan.method.for_part(rows.size, plan.n_rows, Z.shape[1])
        if plan.share_of_time is not None:
            method.set_params(time_limit=plan.share_of_time * rows.size, max_proposals=None)
        # numpy copies whole rows only where it need not check each number.
        found = method.partition(np.take(Z, rows, axis=0, mode="clip"))
        labels[rows] = following + found
        following += int(found.max()) + 1
    return mend(Z, labels, MENDING) if len(blocks) > 1 else labels
