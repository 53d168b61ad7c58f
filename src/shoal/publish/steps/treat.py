"""The new cells of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.aggregate import aggregate
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder
from shoal.engine.roles import row_codes
from shoal.errors import InputError, ParameterError
from shoal.generalization import Generalize, Recoder, Suppress, read_hierarchies
from shoal.masking import (
    add_noise,
    code_ends,
    pram,
    rank_swap,
    round_to,
    shuffle,
    swap_records,
)
from shoal.microaggregation import join_small_strata, partition_within, resolve_method
from shoal.publish.change import hierarchy_for
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.survey import weights_of
from shoal.schema import Column, Step


@dataclass(frozen=True)
class Treated:
    """What a step has made.

    Attributes
    ----------
    columns : mapping of str to polars.Series
        The new cells.
    losses : mapping of str to float
        Share of each column that is lost, from 0 to 1.
    facts : mapping
        Figures of the step's own, for its line in the report.
    exposed : int or None
        Of suppression under another reading: persons who agree with fewer than k released records.
    notes : tuple of str
    """

    columns: Mapping[str, pl.Series]
    losses: Mapping[str, float]
    facts: Mapping[str, Any] = field(default_factory=dict)
    exposed: int | None = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One step with all it needs to know.

    Attributes
    ----------
    step : Step
    k : int
    within : tuple of str
        Columns whose published values classes and groups do not cross.
    table : polars.DataFrame
        The rows as the steps before left them; one for each household where the step is at that level.
    facts : mapping of str to Column
    zeros : frozenset of str
        Columns whose zeros stay zeros.
    whole : frozenset of str
        Columns of whole numbers.
    seed : int
    """

    request: ProtectionRequest
    step: Step
    k: int
    within: tuple[str, ...]
    table: pl.DataFrame
    facts: Mapping[str, Column]
    household: str | None
    weight: str | None
    zeros: frozenset[str]
    whole: frozenset[str]
    seed: int


def treat(task: Task) -> Treated:
    """Do one step."""
    if task.step.is_truthful:
        return _coarsened(task)
    if task.step.is_grouping:
        return _grouped(task)
    return _PERTURBING[task.step.method](task)


def _coarsened(task: Task) -> Treated:
    """Suppression or generalisation, apart in each class of the columns it stays within."""
    step, table = task.step, task.table
    strata = row_codes(table, list(task.within))
    if strata is not None and step.recoding == "global":
        raise InputError(
            "Global recoding gives each column one level, so its step cannot stay within other columns: set "
            "within = [] in it."
        )
    rows = [np.arange(table.height)] if strata is None else _split(strata)
    small = min(each.size for each in rows)
    if small < task.k:
        where = f" in each class of {', '.join(task.within)}" if task.within else ""
        raise InputError(f"A class needs k = {task.k} records{where}. Got {small}.")
    keys = _dates(table.select(step.columns), task.facts)
    fitted = [_recoder(task, table).fit(keys[each]) for each in rows]
    order = np.argsort(np.concatenate(rows), kind="stable")
    columns = {}
    for name in step.columns:
        parts = [each.released_[name] for each in fitted]
        if len({str(part.dtype) for part in parts}) > 1:
            parts = [part.cast(pl.String) for part in parts]
        columns[name] = pl.concat(parts).gather(order).alias(name)
    share = [each.size / table.height for each in rows]
    losses = {
        name: sum(part * _losses(each)[name] for part, each in zip(share, fitted, strict=True))
        for name in step.columns
    }
    loss = sum(part * each.loss_ for part, each in zip(share, fitted, strict=True))
    facts: dict[str, Any] = {"loss": loss, "classes": sum(each.n_groups_ for each in fitted)}
    if all(each.bound_ is not None for each in fitted):
        bound = sum(part * float(each.bound_ or 0.0) for part, each in zip(share, fitted, strict=True))
        facts |= {"bound": bound, "gap": 0.0 if loss <= 0 else max(0.0, (loss - bound) / loss)}
    exposed: int | None = 0
    if step.method == "suppress":
        cells = [each.suppressed_ for each in fitted if isinstance(each, Suppress)]
        facts["suppressed_cells"] = {name: sum(each[name] for each in cells) for name in step.columns}
        told = [each.exposed_ for each in fitted if isinstance(each, Suppress)]
        exposed = None if None in told else sum(each or 0 for each in told)
    return Treated(columns, losses, facts, exposed)


