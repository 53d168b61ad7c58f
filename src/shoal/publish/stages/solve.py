"""One part: group its records, compute one value for each group, and measure the loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import polars as pl

from shoal.engine.aggregate import aggregate_column, medoids_of
from shoal.engine.columns import TypedColumn
from shoal.errors import InputError
from shoal.measures import linked_share, sought_records
from shoal.microaggregation import SearchWork
from shoal.publish.stages.encode import Encoded, encode_part
from shoal.publish.stages.partition import PartGroups, Progress, form_groups, reach_models
from shoal.publish.stages.plan import PublishPlan, original_columns
from shoal.publish.stages.release import new_columns
from shoal.publish.stages.survey import ROW
from shoal.rules import KeptRule, edits_of, repair

MEASURING = "measuring linkage"
# The columns left as they are, as one number a row.
LEFT = "__left__"
# Sums of squares above this are as good as infinite: they are still to be multiplied and added.
MOST_LOSS = 1e300


@dataclass(frozen=True)
class PartSums:
    """What one part adds to the figures.

    Attributes
    ----------
    loss, total : arrays of float64, (n_columns,)
        Squared distances of the original cells to the published ones and to the middle.
    linked : float
        Share of the records whose nearest original is their own; NaN if not measured.
    linked_open : float
        The same for someone who also knows the columns left as they are.
    false_cells : int
        Cells of categories that hold another record's value.
    suppressed_cells : int
        Cells that had a value and have none now.
    unchanged : int
        Records all of whose protected columns are published as they were.
    merged : int
        Groups that were merged to protect the sensitive columns.
    work : SearchWork or None
        The work of the search, which repeats it.
    interrupted : bool
        Whether a search was cut short from outside.
    sought : int
        Records for which the nearest original was sought: in a large part a selection of them.
    rules : tuple of KeptRule
        What became of each edit rule.
    """

    loss: np.ndarray
    total: np.ndarray
    linked: float
    linked_open: float
    false_cells: int
    suppressed_cells: int
    unchanged: int
    merged: int
    work: SearchWork | None
    interrupted: bool
    sought: int = 0
    rules: tuple[KeptRule, ...] = ()


@dataclass(frozen=True)
class Solved:
    """The groups of a part.

    Attributes
    ----------
    labels : array of int64
        Group 0..c-1 of each row.
    values : array of float64, (c, n_columns)
        The published value of each group and quasi-identifier, as number or code; the mean weight as a last column
        where there are weights.
    gone : array of bool, (c, n_columns)
        Where it is missing.
    sums : PartSums
    """

    labels: np.ndarray
    values: np.ndarray
    gone: np.ndarray
    sums: PartSums


def solve_part(
    table: pl.DataFrame, plan: PublishPlan, *, measured: int | None = None, progress: Progress | None = None
) -> Solved:
    """Group and aggregate the records of a part.

    The records are taken in the order of their row numbers, so that the groups do not depend on the order
    in which they arrive.

    Parameters
    ----------
    table : polars.DataFrame
        The part's decoded rows, with the columns the plan needs and their row number `__row__`.
    plan : PublishPlan
    measured : int, optional
        Records for which linkage is measured; none if left open.
    progress : callable, optional
    """
    order = np.argsort(table[ROW].to_numpy(), kind="stable")
    part = encode_part(table if table[ROW].is_sorted() else table[order], plan)
    groups = reach_models(part, form_groups(part, plan, progress), plan)
    values, gone = aggregated(part, groups, plan)
    sums = sums_of(part, groups, values, gone, plan, measured, progress)
    labels = np.empty_like(groups.labels)
    labels[order] = groups.labels
    if plan.roles.schema.rules:
        sums = replace(sums, rules=_rules(table, plan, values[labels], gone[labels]))
    return Solved(labels, values, gone, sums)


def _rules(
    table: pl.DataFrame, plan: PublishPlan, values: np.ndarray, gone: np.ndarray
) -> tuple[KeptRule, ...]:
    """How each edit rule is kept, counted on the values of groups before any repair."""
    bare = replace(plan, roles=replace(plan.roles, schema=replace(plan.roles.schema, rules=())))
    new = new_columns(table, bare, values, gone, None)
    edits = edits_of(plan.roles.schema.rules, plan.roles.names)
    means = [
        each.name
        for each in plan.templates
        if each.facts.kind == "number" and each.facts.aggregate in (None, "mean")
    ]
    return repair(table.with_columns(new.values()), table, edits, plan.roles.quasi_names, [means]).kept


def aggregated(part: Encoded, groups: PartGroups, plan: PublishPlan) -> tuple[np.ndarray, np.ndarray]:
    """The value of each group and column, and where it is missing; the household's own over all of its set."""
    labels, outer = groups.labels, groups.outer
    own = [False] * len(part.filled)
    if outer is not None and plan.households is not None:
        own = plan.households.own.tolist()
    asked = any(column.facts.aggregate == "medoid" for column in part.filled)
    zeros = plan.roles.zeros
    values, gone = [], []
    for mine, column in zip(own, part.filled, strict=True):
        by = outer if mine and outer is not None else labels
        medoids = medoids_of(part.Z, by) if asked else np.empty(0, np.int64)
        value, lack = aggregate_column(column, by, _mass(part.weights, by), medoids)
        if column.name in zeros:
            value = np.where(
                np.bincount(by, (column.values == 0) & ~column.missing)[: value.size] > 0, 0.0, value
            )
        if by is not labels:
            of_group = _first(by, labels)
            value, lack = value[of_group], lack[of_group]
        values.append(value)
        gone.append(lack)
    if plan.roles.weight is not None:
        # The mean of a group's weights: totals of the group hold, and the weight tells nobody apart.
        values.append(np.bincount(labels, part.weights) / np.bincount(labels))
        gone.append(np.zeros(values[-1].size, bool))
    return np.stack(values, axis=1), np.stack(gone, axis=1)


