"""Exact answers in three pure steps: `partial` per part of the table, `combine`, `finish`.

Counts and clamped whole-number sums per group and cell; the same steps run on one machine or on many, and
noise is added only to what `finish` gives. Nothing here refuses, warns or fails because of a cell's value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.check import has_codes, level_code, level_text, levels, number
from shoal.dp.plan import CELL, UNIT, Fixed, Plan, Release
from shoal.dp.query import And, Compare, In, IsNull, Not, Or, Predicate
from shoal.schema import Schema

Partial = tuple[pl.DataFrame, ...]
_KEYS = ["group", "cell", "bin"]
_TYPES = dict.fromkeys([*_KEYS, "value"], pl.Int64)
_COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compute(frame: pl.DataFrame, plan: Plan) -> tuple[np.ndarray, ...]:
    """The exact answer of a plan on a whole table: one int64 array per release."""
    return finish(combine([partial(frame, plan)]), plan)


def partial(frame: pl.DataFrame, plan: Plan) -> Partial:
    """Counts and sums of one part of a loaded table.

    Parameters
    ----------
    frame : polars.DataFrame
        As `load` and `protect_rows` give it. If `plan.together` names a column, rows that share its value
        must lie in the same part.
    plan : Plan

    Returns
    -------
    tuple of polars.DataFrame
        Per release the columns group, cell, bin and value, all Int64; parts are added by `combine`.
    """
    condition = None if plan.query.condition is None else expression(plan.query.condition, plan.schema)
    if not plan.query.groups and all(not each.limit and each.grid is None for each in plan.flat):
        return _totals(frame, condition, plan)
    rows = frame.lazy() if condition is None else frame.lazy().filter(condition)
    if plan.query.groups:
        rows = rows.with_columns(_group(plan).alias("group")).drop_nulls("group")
    parts = [_partial(rows, release, plan) for release in plan.flat]
    return (parts[0].collect(),) if len(parts) == 1 else tuple(pl.collect_all(parts))


def combine(parts: Sequence[Partial]) -> Partial:
    """Partial results of disjoint parts, added up."""
    if len(parts) == 1:
        return parts[0]
    together = (pl.concat(each) for each in zip(*parts, strict=True))
    return tuple(frame.group_by(_KEYS).agg(pl.col("value").sum()) for frame in together)


def finish(total: Partial, plan: Plan) -> tuple[np.ndarray, ...]:
    """Clamp cells where the plan says so and lay the groups out: counts and sums (G,), histograms (G, grid)."""
    return tuple(_finish(frame, release, plan) for frame, release in zip(total, plan.flat, strict=True))


def _totals(frame: pl.DataFrame, condition: pl.Expr | None, plan: Plan) -> Partial:
    """The plain case, one number per release, in a single pass without groups: several times faster."""
    answers = pl.lit(True) if condition is None else condition
    figures: list[pl.Expr] = []
    for release in plan.flat:
        if release.fixed is not None:
            whole = _whole(release.column or "", release.fixed)
            value = whole.sum() if condition is None else whole.filter(condition).sum()
        elif release.column is not None:
            value = (pl.col(release.column).is_not_null() & answers).sum()
        else:
            value = pl.len() if condition is None else condition.sum()
        figures.append(value.cast(pl.Int64).alias(str(len(figures))))
    found = frame.select(figures).row(0)
    return tuple(pl.DataFrame([(0, 0, 0, value)], schema=_TYPES, orient="row") for value in found)


def _partial(rows: pl.LazyFrame, release: Release, plan: Plan) -> pl.LazyFrame:
    if release.column is not None:
        rows = rows.drop_nulls(release.column)
    if release.limit == "select":
        unit = CELL if plan.protected.kind == "cell" else UNIT
        rows = rows.filter(pl.int_range(pl.len()).over(unit) < release.rows)
    value = pl.len() if release.fixed is None else _whole(release.column or "", release.fixed).sum()
    keys = {"group": pl.col("group")} if plan.query.groups else {}
    if release.limit == "clamp":
        keys["cell"] = pl.col(CELL)
    if release.grid is not None:
        keys["bin"] = _bin(release)
    total = value.cast(pl.Int64).alias("value")
    absent = [pl.lit(0, pl.Int64).alias(name) for name in _KEYS if name not in keys]
    if not keys:
        return rows.select(*absent, total)
    found = rows.group_by([key.alias(name) for name, key in keys.items()]).agg(total)
    return found.with_columns(absent).select(*_KEYS, "value")


def _finish(frame: pl.DataFrame, release: Release, plan: Plan) -> np.ndarray:
    tau = release.rows
    if release.limit == "clamp" and release.kind == "rank":
        frame = _first_of_each_cell(frame, tau, release.from_above)
    elif release.limit == "clamp":
        low, high = (0, tau) if release.fixed is None else _cell_range(release.fixed, tau)
        frame = frame.with_columns(pl.col("value").clip(low, high))
    size = 1 if release.grid is None else release.grid.size
    table = np.zeros((plan.n_groups, size), dtype=np.int64)
    np.add.at(table, (frame["group"].to_numpy(), frame["bin"].to_numpy()), frame["value"].to_numpy())
    return table[:, 0] if release.grid is None else table


def _cell_range(fixed: Fixed, tau: int) -> tuple[int, int]:
    """Tau times the range of one row, nought included: no more than what int64 holds."""
    return max(tau * min(fixed.least, 0), -(2**62)), min(tau * max(fixed.most, 0), 2**62)


def _first_of_each_cell(frame: pl.DataFrame, tau: int, from_above: bool) -> pl.DataFrame:
    """The tau outermost rows of each cell: their tail counts are the cells' tail counts cut at tau."""
    ranked = frame.sort("bin", descending=from_above)
    reached = pl.col("value").cum_sum().over("cell")
    return ranked.with_columns(
        (reached.clip(upper_bound=tau) - (reached - pl.col("value")).clip(upper_bound=tau)).alias("value")
    )


