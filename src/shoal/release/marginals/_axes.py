"""Columns as positions on an axis of declared bins or levels, by public rules row by row, and back again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl

from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import has_codes, levels, number
from shoal.errors import ParameterError, SchemaError
from shoal.schema import Column, Schema

MOST_BINS = 4_096  # of one column
GRID = 64  # a declared grid of at most so many values gets a bin for each
BINS = 24  # otherwise, where nothing is declared
QUANTILES = 16  # bins that are drawn by rank, where no number is given
MOST_QUANTILES = 256
Bins = int | str | Sequence[float]
_EPOCH = 719_163  # ordinal of 1970-01-01
_RELEASED = ("quasi", "sensitive", "stratum", "weight")


@dataclass(frozen=True)
class MarginalAxis:
    """The positions that the cells of one column can take.

    Parameters
    ----------
    column : Column
    edges : tuple of float
        Of bins, rising: a value lies in ``[edges[i], edges[i + 1])``, the last bin holds its end too. Empty for
        levels.
    values : tuple of float
        Declared levels of a number or date, where it has them instead of bins.
    missing : bool
        Whether the last position stands for a missing cell.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release import MarginalAxis
    >>> from shoal.schema import Column
    >>> axis = MarginalAxis(Column("age", bounds=(0, 60)), edges=(0.0, 18.0, 35.0, 60.0))
    >>> axis.name, axis.size, axis.encode(np.array([7.0, 40.0])).tolist()
    ('age', 3, [0, 2])
    """

    column: Column
    edges: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    missing: bool = False

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def known(self) -> int:
        """Positions that stand for a value."""
        if self.edges:
            return len(self.edges) - 1
        return len(self.values) if self.values else len(levels(self.column) or ())

    @property
    def ordered(self) -> bool:
        """Whether ranges of positions mean something."""
        return self.column.kind in ("number", "date", "ordered")

    @property
    def size(self) -> int:
        """All positions."""
        return self.known + self.missing

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """Positions of cells as loaded (NaN where missing)."""
        gone = np.isnan(cells)
        if self.edges:
            codes = np.searchsorted(self.edges, np.where(gone, self.edges[0], cells), side="right") - 1
            codes = np.clip(codes, 0, self.known - 1)
        elif self.values:
            order = np.argsort(self.values)
            place = np.searchsorted(np.array(self.values)[order], cells)
            codes = order[np.minimum(place, self.known - 1)]
            gone |= np.array(self.values)[codes] != cells
        else:
            codes = np.where(gone, 0, cells).astype(np.int64)
        return np.where(gone, self.known if self.missing else self._filled, codes).astype(np.int64)

    @property
    def _filled(self) -> int:
        """What a missing cell counts as where it has no position of its own: the middle bin, or the first level."""
        return (self.known - 1) // 2 if self.edges else 0

    def decode(self, codes: np.ndarray, rng: np.random.Generator) -> pl.Series:
        """Cells of a file: levels as declared, numbers drawn evenly over the declared grid of their bin."""
        gone = pl.Series(codes == self.known) if self.missing else None
        inside = np.minimum(codes, self.known - 1)
        if self.edges:
            cells = self._numbers(inside, rng)
        elif self.values:
            cells = self._as_kind(np.array(self.values)[inside], whole=False)
        else:
            names = pl.Series(self.name, list(levels(self.column) or ()), strict=False)
            cells = names.gather(inside)
        return (
            cells
            if gone is None
            else cells.to_frame().select(pl.when(~gone).then(pl.col(self.name)).alias(self.name)).to_series()
        )

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value that each known position can stand for."""
        if not self.edges:
            each = np.array(self.values or range(self.known), dtype=np.float64)
            return each, each
        low, high = np.array(self.edges[:-1]), np.array(self.edges[1:])
        step = self.step
        if step is not None:  # the largest grid point below the next edge
            last = high[-1]
            high = low + (np.ceil((high - low) / step - 1e-9) - 1) * step
            high[-1] = last
        return low, np.maximum(low, high)

    @property
    def step(self) -> float | None:
        """Spacing of the declared grid, if there is one."""
        return 1.0 if self.column.kind == "date" else self.column.step

    def _numbers(self, codes: np.ndarray, rng: np.random.Generator) -> pl.Series:
        low, high = self.ends()
        u, step = rng.random(len(codes)), self.step
        if step is None:
            return self._as_kind(low[codes] + u * (high[codes] - low[codes]), whole=False)
        base = finite_bounds(self.column)[0]  # the grid starts at the lower bound
        first = np.ceil((low - base) / step - 1e-9)
        last = np.maximum(first, np.floor((high - base) / step + 1e-9))
        place = first[codes] + np.floor(u * (last - first + 1)[codes])
        whole = float(step).is_integer() and base.is_integer()
        cells = np.round(base + place * step, decimals(base, step))  # 0.3, not 0.30000000000000004
        return self._as_kind(np.minimum(cells, finite_bounds(self.column)[1]), whole)

    def _as_kind(self, numbers: np.ndarray, whole: bool) -> pl.Series:
        if self.column.kind == "date":
            return pl.Series(self.name, numbers.astype(np.int64) - _EPOCH).cast(pl.Int32).cast(pl.Date)
        return pl.Series(self.name, numbers.astype(np.int64) if whole else numbers)


