"""Exact answers in three pure steps: `partial` for each part of the table, then `combine`, then `finish`.

They count rows and add whole numbers for each group, unit and place on a grid. The same steps run on one machine or
on many, and noise is added only to the result of `finish`. Every row is read and every unit gets its place, whether
it answers or not. Nothing here refuses, warns or fails because of the value of a cell.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Fixed, Matrix, Pair, Ranks, Release, Sums, columns_of
from shoal.dp.meaning.check import has_codes, levels, number
from shoal.dp.meaning.columns import scope_of
from shoal.dp.meaning.relation import CELL, UNIT, Frames, in_own_order, single, single_frame
from shoal.dp.meaning.rowwise import condition
from shoal.dp.sql.expressions import Predicate
from shoal.schema import Schema

Partial = tuple[pl.DataFrame, ...]
_KEYS = ["group", "unit", "bin"]
_ZERO = pl.lit(0, pl.Int64)  # made once: making one costs as much as a small sum
_SUMMED = pl.all().exclude(_KEYS)
_ZEROS = {name: _ZERO.alias(name) for name in _KEYS}


@dataclass(frozen=True)
class Totals:
    """Exact whole numbers of one release, with an entry for each group, unit and place on the grid.

    Parameters
    ----------
    group, unit, bin : int64 arrays
        Positions; `unit` counts from 0, and is 0 if units are not kept apart.
    moments : int64 array (entries, 3 or more)
        Number of rows, sum of their whole numbers, sum of the squares; of two columns, the sums of `Pair` after the number.
    units : int
        How many units there are, also counting those that do not answer.
    """

    group: np.ndarray
    unit: np.ndarray
    bin: np.ndarray
    moments: np.ndarray
    units: int


def compute(frame: pl.DataFrame | Frames, plan: Plan) -> tuple[Totals, ...]:
    """The exact answer of a plan on a whole table, per release."""
    if isinstance(frame, pl.DataFrame) and _counts_only(plan):
        return (_count(frame, plan),)
    return finish(combine([partial(frame, plan)]), plan)


def rows_of(frame: pl.DataFrame | Frames, plan: Plan) -> pl.LazyFrame:
    """The rows that a plan asks about: of the one table, or of joins and sub-queries."""
    relation = plan.lowered.relation
    if relation is None:
        return (frame if isinstance(frame, pl.DataFrame) else frame[plan.schema.id]).lazy()
    if isinstance(frame, pl.DataFrame):
        unit = plan.protected.column if plan.protected.kind == "column" else None
        frame = single_frame(frame, single(plan.schema, unit, plan.protected.rows))
    return relation.make(frame)


def related_rows(frame: pl.DataFrame | Frames, plan: Plan, names: Sequence[str]) -> pl.DataFrame:
    """Some columns of these rows, with their units. The rows of a unit are in an order that depends only on them."""
    rows, relation = rows_of(frame, plan), plan.lowered.relation
    if relation is not None and not relation.ordered:
        rows = in_own_order(rows)
    there = rows.collect_schema()
    chosen = [*names, *(each for each in (UNIT, CELL) if each in there)]
    return rows.select(chosen or there.names()[:1]).collect()  # without a column the number of rows is lost


def partial(frame: pl.DataFrame | Frames, plan: Plan) -> Partial:
    """Numbers and sums of one part of a loaded table.

    Parameters
    ----------
    frame : polars.DataFrame, or mapping of str to polars.DataFrame
        As `load` and `protect_rows`, or `load_linked`, give it. Joins and sub-queries need all rows of a unit in one part.
    plan : Plan

    Returns
    -------
    tuple of polars.DataFrame
        Per release the columns group, unit, bin, n, first and second; parts are added by `combine`.
    """
    tests = [] if plan.lowered.test is None else [plan.lowered.test]
    rows = rows_of(frame, plan)
    if plan.lowered.computed:
        rows = rows.with_columns(each.alias(name) for name, each in plan.lowered.computed)
    parts = []
    for release, chosen in zip(plan.releases, plan.sets, strict=True):
        group = _group(plan, chosen)
        parts.append(_partial(rows, [group.is_not_null(), *tests] if chosen else tests, group, release))
    return (parts[0].collect(),) if len(parts) == 1 else tuple(pl.collect_all(parts))


def partial_keys(frame: pl.DataFrame | Frames, plan: Plan, column: str) -> pl.DataFrame:
    """How many rows of a part answer, for each value of a column (and each unit); every row gets its place."""
    answers = pl.col(column).is_not_null()
    if plan.lowered.test is not None:
        answers = answers & plan.lowered.test.fill_null(False)
    keys = {"key": pl.col(column) + 0.0 if _is_number(plan, column) else pl.col(column)}  # -0.0 is 0.0
    unit = plan.releases[0].limit.column
    if unit is not None:
        keys["unit"] = pl.col(unit)
    counted = [answers.sum().cast(pl.Int64).alias("n")]
    return (
        rows_of(frame, plan)
        .group_by([each.alias(name) for name, each in keys.items()])
        .agg(counted)
        .collect()
    )


def combine_keys(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Partial results of `partial_keys`, added up."""
    if len(parts) == 1:
        return parts[0]
    together = pl.concat(parts)
    return together.group_by([name for name in together.columns if name != "n"]).agg(pl.col("n").sum())


