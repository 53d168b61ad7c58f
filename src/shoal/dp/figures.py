"""How noisy whole numbers become figures with their 95 % intervals.

Everything here is post-processing of what was released: it sees noisy numbers and public facts only.
"""

from __future__ import annotations

import datetime
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.dp.check import levels
from shoal.dp.intervals import share_interval, variance_interval
from shoal.dp.mechanisms import CONFIDENCE, laplace_radius
from shoal.dp.noise import Drawn
from shoal.dp.plan import Plan, finite_bounds
from shoal.dp.releases import BETA, Mean, Ranks, Release, Sums
from shoal.schema import Column


@dataclass(frozen=True)
class Figure:
    """One figure and its 95 % interval."""

    value: Any
    interval: tuple[Any, Any]


def figures(plan: Plan, noisy: Drawn) -> tuple[Any, Any]:
    """Value and interval of an answer, from one draw of `add_noise`."""
    columns = [
        _figures(release, drawn[0].tolist(), plan.schema.columns.get(release.column or ""))
        for release, drawn in zip(plan.releases, noisy, strict=True)
    ]
    names = [aggregate.name for aggregate in plan.query.aggregates]
    rows = [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]
    values = [{name: figure.value for name, figure in row.items()} for row in rows]
    intervals = [{name: figure.interval for name, figure in row.items()} for row in rows]
    if plan.query.groups:
        levels_of = [labels_of(plan.schema.columns[name]) for name in plan.query.groups]
        labels = [dict(zip(plan.query.groups, each, strict=True)) for each in itertools.product(*levels_of)]
        return _labelled(labels, values), _labelled(labels, intervals)
    if len(names) == 1:
        return values[0][names[0]], intervals[0][names[0]]
    return values[0], intervals[0]


def _labelled(labels: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**label, **row} for label, row in zip(labels, rows, strict=True)]


def labels_of(column: Column) -> list[Any]:
    """The declared levels as answers show them: dates as text."""
    return [each.isoformat() if hasattr(each, "isoformat") else each for each in levels(column) or ()]


def notes(plan: Plan, noisy: Drawn) -> tuple[str, ...]:
    """What each interval covers, what is cut, which ranks were aimed at; public."""
    said = []
    for aggregate, release, drawn in zip(plan.query.aggregates, plan.releases, noisy, strict=True):
        said += [f"{aggregate.name}: {each}" for each in _notes(plan, release, int(drawn[0, 0]))]
    if plan.protected.kind == "cell" and plan.protected.n_cells < 300:
        said.append(f"only {plan.protected.n_cells} cells: expect large errors below 300")
    return tuple(said)


def _figures(release: Release, drawn: list[int], column: Column | None) -> list[Figure]:
    if isinstance(release, Mean):
        return [_mean(release, *drawn)]
    limit, numbers = (None, drawn) if release.steps is None else (drawn[0], drawn[1:])
    if isinstance(release, Ranks):
        assert column is not None  # every rank is of a column
        return [_ranked(release, place, column) for place in numbers]
    size, scale = len(release.terms), release.scale(limit)
    make = {"count": _count, "sum": _sum, "avg": _average, "var": _variance}[release.figure]
    return [make(release, numbers[at : at + size], scale) for at in range(0, len(numbers), size)]


def _count(release: Sums, terms: list[int], scale: Fraction) -> Figure:
    radius = laplace_radius(scale)
    return Figure(terms[0], (terms[0] - radius, terms[0] + radius))


def _sum(release: Sums, terms: list[int], scale: Fraction) -> Figure:
    assert release.fixed is not None  # how the column became whole
    radius, quantum = laplace_radius(scale), release.fixed.quantum
    value, low, high = (float(each * quantum) for each in (terms[0], terms[0] - radius, terms[0] + radius))
    return Figure(value, (low, high))


def _average(release: Sums, terms: list[int], scale: Fraction) -> Figure:
    """From the noisy sums of x - L and U - x: their share of the range."""
    assert release.fixed is not None  # how the column became whole
    above, below = (max(each, 0) for each in terms)
    share = above / (above + below) if above + below else 0.5
    low, high = share_interval(terms[0], terms[1], float(scale))
    half = 0.5 / release.fixed.most  # a row was rounded to a quantum
    ends = [_place(release.fixed.bounds, each) for each in (low - half, high + half)]
    return Figure(_place(release.fixed.bounds, share), (ends[0], ends[1]))


def _place(bounds: tuple[float, float], share: float) -> float:
    low, high = bounds
    return _clip(low * (1 - share) + high * share, low, high)


def _variance(release: Sums, terms: list[int], scale: Fraction) -> Figure:
    """From three noisy sums of polynomials: number of rows, sum and sum of squares, in quanta."""
    fixed = release.fixed
    assert fixed is not None  # how the column became whole
    back = np.linalg.inv(np.array(release.terms, dtype=np.float64))
    rows, first, second = (float(each) for each in back @ np.array(terms, dtype=np.float64))
    quantum, largest = float(fixed.quantum), (fixed.most / 2) ** 2
    value = second / rows - (first / rows) ** 2 if rows >= 1 else 0.0
    radius = laplace_radius(scale, 1 - (1 - CONFIDENCE) / 3)
    found = variance_interval(terms, radius, lambda *each: back @ np.array(each, dtype=np.float64))
    low, high = (0.0, largest) if found is None else (float(each) for each in found)
    # A row was rounded to a quantum, which moves the deviation by at most half of one.
    low, high = max(0.0, math.sqrt(low) - 0.5) ** 2, min((math.sqrt(high) + 0.5) ** 2, largest)
    unit = quantum * quantum
    return Figure(_clip(value, 0.0, largest) * unit, (min(low, largest) * unit, high * unit))


