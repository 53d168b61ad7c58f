"""The new cells of one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from shoal.engine.aggregate import aggregate
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder
from shoal.engine.roles import row_codes
from shoal.errors import InputError, ParameterError
from shoal.generalization import Generalize, Recoder, Suppress
from shoal.microaggregation import join_small_strata, methods, partition_within, resolve_method, split_strata
from shoal.privacy import merge_for_diversity
from shoal.publish.stages.survey import weights_of
from shoal.publish.treatments.steps.perturb import PERTURBING, column_losses
from shoal.publish.treatments.steps.task import StepTask, Treated
from shoal.publish.treatments.truthful import given_hierarchies, hierarchy_for
from shoal.schema import Column, Step


def treat(task: StepTask) -> Treated:
    """Do one step."""
    if task.step.is_truthful:
        return _coarsened(task)
    if task.step.is_grouping:
        return _grouped(task)
    return PERTURBING[task.step.method](task)


def _coarsened(task: StepTask) -> Treated:
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
    _refuse_conditions(task, apart=strata is not None)
    also = (*(task.sensitive if step.conditions else ()), *([task.apart] if task.apart else []))
    keys = _dates(table.select(*step.columns, *also), task.facts)
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
    facts: dict[str, object] = {"loss": loss, "classes": sum(each.n_groups_ for each in fitted)}
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


def _refuse_conditions(task: StepTask, *, apart: bool) -> None:
    """Raise a sentence where a step's conditions are on nothing, or on shares that its parts do not know."""
    asked = task.step.conditions
    if not asked:
        return
    if not task.sensitive:
        raise InputError(
            f"The condition {next(iter(asked))!r} of a step is on sensitive columns, and no column has that role."
        )
    treated = [name for name in task.sensitive if name in task.step.columns]
    if treated:
        raise InputError(
            f"A step with conditions on sensitive columns does not treat them itself. Got {treated[0]!r}."
        )
    compared = [name for name in asked if name in ("t", "beta", "enhanced_beta", "delta_disclosure")]
    if apart and compared:
        raise InputError(
            f"The condition {compared[0]!r} compares with the whole table, so its step cannot stay within other columns: set "
            "within = [] in it."
        )


def _losses(recoder: Recoder) -> dict[str, float]:
    if isinstance(recoder, Suppress):
        return {name: count / recoder.labels_.size for name, count in recoder.suppressed_.items()}
    assert isinstance(recoder, Generalize)
    return recoder.losses_


def _recoder(task: StepTask, table: pl.DataFrame) -> Recoder:
    step, request = task.step, task.request
    importance = {
        name: task.facts[name].importance for name in step.columns if task.facts[name].importance != 1.0
    }
    if step.method == "suppress":
        return Suppress(
            k=task.k, reading=step.reading or "strict", importance=importance, columns=list(step.columns),
            subsets=step.subsets, apart=task.apart, time_limit=request.time_limit, random_state=task.seed,
            certify="full" if request.certify else True,
        ).check()  # fmt: skip
    given = given_hierarchies(request, task.table.columns)
    found = {name: hierarchy_for(task.facts[name], given, table[name]) for name in step.columns}
    return Generalize(
        k=task.k, hierarchies={name: tree for name, tree in found.items() if tree is not None},
        breaks={n: task.facts[n].breaks or () for n in step.columns if task.facts[n].breaks and n not in given},
        recoding=step.recoding or "local", suppress_at_most=step.suppress_at_most or 0.0, importance=importance,
        objective=step.objective or "loss", classes=step.classes or "ancestors",
        columns=[*step.columns, *(task.sensitive if step.conditions else ())],
        sensitive=list(task.sensitive) if step.conditions else [], l=step.l, entropy_l=step.entropy_l, t=step.t,
        alpha=step.alpha, beta=step.beta, enhanced_beta=step.enhanced_beta, delta=step.delta_disclosure,
        apart=task.apart, time_limit=request.time_limit, random_state=task.seed,
        certify="full" if request.certify else table.height <= 5_000,
    ).check()  # fmt: skip


def _dates(keys: pl.DataFrame, facts: Mapping[str, Column]) -> pl.DataFrame:
    """Texts of dates as dates."""
    texts = [
        name
        for name in keys.columns
        if name in facts and facts[name].kind == "date" and keys.schema[name] == pl.String
    ]
    return keys.with_columns(pl.col(name).str.to_date(strict=False) for name in texts)


