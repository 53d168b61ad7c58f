"""How noisy whole numbers become figures with their 95 % intervals.

Everything here is post-processing of what was released: it sees noisy numbers and public scales only.
"""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np

from shoal.dp.check import levels
from shoal.dp.mechanisms import CONFIDENCE, laplace_radius
from shoal.dp.plan import Plan, Release, finite_bounds
from shoal.dp.query import Aggregate
from shoal.schema import Column

Figure = tuple[Any, tuple[Any, Any]]


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