def _mean(release: Mean, place: int, centre: int, width: int) -> Figure:
    last = release.points - 1
    ends = [(centre + sign * release.widths[width]) / last for sign in (-1, 1)]
    half = 0.5 / release.fixed.most  # a row was rounded to a quantum
    low, high = _place(release.fixed.bounds, ends[0] - half), _place(release.fixed.bounds, ends[1] + half)
    return Figure(_place(release.fixed.bounds, centre / last), (low, high))


def _ranked(release: Ranks, place: int, column: Column) -> Figure:
    grid, (low, high) = release.grid, finite_bounds(column)
    at = _clip(grid.low + grid.step * place, low, high)
    half = grid.step / 2  # a row was rounded to the grid
    ends = {"max": (max(at - half, low), high), "min": (low, min(at + half, high))}.get(
        release.figure, (low, high)
    )
    if column.kind in ("date", "ordered"):
        ends = math.ceil(ends[0]), math.floor(ends[1])
    return Figure(_shown(at, column), (_shown(ends[0], column), _shown(ends[1], column)))


def _shown(value: float, column: Column) -> Any:
    if column.kind == "date":
        return datetime.date.fromordinal(round(value)).isoformat()
    if column.kind == "ordered":
        return (column.levels or ())[round(value)]
    whole = column.step is not None and float(column.step).is_integer() and float(value).is_integer()
    return int(value) if whole else float(value)


def _notes(plan: Plan, release: Release, drawn: int) -> list[str]:
    said = []
    column = plan.schema.columns.get(release.column or "")
    if column is not None and release.figure != "count" and column.kind == "number":
        low, high = finite_bounds(column)
        said.append(
            f"values beyond [{low:g}, {high:g}] count as the nearer bound; the interval is of that figure"
        )
    if isinstance(release, Ranks):
        return said + _about_ranks(plan, release, drawn)
    if release.limit.column is not None:
        said.append(_about_cut(plan, release, drawn))
    return said


def _about_ranks(plan: Plan, release: Ranks, drawn: int) -> list[str]:
    limit = None if release.steps is None else drawn
    unit, most = _unit_of(plan), release.most if limit is None else limit
    rows = f"{unit}s" if release.extreme and most == 1 and release.limit.column else "rows"
    if release.extreme:
        said = [f"aims {release.aim(limit)} {rows} inside; the interval holds if so many answer"]
    else:
        ranks = math.log(release.grid.size / float(BETA)) / float(release.rate(limit)) / release.part
        ranks /= (release.share or Fraction(1)).denominator
        said = [
            f"its rank is within {math.ceil(ranks)} of the one asked for with 95 % probability; "
            "the interval is the declared range"
        ]
    if release.limit.column is not None and not (release.extreme and most == 1):
        said.append(f"a {unit} of more than {most} rows counts as {most}, its rows alike")
    return said


def _about_cut(plan: Plan, release: Sums | Mean, drawn: int) -> str:
    unit = _unit_of(plan)
    if isinstance(release, Mean):
        pull = float(release.steps.limits[drawn] * release.fixed.quantum)
        return (
            f"what a {unit} adds above or below the average is cut at {pull:.6g}; the interval is of that average, "
            "and how far the cut moves it is not known"
        )
    limit = release.most if release.steps is None else drawn
    shown = limit / release.sensitivity
    what = f"what a {unit} adds is cut at that of {shown:.6g} rows"
    if release.figure == "sum" and release.fixed is not None:
        what = f"what a {unit} adds to the sum is cut at {float(limit * release.fixed.quantum):.6g}"
    if release.steps is None:
        return f"{what}; the interval is of that figure, which is the full one if no {unit} has more"
    if plan.protected.kind == "cell":
        return f"{what}, drawn privately; the interval is of that figure, and what is cut off is not known"
    lost = most_cut_off(release, limit)
    quantum = 1.0 if release.fixed is None or not release.scalar else float(release.fixed.quantum)
    bound = f"at most {lost * quantum:.6g} is cut off" if release.scalar else "what is cut off is not known"
    return (
        f"{what}, drawn privately; the interval is of that figure, and if no {unit} has more than "
        f"{release.limit.rows} rows {bound}, with 95 % probability"
    )


def most_cut_off(release: Sums, limit: int) -> int:
    """What is cut off in all with at most 5 % probability more, if every unit keeps to the declared rows.

    The largest limit then has score 0, so a limit T is drawn with probability at most w_T e^(-rate score) / w_last.
    """
    steps = release.steps
    assert steps is not None  # the limit is drawn
    place = steps.limits.index(limit)
    bits = steps.bits * (len(steps.limits) - 1 - place)
    nats = bits * math.log(2) + math.log(len(steps.limits) / float(BETA))
    units = nats / (float(steps.share) * release.micro / 1e6)
    return math.ceil(units * max(limit / 2, release.most - limit))


def _unit_of(plan: Plan) -> str:
    return "cell" if plan.protected.kind == "cell" else plan.protected.column or "record"


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
