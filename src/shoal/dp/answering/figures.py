"""From noisy whole numbers to figures with 95 % intervals.

Everything here is post-processing: it uses only noisy numbers and public facts.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.dp.answering.intervals import share_interval
from shoal.dp.answering.moments import NoisyTerms, correlation, covariance, variance
from shoal.dp.answering.noise import Drawn
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import BETA, SCORE, Fixed, Mean, Ranks, Release, Sums, columns_of
from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import levels
from shoal.dp.mechanisms.currency import Noise
from shoal.schema import Column

Ends = tuple[Any, Any]  # of an interval; None where no bound is known


@dataclass(frozen=True)
class Figure:
    """One figure and its 95 % interval. If units were cut, also the interval of the cut figure, to which noise was added."""

    value: Any
    interval: Ends
    cut: Ends | None = None


def labels_of(column: Column) -> list[Any]:
    """The declared levels as answers show them; dates become texts."""
    return [each.isoformat() if hasattr(each, "isoformat") else each for each in levels(column) or ()]


def cautions(plan: Plan, noisy: Drawn) -> tuple[str, ...]:
    """At what limit units were cut, and how far the full figure may be from the cut one, to which noise was added."""
    said = []
    for aggregate, release, drawn in zip(plan.query.aggregates, plan.releases, noisy, strict=True):
        if not isinstance(release, Ranks) and _lost(plan, release, int(drawn[0, 0])) != 0:
            said.append(f"{aggregate.name}: {_about_cut(plan, release, int(drawn[0, 0]))}")
    return tuple(said)


def figures_of(
    plan: Plan, release: Release, drawn: list[int], column: Column | None, beta: float = float(BETA)
) -> list[Figure]:
    """The figures of one release, one for each group. Their intervals miss with probability at most beta.

    Of ranks, and of averages drawn whole, the probability is fixed at 5 % when they are drawn.
    """
    if isinstance(release, Mean):
        return [_mean(release, _lost(plan, release, drawn[0]) == 0, *drawn)]
    limit, numbers = (None, drawn) if release.steps is None else (drawn[0], drawn[1:])
    if isinstance(release, Ranks):
        assert column is not None  # every rank is of a column
        return [_ranked(release, place, column) for place in numbers]
    size, noise = len(release.terms), release.noise(limit)
    make, whole = _MAKERS.get(release.figure, (_sum, _whole_sum))
    lost, found = _lost(plan, release, drawn[0], beta), []
    for at in range(0, len(numbers), size):
        terms = numbers[at : at + size]
        figure = make(release, terms, noise, beta)
        if lost != 0 or limit is not None:  # half of the 5 % is for the limit
            ends = whole(release, terms, noise, lost, beta)
            figure = Figure(figure.value, ends, figure.interval if lost != 0 else None)
        found.append(figure)
    return found


def _lost(plan: Plan, release: Sums | Mean, drawn: int, beta: float = float(BETA)) -> int | None:
    """A limit on what was cut off from all units together, with 97.5 % probability: 0 for nothing, None for unknown.

    It relies on the owner's statement that no unit has more rows than declared. For cells there is no such number.
    """
    if release.limit.column is None:
        return 0
    if plan.protected.kind == "cell":
        return None
    if release.steps is None:
        return 0
    if isinstance(release, Mean):
        return 0 if drawn == len(release.steps.limits) - 1 and release.limit.rows <= 1 << 20 else None
    return most_cut_off(release, drawn, beta / 2)


def _sum(release: Sums, terms: list[int], noise: Noise, beta: float) -> Figure:
    radius = noise.radius(1 - beta)
    value, low, high = (_counted(release, each) for each in (terms[0], terms[0] - radius, terms[0] + radius))
    return Figure(value, (low, high))


def _counted(release: Sums, number: int) -> Any:
    return number if release.fixed is None else float(number * release.fixed.quantum)


def _whole_sum(release: Sums, terms: list[int], noise: Noise, lost: int | None, beta: float) -> Ends:
    """Of the figure before units were cut: what was cut off lies above, or on either side where rows are signed."""
    radius = noise.radius(1 - beta / 2)
    low, high = terms[0] - radius, terms[0] + radius
    if lost is None:
        return None if release.signed else _counted(release, low), None
    return _counted(release, low - lost if release.signed else low), _counted(release, high + lost)


def _average(release: Sums, terms: list[int], noise: Noise, beta: float) -> Figure:
    """From the noisy sums of x - L and U - x: their share of the range."""
    above, below = (max(each, 0) for each in terms)
    share = above / (above + below) if above + below else 0.5
    return Figure(
        _place(_fixed(release).bounds, share),
        _places(release, share_interval(terms[0], terms[1], noise, 1 - beta)),
    )


def _whole_average(release: Sums, terms: list[int], noise: Noise, lost: int | None, beta: float) -> Ends:
    bounds = _fixed(release).bounds
    if lost is None:
        return bounds
    radius = noise.radius(1 - beta / 4)
    (a, b), (c, d) = ((max(each - radius, 0), max(each + radius + lost, 0)) for each in terms)
    return _places(release, (a / (a + d), b / (b + c)) if a + d and b + c else (0.0, 1.0))


def _places(release: Sums | Mean, shares: tuple[float, float]) -> Ends:
    fixed = _fixed(release)
    half = 0.5 / fixed.most  # a row was rounded to a quantum
    return _place(fixed.bounds, shares[0] - half), _place(fixed.bounds, shares[1] + half)


def _place(bounds: tuple[float, float], share: float) -> float:
    low, high = bounds
    return _clip(low * (1 - share) + high * share, low, high)


def _fixed(release: Sums | Mean) -> Fixed:
    assert release.fixed is not None  # how the column became whole
    return release.fixed


def _moment(release: Sums, terms: list[int], noise: Noise, beta: float) -> Figure:
    """Variance, covariance or correlation, from noisy sums of polynomials."""
    return _made(release, terms, noise, 0, beta)


def _whole_moment(release: Sums, terms: list[int], noise: Noise, lost: int | None, beta: float) -> Ends:
    if lost is None:
        return _widest(release)
    return _made(release, terms, noise, lost, beta / 2).interval


def _made(release: Sums, terms: list[int], noise: Noise, lost: float, beta: float) -> Figure:
    """With what units lost, all together."""
    side = math.isqrt(len(terms)) if release.pair is not None else len(terms)
    noisy = NoisyTerms(np.array(terms, dtype=np.float64).reshape(side, -1), noise, lost)
    if release.figure == "corr":
        return _correlation(release, noisy, beta)
    sample = release.figure.endswith("_samp")
    spread = beta * (0.9 if sample else 1.0)
    found = variance(noisy, spread) if release.pair is None else covariance(noisy, spread)
    low, high = _unrounded(release, found.ends)
    value = _clip(found.value, 0.0 if release.pair is None else -0.25, 0.25)
    if sample:  # n / (n - 1) times that of the rows
        one, apart = _one_row(release), noisy.radius(np.ones(noisy.sums.shape), beta / 10)
        least, most = ((noisy.total + side * apart) / one for side in (-1, 1))
        factors = _corrected(most), _corrected(least)
        value *= _corrected(noisy.total / one)
        low, high = low * factors[low < 0], high * factors[high > 0]
    unit = _area(release)
    return Figure(value * unit, (low * unit, high * unit))


def _correlation(release: Sums, noisy: NoisyTerms, beta: float) -> Figure:
    """SQL has no correlation with a constant; nor is there one with a column whose noisy variance is not above 0."""
    rounded = (
        len(noisy.sums) ** 2 / 2 * max(noisy.total, 0.0) / _one_row(release)
    )  # each product, by half at most
    noisy = NoisyTerms(noisy.sums, noisy.noise, noisy.lost + 2 * rounded)
    found = correlation(noisy, beta, 1 / _fixed(release).most)
    return Figure(None, (-1.0, 1.0)) if found is None else Figure(_clip(found.value, -1.0, 1.0), found.ends)


def _one_row(release: Sums) -> float:
    """What the terms of a row add up to, whatever its numbers."""
    if release.pair is None:
        return float(sum(each[0] for each in release.terms))
    return sum(each[0] for each in release.pair.polynomials) ** 2 / release.pair.divisor


def _corrected(rows: float) -> float:
    return rows / (rows - 1) if rows > 2 else 2.0


def _unrounded(release: Sums, ends: tuple[float, float]) -> tuple[float, float]:
    """A row was rounded to a quantum, which moves a deviation by at most half of one, and no deviation is above 1/2."""
    low, high = ends
    half = 0.5 / _fixed(release).most
    if release.pair is not None:
        return max(-0.25, low - half - half**2), min(0.25, high + half + half**2)
    return max(0.0, math.sqrt(low) - half) ** 2, min((math.sqrt(high) + half) ** 2, 0.25)


def _area(release: Sums) -> float:
    """The square of the range, or the product of the two."""
    other = _fixed(release) if release.pair is None else release.pair.fixed
    return math.prod(float(each.quantum) * each.most for each in (_fixed(release), other))


def _widest(release: Sums) -> Ends:
    if release.figure == "corr":
        return -1.0, 1.0
    most = _area(release) * (0.5 if release.figure.endswith("_samp") else 0.25)
    return 0.0 if release.pair is None else -most, most


def _mean(release: Mean, whole: bool, place: int, centre: int, width: int) -> Figure:
    """Where a unit was cut, how far that moves the average depends on the number of rows, which is not released."""
    last = release.points - 1
    apart = release.widths[width]
    ends = _places(release, ((centre - apart) / last, (centre + apart) / last))
    value = _place(release.fixed.bounds, centre / last)
    return Figure(value, ends) if whole else Figure(value, release.fixed.bounds, ends)


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


def notes_of(plan: Plan, release: Release, drawn: int) -> list[str]:
    """What one release's interval covers."""
    said, names = [], columns_of(release)
    for name in names:
        column = plan.schema.columns.get(name)
        if column is not None and release.figure != "count" and column.kind == "number":
            low, high = finite_bounds(column)
            of = f" of {name}" if len(names) > 1 else ""
            said.append(
                f"values{of} beyond [{low:g}, {high:g}] count as the nearer bound; the interval is of that figure"
            )
    if isinstance(release, Ranks):
        return said + _about_ranks(plan, release, drawn)
    if release.limit.column is not None and release.steps is None and plan.protected.kind != "cell":
        unit = _unit_of(plan)
        rows = "row" if release.limit.rows == 1 else "rows"
        said.append(
            f"at most {release.limit.rows} {rows} of a {unit} count; the interval is of the full figure if no {unit} has more"
        )
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
    unit, lost = _unit_of(plan), _lost(plan, release, drawn)
    if isinstance(release, Mean):
        pull = float(release.steps.limits[drawn] * release.fixed.quantum)
        return (
            f"what a {unit} adds above or below the average was cut at {_readable(pull)}; the narrow interval is of that "
            "average only. How far the cut moved it is not known, so the full one may lie anywhere in the declared range"
        )
    limit = release.most if release.steps is None else drawn
    what = f"what a {unit} adds was cut at that of {_readable(limit / release.sensitivity)} rows"
    if release.figure == "sum" and release.fixed is not None:
        what = f"what a {unit} adds to the sum was cut at {_readable(float(limit * release.fixed.quantum))}"
    what += "; the narrow interval is of the cut figure only. "
    if lost is None:
        return what + "What was cut off is not known, so the full figure may lie anywhere beyond it"
    if len(release.terms) > 1:
        return (
            what + f"The wide one is of the full figure, if no {unit} has more than {release.limit.rows} rows"
        )
    return what + (
        f"The full figure may lie {_readable(_counted(release, lost))} {'away' if release.signed else 'above'}: the wide "
        f"interval allows for it, if no {unit} has more than {release.limit.rows} rows"
    )


def _readable(number: float) -> str:
    """Six digits; of a large number all, in groups of three."""
    return f"{round(number):,}" if 1e5 <= abs(number) < 1e15 else f"{number:.6g}"


def most_cut_off(release: Sums, limit: int, chance: float = float(BETA)) -> int:
    """What is cut off in all, and more with at most this chance, if every unit keeps to the declared rows.

    The largest limit then has score 0, so a limit T is drawn with probability at most w_T e^(-rate score) / w_last.
    """
    steps = release.steps
    assert steps is not None  # the limit is drawn
    place = steps.limits.index(limit)
    if place == len(steps.limits) - 1:
        return 0
    bits = steps.bits * (len(steps.limits) - 1 - place)
    nats = bits * math.log(2) + math.log((len(steps.limits) - 1) / chance)
    units = nats / (float(release.score_rate) * SCORE)
    return math.ceil(units * max(limit / 2, release.most - limit))


def _unit_of(plan: Plan) -> str:
    return "cell" if plan.protected.kind == "cell" else plan.protected.column or "record"


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


_MAKERS = {"avg": (_average, _whole_average)} | dict.fromkeys(
    ("var", "var_samp", "covar", "covar_samp", "corr"), (_moment, _whole_moment)
)
