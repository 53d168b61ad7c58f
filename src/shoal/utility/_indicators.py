"""The figures that must still come out of the published table, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import parse_numbers
from shoal.engine.frame import Frame
from shoal.errors import InputError
from shoal.schema import Indicator, Schema, decode_table
from shoal.typing import Json
from shoal.utility._estimates import NOTHING, Estimate, overlap, quantile, ratio, total
from shoal.utility._formulas import coefficients, columns_of, whole

# From this overlap on an indicator is kept; where the intervals are apart it is lost.
KEPT = 0.5
WORDS = ("kept", "moved", "lost")


@dataclass(frozen=True)
class KeptFigure:
    """One figure before and after.

    Attributes
    ----------
    name : str
        Of its indicator.
    domain : str
        The part of the table, or the coefficient of a model; empty for the whole.
    before, after : Estimate
    overlap : float
        Of the two intervals; see `overlap`.
    note : str
        Why there is no figure after.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Column, Indicator, Schema
    >>> from shoal.utility import fitness
    >>> schema = Schema({"x": Column("x")}, indicators=(Indicator("mean", column="x"),))
    >>> before, after = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), pl.DataFrame({"x": [1.5, 1.5, 3.5, 3.5]})
    >>> figure = fitness(before, after, schema).figures[0]
    >>> figure.before.value, figure.after.value, figure.verdict
    (2.5, 2.5, 'kept')
    """

    name: str
    domain: str
    before: Estimate
    after: Estimate
    overlap: float
    note: str = ""

    @property
    def verdict(self) -> str:
        """Kept where half of the intervals or more is common, lost where they are apart, moved between."""
        return WORDS[0] if self.overlap >= KEPT else WORDS[1] if self.overlap > 0 else WORDS[2]

    @property
    def title(self) -> str:
        """For reading."""
        return f"{self.name}, {self.domain}" if self.domain else self.name

    def to_dict(self) -> Json:
        """As plain values."""

        def told(each: Estimate) -> list[float | None]:
            return [
                None if np.isnan(figure) else float(figure) for figure in (each.value, each.low, each.high)
            ]

        return {
            "name": self.name, "domain": self.domain, "before": told(self.before), "after": told(self.after),
            "overlap": self.overlap, "verdict": self.verdict, "note": self.note,
        }  # fmt: skip


@dataclass(frozen=True)
class Fitness:
    """All indicators of a schema, before and after. Computed from the original: for the custodian only.

    Attributes
    ----------
    figures : tuple of KeptFigure

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Column, Indicator, Schema
    >>> from shoal.utility import fitness
    >>> schema = Schema({"x": Column("x")}, indicators=(Indicator("mean", column="x"),))
    >>> before, after = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), pl.DataFrame({"x": [1.5, 1.5, 3.5, 3.5]})
    >>> print(fitness(before, after, schema).lines()[0])
    indicators: 1 kept, 0 moved, 0 lost of 1
    """

    figures: tuple[KeptFigure, ...]

    @property
    def kept(self) -> float:
        """The share of figures that are kept."""
        return sum(each.verdict == WORDS[0] for each in self.figures) / max(1, len(self.figures))

    @property
    def worst(self) -> KeptFigure | None:
        """The figure with the least overlap."""
        return min(self.figures, key=lambda each: each.overlap, default=None)

    def lines(self) -> list[str]:
        """What to say: a line for the whole, then each figure that is not kept."""
        counts = [sum(each.verdict == word for each in self.figures) for word in WORDS]
        said = [f"indicators: {counts[0]} kept, {counts[1]} moved, {counts[2]} lost of {len(self.figures)}"]
        for each in self.figures:
            if each.verdict != WORDS[0]:
                shown = (
                    each.note
                    or f"{figure_text(each.before.value)} before, {figure_text(each.after.value)} after"
                )
                said.append(f"{each.verdict}: {each.title}: {shown} (overlap {each.overlap:.2f})")
        return said

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {"kept": self.kept, "figures": [each.to_dict() for each in self.figures]}


def check_indicators(
    indicators: Sequence[Indicator], columns: Sequence[str], published: Sequence[str]
) -> None:
    """Raise a sentence if an indicator needs a column that does not exist or is not published, or if a formula is wrong.

    Examples
    --------
    >>> from shoal.schema import Indicator
    >>> from shoal.utility import check_indicators
    >>> check_indicators([Indicator("mean", column="name")], ["name", "age"], ["age"])
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: Indicator 'mean of name' needs the column 'name', which is dropped before publishing.
    """
    for each in indicators:
        for name in needed(each):
            if name not in columns:
                raise InputError(
                    f"Indicator {titled(each)!r} needs the column {name!r}. The table has: {', '.join(columns)}."
                )
            if name not in published:
                raise InputError(
                    f"Indicator {titled(each)!r} needs the column {name!r}, which is dropped before publishing."
                )


def needed(indicator: Indicator) -> list[str]:
    """The columns that an indicator needs."""
    single = [name for name in (indicator.column, indicator.over) if name is not None]
    inside = [] if indicator.formula is None else columns_of(indicator.formula)
    return [*single, *inside, *indicator.by]


def titled(indicator: Indicator) -> str:
    """The indicator's name, or what it is."""
    if indicator.name:
        return indicator.name
    if indicator.formula is not None:
        return f"{indicator.kind} {indicator.formula}"
    what = {"quantile": f"quantile {indicator.q} of", "share": f"share of {indicator.level} in"}
    below = f" over {indicator.over}" if indicator.over else ""
    return f"{what.get(indicator.kind, f'{indicator.kind} of')} {indicator.column}{below}"


