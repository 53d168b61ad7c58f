"""Noise on exact answers. Only what is drawn here leaves the table.

The work depends on the plan and on the number of units, never on the values in the rows.
"""

from __future__ import annotations

import json

import numpy as np

from shoal.dp.answering.exact import Totals
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import SCORE, Mean, Ranks, Release, Sums
from shoal.dp.answering.truncation import cut, cut_scores, parts_of, pulls, row_weights
from shoal.dp.mechanisms.currency import choose
from shoal.dp.mechanisms.selection import exponential

Drawn = tuple[np.ndarray, ...]


def add_noise(plan: Plan, exact: tuple[Totals, ...], draws: int = 1) -> Drawn:
    """Noisy whole numbers of each release: an int64 array (draws, numbers).

    Sums: the limit drawn (where one is) and the terms of every group. Mean: limit, place of the average, place of
    the width. Ranks: the limit drawn (where one is) and the place on the grid for every group.
    """
    return tuple(_draw(release, totals, draws) for release, totals in zip(plan.releases, exact, strict=True))


def _draw(release: Release, totals: Totals, draws: int) -> np.ndarray:
    if isinstance(release, Sums):
        return _sums(release, totals, draws)
    return _mean(release, totals, draws) if isinstance(release, Mean) else _ranks(release, totals, draws)


def released(noisy: Drawn) -> str:
    """Noisy numbers as the ledger stores them. Figures are computed from them again for each answer."""
    return json.dumps([each[0].tolist() for each in noisy])


def as_released(body: str) -> Drawn:
    """Noisy numbers as `released` wrote them."""
    return tuple(np.array([each], dtype=np.int64) for each in json.loads(body))