def _losses(recoder: Recoder) -> dict[str, float]:
    if isinstance(recoder, Suppress):
        return {name: count / recoder.labels_.size for name, count in recoder.suppressed_.items()}
    assert isinstance(recoder, Generalize)
    return recoder.losses_


def _recoder(task: Task, table: pl.DataFrame) -> Recoder:
    step, request = task.step, task.request
    importance = {
        name: task.facts[name].importance for name in step.columns if task.facts[name].importance != 1.0
    }
    if step.method == "suppress":
        return Suppress(
            k=task.k, reading=step.reading or "strict", importance=importance, columns=list(step.columns),
            time_limit=request.time_limit, random_state=task.seed,
        ).check()  # fmt: skip
    given = {} if request.hierarchies is None else read_hierarchies(request.hierarchies)
    found = {name: hierarchy_for(task.facts[name], given, table[name]) for name in step.columns}
    return Generalize(
        k=task.k, hierarchies={name: tree for name, tree in found.items() if tree is not None},
        breaks={n: task.facts[n].breaks or () for n in step.columns if task.facts[n].breaks and n not in given},
        recoding=step.recoding or "local", suppress_at_most=step.suppress_at_most or 0.0, importance=importance,
        columns=list(step.columns), time_limit=request.time_limit, random_state=task.seed,
        certify=bool(request.certify) or table.height <= 5_000,
    ).check()  # fmt: skip


def _dates(keys: pl.DataFrame, facts: Mapping[str, Column]) -> pl.DataFrame:
    """Texts of dates as dates."""
    texts = [name for name in keys.columns if facts[name].kind == "date" and keys.schema[name] == pl.String]
    return keys.with_columns(pl.col(name).str.to_date(strict=False) for name in texts)


def _split(strata: np.ndarray) -> list[np.ndarray]:
    return np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])


def _grouped(task: Task) -> Treated:
    """Microaggregation of a set of columns of its own."""
    step, table = task.step, task.table
    columns = [read_column(table[name], task.facts[name]) for name in step.columns]
    _refuse_missing(columns)
    if table.height < task.k:
        raise InputError(
            f"A group needs k = {task.k} records, so the table must have at least that many. Got {table.height}."
        )
    request = task.request
    method = resolve_method(step.method, task.k, None, None, task.seed)
    if request.time_limit is not None and type(method).takes("time_limit"):
        method = resolve_method(step.method, task.k, request.time_limit, None, task.seed)
    encoder = Encoder.fit(columns)
    Z = encoder.transform(columns)
    strata, crossed = _strata(task, Z, columns)
    labels, _ = partition_within(Z, method, strata, categories=encoder.modes(columns))
    weights = weights_of(table, task.weight)
    new = aggregate(columns, labels, Z, weights, request.integers == "round")
    new = {
        name: _kept_apart(new[name], column, labels, task) for name, column in zip(new, columns, strict=True)
    }
    after = [read_column(new[each.name], replace(each.facts, levels=None), each.levels) for each in columns]
    sizes = np.bincount(labels)
    notes = (
        (
            f"Step {step.method} of {', '.join(step.columns)}: {crossed:,} records lie in classes of "
            f"{', '.join(task.within)} smaller than k = {task.k}, and are grouped across them.",
        )
        if crossed
        else ()
    )
    return Treated(
        new, _column_losses(columns, after, encoder),
        {"groups": int(sizes.size), "smallest": int(sizes.min()), "largest": int(sizes.max())}, notes=notes,
    )  # fmt: skip


