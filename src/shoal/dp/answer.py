"""Answers, and how noisy whole numbers become figures with their 95 % intervals.

Everything here is post-processing of what was released: it sees noisy numbers and public scales only.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from shoal.dp.check import levels
from shoal.dp.mechanisms import CONFIDENCE, exponential, laplace, laplace_radius
from shoal.dp.plan import Plan, Release, finite_bounds
from shoal.dp.query import Aggregate
from shoal.schema import Column

Figure = tuple[Any, tuple[Any, Any]]


@dataclass(frozen=True)
class Answer:
    """A private answer.

    Parameters
    ----------
    value : number, or mapping of label to number, or list of such rows
        One figure; several figures; or one row per combination of declared levels.
    guarantee : str
        What is promised, word for word; `stamp` in JSON.
    epsilon : float
        What the analyst was charged.
    remaining : float
        What this analyst can still spend on this data set.
    interval : like `value`, with pairs
        Holds the clamped exact figure with 95 % probability over the noise.
    notes : tuple of str
        What a reader should know: ranks aimed at, rows counted.

    Examples
    --------
    >>> from shoal.dp import Answer
    >>> print(Answer(12, "guarantee: epsilon-DP, add or remove one record", 0.1, 1.9, (-18, 42)).to_json())
    {"value": 12, "stamp": "guarantee: epsilon-DP, add or remove one record", "epsilon": 0.1, "remaining": 1.9,
     "interval": [-18, 42]}
    """

    value: Any
    guarantee: str
    epsilon: float
    remaining: float
    interval: Any
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain values."""
        facts = {
            "value": self.value,
            "stamp": self.guarantee,
            "epsilon": self.epsilon,
            "remaining": self.remaining,
            "interval": self.interval,
        }
        return facts | ({"notes": list(self.notes)} if self.notes else {})

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """The answer that `to_dict` wrote, as it comes from a server."""
        plain = (facts[name] for name in ("value", "stamp", "epsilon", "remaining", "interval"))
        return cls(*plain, tuple(facts.get("notes", ())))

    def to_json(self) -> str:
        """The facts as JSON text."""
        return json.dumps(self.to_dict())

    def to_frame(self) -> pl.DataFrame:
        """A row for each group: its labels, and each figure with the ends of its interval.

        Examples
        --------
        >>> from shoal.dp import Answer
        >>> Answer([{"region": "north", "count": 12}], "...", 0.1, 1.9, [{"region": "north", "count": (4, 20)}]).to_frame()
        shape: (1, 4)
        ┌────────┬───────┬───────────┬────────────┐
        │ region ┆ count ┆ count_low ┆ count_high │
        │ ---    ┆ ---   ┆ ---       ┆ ---        │
        │ str    ┆ i64   ┆ i64       ┆ i64        │
        ╞════════╪═══════╪═══════════╪════════════╡
        │ north  ┆ 12    ┆ 4         ┆ 20         │
        └────────┴───────┴───────────┴────────────┘
        """
        rows = self.value if isinstance(self.value, list) else [self.value]
        intervals = self.interval if isinstance(self.value, list) else [self.interval]
        table = []
        for row, within in zip(rows, intervals, strict=True):
            named = row if isinstance(row, dict) else {"value": row}
            ends = within if isinstance(row, dict) else {"value": within}
            line: dict[str, Any] = {}
            for name, figure in named.items():
                line[name] = figure
                if isinstance(ends[name], (tuple, list)):  # a group's label has no interval
                    line[f"{name}_low"], line[f"{name}_high"] = ends[name]
            table.append(line)
        return pl.DataFrame(table, infer_schema_length=None)


def add_noise(plan: Plan, exact: tuple[np.ndarray, ...], draws: int = 1) -> tuple[np.ndarray, ...]:
    """Noisy whole numbers (candidates' positions for ranks): per release an int64 array (draws, groups)."""
    noisy = []
    for release, values in zip(plan.flat, exact, strict=True):
        if release.kind == "rank":
            columns = [exponential(distances(release, each), release.rate, draws=draws) for each in values]
            noisy.append(np.stack(columns, axis=1))
        else:
            noisy.append(laplace(np.broadcast_to(values, (draws, len(values))), release.scale))
    return tuple(noisy)


def released(noisy: tuple[np.ndarray, ...]) -> str:
    """Noisy numbers as the ledger stores them; figures are made of them anew, with the asker's labels."""
    return json.dumps([each[0].tolist() for each in noisy])


def as_released(body: str) -> tuple[np.ndarray, ...]:
    """Noisy numbers as `released` wrote them."""
    return tuple(np.array([each], dtype=np.int64) for each in json.loads(body))


def distances(release: Release, histogram: np.ndarray) -> np.ndarray:
    """How far each candidate's ranks lie from the rank aimed at, in whole numbers."""
    ordered = histogram[::-1] if release.from_above else histogram
    reached = np.cumsum(ordered)  # rows at or beyond a candidate, seen from the end that is counted
    before = reached - ordered
    if release.share is None:
        apart = np.maximum(np.maximum(before - release.aim, release.aim - reached), 0)
    else:
        scaled, target = release.share.denominator, int(reached[-1]) * release.share.numerator
        apart = np.maximum(np.maximum(before * scaled - target, target - reached * scaled), 0)
    return apart[::-1] if release.from_above else apart