def _group(plan: Plan) -> pl.Expr:
    """Position of a row's combination of levels; NULL if one is missing or undeclared."""
    code = pl.lit(0, pl.Int64)
    for name, size in zip(plan.query.groups, plan.shape, strict=True):
        column = plan.schema.columns[name]
        each = pl.col(name)
        if not has_codes(column):
            values = [number(column, level) for level in levels(column) or ()]
            each = each.replace_strict(values, list(range(size)), default=None, return_dtype=pl.Int64)
        code = code * size + each.cast(pl.Int64)
    return code


def _whole(name: str, fixed: Fixed) -> pl.Expr:
    x = pl.col(name).clip(*fixed.bounds) - fixed.offset
    x = x * x if fixed.power == 2 else x
    whole = (x / float(fixed.quantum)).round().cast(pl.Int64, strict=False)
    return whole.clip(fixed.least, fixed.most)


def _bin(release: Release) -> pl.Expr:
    grid = release.grid
    assert grid is not None  # only rank releases have bins
    high = grid.low + grid.step * (grid.size - 1)
    place = (pl.col(release.column or "").cast(pl.Float64).clip(grid.low, high) - grid.low) / grid.step
    return place.round().cast(pl.Int64, strict=False).clip(0, grid.size - 1)


def expression(condition: Predicate, schema: Schema) -> pl.Expr:
    """A condition as a polars expression in three-valued logic."""
    if isinstance(condition, And):
        return reduce(
            lambda left, right: left & right, (expression(each, schema) for each in condition.parts)
        )
    if isinstance(condition, Or):
        return reduce(
            lambda left, right: left | right, (expression(each, schema) for each in condition.parts)
        )
    if isinstance(condition, Not):
        return ~expression(condition.part, schema)
    if isinstance(condition, IsNull):
        return pl.col(condition.column).is_null()
    if isinstance(condition, In):
        values = [_stored(condition.column, value, schema) for value in condition.values]
        return reduce(lambda left, right: left | right, (pl.col(condition.column) == each for each in values))
    assert isinstance(condition, Compare)  # there is no other kind
    compared: pl.Expr = _COMPARED[condition.operator](
        pl.col(condition.column), _stored(condition.column, condition.value, schema)
    )
    return compared


def _stored(name: str, value: object, schema: Schema) -> pl.Expr:
    column = schema.columns[name]
    if column.kind in ("number", "date"):
        return pl.lit(number(column, value), pl.Float64)
    if has_codes(column):
        return pl.lit(level_code(column, value), pl.Int32)
    return pl.lit(level_text(value), pl.String)