def _refuse_missing(columns: list[TypedColumn]) -> None:
    for column in columns:
        count = int(column.missing.sum())
        if count == column.missing.size:
            raise InputError(
                f"Column {column.name!r} must hold values to be protected. All its cells are missing."
            )
        if count and column.facts.on_missing == "error":
            raise InputError(
                "Missing cells need a policy (impute, category or drop; for all columns by 'on_missing', or by column "
                f"in the schema). Got missing cells in {column.name!r} ({count})."
            )


def _strata(task: Task, Z: np.ndarray, columns: list[TypedColumn]) -> tuple[np.ndarray, int]:
    """Who may share a group: equal columns to stay within, then equal patterns of zeros and missing cells.

    Sets smaller than k join the nearest; also told is how many records are grouped across the columns to stay within.
    """
    outer = row_codes(task.table, list(task.within))
    outer = np.zeros(Z.shape[0], np.int64) if outer is None else outer
    sizes = np.bincount(outer)
    crossed = int(sizes[sizes < task.k].sum())
    if crossed and (sizes >= task.k).any():
        outer = _dense(join_small_strata(Z, outer, task.k)[outer])
    elif crossed:
        outer = np.zeros(Z.shape[0], np.int64)
    patterns = [(column.values == 0) & ~column.missing for column in columns if column.name in task.zeros] + [
        column.missing for column in columns if column.facts.on_missing == "category" and column.missing.any()
    ]
    if not patterns:
        return _dense(outer), crossed
    pattern = np.unique(np.stack(patterns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    inner = _dense(outer * (int(pattern.max()) + 1) + pattern)
    for rows in _split(outer):
        here = _dense(inner[rows])
        if (np.bincount(here) >= task.k).any():
            joined = join_small_strata(Z[rows], here, task.k)[here]
            inner[rows] = inner[rows][np.array([np.argmax(here == each) for each in joined])]
        else:
            inner[rows] = inner[rows][0]
    return _dense(inner), crossed


def _kept_apart(cells: pl.Series, column: TypedColumn, labels: np.ndarray, task: Task) -> pl.Series:
    """Zero where a member of the group has a zero that must stay; missing where one is missing and that is a value."""
    c = int(labels.max()) + 1
    if column.name in task.zeros:
        zero = np.bincount(labels, (column.values == 0) & ~column.missing, minlength=c)[labels] > 0
        cells = cells.set(pl.Series(zero), 0) if zero.any() else cells
    if column.facts.on_missing == "category" and column.missing.any():
        gone = np.bincount(labels, column.missing, minlength=c)[labels] > 0
        cells = cells.set(pl.Series(gone), None)
    return cells


def _column_losses(before: list[TypedColumn], after: list[TypedColumn], encoder: Encoder) -> dict[str, float]:
    """Share of each column's variation that is gone."""
    gap = (encoder.transform(before) - encoder.transform(after)) ** 2
    whole = encoder.transform(before) ** 2
    ends = np.cumsum([0, *encoder.widths()])
    found = {}
    for column, start, end in zip(before, ends[:-1], ends[1:], strict=True):
        total = float(whole[:, start:end].sum())
        found[column.name] = float(gap[:, start:end].sum()) / total if total > 0 else 0.0
    return found


def _changed(task: Task, new: Mapping[str, pl.Series], **facts: Any) -> Treated:
    """A perturbation: what it lost in numbers by their variation, in other columns by the share of changed cells."""
    losses = {}
    for name, cells in new.items():
        old, fact = task.table[name], task.facts[name]
        if fact.kind == "number":
            before, after = read_column(old, fact), read_column(cells, fact)
            losses[name] = _column_losses([before], [after], Encoder.fit([before]))[name]
        else:
            losses[name] = int((~old.cast(pl.String).eq_missing(cells.cast(pl.String))).sum()) / max(
                1, old.len()
            )
    return Treated(new, losses, facts)


def _numbers(task: Task, names: tuple[str, ...]) -> np.ndarray:
    """Columns as numbers, NaN where a cell is missing."""
    columns = [read_column(task.table[name], task.facts[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.is_coded:
            raise InputError(
                f"The step {task.step.method!r} needs numbers. Column {name!r} holds categories."
            )
    return np.stack([np.where(each.missing, np.nan, each.values) for each in columns], axis=1)


def _as_cells(task: Task, X: np.ndarray) -> dict[str, pl.Series]:
    """Numbers as cells of their columns again."""
    new = {}
    for j, name in enumerate(task.step.columns):
        column = read_column(task.table[name], task.facts[name])
        keeps = task.request.integers == "round" or name in task.whole or task.step.method in _REUSING
        gone = np.isnan(X[:, j])
        new[name] = column.native(np.where(gone, 0.0, X[:, j]), gone, round_integers=keeps)
    return new


def _noise(task: Task) -> Treated:
    step = task.step
    scale = 0.1 if step.scale is None else step.scale
    X = add_noise(_numbers(task, step.columns), scale, task.seed, correlated=step.correlated)
    return _changed(task, _as_cells(task, X), scale=scale)


def _rank_swap(task: Task) -> Treated:
    share = 0.05 if task.step.share is None else task.step.share
    X = rank_swap(_numbers(task, task.step.columns), share, task.seed)
    return _changed(task, _as_cells(task, X), share=share)


def _shuffle(task: Task) -> Treated:
    step = task.step
    given = None
    if step.given:
        fixed = [read_column(task.table[name], task.facts[name]) for name in step.given]
        given = Encoder.fit(fixed).transform(fixed)
    return _changed(task, _as_cells(task, shuffle(_numbers(task, step.columns), given, task.seed)))


def _pram(task: Task) -> Treated:
    step, new = task.step, {}
    for at, name in enumerate(step.columns):
        levels = task.facts[name].levels
        seed = np.random.default_rng([task.seed, at])
        if step.matrix is None:
            new[name] = pram(task.table[name], step.probability, seed)
        else:
            new[name] = pram(
                task.table[name], None, seed, matrix=step.matrix, levels=levels, invariant=step.invariant
            )
    changed = {name: int((~task.table[name].eq_missing(cells)).sum()) for name, cells in new.items()}
    return _changed(task, new, changed_cells=changed)


def _ends(task: Task) -> Treated:
    step, new, beyond = task.step, {}, 0
    for name in step.columns:
        cells = task.table[name]
        if not cells.dtype.is_numeric():
            raise InputError(
                f"The step 'code-ends' needs numbers. Column {name!r} holds cells of type {cells.dtype}."
            )
        new[name] = code_ends(cells, step.bottom, step.top)
        beyond += int((new[name] != cells).sum())
    return _changed(task, new, changed_cells=beyond)


def _round(task: Task) -> Treated:
    assert task.step.to is not None
    return _changed(
        task, {name: round_to(task.table[name], task.step.to) for name in task.step.columns}, to=task.step.to
    )


def _swap(task: Task) -> Treated:
    step = task.step
    done = swap_records(
        task.table, step.columns, step.given, similar=step.similar, households=task.household, k=task.k,
        share=step.share or 0.0, random_state=task.seed,
    )  # fmt: skip
    new = {name: done.frame[name] for name in step.columns}
    return _changed(
        task, new, units=done.n_units, swapped=done.n_swapped, standing_out=done.n_risky, stayed=done.n_left
    )


_REUSING = ("rank-swap", "shuffle")
_PERTURBING = {
    "noise": _noise,
    "rank-swap": _rank_swap,
    "shuffle": _shuffle,
    "pram": _pram,
    "code-ends": _ends,
    "round": _round,
    "swap-records": _swap,
}


def _dense(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64).reshape(-1)


def check_methods(steps: tuple[Step, ...]) -> None:
    """Raise a sentence for a step whose method there is not."""
    from shoal.microaggregation import methods
    from shoal.schema.steps import TAKES

    known = (*TAKES, *methods())
    for step in steps:
        if step.method not in known:
            raise ParameterError(
                f"'method' of a step must be one of {', '.join(known)}. Got {step.method!r}."
            )
