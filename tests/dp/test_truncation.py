"""Limits drawn from the data: scores, cuts and averages against slow computations, and the loss by enumeration."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp.answering.exact import Totals
from shoal.dp.answering.noise import (
    add_noise,
    cut_sums,
    distances,
    histograms,
    mean_scores,
    outermost,
    rows_of_units,
    width_distances,
)
from shoal.dp.answering.plan import from_low
from shoal.dp.answering.releases import SCORE, Candidates, Fixed, Limit, Mean, Ranks, Sums
from shoal.dp.answering.truncation import cut, cut_scores, parts_of, pulls, row_weights

LIMITS = (1, 2, 4, 8, 16, 50)
units = st.lists(st.integers(0, 60), min_size=1, max_size=8)
vectors = st.lists(st.lists(st.integers(-30, 30), min_size=3, max_size=3), min_size=1, max_size=6)


@given(units)
def test_scores_are_the_stated_ones(sizes):
    exact = [math.ceil(SCORE * sum(min(max(Fraction(2 * (v - t), t), 0), 1) for v in sizes)) for t in LIMITS]
    assert cut_scores(np.array(sizes), LIMITS).tolist() == exact


@given(units, st.integers(0, 60))
def test_one_unit_moves_all_scores_the_same_way_and_by_at_most_one(sizes, more):
    moved = cut_scores(np.array([*sizes, more]), LIMITS) - cut_scores(np.array(sizes), LIMITS)
    assert moved.min() >= 0
    assert moved.max() <= SCORE


@given(units, st.integers(0, 60))
def test_one_row_moves_all_scores_the_same_way(sizes, other):
    """A row changes one unit's size; all scores rise or all fall."""
    moved = cut_scores(np.array([other, *sizes[1:]]), LIMITS) - cut_scores(np.array(sizes), LIMITS)
    assert (moved >= 0).all() or (moved <= 0).all()
    assert np.abs(moved).max() <= SCORE


@given(vectors, st.integers(1, 40))
def test_a_cut_keeps_signs_and_its_limit_and_leaves_small_units_alone(rows, limit):
    values = np.array(rows, dtype=np.int64)
    unit = np.arange(len(values))
    sizes = np.abs(values).sum(axis=1)
    kept = cut(values, unit, sizes, limit)
    assert (np.abs(kept).sum(axis=1) == np.minimum(sizes, limit)).all()
    assert (np.abs(kept) <= np.abs(values)).all()
    assert (kept * values >= 0).all()
    share = np.abs(values) * np.minimum(1, limit / np.maximum(sizes, 1))[:, None]
    assert (np.abs(np.abs(kept) - share) < 1 + 1e-9).all()


def test_a_cut_is_exact_where_products_leave_64_bits():
    values = np.array([[2**59, -(2**60)], [5, 6]], dtype=np.int64)
    sizes = np.abs(values).sum(axis=1)
    kept = cut(values, np.array([0, 1]), sizes, 2**59)
    assert np.abs(kept[0]).sum() == 2**59
    assert kept[1].tolist() == [5, 6]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=9), st.integers(1, 500))
def test_a_units_rows_weigh_no_more_than_the_limit(rows, limit):
    each = row_weights(np.array(rows), limit)
    assert (each * np.array(rows) <= limit << 16).all()
    assert (each[np.array(rows) <= limit] == 1 << 16).all()


SMALL = Mean(1_000_000, "x", Fixed((0.0, 40.0), 0.0, Fraction(1), 0, 40), Limit(9, "u", True), points=21)
people = st.lists(
    st.integers(0, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 40 * n))),
    min_size=1,
    max_size=6,
)


def totals(people):
    moments = np.array([[n, s, 0] for n, s in people], dtype=np.int64).reshape(-1, 3)
    flat = np.zeros(len(moments), dtype=np.int64)
    return Totals(flat, np.arange(len(moments)), flat, moments, len(moments))


@given(people, st.integers(1, 300))
def test_pulls_are_those_of_every_unit_at_every_candidate(people, limit):
    n, s = (np.array(each, dtype=np.int64) for each in zip(*people, strict=True))
    pull, cut_units = pulls(n, s, SMALL, limit)
    apart = s[:, None] - n[:, None] * (SMALL.spacing * np.arange(SMALL.points))
    assert pull.tolist() == np.clip(apart, -limit, limit).sum(axis=0).tolist()
    assert cut_units.tolist() == (np.abs(apart) > limit).sum(axis=0).tolist()
    exact = [math.ceil(Fraction(SCORE * abs(int(each)), limit)) for each in pull]
    assert parts_of(pull, limit).tolist() == exact


