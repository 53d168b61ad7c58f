"""One column of both tables in a common coding: what a person's cell is, and what a published cell may stand for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from shoal.engine.columns import parse_dates, parse_numbers
from shoal.engine.labels import ANYTHING, OPEN, limits
from shoal.schema import Column


@dataclass(frozen=True)
class ComparedColumn:
    """A column that both tables have.

    Attributes
    ----------
    name : str
    facts : Column
    numeric : bool
        Whether cells are numbers (or dates, or an order) rather than categories.
    centre, scale : float
        Of the original numbers.
    levels : polars.Series or None
        Of the original categories; a person's code one beyond them is a level that the original does not have.
    weight : float
        Of a mismatch, or of a squared difference in deviations: two random people differ by 2 on average.
    low, high : arrays of float64, (n_published,)
        The interval of each published number in deviations; of a category the code of its label, twice.
    fits : array of uint8, (n_labels, n_levels + 1)
        Which levels a label may stand for; empty for numbers.
    untouched : bool
        Whether every published cell is the original one.
    """

    name: str
    facts: Column
    numeric: bool
    centre: float
    scale: float
    levels: pl.Series | None
    weight: float
    low: np.ndarray
    high: np.ndarray
    fits: np.ndarray
    untouched: bool

    def people(self, series: pl.Series) -> np.ndarray:
        """Cells of people in this coding; NaN where a cell is missing."""
        if self.numeric:
            return (numbers_of(series, self.facts) - self.centre) / self.scale
        texts = texts_of(series)
        assert self.levels is not None
        codes = texts.replace_strict(
            self.levels,
            pl.Series(np.arange(self.levels.len())),
            default=self.levels.len(),
            return_dtype=pl.Float64,
        )
        return codes.set(texts.is_null(), None).fill_null(np.nan).to_numpy().copy()

    def middles(self) -> np.ndarray:
        """One value for each published cell: the middle of an interval, the likeliest level of a label; NaN if open."""
        if self.numeric:
            half_open = np.isinf(self.low) | np.isinf(self.high)
            closed = np.where(half_open, 0.0, self.low) / 2 + np.where(half_open, 0.0, self.high) / 2
            ends = np.where(np.isinf(self.low), self.high, self.low)
            return np.where(half_open, np.where(np.isinf(ends), np.nan, ends), closed)
        width = self.fits.shape[1]
        points = self.fits[:, : width - 1].sum(axis=1)
        shares = np.bincount(
            np.argmax(self.fits, axis=1)[self.low.astype(np.int64)],
            weights=(points == 1)[self.low.astype(np.int64)],
            minlength=width,
        )
        likely = np.where(self.fits > 0, shares + 1e-9, -1.0).argmax(axis=1).astype(np.float64)
        likely[points == width - 1] = np.nan if width > 2 else likely[points == width - 1]
        return likely[self.low.astype(np.int64)]


def numbers_of(series: pl.Series, facts: Column) -> np.ndarray:
    """Cells as numbers, dates as days; NaN where there is none."""
    if series.dtype == pl.String:
        series = parse_dates(series) if facts.kind == "date" else parse_numbers(series)
    if series.dtype == pl.Date:
        series = series.to_physical()
    elif series.dtype == pl.Datetime:
        series = series.cast(pl.Datetime("us")).to_physical() / 86_400e6
    values = series.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    values[np.isinf(values)] = np.nan
    return values


def texts_of(series: pl.Series) -> pl.Series:
    """Cells as texts; a number is written alike whether it came as a whole number or with decimals."""
    if series.dtype.is_numeric():
        series = series.cast(pl.Float64).fill_nan(None)
    return series.cast(pl.String)


def is_numeric(facts: Column, dtype: pl.DataType) -> bool:
    """Whether distances mean something in a column."""
    return facts.kind in ("number", "date") or (facts.kind == "ordered" and dtype.is_numeric())


def read_axis(facts: Column, before: pl.Series, after: pl.Series, *, aligned: bool) -> ComparedColumn:
    """Both sides of a column; labels that are no original value are learned from the rows beside them where aligned."""
    if is_numeric(facts, before.dtype):
        return _numbers(facts, before, after, aligned=aligned)
    return _categories(facts, before, after, aligned=aligned)


def _numbers(facts: Column, before: pl.Series, after: pl.Series, *, aligned: bool) -> ComparedColumn:
    own = numbers_of(before, facts)
    known = own[~np.isnan(own)]
    centre = float(known.mean()) if known.size else 0.0
    unit = float(np.abs(known - centre).max()) if known.size else 0.0
    scale = float(((known - centre) / unit).std() * unit) if unit > 0 else 1.0
    low, high = _intervals(after, facts, own if aligned else None)
    same = aligned and bool(np.all((own == low) & (own == high) | (np.isnan(own) & np.isinf(low))))
    return ComparedColumn(
        facts.name, facts, True, centre, scale or 1.0, None, 1.0, (low - centre) / (scale or 1.0),
        (high - centre) / (scale or 1.0), np.zeros((0, 0), np.uint8), same,
    )  # fmt: skip


def _intervals(after: pl.Series, facts: Column, own: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """What each published cell says of a number: a point, an interval of its label, or nothing."""
    date = facts.kind == "date"
    if date and after.dtype.is_numeric() and after.drop_nulls().is_between(1000, 2999).all():  # years
        after = after.cast(pl.Int64, strict=False).cast(pl.String)
    points = numbers_of(after, facts)
    low, high = np.where(np.isnan(points), -np.inf, points), np.where(np.isnan(points), np.inf, points)
    odd = np.isnan(points) & after.is_not_null().to_numpy()
    if not odd.any() or after.dtype != pl.String:
        return low, high
    for label in after.filter(pl.Series(odd)).unique().to_list():
        rows = np.flatnonzero((after == label).fill_null(False).to_numpy())
        named = limits(label, date=date)
        low[rows], high[rows] = _beside_label(own, rows) if named is None else named
    return low, high


def _beside_label(own: np.ndarray | None, rows: np.ndarray) -> tuple[float, float]:
    """The interval of the people beside a label that names none; anything where they are not known."""
    inside = np.empty(0) if own is None else own[rows][~np.isnan(own[rows])]
    return (float(inside.min()), float(inside.max())) if inside.size else ANYTHING


def _categories(facts: Column, before: pl.Series, after: pl.Series, *, aligned: bool) -> ComparedColumn:
    texts, new = texts_of(before), texts_of(after)
    levels = texts.drop_nulls().unique().sort()
    labels = new.unique().sort()  # a missing cell is a label, the first
    width = levels.len() + 1
    fits = np.zeros((labels.len(), width), np.uint8)
    place = {level: at for at, level in enumerate(levels.to_list())}
    codes = new.replace_strict(labels, pl.Series(np.arange(labels.len())), return_dtype=pl.Int64)
    beside = _beside(texts, new) if aligned else {}
    for at, label in enumerate(labels.to_list()):
        if label in place:
            fits[at, place[label]] = 1
        elif label is None or label.strip() in OPEN or not beside.get(label):
            fits[at] = 1
        else:
            fits[at, [place[level] for level in beside[label]]] = 1
    share = texts.drop_nulls().alias("cells").value_counts().to_series(1).to_numpy() / max(
        1, texts.len() - texts.null_count()
    )
    variance = 1.0 - float(share @ share)
    at_row = codes.to_numpy().astype(np.float64)
    same = aligned and bool(texts.eq_missing(new).all())
    weight = 2.0 / variance if variance > 1e-12 else 0.0
    return ComparedColumn(facts.name, facts, False, 0.0, 1.0, levels, weight, at_row, at_row, fits, same)


def _beside(texts: pl.Series, new: pl.Series) -> dict[str, list[str]]:
    """The original levels beside each published label."""
    pairs = pl.DataFrame({"level": texts, "label": new}).drop_nulls()
    by = pairs.group_by("label").agg(pl.col("level").unique())
    return dict(zip(by["label"].to_list(), by["level"].to_list(), strict=True))
