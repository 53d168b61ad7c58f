"""The columns of a protection: what became of each, and original beside protected."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import MICROSECONDS_PER_DAY, TypedColumn, parse_dates, parse_numbers, read_column
from shoal.engine.labels import limits
from shoal.report.words import counted, number, percent
from shoal.schema import Column, Schema

# Pictures are drawn of at most this many records, evenly chosen, and levels.
DRAWN_RECORDS = 200_000
DRAWN_LEVELS = 8
EPOCH = datetime.date(1970, 1, 1)

_SINGLE = (("weights", "weight"), ("households", "household"))
_AGGREGATES = {"number": "mean", "date": "mean", "ordered": "median"}
_ROLES = {
    "quasi": "protected",
    "stratum": "stratum",
    "sensitive": "sensitive",
    "weight": "weight",
    "household": "household",
    "identifier": "identifier",
    "leave": "left",
}


@dataclass(frozen=True)
class LeftColumn:
    """A column published as it is: its role, its different values, and the records alone with theirs."""

    name: str
    role: str
    distinct: int
    alone: int
    meaning: str


@dataclass(frozen=True)
class ColumnsFact:
    """Columns of one role, and what became of them."""

    role: str
    names: tuple[str, ...]
    treatment: str


@dataclass(frozen=True)
class ColumnComparison:
    """A column before and after, ready to be drawn: values, or shares of levels where there are levels."""

    name: str
    kind: str
    before: np.ndarray
    after: np.ndarray
    levels: tuple[str, ...]
    caption: tuple[str, ...]


def column_facts(settings: Mapping[str, Any], schema: Schema) -> tuple[ColumnsFact, ...]:
    """Every column of the table by what became of it, the protected ones first."""
    roles = (
        [(name, "quasi") for name in settings.get("columns", ())]
        + [(name, "stratum") for name in settings.get("strata", ())]
        + [(settings[key], role) for key, role in _SINGLE if settings.get(key)]
        + [(name, role) for name, role in left_roles(settings) if role != "identifier"]
        + [(name, "identifier") for name in settings.get("identifiers", {})]
    )
    alike: dict[tuple[str, str], list[str]] = {}
    for name, role in roles:
        alike.setdefault((_ROLES[role], _treatment(name, role, settings, schema)), []).append(name)
    return tuple(ColumnsFact(role, tuple(names), what) for (role, what), names in alike.items())


def left_roles(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Columns published without protection, and their roles."""
    roles = [(name, "sensitive") for name in settings.get("sensitive", ())]
    roles += [(name, "leave") for name in settings.get("left", ())]
    return roles + [
        (name, "identifier") for name, how in settings.get("identifiers", {}).items() if how != "drop"
    ]


def left_columns(table: pl.DataFrame, settings: Mapping[str, Any]) -> tuple[tuple[LeftColumn, ...], float]:
    """The unprotected columns of the published table, and the share of records that those left by name single out."""
    left = []
    for name, role in left_roles(settings):
        if name in table.columns:
            distinct, alone = _singled_out(table, [name])
            left.append(LeftColumn(name, role, distinct, alone, _left_meaning(role, alone, table.height)))
    plain = [each.name for each in left if each.role == "leave"]
    together = _singled_out(table, plain)[1] / max(table.height, 1) if plain else 0.0
    return tuple(left), together


