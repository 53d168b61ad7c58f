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

from shoal.dp.bounds import finite_bounds
from shoal.dp.check import levels
from shoal.dp.expressions import FigureOf
from shoal.dp.intervals import share_interval, variance_interval
from shoal.dp.mechanisms import CONFIDENCE, laplace_radius
from shoal.dp.noise import Drawn
from shoal.dp.outputs import CHOSEN, MADE, Row, Shown, arrange, evaluate, figures_in, keep, pair
from shoal.dp.plan import Plan
from shoal.dp.query import group_names
from shoal.dp.releases import BETA, Mean, Ranks, Release, Sums
from shoal.schema import Column


@dataclass(frozen=True)
class Figure:
    """One figure and its 95 % interval."""

    value: Any
    interval: tuple[Any, Any]


def figures(plan: Plan, noisy: Drawn) -> tuple[Any, Any]:
    """Value and interval of an answer, from one draw of `add_noise`."""
    found = plan.lowered
    names = group_names(found.asked)
    shares = [max(1, len(figures_in(each.value))) for each in found.outputs]
    rows = {share: _rows(plan, noisy, 1 - (1 - CONFIDENCE) / share) for share in {1, *shares}}
    places = arrange(keep(found.kept, rows[1]), found.ordered, rows[1])
    last = None if found.asked.most is None else found.asked.skipped + found.asked.most
    values, intervals = [], []
    for place in places[found.asked.skipped : last]:
        shown = [
            evaluate(each.value, rows[share][place])
            for each, share in zip(found.outputs, shares, strict=True)
        ]
        label = dict(zip(names, rows[1][place].labels, strict=True))
        titles = [each.name for each in found.outputs]
        values.append({**label, **{name: each.value for name, each in zip(titles, shown, strict=True)}})
        ends = {
            name: each.value if each.ends is None else pair(each.ends)
            for name, each in zip(titles, shown, strict=True)
        }
        intervals.append({**label, **ends})
    if found.asked.groups or not values:
        return values, intervals
    if len(found.outputs) == 1:
        name = found.outputs[0].name
        return values[0][name], intervals[0][name]
    return values[0], intervals[0]


def _rows(plan: Plan, noisy: Drawn, confidence: float) -> list[Row]:
    """Every group of every grouping set: its labels, and its figures with intervals of this confidence."""
    found, rows = plan.lowered, []
    size = len(found.core.aggregates)
    levels_of = [labels_of(plan.schema.columns[str(name)]) for name in found.core.groups]
    for start in range(0, len(plan.releases), size):
        chosen = plan.sets[start]
        columns = [
            _figures(release, drawn[0].tolist(), plan.schema.columns.get(release.column or ""), confidence)
            for release, drawn in zip(
                plan.releases[start : start + size], noisy[start : start + size], strict=True
            )
        ]
        names = [str(each) for each in found.core.aggregates]
        combinations = itertools.product(*(levels_of[at] for at in chosen))
        for labels, each in zip(combinations, zip(*columns, strict=True), strict=True):
            known = dict(zip(chosen, labels, strict=True))
            all_labels = tuple(known.get(at) for at in range(len(levels_of)))
            shown = {name: Shown(one.value, one.interval) for name, one in zip(names, each, strict=True)}
            rows.append(Row(shown, all_labels, chosen))
    return rows


def labels_of(column: Column) -> list[Any]:
    """The declared levels as answers show them: dates as text."""
    return [each.isoformat() if hasattr(each, "isoformat") else each for each in levels(column) or ()]


def notes(plan: Plan, noisy: Drawn) -> tuple[str, ...]:
    """What each interval covers, what is cut, which ranks were aimed at, what was made of noisy figures; public."""
    said: list[str] = []
    for aggregate, release, drawn in zip(plan.query.aggregates, plan.releases, noisy, strict=True):
        for each in _notes(plan, release, int(drawn[0, 0])):
            if f"{aggregate.name}: {each}" not in said:
                said.append(f"{aggregate.name}: {each}")
    if plan.protected.kind == "cell" and plan.protected.n_cells < 300:
        said.append(f"only {plan.protected.n_cells} cells: expect large errors below 300")
    return (*said, *_about_made(plan), *plan.lowered.said)


