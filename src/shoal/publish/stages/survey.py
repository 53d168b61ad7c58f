"""What one pass over a table finds: counts, exact moments, levels, strata, sensitive values and an even sample.

`survey_batch` looks at one batch, and `combine` joins two results. Both are pure, so the pass runs on one machine or
on many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import read_column
from shoal.publish.stages.roles import Roles
from shoal.risk import weights_in
from shoal.schema import Column

ROW, ROWS = "__row__", "__rows__"


@dataclass(frozen=True)
class Moments:
    """Count, mean, sum of squared deviations and range of the cells that are there.

    Mean and squares are in units of `unit`, a power of two no smaller than the largest cell, so that neither
    overflows; a power of two rounds nothing.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    unit: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """Moments of an array."""
        if values.size == 0:
            return cls()
        low, high = float(values.min()), float(values.max())
        unit = 2.0 ** min(1023, int(np.frexp(max(abs(low), abs(high)))[1]))
        # Around one of the values: a large common offset does not cancel.
        first = values[0] / unit
        scaled = values / unit - first
        mean = float(scaled.mean())
        return cls(values.size, first + mean, float(((scaled - mean) ** 2).sum()), low, high, unit)

    def joined(self, other: Moments) -> Moments:
        """Moments of both (Chan, Golub and LeVeque)."""
        if self.count == 0 or other.count == 0:
            return other if self.count == 0 else self
        count, unit = self.count + other.count, max(self.unit, other.unit)
        (mean, squares), (their_mean, theirs) = self._in(unit), other._in(unit)
        gap = their_mean - mean
        return Moments(
            count,
            mean + gap * other.count / count,
            squares + theirs + gap * gap * self.count * other.count / count,
            min(self.low, other.low),
            max(self.high, other.high),
            unit,
        )

    def _in(self, unit: float) -> tuple[float, float]:
        factor = self.unit / unit
        return self.mean * factor, self.squares * factor * factor


@dataclass(frozen=True)
class ColumnSurvey:
    """What was found in one column."""

    moments: Moments
    levels: dict[Any, int]
    missing: int
    dtype: Any


@dataclass(frozen=True)
class Survey:
    """What was found in all batches so far.

    Attributes
    ----------
    n_rows, n_kept : int
        Rows, and rows that are not dropped for a missing cell.
    columns : tuple of ColumnSurvey
        The quasi-identifiers, then the cells kept beside the changed ones.
    strata : dict
        Rows of each stratum.
    sensitive : tuple of polars.DataFrame
        For each sensitive column its different values and their rows.
    sample : polars.DataFrame
    """

    n_rows: int
    n_kept: int
    columns: tuple[ColumnSurvey, ...]
    strata: dict[tuple[Any, ...], int]
    sensitive: tuple[pl.DataFrame, ...]
    sample: pl.DataFrame


def survey_batch(batch: pl.DataFrame, roles: Roles, share: float) -> Survey:
    """Survey one decoded batch. Its column `__row__` numbers the rows of the whole table.

    Parameters
    ----------
    share : float
        Share of the rows for the sample, chosen by a hash of the row number.
    """
    n_rows = batch.height
    weights_of(batch, roles.weight)  # refuses what is no weight
    batch = kept_rows(batch, roles.quasi)
    found = tuple(_look(batch[fact.name], fact) for fact in (*roles.quasi, *roles.raw))
    sizes = {}
    if roles.strata:
        counted = batch.group_by(roles.strata).len(ROWS)
        sizes = {tuple(row[:-1]): row[-1] for row in counted.iter_rows()}
    sensitive = tuple(batch.group_by(name).len(ROWS) for name in roles.modelled)
    chosen = batch if share >= 1 else batch.filter(pl.Series(_hash(batch[ROW].to_numpy()) < share * 2.0**64))
    return Survey(n_rows, batch.height, found, sizes, sensitive, chosen)


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
        tuple(
            pl.concat([a, b]).group_by(a.columns[0]).agg(pl.col(ROWS).sum())
            for a, b in zip(one.sensitive, two.sensitive, strict=True)
        ),
        pl.concat([one.sample, two.sample]),
    )


def surveyed(found: Iterable[Survey]) -> Survey:
    """All of them together."""
    whole = reduce(combine, found)
    return replace(whole, sample=whole.sample.sort(ROW))


def kept_rows(batch: pl.DataFrame, facts: Iterable[Column]) -> pl.DataFrame:
    """The batch without rows that are dropped because a cell is missing."""
    for fact in facts:
        if fact.on_missing == "drop":
            missing = read_column(batch[fact.name], replace(fact, levels=None)).missing
            batch = batch.filter(pl.Series(~missing))
    return batch


def weights_of(batch: pl.DataFrame, name: str | None) -> np.ndarray:
    """The survey weights of some rows, 1 each without any; raises a sentence where weights are not weights."""
    return np.ones(batch.height) if name is None else weights_in(batch[name])


def _look(series: pl.Series, fact: Column) -> ColumnSurvey:
    if fact.kind not in ("category", "boolean", "ordered"):
        column = read_column(series, fact)
        present = column.values if not column.missing.any() else column.values[~column.missing]
        return ColumnSurvey(Moments.of(present), {}, int(column.missing.sum()), column.dtype)
    column = read_column(series, fact)
    missing = int(column.missing.sum())
    if column.levels is None or (missing == series.len() and fact.levels is None):
        return ColumnSurvey(Moments(), {}, missing, series.dtype)
    codes = column.values[~column.missing].astype(np.int64)
    counts = np.bincount(codes, minlength=column.levels.len())
    levels = dict(zip(column.levels.to_list(), counts.tolist(), strict=True))
    return ColumnSurvey(Moments(), levels if missing < series.len() else {}, missing, series.dtype)


def _joined(a: ColumnSurvey, b: ColumnSurvey) -> ColumnSurvey:
    levels = dict(a.levels)
    for level, count in b.levels.items():
        levels[level] = levels.get(level, 0) + count
    dtype = pl.Float64() if {str(a.dtype), str(b.dtype)} == {"Int64", "Float64"} else a.dtype
    return ColumnSurvey(a.moments.joined(b.moments), levels, a.missing + b.missing, dtype)


def _hash(rows: np.ndarray) -> np.ndarray:
    """Row numbers scattered over 0..2^64-1 (splitmix64), so that a periodic table is sampled evenly."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
