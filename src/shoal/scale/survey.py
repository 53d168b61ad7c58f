"""What one pass over a table finds: counts, exact moments, levels, strata and an even sample.

`survey_batch` looks at one batch, `combine` joins two results; both are pure, so that the pass runs on one
machine or on many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import read_column
from shoal.errors import InputError
from shoal.schema import Column

ROW = "__row__"
# Beyond this the squares of a pass over the table overflow.
LARGEST = 1e140


@dataclass(frozen=True)
class Moments:
    """Count, mean, sum of squared deviations and range of the cells that are there."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Moments of an array."""
        if values.size == 0:
            return cls()
        if np.abs(values).max() > LARGEST:
            raise InputError(
                f"Numbers of a large table must lie within {LARGEST:g}. Got {np.abs(values).max():g}."
            )
        mean = float(values.mean())
        return cls(
            values.size, mean, float(((values - mean) ** 2).sum()), float(values.min()), float(values.max())
        )

    def joined(self, other: Moments) -> Moments:
        """Moments of both (Chan, Golub and LeVeque)."""
        count = self.count + other.count
        if count == 0:
            return self
        gap = other.mean - self.mean
        return Moments(
            count,
            self.mean + gap * other.count / count,
            self.squares + other.squares + gap * gap * self.count * other.count / count,
            min(self.low, other.low),
            max(self.high, other.high),
        )


@dataclass(frozen=True)
class ColumnSurvey:
    """What was found in one quasi-identifier."""

    moments: Moments
    levels: dict[Any, int]
    missing: int
    dtype: Any


@dataclass(frozen=True)
class Survey:
    """What was found in all batches so far."""

    n_rows: int
    n_kept: int
    columns: tuple[ColumnSurvey, ...]
    strata: dict[tuple[Any, ...], int]
    weighted: bool
    sample: pl.DataFrame


def survey_batch(
    batch: pl.DataFrame, facts: Iterable[Column], strata: list[str], weights: str | None, share: float
) -> Survey:
    """Look at one batch; its column `__row__` numbers the rows of the whole table.

    Parameters
    ----------
    share : float
        Share of the rows for the sample, chosen by a hash of the row number.
    """
    facts = list(facts)
    n_rows = batch.height
    weighted = _check_weights(batch, weights)
    batch = kept_rows(batch, facts)
    found = []
    for fact in facts:
        if fact.kind in ("category", "boolean", "ordered"):
            series = (
                read_column(batch[fact.name], replace(fact, levels=None)) if fact.levels is None else None
            )
            column = series if series is not None else read_column(batch[fact.name], fact)
            counts = np.bincount(
                column.values[~column.missing].astype(np.int64),
                minlength=0 if column.levels is None else column.levels.len(),
            )
            levels = (
                {}
                if column.levels is None
                else dict(zip(column.levels.to_list(), counts.tolist(), strict=True))
            )
            if column.missing.all():
                levels = {}
            found.append(ColumnSurvey(Moments(), levels, int(column.missing.sum()), batch[fact.name].dtype))
        else:
            column = read_column(batch[fact.name], fact)
            present = column.values if not column.missing.any() else column.values[~column.missing]
            found.append(ColumnSurvey(Moments.of(present), {}, int(column.missing.sum()), column.dtype))
    sizes = {}
    if strata:
        counted = batch.group_by(strata).len()
        sizes = {tuple(row[:-1]): row[-1] for row in counted.iter_rows()}
    chosen = _hash(batch[ROW].to_numpy()) < share * 2.0**64
    return Survey(n_rows, batch.height, tuple(found), sizes, weighted, batch.filter(pl.Series(chosen)))


def combine(one: Survey, two: Survey) -> Survey:
    """What was found in two sets of batches."""
    strata = dict(one.strata)
    for key, count in two.strata.items():
        strata[key] = strata.get(key, 0) + count
    return Survey(
        one.n_rows + two.n_rows,
        one.n_kept + two.n_kept,
        tuple(_joined(a, b) for a, b in zip(one.columns, two.columns, strict=True)),
        strata,
        one.weighted or two.weighted,
        pl.concat([one.sample, two.sample]),
    )


def survey(found: Iterable[Survey]) -> Survey:
    """All of them together."""
    return reduce(combine, found)


def kept_rows(batch: pl.DataFrame, facts: Iterable[Column]) -> pl.DataFrame:
    """The batch without rows that miss a cell of a column whose policy is to drop them."""
    for fact in facts:
        if fact.on_missing == "drop":
            missing = read_column(batch[fact.name], replace(fact, levels=None)).missing
            batch = batch.filter(pl.Series(~missing))
    return batch


def _joined(a: ColumnSurvey, b: ColumnSurvey) -> ColumnSurvey:
    levels = dict(a.levels)
    for level, count in b.levels.items():
        levels[level] = levels.get(level, 0) + count
    dtype = pl.Float64() if {str(a.dtype), str(b.dtype)} == {"Int64", "Float64"} else a.dtype
    return ColumnSurvey(a.moments.joined(b.moments), levels, a.missing + b.missing, dtype)


def _check_weights(batch: pl.DataFrame, name: str | None) -> bool:
    """Raise a sentence where weights are not weights; whether some are above 0."""
    if name is None:
        return True
    series = batch[name]
    values = (
        series.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        if series.dtype != pl.Boolean
        else np.array([np.nan])
    )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise InputError(
            f"The weights {name!r} must be finite numbers of at least 0, some above 0, none missing."
        )
    return bool((values > 0).any())


def _hash(rows: np.ndarray) -> np.ndarray:
    """Row numbers scattered over 0..2^64-1 (splitmix64), so that a periodic table is sampled evenly."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