def figure_text(value: float) -> str:
    """A figure for reading: a whole number if it is large, else five digits.

    Examples
    --------
    >>> from shoal.utility import figure_text
    >>> figure_text(50147991.3), figure_text(0.501311), figure_text(float("nan"))
    ('50,147,991', '0.50131', 'not there')
    """
    if np.isnan(value):
        return "not there"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.5g}"


def fitness(original: Any, protected: Any, schema: Schema, *, weights: str | None = None) -> Fitness:
    """Compute the schema's indicators on both tables and compare their intervals.

    For the custodian: it reads the original.

    Parameters
    ----------
    original, protected : frames
        The rows need not be the same.
    schema : Schema
        With `[[indicators]]`.
    weights : str, optional
        Column of survey weights; the schema's if left open, else all records weigh the same.

    Returns
    -------
    Fitness

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.schema import Column, Indicator, Schema
    >>> from shoal.utility import fitness
    >>> schema = Schema({"x": Column("x")}, indicators=(Indicator("mean", column="x"),))
    >>> before, after = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}), pl.DataFrame({"x": [1.5, 1.5, 3.5, 3.5]})
    >>> fitness(before, after, schema).figures[0].verdict
    'kept'
    """
    tables = [decode_table(Frame(each).to_polars(), schema) for each in (original, protected)]
    check_indicators(schema.indicators, tables[0].columns, tables[1].columns)
    named = weights or next(iter(schema.names("weight")), None)
    figures: list[KeptFigure] = []
    for each in schema.indicators:
        before = _figures(each, tables[0], named)
        try:
            after, note = _figures(each, tables[1], named), ""
        except InputError as error:
            after, note = {}, str(error)
        for domain, old in before.items():  # a domain of cells made missing is none that was asked for
            new = after.get(domain, NOTHING)
            figures.append(KeptFigure(titled(each), domain, old, new, overlap(old, new), note))
    return Fitness(tuple(figures))


def _figures(indicator: Indicator, table: pl.DataFrame, weights: str | None) -> dict[str, Estimate]:
    """An indicator on one table, by domain."""
    w = np.ones(table.height)
    if weights is not None and weights in table.columns:
        w = np.nan_to_num(_numbers(table, weights, indicator))
    if indicator.formula is not None:
        return _by_domain(
            indicator,
            table,
            lambda inside: coefficients(indicator, table.filter(pl.Series(inside)), w[inside]),
        )
    assert indicator.column is not None
    return _by_domain(indicator, table, lambda inside: {"": _single(indicator, table, w, inside)})


def _by_domain(indicator: Indicator, table: pl.DataFrame, compute: Any) -> dict[str, Estimate]:
    if not indicator.by:
        return compute(np.ones(table.height, bool))
    named = [
        pl.lit(f"{name} ") + whole(table[name]).cast(pl.String).fill_null("missing") for name in indicator.by
    ]
    keys = table.select(pl.concat_str(named, separator=", ")).to_series()
    found: dict[str, Estimate] = {}
    for key in keys.unique().sort().to_list():
        for inner, figure in compute((keys == key).to_numpy()).items():
            found[f"{key}: {inner}" if inner else key] = figure
    return found


def _single(indicator: Indicator, table: pl.DataFrame, w: np.ndarray, inside: np.ndarray) -> Estimate:
    assert indicator.column is not None
    if indicator.kind == "share":
        cells = table[indicator.column]
        known = inside & cells.is_not_null().to_numpy()
        return ratio(known * _is_level(cells, indicator.level), known.astype(np.float64), w)
    x = _numbers(table, indicator.column, indicator)
    y = np.ones(x.size) if indicator.over is None else _numbers(table, indicator.over, indicator)
    known = inside & ~np.isnan(x) & ~np.isnan(y)
    x, y = np.where(known, x, 0.0), np.where(known, y, 0.0)
    if indicator.kind == "total":
        return total(x, w)
    if indicator.kind == "quantile":
        assert indicator.q is not None
        return quantile(x, w, known, indicator.q)
    return ratio(x, y, w)


def _is_level(cells: pl.Series, level: Any) -> np.ndarray:
    if cells.dtype.is_numeric() and isinstance(level, (int, float)) and not isinstance(level, bool):
        return (cells.cast(pl.Float64) == float(level)).fill_null(False).to_numpy()
    text = str(level).lower() if cells.dtype == pl.Boolean else str(level)
    return (cells.cast(pl.String) == text).fill_null(False).to_numpy()


def _numbers(table: pl.DataFrame, name: str, indicator: Indicator) -> np.ndarray:
    cells = table[name]
    if cells.dtype == pl.String:
        parsed = parse_numbers(cells)
        odd = cells.filter(parsed.is_null() & cells.is_not_null())
        if odd.len():
            raise InputError(f"Indicator {titled(indicator)!r} needs numbers in {name!r}. Got {odd[0]!r}.")
        cells = parsed
    if not (cells.dtype.is_numeric() or cells.dtype in (pl.Boolean, pl.Null)):
        raise InputError(f"Indicator {titled(indicator)!r} needs numbers in {name!r}. Got {cells.dtype}.")
    return cells.cast(pl.Float64).fill_null(np.nan).to_numpy()