def _about_made(plan: Plan) -> list[str]:
    found, said = plan.lowered, []
    fixed = {
        str(one)
        for one, release in zip(plan.query.aggregates, plan.releases, strict=True)
        if not isinstance(release, Sums)
    }
    for each in found.outputs:
        parts = figures_in(each.value)
        if not isinstance(each.value, FigureOf) and parts:
            # The widths of ranks and drawn averages are fixed at 95 % each; the others' follow the number of figures.
            missed = sum(0.05 if part in fixed else 0.05 / len(parts) for part in parts)
            said.append(MADE.format(each.name, max(0, round(100 * (1 - missed)))))
    if found.kept is not None or found.asked.most is not None:
        said.append(CHOSEN)
    if found.asked.groups:
        names = ", ".join(group_names(found.asked))
        said.append(
            f"rows without a declared level of {names} are in no group; SQL would show one more, of NULL"
        )
    return said


def _figures(release: Release, drawn: list[int], column: Column | None, confidence: float) -> list[Figure]:
    if isinstance(release, Mean):
        return [_mean(release, *drawn)]
    limit, numbers = (None, drawn) if release.steps is None else (drawn[0], drawn[1:])
    if isinstance(release, Ranks):
        assert column is not None  # every rank is of a column
        return [_ranked(release, place, column) for place in numbers]
    size, scale = len(release.terms), release.scale(limit)
    make = {"sum": _sum, "avg": _average, "var": _variance, "var_samp": _variance}.get(release.figure, _count)
    return [make(release, numbers[at : at + size], scale, confidence) for at in range(0, len(numbers), size)]


def _count(release: Sums, terms: list[int], scale: Fraction, confidence: float) -> Figure:
    radius = laplace_radius(scale, confidence)
    return Figure(terms[0], (terms[0] - radius, terms[0] + radius))


def _sum(release: Sums, terms: list[int], scale: Fraction, confidence: float) -> Figure:
    assert release.fixed is not None  # how the column became whole
    radius, quantum = laplace_radius(scale, confidence), release.fixed.quantum
    value, low, high = (float(each * quantum) for each in (terms[0], terms[0] - radius, terms[0] + radius))
    return Figure(value, (low, high))


def _average(release: Sums, terms: list[int], scale: Fraction, confidence: float) -> Figure:
    """From the noisy sums of x - L and U - x: their share of the range."""
    assert release.fixed is not None  # how the column became whole
    above, below = (max(each, 0) for each in terms)
    share = above / (above + below) if above + below else 0.5
    low, high = share_interval(terms[0], terms[1], float(scale), confidence)
    half = 0.5 / release.fixed.most  # a row was rounded to a quantum
    ends = [_place(release.fixed.bounds, each) for each in (low - half, high + half)]
    return Figure(_place(release.fixed.bounds, share), (ends[0], ends[1]))


def _place(bounds: tuple[float, float], share: float) -> float:
    low, high = bounds
    return _clip(low * (1 - share) + high * share, low, high)


def _variance(release: Sums, terms: list[int], scale: Fraction, confidence: float) -> Figure:
    """From three noisy sums of polynomials: number of rows, sum and sum of squares, in quanta."""
    fixed = release.fixed
    assert fixed is not None  # how the column became whole
    back = np.linalg.inv(np.array(release.terms, dtype=np.float64))
    rows, first, second = (float(each) for each in back @ np.array(terms, dtype=np.float64))
    quantum, largest = float(fixed.quantum), (fixed.most / 2) ** 2
    value = second / rows - (first / rows) ** 2 if rows >= 1 else 0.0
    radius = laplace_radius(scale, 1 - (1 - confidence) / 3)
    found = variance_interval(terms, radius, lambda *each: back @ np.array(each, dtype=np.float64))
    low, high = (0.0, largest) if found is None else (float(each) for each in found)
    # A row was rounded to a quantum, which moves the deviation by at most half of one.
    low, high = max(0.0, math.sqrt(low) - 0.5) ** 2, min((math.sqrt(high) + 0.5) ** 2, largest)
    unit = quantum * quantum
    if release.figure == "var_samp":
        return _of_sample(
            value, rows, (min(low, largest), high), radius * float(np.abs(back[0]).sum()), largest, unit
        )
    return Figure(_clip(value, 0.0, largest) * unit, (min(low, largest) * unit, high * unit))


def _of_sample(
    value: float, rows: float, ends: tuple[float, float], radius: float, largest: float, unit: float
) -> Figure:
    """The variance of a sample: that of the rows, times n / (n - 1), n as noisy as it is."""
    least, most = rows - radius, rows + radius
    high = 2 * largest if least < 2 else ends[1] * least / (least - 1)
    low = ends[0] * most / (most - 1) if most > 2 else ends[0]
    found = _clip(value, 0.0, largest) * (rows / (rows - 1) if rows >= 2 else 2.0)
    return Figure(found * unit, (low * unit, high * unit))


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