def finish_keys(found: pl.DataFrame, keys: int) -> tuple[list[Any], np.ndarray]:
    """Each key that occurs, and its number of units (or rows). A unit counts for a limited number of keys.

    A hash of the unit and the key decides which of its keys count, so it depends only on the unit's own rows.
    """
    found = found.filter(pl.col("n") > 0)
    if "unit" in found.columns:
        order = found.select(pl.struct("unit", "key").hash(seed=1).alias("hash"))["hash"]
        found = found.with_columns(order).sort("hash", "key")
        found = found.filter(pl.int_range(pl.len()).over("unit") < keys)
        found = found.group_by("key").agg(pl.len().cast(pl.Int64).alias("n"))
    found = found.sort("key")
    return found["key"].to_list(), found["n"].to_numpy()


def _is_number(plan: Plan, column: str) -> bool:
    return plan.schema.columns[column].kind in ("number", "date")


def _counts_only(plan: Plan) -> bool:
    """Whether the plan asks only for one number of rows of one table."""
    if len(plan.releases) > 1 or plan.lowered.relation is not None or plan.lowered.computed:
        return False
    release = plan.releases[0]
    return (
        isinstance(release, Sums)
        and release.figure == "count"
        and release.groups == 1
        and release.limit.column is None
    )


def _count(frame: pl.DataFrame, plan: Plan) -> Totals:
    """One number of rows, without a lazy frame: its optimiser would cost more than the count."""
    tests = [] if plan.lowered.test is None else [plan.lowered.test]
    _, n = _answering(tests, plan.releases[0])
    moments = np.array([[frame.select(n).item(), 0, 0]], dtype=np.int64)
    zero = np.zeros(1, dtype=np.int64)
    return Totals(zero, zero, zero, moments, 1)


def combine(parts: Sequence[Partial]) -> Partial:
    """Partial results of disjoint parts, added up."""
    if len(parts) == 1:
        return parts[0]
    together = (pl.concat(each) for each in zip(*parts, strict=True))
    return tuple(frame.group_by(_KEYS).agg(_SUMMED.sum()) for frame in together)


def combine_apart(parts: Iterable[Partial], plan: Plan) -> Partial:
    """Partial results of parts that share no unit: the units get numbers, and nothing is added up but where none are kept."""
    found: list[Partial] = []
    first = 0
    for part in parts:
        most = max((each.height for each in part), default=0)
        found.append(
            tuple(_numbered(each, one, first) for each, one in zip(part, plan.releases, strict=True))
        )
        first += most
    together = (pl.concat(each) for each in zip(*found, strict=True))
    return tuple(
        frame if release.limit.column is not None else frame.group_by(_KEYS).agg(_SUMMED.sum())
        for frame, release in zip(together, plan.releases, strict=True)
    )


def _numbered(frame: pl.DataFrame, release: Release, first: int) -> pl.DataFrame:
    if release.limit.column is None:
        return frame
    return frame.with_columns(pl.col("unit").rank("dense").cast(pl.Int64) + first)


def finish(total: Partial, plan: Plan) -> tuple[Totals, ...]:
    """The sums as typed arrays."""
    return tuple(_finish(frame, release) for frame, release in zip(total, plan.releases, strict=True))


def _answering(tests: list[pl.Expr], release: Release) -> tuple[pl.Expr, pl.Expr]:
    """Whether each row answers, and how many rows do."""
    tests = [*tests, *(pl.col(name).is_not_null() for name in columns_of(release))]
    if not tests:
        return pl.lit(True), pl.len().cast(pl.Int64).alias("n")
    answers = reduce(operator.and_, tests).fill_null(False)
    if not answers.meta.root_names():  # a constant would be counted once, however many rows there are
        return answers, pl.when(answers).then(pl.len()).otherwise(0).cast(pl.Int64).alias("n")
    return answers, answers.sum().cast(pl.Int64).alias("n")