def _split(strata: np.ndarray) -> list[np.ndarray]:
    return np.split(np.argsort(strata, kind="stable"), np.cumsum(np.bincount(strata))[:-1])


def _grouped(task: StepTask) -> Treated:
    """Microaggregation of a set of columns of its own."""
    step, table = task.step, task.table
    columns = [read_column(table[name], task.facts[name]) for name in step.columns]
    _refuse_missing(columns)
    if table.height < task.k:
        raise InputError(
            f"A group needs k = {task.k} records, so the table must have at least that many. Got {table.height}."
        )
    request = task.request
    method = resolve_method(step.method, task.k, task.seed)
    if request.time_limit is not None and type(method).takes("time_limit"):
        method = resolve_method(step.method, task.k, task.seed, time_limit=request.time_limit)
    encoder = Encoder.fit(columns)
    Z = encoder.transform(columns)
    strata, crossed = _strata(task, Z, columns)
    labels, _ = partition_within(Z, method, strata, categories=encoder.modes(columns))
    labels = _of_households(task, labels, Z, strata)
    weights = weights_of(table, task.weight)
    new = aggregate(columns, labels, Z, weights, request.integers == "round")
    new = {
        name: _kept_apart(new[name], column, labels, task) for name, column in zip(new, columns, strict=True)
    }
    after = [read_column(new[each.name], replace(each.facts, levels=None), each.levels) for each in columns]
    sizes = np.bincount(labels)
    return Treated(
        new, column_losses(columns, after, encoder),
        {"groups": int(sizes.size), "smallest": int(sizes.min()), "largest": int(sizes.max())},
        notes=_group_notes(task, columns, crossed), crossed=crossed,
    )  # fmt: skip


def _group_notes(task: StepTask, columns: list[TypedColumn], crossed: int) -> tuple[str, ...]:
    """What became of missing cells, and of records whose classes are too small to stay within."""
    said = []
    filled = {each.name: int(each.missing.sum()) for each in columns if each.facts.on_missing == "impute"}
    counts = ", ".join(f"{name} {count:,}" for name, count in filled.items() if count)
    if counts:
        said.append(f"Missing cells that take the value of their group: {counts}.")
    if crossed:
        said.append(
            f"Step {task.step.method} of {', '.join(task.step.columns)}: {crossed:,} records lie in classes of "
            f"{', '.join(task.within)} smaller than k = {task.k}, and are grouped across them."
        )
    return tuple(said)


def _of_households(task: StepTask, labels: np.ndarray, Z: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The groups, joined until each holds k different households where those are counted."""
    if task.apart is None:
        return labels
    homes = row_codes(task.table, task.apart)
    assert homes is not None
    for rows in _split(strata):
        if np.unique(homes[rows]).size < task.k:
            raise InputError(
                f"A group needs k = {task.k} households in each class of {', '.join(task.within) or 'the table'}. One has "
                "fewer: name fewer columns in 'within', or count records."
            )
    return merge_for_diversity(labels, Z, homes, task.k, strata=strata)


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


def _strata(task: StepTask, Z: np.ndarray, columns: list[TypedColumn]) -> tuple[np.ndarray, int]:
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
    return split_strata(Z, _dense(outer), np.stack(patterns, axis=1), task.k), crossed


def _kept_apart(cells: pl.Series, column: TypedColumn, labels: np.ndarray, task: StepTask) -> pl.Series:
    """Zero where a member of the group has a zero that must stay; missing where one is missing and that is a value."""
    c = int(labels.max()) + 1
    if column.name in task.zeros:
        zero = np.bincount(labels, (column.values == 0) & ~column.missing, minlength=c)[labels] > 0
        cells = cells.set(pl.Series(zero), 0) if zero.any() else cells
    if column.facts.on_missing == "category" and column.missing.any():
        gone = np.bincount(labels, column.missing, minlength=c)[labels] > 0
        cells = cells.set(pl.Series(gone), None)
    return cells


def _dense(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64).reshape(-1)


def takes_time(step: Step) -> bool:
    """Whether a step can be ended by the clock."""
    return step.is_truthful or (step.is_grouping and methods()[step.method].takes("time_limit"))


def check_methods(steps: tuple[Step, ...]) -> None:
    """Raise a sentence for a step whose method there is not."""
    from shoal.schema.steps import TAKES

    known = (*TAKES, *methods())
    for step in steps:
        if step.method not in known:
            raise ParameterError(
                f"'method' of a step must be one of {', '.join(known)}. Got {step.method!r}."
            )