@given(people, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_unit_moves_the_odds_of_limit_and_average_by_no_more_than_epsilon(people, which):
    """All log-probabilities, enumerated: with the unit, without it, and with another in its place."""
    rate, weights = float(SMALL.rate), np.log([float(each) for each in SMALL.steps.weights])[:, None]

    def logs(units):
        found = weights - rate * mean_scores(SMALL, totals(units))
        return found - np.logaddexp.reduce(found.ravel())

    share = float(SMALL.steps.share)
    without = people[: which % len(people)] + people[which % len(people) + 1 :]
    assert np.abs(logs(people) - logs(without)).max() <= share + 1e-9


@given(people, st.integers(0, 5), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_a_unit_moves_the_distances_of_widths_by_at_most_one_limit(people, which, centre):
    without = people[: which % len(people)] + people[which % len(people) + 1 :]
    for place in range(len(SMALL.steps.limits)):
        one, two = (width_distances(SMALL, totals(each), place, centre) for each in (people, without))
        assert np.abs(one - two).max() <= SCORE
        assert one.min() == 0


@given(vectors, st.integers(0, 5), st.integers(1, 60))
def test_a_unit_moves_cut_sums_by_no_more_than_the_limit(rows, which, limit):
    release = Sums("sum", 1, "x", from_low((0.0, 1.0), 4), ((0, 1, 0),), 30, Limit(9, "u", True), True, 3)

    def entries(units):
        parts = [(u, g, v) for u, unit in enumerate(units) for g, v in enumerate(unit)]
        unit, group, value = (np.array([part[i] for part in parts], dtype=np.int64) for i in range(3))
        zero = np.zeros_like(unit)
        moments = np.stack([zero, value, zero], axis=1)
        return Totals(group, unit, zero, moments, len(units))

    without = rows[: which % len(rows)] + rows[which % len(rows) + 1 :]
    one, two = (cut_sums(release, entries(each), limit) for each in (rows, without))
    assert np.abs(one - two).sum() <= limit


GROUPS, PLACES = 3, 5
shown = st.dictionaries(
    st.tuples(st.integers(0, GROUPS - 1), st.integers(0, PLACES - 1)), st.integers(0, 9), max_size=8
)
crowds = st.lists(shown, min_size=1, max_size=5)


def placed(crowd):
    """Rows of each unit in each group and place: (group, place) -> number of rows."""
    parts = [(unit, group, place, n) for unit, held in enumerate(crowd) for (group, place), n in held.items()]
    unit, group, place, n = np.array(parts, dtype=np.int64).reshape(-1, 4).T
    zero = np.zeros_like(n)
    return Totals(group, unit, place, np.stack([n, zero, zero], axis=1), len(crowd))


@given(crowds, st.integers(0, 4), st.integers(1, 5))
def test_a_unit_moves_numbers_of_different_values_by_no_more_than_its_rows(crowd, which, most):
    def numbers(crowd, column="u"):
        limit = Limit(most, column)
        release = Sums("distinct", 1, "x", None, ((1, 0, 0),), 1, limit, False, GROUPS)
        return cut_sums(release, placed([{k: min(n, 1) for k, n in unit.items()} for unit in crowd]), None)

    without = crowd[: which % len(crowd)] + crowd[which % len(crowd) + 1 :]
    moved = numbers(crowd) - numbers(without)
    assert moved.min() >= 0
    assert moved.sum() <= most
    pairs = {pair for unit in crowd for pair, n in unit.items() if n}
    exact = [len([1 for group, _ in pairs if group == g]) for g in range(GROUPS)]
    assert numbers(crowd, None).tolist() == exact
    if all(sum(n > 0 for n in unit.values()) <= most for unit in crowd):
        assert numbers(crowd).tolist() == exact


@pytest.mark.parametrize("figure", ["min", "max", "quantile"])
@given(crowd=crowds, which=st.integers(0, 4), most=st.integers(1, 12), drawn=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_unit_moves_the_ranks_of_all_groups_by_no_more_than_its_limit(figure, crowd, which, most, drawn):
    share = Fraction(3, 4) if figure == "quantile" else None
    limit = Limit(most, "u", chosen=True)
    release = Ranks(figure, 10**6, "x", Candidates(0.0, 1.0, PLACES), limit, GROUPS, share)
    rows = min(drawn, release.most) if release.steps else None

    def apart(crowd):
        kept = outermost(release, placed(crowd))
        return kept, np.array([distances(release, each, rows) for each in histograms(release, kept, rows)])

    without = crowd[: which % len(crowd)] + crowd[which % len(crowd) + 1 :]
    kept, far = apart(crowd)
    moved = np.abs(far - apart(without)[1]).max(axis=1).sum()
    assert moved <= (rows or release.most) * release.part * release.sensitivity
    held = rows_of_units(kept).tolist()
    if release.extreme:
        assert held == [len({group for (group, _), n in unit.items() if n}) for unit in crowd]
    else:
        assert held == [sum(unit.values()) for unit in crowd]


def test_with_much_budget_the_limit_and_the_quantiles_are_the_exact_ones():
    """Units of ten to fourteen rows, up to forty declared: a limit below 16 would cut most of them."""
    rng = np.random.default_rng(3)
    rows = [
        dict.fromkeys(zip(rng.integers(0, GROUPS, 8), rng.integers(0, PLACES, 8), strict=True), 0)
        for _ in range(200)
    ]
    for unit, held in enumerate(rows):
        for at in range(10 + unit % 5):
            held[sorted(held)[at % len(held)]] += 1
    for share in (Fraction(1, 4), Fraction(3, 4)):
        release = Ranks(
            "quantile", 10**9, "x", Candidates(0.0, 1.0, PLACES), Limit(40, "u", True), GROUPS, share
        )
        (noisy,) = add_noise(SimpleNamespace(releases=(release,)), (placed(rows),), draws=40)
        assert noisy.shape == (40, 1 + GROUPS)
        assert {16} <= set(noisy[:, 0].tolist()) <= {16, 32, 40}
        for group in range(GROUPS):
            all_places = np.sort(
                [p for held in rows for (g, p), n in held.items() for _ in range(n) if g == group]
            )
            exact = all_places[math.floor(share * len(all_places))]
            assert noisy[:, 1 + group].tolist() == [exact] * 40


@pytest.mark.parametrize(
    ("sensitivity", "rows", "signed"), [(1, 500, False), (80, 64, False), (80, 64, True)]
)
def test_limits_rise_from_a_row_to_what_was_declared(sensitivity, rows, signed):
    figure = "count" if sensitivity == 1 else "sum"
    release = Sums(figure, 1, "x", None, ((1, 0, 0),), sensitivity, Limit(rows, "u", True), signed, 1)
    limits = release.steps.limits
    assert limits[-1] == rows * sensitivity
    assert limits[0] == (sensitivity if signed or figure == "count" else sensitivity // 8)
    assert all(b <= 2 * a for a, b in itertools.pairwise(limits))


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
@pytest.mark.parametrize("figure", ["count", "sum", "min", "quantile"])
def test_a_limit_and_a_figure_cost_together_what_is_charged(figure, currency, chosen):
    limit, micro, share = Limit(64, "u", chosen), 300_000, Fraction(1, 4) if figure == "quantile" else None
    if figure in ("count", "sum"):
        size = 1 if figure == "count" else 80
        release = Sums(figure, micro, "x", None, ((1, 0, 0),), size, limit, False, 1, currency)
    else:
        size = 3 if share else 1  # of a quarter a row moves the distance by a quarter or three
        release = Ranks(figure, micro, "x", Candidates(0.0, 1.0, PLACES), limit, 70, share, currency)
    assert (release.steps is not None) == chosen

    def cost(ratios):  # of a choice whose log-ratios lie so far apart
        return ratios if currency == "pure" else ratios**2 / 8

    for drawn in release.steps.limits if chosen else (None,):
        first = cost(float(release.score_rate * SCORE)) if chosen else 0
        moved = drawn or limit.rows * (size if isinstance(release, Sums) else 1)
        if isinstance(release, Ranks):
            second = cost(float(2 * moved * release.part * size * release.rate(drawn)))
        else:
            ratio = float(moved / Fraction(release.noise(drawn).scale))
            second = ratio if currency == "pure" else ratio**2 / 2
        assert first + second == pytest.approx(micro / 10**6, rel=1e-6)
        assert first + second <= micro / 10**6 * (1 + 1e-12)


def test_weighted_rows_are_whole_parts_of_a_row():
    for column, part in (("u", 1 << 16), (None, 1)):
        release = Ranks("quantile", 1, "x", Candidates(0.0, 1.0, 5), Limit(3, column), 1, Fraction(1, 2))
        assert release.part == part