def sums_of(
    part: Encoded,
    groups: PartGroups,
    values: np.ndarray,
    gone: np.ndarray,
    plan: PublishPlan,
    measured: int | None,
    progress: Progress | None = None,
) -> PartSums:
    """The loss of the groups, and the linkage that is left."""
    labels = groups.labels
    after = [replace(column, values=values[:, j], missing=gone[:, j]) for j, column in enumerate(part.filled)]
    Y = np.take(plan.encoder.transform(after), labels, axis=0, mode="clip")
    loss, total = _loss(part, after, labels, Y, plan)
    linked = linked_open = np.nan
    if measured is not None:
        told = None if progress is None else partial(progress, MEASURING)
        linked = linked_share(part.Z, Y, max_records=measured, labels=labels, progress=told)
        linked_open = linked
        if plan.roles.left:
            blocks = _blocks(part, plan)
            linked_open = linked_share(
                part.Z, Y, max_records=measured, blocks=blocks, labels=labels, progress=told
            )
    false, suppressed, same = _cells(part, after, labels, plan)
    single = groups.methods[0] if len(groups.methods) == 1 else None
    return PartSums(
        loss=loss,
        total=total,
        linked=linked,
        linked_open=linked_open,
        false_cells=false,
        suppressed_cells=suppressed,
        unchanged=int(same.sum()),
        merged=groups.merged,
        work=getattr(single, "work_", None),
        interrupted=groups.interrupted,
        sought=0 if measured is None else sought_records(part.Z.shape[0], measured),
    )


def _loss(
    part: Encoded, after: list[TypedColumn], labels: np.ndarray, Y: np.ndarray, plan: PublishPlan
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances to the published values and to the middle, of the cells before anything was recoded."""
    if plan.original is None:
        return _per_column(part.Z - Y, part.widths), _per_column(part.Z, part.widths)
    encoder = plan.original.encoder
    before = original_columns(part.table, plan)
    # Cells that were imputed lose nothing by it.
    before = [
        filled if template.name == filled.name else column
        for column, filled, template in zip(before, part.filled, plan.original.templates, strict=True)
    ]
    Z = encoder.transform(before)
    Y = encoder.transform(
        [
            column if cover is None else replace(column, missing=np.ones(column.values.size, bool))
            for column, cover in zip(after, plan.original.covers, strict=True)
        ]
    )[labels]
    widths = encoder.widths()
    ends = np.cumsum(widths)
    for j, cover in enumerate(plan.original.covers):
        share = encoder.shares[j]
        if cover is not None and share is not None:
            spread = 1.0 - float(share @ share)
            block = (cover[after[j].values.astype(np.int64)] - share) / (
                np.sqrt(spread) if spread > 0 else 1.0
            )
            block[after[j].missing] = 0.0
            Y[:, ends[j] - widths[j] : ends[j]] = block[labels] * np.sqrt(encoder.weights[j])
    loss = _per_column(Z - Y, widths)
    for column, lost in zip(part.filled, loss, strict=True):
        if not lost < MOST_LOSS:
            raise InputError(
                f"The published values of {column.name!r} must lie near enough to the original's for their distance to be "
                "a number. Check its 'top', 'bottom' and 'breaks'."
            )
    return loss, _per_column(Z, widths)


def _per_column(distances: np.ndarray, widths: list[int]) -> np.ndarray:
    """Squares summed over the rows and over the coordinates of each column; infinite where no number holds them."""
    starts = np.cumsum([0, *widths[:-1]])
    with np.errstate(over="ignore"):
        return np.add.reduceat((distances**2).sum(axis=0), starts)


def _cells(
    part: Encoded, after: list[TypedColumn], labels: np.ndarray, plan: PublishPlan
) -> tuple[int, int, np.ndarray]:
    """False cells, suppressed cells, and which records are published as they were."""
    before = original_columns(part.table, plan)
    changed = plan.roles.changed
    false = suppressed = 0
    same = np.ones(labels.size, bool)
    for column, own, new in zip(before, part.filled, after, strict=True):
        values, lack = new.values[labels], new.missing[labels]
        there = ~column.missing & ~lack
        suppressed += int((~column.missing & lack).sum())
        if own.is_coded:
            false += int((there & (np.rint(values) != own.values)).sum())
        if own.name in changed and own.is_coded:
            same[:] = False  # a recoded level is not the original one
        else:
            same &= (column.missing & lack) | (there & (values == column.values))
    return false, suppressed, same


def left_codes(table: pl.DataFrame, plan: PublishPlan) -> pl.Series:
    """One number for the columns of each row that are left as they are."""
    return table.select(pl.struct(plan.roles.left).hash(seed=7)).to_series()


def _blocks(part: Encoded, plan: PublishPlan) -> np.ndarray:
    """Rows numbered by the columns left as they are."""
    table = part.table
    codes = table[LEFT] if LEFT in table.columns else left_codes(table, plan)
    return np.unique(codes.to_numpy(), return_inverse=True)[1].astype(np.int64).reshape(-1)


def _mass(weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of the records; in a group without any weight, each record counts the same."""
    mass = weights.copy()
    mass[np.bincount(labels, weights)[labels] == 0] = 1.0
    return mass


def _first(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The value of a member of each group, where all members have one."""
    out = np.empty(int(labels.max()) + 1, np.int64)
    out[labels] = values
    return out