def decimals(*numbers: float) -> int:
    """Digits behind the point with which numbers, and their sums, are written; at most 15.

    Examples
    --------
    >>> from shoal.release.marginals._axes import decimals
    >>> decimals(0.25, 3.0), decimals(1e-7)
    (2, 7)
    """
    exponents = [Decimal(repr(float(each))).normalize().as_tuple().exponent for each in numbers]
    return min(15, max(0, *(-each for each in exponents if isinstance(each, int))))


def axis(column: Column, bins: Bins | None = None, grid: int = GRID) -> MarginalAxis:
    """The axis of a column, from what is declared about it alone.

    Parameters
    ----------
    column : Column
    bins : int or sequence of float, optional
        How many bins a number or date gets, or where they begin; the schema's breaks, or its grid, if left open. A text
        such as "quantiles:16" stands for one bin, to be cut by rank when the release is bought.
    grid : int
        A declared grid of at most so many values gets a bin for each.

    Examples
    --------
    >>> from shoal.release.marginals._axes import axis
    >>> from shoal.schema import Column
    >>> age = axis(Column("age", bounds=(0, 100), step=1), bins=[18, 65])
    >>> age.edges, age.encode(np.array([17.0, 18.0, 500.0])).tolist()
    ((0.0, 18.0, 65.0, 100.0), [0, 1, 2])
    """
    missing = _has_missing(column)
    if has_codes(column):
        if bins is not None:
            raise ParameterError(f"'bins' are for numbers and dates. Got {column.name!r}, a {column.kind}.")
        return _small(MarginalAxis(column, missing=missing))
    if column.kind not in ("number", "date"):
        raise SchemaError(f"Column {column.name!r} must declare its levels to be released.")
    if column.levels is not None and bins is None:
        return _small(
            MarginalAxis(column, (), tuple(number(column, each) for each in column.levels), missing)
        )
    if column.bounds is None:
        raise SchemaError(
            f"Column {column.name!r} must declare its bounds to be released: a range is never read from the data."
        )
    return _small(MarginalAxis(column, _edges(column, bins, grid), (), missing))


def axes_of(
    schema: Schema, names: Sequence[str] | None, bins: Mapping[str, Bins] | Bins | None, grid: int = GRID
) -> tuple[MarginalAxis, ...]:
    """The axes of the columns to release: those named, or every quasi-identifying and sensitive one."""
    if names is None:
        names = released_columns(schema)
    if not names:
        raise SchemaError(
            "No column is to be released: declare roles 'quasi' or 'sensitive', or name columns."
        )
    made = []
    for name in dict.fromkeys(names):
        if name not in schema.columns:
            raise SchemaError(f"A released column must be declared in the schema. Got {name!r}.")
        column = schema.columns[name]
        if column.effective_role == "identifier":
            raise SchemaError(f"Column {name!r} is an identifier and is not released.")
        made.append(axis(column, _wanted(column, bins), grid))
    if isinstance(bins, Mapping) and not set(bins) <= {each.name for each in made}:
        odd = next(name for name in bins if name not in {each.name for each in made})
        raise ParameterError(f"'bins' must name released columns. Got {odd!r}.")
    return tuple(made)


