"""Choices among candidates against their exact distributions, and their parts against independent computations."""

from __future__ import annotations

import itertools
import os
import random
import time
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracles_draws import fits
from shoal.dp.mechanisms.selection import (
    _SLACK,
    _TINY,
    _below,
    _bounds,
    _products,
    exp_between,
    exponential,
    permute_and_flip,
)
from shoal.dp.mechanisms.tau import STEPS, choose_tau, draw_tau, tau_distances
from shoal.release._quadtree import _ways


def exact_exp(x: Fraction, precision: int) -> Decimal:
    with localcontext() as context:
        context.prec = 300
        return (-(Decimal(x.numerator) / Decimal(x.denominator))).exp() * 2**precision


@given(st.fractions(min_value=0, max_value=200), st.sampled_from([64, 128, 256]))
@settings(max_examples=200)
def test_bounds_of_the_exponential_function_hold(x, precision):
    low, high = exp_between(x, precision)
    assert low <= exact_exp(x, precision) <= high
    assert high - low <= 2


@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=20),
    st.fractions(min_value=Fraction(1, 10**18), max_value=50),
)
@settings(max_examples=150, deadline=None)
def test_weights_keep_to_their_stated_error(distances, rate):
    apart = np.array(distances, dtype=np.int64)
    for step, near in zip(distances, _products(apart, rate), strict=True):
        if rate * step > 600:
            assert near <= _TINY
            continue
        exact = float(exact_exp(rate * step, 0))
        assert near * (1 - _SLACK) <= exact <= near * (1 + _SLACK) + _TINY


@pytest.mark.parametrize("weighted", [False, True])
def test_exponential_mechanism_has_its_exact_distribution(weighted):
    distances = np.array([0, 3, 3, 1, 40, 0, 7, 2])
    weights = np.array([1, 2, 5, 1, 100, 3, 1, 4]) if weighted else None
    draws = exponential(distances, Fraction(2, 5), weights, draws=40_000)
    expected = np.exp(-0.4 * distances) * (1 if weights is None else weights)
    assert fits(np.bincount(draws, minlength=8), expected / expected.sum()) > 1e-5


@given(
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 2**700)), min_size=1, max_size=8),
    st.fractions(min_value=Fraction(1, 10**6), max_value=300),
)
@settings(max_examples=100, deadline=None)
def test_bounds_of_weighted_terms_hold_and_are_near(terms, rate):
    """Whatever their size: weight * exp(-rate * step) of each, as a share of the largest one."""
    steps, weights = (list(each) for each in zip(*terms, strict=True))
    found = list(_bounds(steps, weights, rate, 256))
    with localcontext() as context:
        context.prec, context.Emin, context.Emax = 400, -(10**12), 10**12
        exact = [
            weight * (-(Decimal(rate.numerator) * step / rate.denominator)).exp()
            for step, weight in zip(steps, weights, strict=True)
        ]
        largest = max(range(len(exact)), key=lambda at: exact[at])
        for (low, high), term in zip(found, exact, strict=True):
            share = term / exact[largest]
            assert low / Decimal(found[largest][1]) <= share <= high / Decimal(found[largest][0])
            assert high - low <= 2 + (high >> 250)


def test_weights_of_any_length_have_their_exact_distribution():
    """Beyond 2^200 every draw is by whole numbers."""
    ways = [comb(60, j) * comb(2_000, 60 - j) for j in range(61)]
    assert max(ways) > 2**200
    draws = exponential(np.arange(60, -1, -1), Fraction(2), np.array(ways, dtype=object), draws=1_500)
    logs = np.array([log(each) for each in ways]) - 2.0 * np.arange(60, -1, -1)
    expected = np.exp(logs - logs.max())
    assert fits(np.bincount(draws, minlength=61), expected / expected.sum()) > 1e-5


def test_a_choice_among_thousands_of_long_weights_takes_little():
    """Their cost once grew with the cube of their number: 1.1 s of CPU for 500, and now a quarter of a second for 5,000."""
    ways = _ways(10**7, 2_000, 2_000, 0, 2_000)
    start = time.process_time()
    exponential(np.arange(2_000, -1, -1), Fraction(1), np.array(ways, dtype=object))
    assert time.process_time() - start < 3


def flip_probabilities(heads: list[float]) -> np.ndarray:
    """The first heads in a random order, by going through all orders."""
    found = np.zeros(len(heads))
    orders = list(itertools.permutations(range(len(heads))))
    for order in orders:
        left = 1.0
        for place in order:
            found[place] += left * heads[place] / len(orders)
            left *= 1 - heads[place]
    return found