def figures(plan: Plan, noisy: tuple[np.ndarray, ...]) -> tuple[Any, Any]:
    """Value and interval of an answer, from one draw of `add_noise`."""
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for group in range(plan.n_groups):
        rest = iter(noisy)
        value, interval = {}, {}
        for aggregate, releases in zip(plan.query.aggregates, plan.releases, strict=True):
            whole = [int(next(rest)[0, group]) for _ in releases]
            column = plan.schema.columns.get(aggregate.column or "")
            value[aggregate.name], interval[aggregate.name] = _figure(aggregate, releases, whole, column)
        rows.append((value, interval))
    if plan.query.groups:
        names = plan.query.groups
        levels_of = [labels_of(plan.schema.columns[name]) for name in names]
        labels = [dict(zip(names, each, strict=True)) for each in itertools.product(*levels_of)]
        values, intervals = (
            [{**label, **row[i]} for label, row in zip(labels, rows, strict=True)] for i in (0, 1)
        )
        return values, intervals
    value, interval = rows[0]
    if len(value) == 1:
        return next(iter(value.values())), next(iter(interval.values()))
    return value, interval


def labels_of(column: Column) -> list[Any]:
    """The declared levels as answers show them: dates as text."""
    return [each.isoformat() if hasattr(each, "isoformat") else each for each in levels(column) or ()]


def notes(plan: Plan) -> tuple[str, ...]:
    """What a reader of the answer should know; public."""
    said = []
    for aggregate, releases in zip(plan.query.aggregates, plan.releases, strict=True):
        release = releases[0]
        if release.share is not None and release.grid is not None:
            ranks = (
                np.log(release.grid.size / (1 - CONFIDENCE)) / float(release.rate) / release.share.denominator
            )
            said.append(f"{aggregate.name}: within {ranks:.0f} ranks of the quantile with 95 % probability")
        elif release.kind == "rank":
            said.append(
                f"{aggregate.name}: aims {release.aim} ranks inside; the interval holds if so many rows answer"
            )
    if plan.protected.kind == "column":
        said.append(f"at most {plan.protected.rows} rows of one {plan.protected.column} are counted")
    if plan.protected.kind == "cell" and plan.protected.n_cells < 300:
        said.append(f"only {plan.protected.n_cells} cells: expect large errors below 300")
    return tuple(said)


def _figure(
    aggregate: Aggregate, releases: tuple[Release, ...], whole: list[int], column: Column | None
) -> Figure:
    if aggregate.kind == "count":
        radius = laplace_radius(releases[0].scale)
        return whole[0], (whole[0] - radius, whole[0] + radius)
    assert column is not None  # every other figure has one
    if aggregate.kind == "sum":
        radius = laplace_radius(releases[0].scale)
        quantum = releases[0].fixed.quantum  # type: ignore[union-attr]
        value, low, high = (each * quantum for each in (whole[0], whole[0] - radius, whole[0] + radius))
        if quantum.denominator == 1:
            return int(value), (int(low), int(high))
        return float(value), (float(low), float(high))
    if aggregate.kind == "avg":
        return _average(releases, whole)
    if aggregate.kind == "var":
        return _variance(releases, whole)
    return _ranked(aggregate, releases[0], whole[0], column)


def _average(releases: tuple[Release, ...], whole: list[int]) -> Figure:
    fixed = releases[0].fixed
    assert fixed is not None  # the first release of AVG is a sum
    (low, high), quantum, count = fixed.bounds, float(fixed.quantum), max(1, whole[1])
    mean = fixed.offset + quantum * whole[0] / count
    ends = _ratio(whole, releases, 1 - (1 - CONFIDENCE) / 2)
    return _clip(mean, low, high), (
        _clip(fixed.offset + ends[0], low, high),
        _clip(fixed.offset + ends[1], low, high),
    )


def _variance(releases: tuple[Release, ...], whole: list[int]) -> Figure:
    squares, sums = releases[0].fixed, releases[1].fixed
    assert squares is not None  # the first two releases of VAR are sums
    assert sums is not None
    most, count = float(squares.most * squares.quantum), max(1, whole[2])
    mean = float(sums.quantum) * whole[1] / count
    value = float(squares.quantum) * whole[0] / count - mean**2
    each = 1 - (1 - CONFIDENCE) / 3
    square_low, square_high = _ratio([whole[0], whole[2]], (releases[0], releases[2]), each)
    mean_low, mean_high = _ratio([whole[1], whole[2]], (releases[1], releases[2]), each)
    least = 0.0 if mean_low <= 0 <= mean_high else min(mean_low**2, mean_high**2)
    ends = (square_low - max(mean_low**2, mean_high**2), square_high - least)
    return _clip(value, 0.0, most), (_clip(ends[0], 0.0, most), _clip(ends[1], 0.0, most))


def _ratio(whole: list[int], releases: tuple[Release, ...], confidence: float) -> tuple[float, float]:
    """Smallest and largest sum / count if both noises stay within their radius."""
    fixed = releases[0].fixed
    assert fixed is not None  # a sum over a count
    reach, around = (laplace_radius(each.scale, confidence) for each in releases)
    counts = (max(1, whole[1] - around), max(1, whole[1] + around))
    ends = [
        float(fixed.quantum) * total / count
        for total in (whole[0] - reach, whole[0] + reach)
        for count in counts
    ]
    return min(ends), max(ends)


def _ranked(aggregate: Aggregate, release: Release, place: int, column: Column) -> Figure:
    grid = release.grid
    assert grid is not None  # ranks are answered on a grid
    low, high = finite_bounds(column)
    at = _clip(grid.low + grid.step * place, low, high)
    ends = {"max": (at, high), "min": (low, at)}.get(aggregate.kind, (low, high))
    return _shown(at, column), (_shown(ends[0], column), _shown(ends[1], column))


def _shown(value: float, column: Column) -> Any:
    if column.kind == "date":
        return datetime.date.fromordinal(round(value)).isoformat()
    if column.kind == "ordered":
        return (column.levels or ())[round(value)]
    whole = column.step is not None and float(column.step).is_integer() and value.is_integer()
    return int(value) if whole else value


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