def released_columns(schema: Schema) -> list[str]:
    """Columns that are released where none is named; a weight where its bounds or levels are declared."""
    return [
        name
        for name, each in schema.columns.items()
        if each.effective_role in _RELEASED
        and (each.effective_role != "weight" or each.bounds is not None or each.levels is not None)
    ]


def _wanted(column: Column, bins: Mapping[str, Bins] | Bins | None) -> Bins | None:
    """What is asked for one column: as named; else for every number whose bins the schema leaves open."""
    if isinstance(bins, Mapping):
        return bins.get(column.name)
    if bins is None or has_codes(column):
        return None
    if isinstance(bins, str) and (column.breaks is not None or column.levels is not None or _fine(column)):
        return None
    return bins


def _fine(column: Column) -> bool:
    """Whether a declared grid is small enough to have a bin for each of its values."""
    if column.bounds is None or (column.step is None and column.kind != "date"):
        return False
    low, high = finite_bounds(column)
    return (high - low) / (1.0 if column.kind == "date" else float(column.step or 1)) < GRID


def quantiles_of(
    axes: Sequence[MarginalAxis], bins: Mapping[str, Bins] | Bins | None
) -> tuple[tuple[str, int], ...]:
    """The columns whose bins are drawn by rank, and how many bins each gets."""
    found = []
    for each in axes:
        wanted = _wanted(each.column, bins)
        if isinstance(wanted, str):
            found.append((each.name, _rank_bins(wanted)))
    return tuple(found)


def _rank_bins(text: str) -> int:
    word, _, count = text.partition(":")
    number_of = int(count) if count.isdecimal() and len(count) < 6 else QUANTILES if not count else 0
    if word != "quantiles" or not 2 <= number_of <= MOST_QUANTILES or number_of & (number_of - 1):
        raise ParameterError(
            f"'bins' as a text must be quantiles or quantiles:N, N a power of two from 2 to {MOST_QUANTILES}. "
            f"Got {text!r}."
        )
    return number_of


def encode(loaded: pl.DataFrame, axes: Sequence[MarginalAxis]) -> np.ndarray:
    """Positions of all rows, records in rows."""
    columns = [each.encode(loaded[each.name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for each in axes]
    return np.ascontiguousarray(np.column_stack(columns))


def _has_missing(column: Column) -> bool:
    return bool(column.missing_codes) or column.on_missing == "category"


def _edges(column: Column, bins: Bins | None, grid: int) -> tuple[float, ...]:
    low, high = finite_bounds(column)
    if isinstance(bins, str):
        _rank_bins(bins)
        return (low, high)
    if bins is None and column.breaks is not None:
        bins = [number(column, each) for each in column.breaks]
    if bins is not None and not isinstance(bins, int):
        inner = [float(each) for each in bins if low < float(each) < high]
        if any(not math.isfinite(float(each)) for each in bins) or sorted(set(inner)) != inner:
            raise ParameterError(
                f"'bins' of column {column.name!r} must be rising numbers. Got {list(bins)}."
            )
        return (low, *inner, high)
    if bins is not None and (isinstance(bins, bool) or not 1 <= bins <= MOST_BINS):
        raise ParameterError(f"'bins' must be an int from 1 to {MOST_BINS}. Got {bins!r}.")
    step = 1.0 if column.kind == "date" else column.step
    if step is None:
        count = bins or BINS
        return (*(low + (high - low) * at / count for at in range(count)), high)
    values = int((Fraction(high) - Fraction(low)) / Fraction(str(step))) + 1
    wanted = bins or (values if values <= grid else BINS)
    width = -(-values // wanted)
    starts = [low + at * width * step for at in range(-(-values // width))]
    return (*starts, max(high, math.nextafter(starts[-1], math.inf)))


def _small(made: MarginalAxis) -> MarginalAxis:
    if made.size > MOST_BINS:
        raise SchemaError(
            f"Column {made.name!r} has {made.size} levels; a release by marginals takes at most {MOST_BINS}."
        )
    return made
