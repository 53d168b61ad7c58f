"""Steps that change cells one by one: noise, swapping, shuffling, PRAM, coded ends, rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder
from shoal.errors import InputError
from shoal.masking import (
    add_noise,
    code_ends,
    pram,
    rank_swap,
    round_to,
    shuffle,
    swap_records,
)
from shoal.publish.treatments.steps.task import StepTask, Treated


def column_losses(before: list[TypedColumn], after: list[TypedColumn], encoder: Encoder) -> dict[str, float]:
    """Share of each column's variation that is gone."""
    gap = (encoder.transform(before) - encoder.transform(after)) ** 2
    whole = encoder.transform(before) ** 2
    ends = np.cumsum([0, *encoder.widths()])
    found = {}
    for column, start, end in zip(before, ends[:-1], ends[1:], strict=True):
        total = float(whole[:, start:end].sum())
        found[column.name] = float(gap[:, start:end].sum()) / total if total > 0 else 0.0
    return found


def _changed(task: StepTask, new: Mapping[str, pl.Series], **facts: Any) -> Treated:
    """A perturbation: what it lost in numbers by their variation, in other columns by the share of changed cells."""
    losses = {}
    for name, cells in new.items():
        old, fact = task.table[name], task.facts[name]
        if fact.kind == "number":
            before, after = read_column(old, fact), read_column(cells, fact)
            losses[name] = column_losses([before], [after], Encoder.fit([before]))[name]
        else:
            losses[name] = int((~old.cast(pl.String).eq_missing(cells.cast(pl.String))).sum()) / max(
                1, old.len()
            )
    return Treated(new, losses, facts)


def _numbers(task: StepTask, names: tuple[str, ...]) -> np.ndarray:
    """Columns as numbers, NaN where a cell is missing."""
    columns = [read_column(task.table[name], task.facts[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.is_coded:
            raise InputError(
                f"The step {task.step.method!r} needs numbers. Column {name!r} holds categories."
            )
    return np.stack([np.where(each.missing, np.nan, each.values) for each in columns], axis=1)


def _as_cells(task: StepTask, X: np.ndarray) -> dict[str, pl.Series]:
    """Numbers as cells of their columns again."""
    new = {}
    for j, name in enumerate(task.step.columns):
        column = read_column(task.table[name], task.facts[name])
        keeps = task.request.integers == "round" or name in task.whole or task.step.method in REUSING
        gone = np.isnan(X[:, j])
        new[name] = column.native(np.where(gone, 0.0, X[:, j]), gone, round_integers=keeps)
    return new


def _noise(task: StepTask) -> Treated:
    step = task.step
    scale = 0.1 if step.scale is None else step.scale
    X = add_noise(_numbers(task, step.columns), scale, task.seed, correlated=step.correlated)
    return _changed(task, _as_cells(task, X), scale=scale)


def _rank_swap(task: StepTask) -> Treated:
    share = 0.05 if task.step.share is None else task.step.share
    X = rank_swap(_numbers(task, task.step.columns), share, task.seed)
    return _changed(task, _as_cells(task, X), share=share)


def _shuffle(task: StepTask) -> Treated:
    step = task.step
    given = None
    if step.given:
        fixed = [read_column(task.table[name], task.facts[name]) for name in step.given]
        given = Encoder.fit(fixed).transform(fixed)
    return _changed(task, _as_cells(task, shuffle(_numbers(task, step.columns), given, task.seed)))


def _pram(task: StepTask) -> Treated:
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


def _ends(task: StepTask) -> Treated:
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


def _round(task: StepTask) -> Treated:
    assert task.step.to is not None
    return _changed(
        task, {name: round_to(task.table[name], task.step.to) for name in task.step.columns}, to=task.step.to
    )


def _swap(task: StepTask) -> Treated:
    step = task.step
    done = swap_records(
        task.table, step.columns, step.given, similar=step.similar, households=task.household, k=task.k,
        share=step.share or 0.0, random_state=task.seed,
    )  # fmt: skip
    new = {name: done.frame[name] for name in step.columns}
    return _changed(
        task, new, units=done.n_units, swapped=done.n_swapped, standing_out=done.n_risky, stayed=done.n_left
    )


REUSING = ("rank-swap", "shuffle")
PERTURBING = {
    "noise": _noise,
    "rank-swap": _rank_swap,
    "shuffle": _shuffle,
    "pram": _pram,
    "code-ends": _ends,
    "round": _round,
    "swap-records": _swap,
}