def test_permute_and_flip_has_its_exact_distribution():
    distances = np.array([4, 3, 3, 1, 9, 2])
    draws = permute_and_flip(distances, Fraction(2, 5), draws=40_000)
    expected = flip_probabilities(np.exp(-0.4 * (distances - 1)).tolist())
    assert fits(np.bincount(draws, minlength=6), expected) > 1e-5


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 5), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_permute_and_flip_is_private_for_scores_that_move_by_one(distances, seed, tenths):
    """Over all orders: probabilities move by at most e^(2 rate), by e^rate where all move the same way."""
    rate = tenths / 10
    rng = np.random.default_rng(seed)
    for low, high, factor in ((-1, 1, 2), (0, 1, 1)):
        moved = np.maximum(np.array(distances) + rng.integers(low, high + 1, len(distances)), 0)
        one, two = (
            flip_probabilities(np.exp(-rate * (each - each.min())).tolist())
            for each in (np.array(distances), moved)
        )
        assert np.abs(np.log(one / two)).max() <= factor * rate + 1e-9


class Scripted:
    """Random bytes that begin as told, then come from a seed."""

    def __init__(self, first: int) -> None:
        self.calls: list[int] = []
        self._first, self._rng = first, random.Random(1)

    def __call__(self, count: int) -> bytes:
        self.calls.append(count)
        return self._first.to_bytes(8, "little") if len(self.calls) == 1 else self._rng.randbytes(count)


def test_a_draw_in_doubt_is_decided_by_whole_numbers():
    """Two candidates of all but equal weight meet next to one half; so does the first number drawn."""
    source = Scripted(1 << 63)
    chosen = exponential(np.array([0, 1]), Fraction(1, 10**40), _source=source)
    assert chosen[0] in (0, 1)
    assert len(source.calls) == 2
    coin = Scripted((1 << 64) - 1)  # the largest number below 1 against exp(-1e-30)
    permute_and_flip(
        np.array([0, 1]), Fraction(1, 10**30), _source=lambda n: coin(8) * (n // 8) if n == 16 else coin(n)
    )
    assert len(coin.calls) >= 3


def test_far_candidates_are_possible_but_never_seen():
    far = np.array([10**15, 0, 10**18])
    assert set(exponential(far, Fraction(1), draws=500)) == {1}
    assert set(permute_and_flip(far, Fraction(1), draws=500)) == {1}


def test_uniform_integers_are_uniform():
    rng = random.Random(3)
    drawn = np.bincount([_below(5, rng.randbytes) for _ in range(20_000)], minlength=5)
    assert stats.chisquare(drawn).pvalue > 1e-5
    assert _below(1, rng.randbytes) == 0


def test_the_work_is_the_same_whatever_the_distances():
    """As many random numbers for one heap as for a thousand different ranks."""
    counted = []
    for distances in (np.zeros(1000, np.int64), np.arange(1000) * 7):
        calls: list[int] = []

        def source(count, calls=calls):
            calls.append(count)
            return random.Random(len(calls)).randbytes(count)

        permute_and_flip(distances, Fraction(1, 100), _source=source)
        exponential(distances, Fraction(1, 100), _source=source)
        counted.append(calls)
    assert counted[0] == counted[1]


def test_tau_distances_move_by_at_most_one_cell():
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = rng.integers(0, 60, 30)
        less = sizes.copy()
        less[rng.integers(30)] = 0
        for r in (0, 1, 5, 20):
            assert np.abs(tau_distances(sizes, r) - tau_distances(less, r)).max() <= 1


def test_tau_has_its_exact_distribution():
    apart = tau_distances(np.arange(100), 5)
    draws = draw_tau(apart, 800_000, 30_000)
    expected = 4.0 ** -np.arange(STEPS) * np.exp(-0.4 * (apart - apart.min()))
    assert fits(np.bincount(draws, minlength=STEPS), expected / expected.sum()) > 1e-5


@pytest.mark.parametrize("sampler", [exponential, permute_and_flip])
def test_as_many_random_bytes_are_drawn_whatever_the_distances(sampler):
    """Work that depends on the number of candidates alone: near ones, far ones, all alike, all different."""
    drawn = []
    for distances in (np.zeros(500), np.arange(500) * 1000, np.repeat([0, 10**9], 250), np.arange(500)):
        asked = []

        def source(count, asked=asked):
            asked.append(count)
            return os.urandom(count)

        sampler(distances.astype(np.int64), Fraction(1), draws=3, _source=source)
        drawn.append(asked[0])
    assert len(set(drawn)) == 1
    assert drawn[0] >= 3 * 8 * (1 if sampler is exponential else 500)


def test_distances_of_tau_counted_by_hand():
    # More than 0, 1, 2, 4, 8 rows have 4, 2, 2, 1, 0 cells; about one may be cut.
    found = tau_distances(np.array([1, 1, 3, 5]), 1)
    assert found[:6].tolist() == [1, 1, 0, 0, 1, 1]
    assert len(found) == 31
    assert set(found[6:]) == {1}


def test_tau_is_the_power_of_two_that_cuts_about_r_cells():
    sizes = np.full(1000, 60)
    assert [choose_tau(sizes, 20, 50_000_000) for _ in range(5)] == [64] * 5
    assert choose_tau(sizes, 20, 50_000_000, "zcdp") == 64