def contributions(release: Sums, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
    """The terms of each entry (entries, terms), units in order, and the L1 size of each unit's."""
    terms = totals.moments @ np.array(release.terms, dtype=np.int64).T
    sizes = np.zeros(totals.units, dtype=np.int64)
    np.add.at(sizes, totals.unit, np.abs(terms).sum(axis=1))
    return terms, sizes


def cut_sums(release: Sums, totals: Totals, limit: int | None) -> np.ndarray:
    """The exact terms of every group (groups * terms,), each unit's cut to the limit."""
    if release.figure == "distinct":
        return different(release, totals)
    terms, sizes = contributions(release, totals)
    group = totals.group
    if release.limit.column is not None and limit is not None:
        order = np.lexsort((totals.group, totals.unit))
        terms, group = cut(terms[order], totals.unit[order], sizes, limit), group[order]
    table = np.zeros((release.groups, terms.shape[1]), dtype=np.int64)
    np.add.at(table, group, terms)
    return table.ravel()


def different(release: Sums, totals: Totals) -> np.ndarray:
    """How many different values each group has (groups,). A unit counts for at most as many values as its rows may count.

    Which of a unit's values count depends only on the unit: a fixed public order of all pairs of group and value.
    """
    there = totals.moments[:, 0] > 0
    unit, pair = totals.unit[there], totals.group[there] * _PLACES + totals.bin[there]
    if release.limit.column is not None:
        order = np.lexsort(((pair * _MIXED) & 0xFFFFFFFF, unit))
        unit, pair = unit[order], pair[order]
        first = np.concatenate([[True], unit[1:] != unit[:-1]]) if len(unit) else np.zeros(0, dtype=bool)
        begin = (
            np.maximum.accumulate(np.where(first, np.arange(len(unit)), 0))
            if len(unit)
            else np.zeros(0, dtype=np.int64)
        )
        pair = pair[np.arange(len(unit)) - begin < release.most]
    return np.bincount(np.unique(pair) // _PLACES, minlength=release.groups).astype(np.int64)


_PLACES = 1 << 20  # more than any column has levels
_MIXED = 2_654_435_761


def _sums(release: Sums, totals: Totals, draws: int) -> np.ndarray:
    if release.steps is None:
        limit = None if release.limit.column is None else release.most
        values = cut_sums(release, totals, limit)
        return release.noise().add(np.broadcast_to(values, (draws, len(values))))
    steps = release.steps
    scores = cut_scores(contributions(release, totals)[1], steps.limits)
    places = exponential(scores, release.score_rate, steps.weights, draws)
    noisy = np.empty((draws, 1 + release.width), dtype=np.int64)
    for place, limit in enumerate(steps.limits):
        chosen = np.flatnonzero(places == place)
        if len(chosen):  # the limit is released: that the time tells it tells nothing more
            values = cut_sums(release, totals, limit)
            noisy[chosen, 0] = limit
            many = np.broadcast_to(values, (len(chosen), len(values)))
            noisy[chosen, 1:] = release.noise(limit).add(many)
    return noisy


def mean_scores(release: Mean, totals: Totals) -> np.ndarray:
    """Score of every limit and candidate, (limits, points): 2 |pull| / limit and the units cut, in 1/1024."""
    n, s = totals.moments[:, 0], totals.moments[:, 1]
    scores = np.empty((len(release.steps.limits), release.points), dtype=np.int64)
    for place, limit in enumerate(release.steps.limits):
        pull, cut_units = pulls(n, s, release, limit)
        scores[place] = 2 * parts_of(pull, limit) + SCORE * cut_units
    return scores


def width_distances(release: Mean, totals: Totals, place: int, centre: int) -> np.ndarray:
    """How far the pull at both ends of each width lies from the pull aimed at, in 1/1024 of the limit."""
    limit = release.steps.limits[place]
    pull, _ = pulls(totals.moments[:, 0], totals.moments[:, 1], release, limit)
    whole, rest = np.divmod(pull, limit)
    held = SCORE * whole + SCORE * rest // limit
    reached = np.full(len(release.widths), _BEYOND, dtype=np.int64)
    for at, width in enumerate(release.widths):
        low, high = centre - width, centre + width
        reached[at] = min(
            held[low] if low > 0 else _BEYOND, -held[high] if high < release.points - 1 else _BEYOND
        )
    before = np.concatenate([[-_BEYOND], reached[:-1]])
    return np.maximum(np.maximum(before - release.aim, release.aim - reached), 0)


_BEYOND = 1 << 60


def _mean(release: Mean, totals: Totals, draws: int) -> np.ndarray:
    weights = np.repeat(release.steps.weights, release.points)
    drawn = exponential(mean_scores(release, totals).ravel(), release.rate, weights, draws)
    noisy = np.empty((draws, 3), dtype=np.int64)
    noisy[:, 0], noisy[:, 1] = np.divmod(drawn, release.points)
    for place, centre in np.unique(noisy[:, :2], axis=0):
        chosen = np.flatnonzero((noisy[:, 0] == place) & (noisy[:, 1] == centre))
        apart = width_distances(release, totals, int(place), int(centre))
        noisy[chosen, 2] = choose(release.currency, apart, release.width_rate, len(chosen))
    return noisy


def _ranks(release: Ranks, totals: Totals, draws: int) -> np.ndarray:
    kept = outermost(release, totals)
    if release.steps is None:
        return _places(release, kept, None, draws)
    scores = cut_scores(rows_of_units(kept), release.steps.limits)
    places = exponential(scores, release.score_rate, release.steps.weights, draws)
    noisy = np.empty((draws, 1 + release.groups), dtype=np.int64)
    for place, limit in enumerate(release.steps.limits):
        chosen = np.flatnonzero(places == place)
        if len(chosen):
            noisy[chosen, 0] = limit
            noisy[chosen, 1:] = _places(release, kept, limit, len(chosen))
    return noisy


def _places(release: Ranks, kept: Totals, limit: int | None, draws: int) -> np.ndarray:
    rate, tables = release.rate(limit), histograms(release, kept, limit)
    columns = [choose(release.currency, distances(release, each, limit), rate, draws) for each in tables]
    return np.stack(columns, axis=1)


def rows_of_units(kept: Totals) -> np.ndarray:
    """Number of answering rows of each unit."""
    rows = np.zeros(kept.units, dtype=np.int64)
    np.add.at(rows, kept.unit, kept.moments[:, 0])
    return rows


def outermost(release: Ranks, totals: Totals) -> Totals:
    """The rows that count for a minimum or maximum: the outermost row of each unit in each group."""
    if not release.extreme or release.limit.column is None:
        return totals
    there = totals.moments[:, 0] > 0
    sign = -1 if release.figure == "max" else 1
    order = np.lexsort((sign * totals.bin, ~there, totals.group, totals.unit))
    key = totals.unit[order] * release.groups + totals.group[order]
    first = np.concatenate([[True], key[1:] != key[:-1]]) if len(key) else np.zeros(0, dtype=bool)
    moments = np.zeros_like(totals.moments)
    moments[order, 0] = first & there[order]
    return Totals(totals.group, totals.unit, totals.bin, moments, totals.units)


def histograms(release: Ranks, kept: Totals, limit: int | None) -> np.ndarray:
    """Rows at each place of the grid per group (groups, grid), in parts of a row, no unit above its limit."""
    rows = kept.moments[:, 0]
    if release.limit.column is not None:
        most = release.most if limit is None else limit
        rows = rows * row_weights(rows_of_units(kept), most)[kept.unit]
    table = np.zeros((release.groups, release.grid.size), dtype=np.int64)
    np.add.at(table, (kept.group, kept.bin), rows)
    return table


def distances(release: Ranks, histogram: np.ndarray, limit: int | None = None) -> np.ndarray:
    """How far each candidate's ranks lie from the rank aimed at, in parts of a row (times the share's denominator)."""
    from_above = release.figure == "max"
    ordered = histogram[::-1] if from_above else histogram
    reached = np.cumsum(ordered)  # rows at or beyond a candidate, seen from the end that is counted
    before = reached - ordered
    if release.share is None:
        aim = release.aim(limit) * release.part
        apart = np.maximum(np.maximum(before - aim, aim - reached), 0)
    else:
        scaled, target = release.share.denominator, int(reached[-1]) * release.share.numerator
        apart = np.maximum(np.maximum(before * scaled - target, target - reached * scaled), 0)
    return apart[::-1] if from_above else apart