def compare_columns(
    original: pl.DataFrame,
    protected: pl.DataFrame,
    schema: Schema,
    names: Sequence[str],
    loss: Mapping[str, float],
    weights: str | None = None,
) -> tuple[ColumnComparison, ...]:
    """Original and protected cells of some columns, read by the schema; means count the survey weights."""
    step = -(-original.height // DRAWN_RECORDS)
    original, protected = original.gather_every(step), protected.gather_every(step)
    mass = original[weights].cast(pl.Float64).to_numpy() if weights in original.columns else None
    compared = []
    for name in names:
        facts = _facts(schema, name, original[name])
        drawn = _intervals_apart(original[name], protected[name], facts, loss.get(name))
        if drawn is not None:
            compared.append(drawn)
            continue
        before, after = _read(original[name], protected[name], facts)
        compared.append(
            _levels_apart(before, after, loss.get(name))
            if before.levels is not None
            else _values_apart(before, after, loss.get(name), mass)
        )
    return tuple(compared)


def _read(original: pl.Series, protected: pl.Series, facts: Column) -> tuple[TypedColumn, TypedColumn]:
    """A column before and after by one list of levels; a recoded or coarsened one has new ones, which stand behind."""
    if not facts.recode and not _coarsened(original, protected):
        before = read_column(original, facts)
        return before, read_column(protected, replace(facts, missing_codes=()), before.levels)
    plain = Column(facts.name, kind="category")
    cells = [each.cast(pl.String).drop_nulls().unique().sort() for each in (original, protected)]
    levels = pl.concat(cells).unique(maintain_order=True)
    before, after = (read_column(each.cast(pl.String), plain, levels) for each in (original, protected))
    return before, after


def _intervals_apart(
    original: pl.Series, protected: pl.Series, facts: Column, loss: float | None
) -> ColumnComparison | None:
    """Numbers or dates that became intervals, drawn as spread evenly over them; None where a label names none."""
    if facts.kind not in ("number", "date") or not _coarsened(original, protected):
        return None
    before = read_column(original, facts)
    present = before.values[~before.missing]
    if isinstance(before.dtype, pl.Datetime):
        present = present / MICROSECONDS_PER_DAY
    if not present.size:
        return None
    counts = protected.drop_nulls().alias("cells").value_counts()
    exact = (parse_dates if facts.kind == "date" else parse_numbers)(counts.to_series(0))
    spread = []
    for label, records, value in zip(counts.to_series(0), counts.to_series(1), exact, strict=True):
        here = limits(label, date=facts.kind == "date") if value is None else _ends(value)
        if here is None:
            return None
        low, high = np.clip(here, present.min(), present.max())
        spread.append(low + (high - low) * (np.arange(records) + 0.5) / records)
    words = () if loss is None else (f"loss {percent(loss)}",)
    return ColumnComparison(
        facts.name,
        facts.kind,
        present,
        np.concatenate([np.empty(0), *spread]),  # a column that is suppressed as a whole has none
        (),
        (*words, "drawn as spread over its intervals"),
    )


def _ends(value: Any) -> tuple[float, float]:
    """An exact number, or a date as its day."""
    if isinstance(value, datetime.datetime):
        value = value.date()
    at = float((value - EPOCH).days if isinstance(value, datetime.date) else value)
    return at, at


def _coarsened(original: pl.Series, protected: pl.Series) -> bool:
    """Whether values became names of sets that they lie in."""
    if protected.dtype != pl.String:
        return False
    return (
        original.dtype != pl.String
        or not protected.drop_nulls().is_in(original.drop_nulls().unique().implode()).all()
    )


def _steps_of(name: str, schema: Schema) -> str:
    """The steps that treat a column, in their order, as the schema of the run has them."""
    named = [f"step {at}, {step.method}" for at, step in enumerate(schema.steps, 1) if name in step.columns]
    return "; then ".join(named) or "the steps below"


def _treatment(name: str, role: str, settings: Mapping[str, Any], schema: Schema) -> str:
    facts = schema.columns.get(name, Column(name))
    how = facts.aggregate or _AGGREGATES.get(facts.kind, "mode")
    weighted = "weighted " if settings.get("weights") and how in ("mean", "median", "mode") else ""
    changed = {
        "generalize": f"{facts.kind}: coarsened as far as its class needs; every cell is true",
        "suppress": f"{facts.kind}: single cells made missing; every other cell is true",
        "steps": f"{facts.kind}: treated by {_steps_of(name, schema)}",
    }
    return {
        "quasi": changed.get(
            settings.get("method", ""), f"{facts.kind}: replaced by the {weighted}{how} of its group"
        ),
        "stratum": "groups never cross its values; published, and part of the check",
        "sensitive": "published as it is",
        "weight": "used as survey weight; published as the mean of its group, so that totals hold",
        "household": "rows that share its value are one household; the number itself is "
        + ("dropped" if settings.get("hidden") == "drop" else "replaced by a keyed hash"),
        "identifier": "dropped"
        if settings.get("identifiers", {}).get(name) == "drop"
        else "replaced by a keyed hash",
        "leave": "published as it is",
    }[role]


def _left_meaning(role: str, alone: int, height: int) -> str:
    share = f"{counted(alone, 'record')} ({percent(100 * alone / max(height, 1))})" if alone else "No record"
    has = "have" if alone > 1 else "has"
    words = f"{share} {has} a value of {'their' if alone > 1 else 'its'} own."
    if role == "sensitive":
        return words + " Who finds a person's group learns the values that occur in it."
    if role == "identifier":
        return (
            words
            + " A keyed hash still joins rows of one person, here and in any table hashed with the same key."
        )
    return words


def _singled_out(table: pl.DataFrame, names: list[str]) -> tuple[int, int]:
    """Different combinations of some columns, and records that are alone with theirs."""
    sizes = table.lazy().select(names).group_by(names).len("").select("").collect().to_series()
    return sizes.len(), int((sizes == 1).sum())


def _facts(schema: Schema, name: str, series: pl.Series) -> Column:
    if name in schema.columns:
        return schema.columns[name]
    if series.dtype in (pl.Date, pl.Datetime):
        return Column(name, kind="date")
    return Column(name, kind="number" if series.dtype.is_numeric() else "category")


def _values_apart(
    before: TypedColumn, after: TypedColumn, loss: float | None, mass: np.ndarray | None
) -> ColumnComparison:
    values, means, deviations = [], [], []
    for column in (before, after):
        here = ~column.missing
        present = column.values[here]
        counts = None if mass is None or not mass[here].sum() > 0 else mass[here]
        if present.size and column.facts.kind == "number":
            mean, deviation = _moments(present, counts)
            means.append(mean)
            deviations.append(deviation)
        values.append(present / MICROSECONDS_PER_DAY if isinstance(column.dtype, pl.Datetime) else present)
    words = []
    if len(means) == 2:
        kind = "mean" if mass is None else "weighted mean"
        words = [_moved(kind, *means), _moved("deviation", *deviations)]
    return ColumnComparison(
        before.name, before.facts.kind, values[0], values[1], (), _caption(words, loss, before, after)
    )


def _moments(values: np.ndarray, counts: np.ndarray | None) -> tuple[float, float]:
    """Mean and deviation, in units of a power of two so that no square overflows."""
    unit = 2.0 ** (int(np.frexp(np.abs(values).max())[1]) - 1)
    scaled = values / unit
    mean = np.average(scaled, weights=counts)
    deviation = np.sqrt(np.average((scaled - mean) ** 2, weights=counts))
    return float(mean * unit), float(deviation * unit)


def _levels_apart(before: TypedColumn, after: TypedColumn, loss: float | None) -> ColumnComparison:
    """Shares of the levels; the most frequent ones where there are many, the rest and missing ones apart."""
    assert before.levels is not None
    count = before.levels.len()
    shares = []
    for column in (before, after):
        codes = np.where(column.missing, count, column.values.astype(np.int64))
        shares.append(np.bincount(codes, minlength=count + 1) / max(codes.size, 1))
    names = [str(level) for level in before.levels] + ["(missing)"]
    order = np.argsort(-shares[0][:count], kind="stable")
    kept = order[:DRAWN_LEVELS]
    if before.facts.kind == "ordered" or count <= 2:
        kept = np.sort(kept)
    rest = order[DRAWN_LEVELS:]
    levels = [names[each] for each in kept]
    rows = [[each[kept[j]] for j in range(kept.size)] for each in shares]
    if rest.size:
        levels.append(f"({rest.size} more)")
        for row, each in zip(rows, shares, strict=True):
            row.append(each[rest].sum())
    if shares[0][count] + shares[1][count] > 0:
        levels.append("(missing)")
        for row, each in zip(rows, shares, strict=True):
            row.append(each[count])
    words = [counted(count, "value")] if count > DRAWN_LEVELS else []
    return ColumnComparison(
        before.name,
        before.facts.kind,
        np.array(rows[0]),
        np.array(rows[1]),
        tuple(levels),
        _caption(words, loss, before, after),
    )


def _caption(
    words: list[str], loss: float | None, before: TypedColumn, after: TypedColumn
) -> tuple[str, ...]:
    if loss is not None:
        words = [f"loss {percent(loss)}", *words]
    gone = int(before.missing.sum()), int(after.missing.sum())
    if any(gone):
        words = [*words, _moved("missing", *gone)]
    return tuple(words)


def _moved(what: str, before: float, after: float) -> str:
    """A figure before and after, or once where the two read alike."""
    first, second = number(before), number(after)
    return f"{what} {first}" if first == second else f"{what} {first} → {second}"
