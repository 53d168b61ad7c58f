"""Rows as they would be published: with group values instead of the original ones, and without identifiers."""

from __future__ import annotations

import numpy as np
import polars as pl

from shoal import rules
from shoal.engine.pseudonyms import pseudonyms
from shoal.publish.stages.decode import RAW
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.roles import Roles
from shoal.publish.stages.routing import joined_strata
from shoal.publish.stages.survey import weights_of


def hidden(roles: Roles) -> list[str]:
    """Columns that are never published as they are: identifiers and household numbers."""
    return [*roles.identifiers, *([roles.household] if roles.household else [])]


def published_names(plan: PublishPlan) -> list[str]:
    """The columns of the published table, in the order of the input."""
    gone = hidden(plan.roles) if plan.request.identifiers == "drop" else []
    return [name for name in plan.roles.names if name not in gone]


def new_columns(
    batch: pl.DataFrame, plan: PublishPlan, values: np.ndarray, gone: np.ndarray, key: bytes | None
) -> dict[str, pl.Series]:
    """The changed columns of some decoded rows.

    Parameters
    ----------
    values, gone : arrays, (n_rows, n_columns)
        The value of each row's group, and where it is missing.
    key : bytes or None
        Key of the hashes, if identifiers are hashed.
    """
    roles = plan.roles
    new = {
        each.name: each.native(values[:, j], gone[:, j], round_integers=plan.round_integers)
        for j, each in enumerate(plan.templates)
    }
    if roles.weight is not None:
        new[roles.weight] = pl.Series(roles.weight, np.ascontiguousarray(values[:, len(plan.templates)]))
    new |= joined_strata(batch, plan)
    for name in roles.decoder.written(batch):
        if name not in new and name not in hidden(roles):
            new[name] = batch[name]
    if roles.schema.rules:
        new = ruled(batch, roles, new)
    if key is not None:
        new |= {name: pseudonyms(batch[name], key) for name in hidden(roles) if name in batch.columns}
    return new


def ruled(batch: pl.DataFrame, roles: Roles, new: dict[str, pl.Series]) -> dict[str, pl.Series]:
    """The new columns, repaired so that every rule holds; raises if one cannot hold.

    Zeros that must stay are kept earlier, when the value of a group is computed. None of them is changed here.
    """
    edits = rules.edits_of(roles.schema.rules, roles.names)
    after = batch.with_columns(new.values())
    treated = [name for name in roles.quasi_names if name in new]
    done = rules.repair(after, after, edits, treated)
    types = {name: new[name].dtype for name in treated}
    table = done.table.with_columns(pl.col(name).cast(dtype, strict=False) for name, dtype in types.items())
    done = rules.repair(table, after, edits, ())
    rules.refuse_unkept(done)
    return new | {name: table[name] for name in treated}


def released(
    batch: pl.DataFrame, plan: PublishPlan, values: np.ndarray, gone: np.ndarray, key: bytes | None
) -> pl.DataFrame:
    """Some decoded rows as published."""
    new = batch.with_columns(new_columns(batch, plan, values, gone, key).values())
    return new.select(name for name in published_names(plan) if name in new.columns)


def shuffled(published: pl.DataFrame) -> np.ndarray:
    """An order of rows that depends only on their values, so it reveals nothing about the order of the input."""
    return published.select(pl.struct(pl.all()).hash(seed=11).arg_sort()).to_series().to_numpy()


def original_cells(table: pl.DataFrame, roles: Roles) -> pl.DataFrame:
    """Decoded rows with the columns of the input, cells as they were before ends were coded and levels recoded."""
    kept = [
        pl.col(RAW + name).alias(name) if RAW + name in table.columns else pl.col(name)
        for name in roles.names
        if name in table.columns
    ]
    return table.select(kept)


def class_weights(table: pl.DataFrame, weight: str, labels: np.ndarray) -> pl.Series:
    """The mean of a class's weights: totals of the class hold, and the weight tells nobody apart."""
    means = np.bincount(labels, weights_of(table, weight)) / np.maximum(np.bincount(labels), 1)
    return pl.Series(weight, means[labels])