def _partial(rows: pl.LazyFrame, tests: list[pl.Expr], group: pl.Expr, release: Release) -> pl.LazyFrame:
    """Sums over all rows; a row that does not answer adds nothing."""
    answers, n = _answering(tests, release)
    moments = [n, *_summed(answers, release)]
    keys = {}
    if release.groups > 1:
        keys["group"] = pl.when(answers).then(group).otherwise(0).cast(pl.Int64)
    if release.limit.column is not None:
        keys["unit"] = pl.col(release.limit.column)
    if isinstance(release, Sums) and release.figure == "distinct":
        keys["bin"] = pl.when(answers).then(pl.col(release.column or "")).otherwise(0).cast(pl.Int64)
    if isinstance(release, Ranks):
        keys["bin"] = pl.when(answers).then(_bin(release)).otherwise(0).cast(pl.Int64)
    absent = [_ZEROS[name] for name in _KEYS if name not in keys]
    if not keys:
        return rows.select(*absent, *moments)
    found = rows.group_by([key.alias(name) for name, key in keys.items()]).agg(moments)
    return found.with_columns(absent).select(*_KEYS, _SUMMED)


def _summed(answers: pl.Expr, release: Release) -> list[pl.Expr]:
    """Sums of the answering rows' whole numbers: first and second powers, or products of two columns' polynomials."""
    if isinstance(release, Sums) and release.pair is not None and release.fixed is not None:
        return _products(answers, release.column or "", release.fixed, release.pair)
    whole = _ZERO
    if not isinstance(release, Ranks) and release.fixed is not None:
        whole = pl.when(answers).then(_whole(release.column or "", release.fixed)).otherwise(0)
    square = whole * whole if not isinstance(release, Ranks) and release.powers > 1 else _ZERO
    # A literal is not summed: older versions of polars cannot aggregate one.
    added = [each if each is _ZERO else each.sum() for each in (whole, square)]
    return [added[0].alias("first"), added[1].alias("second")]


def _products(answers: pl.Expr, name: str, fixed: Fixed, pair: Pair) -> list[pl.Expr]:
    first = _polynomials(_whole(name, fixed), pair.polynomials)
    other = _polynomials(_whole(pair.column, pair.fixed), pair.polynomials)
    found = []
    for place, (one, two) in enumerate(itertools.product(first, other)):
        product = one * two
        if pair.divisor > 1:
            product = (product + pair.divisor // 2) // pair.divisor
        found.append(pl.when(answers).then(product).otherwise(0).sum().alias(f"product {place}"))
    return found


def _polynomials(v: pl.Expr, coefficients: Matrix) -> list[pl.Expr]:
    return [constant + linear * v + square * v * v for constant, linear, square in coefficients]


def _finish(frame: pl.DataFrame, release: Release) -> Totals:
    unit, units = np.zeros(frame.height, dtype=np.int64), 1
    if release.limit.column is not None:
        alone = release.groups == 1 and not isinstance(release, Ranks) and release.figure != "distinct"
        code = pl.int_range(pl.len()) if alone else pl.col("unit").rank("dense").cast(pl.Int64) - 1
        unit = frame.select(code.alias("unit"))["unit"].to_numpy()
        units = int(unit.max()) + 1 if len(unit) else 0
    group, place = frame["group"].to_numpy(), frame["bin"].to_numpy()
    moments = np.stack([frame[name].to_numpy() for name in frame.columns if name not in _KEYS], axis=1)
    if release.figure in ("units", "distinct"):  # once, however many rows
        moments = np.minimum(moments, 1)
    return Totals(group, unit, place, moments, units)


def _group(plan: Plan, chosen: tuple[int, ...]) -> pl.Expr:
    """Position of a row's combination of levels; NULL if one is missing or undeclared."""
    code = _ZERO
    for at in chosen:
        name, size = str(plan.query.groups[at]), plan.shape[at]
        column = plan.schema.columns[name]
        each = pl.col(name)
        if not has_codes(column):
            values = [number(column, level) for level in levels(column) or ()]
            each = each.replace_strict(values, list(range(size)), default=None, return_dtype=pl.Int64)
        code = code * size + each.cast(pl.Int64)
    return code


def _whole(name: str, fixed: Fixed) -> pl.Expr:
    x = pl.col(name).clip(*fixed.bounds) - fixed.offset
    whole = (x / float(fixed.quantum)).round().cast(pl.Int64, strict=False)
    return whole.clip(fixed.least, fixed.most)


def _bin(release: Ranks) -> pl.Expr:
    grid = release.grid
    high = grid.low + grid.step * (grid.size - 1)
    place = (pl.col(release.column).cast(pl.Float64).clip(grid.low, high) - grid.low) / grid.step
    return place.round().cast(pl.Int64, strict=False).clip(0, grid.size - 1)


def expression(where: Predicate, schema: Schema) -> pl.Expr:
    """A condition as a polars expression in three-valued logic."""
    return condition(where, scope_of(schema))
