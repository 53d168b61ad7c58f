"""Noise against its exact distribution, and its parts against independent computations."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shoal.dp.mechanisms import (
    _below,
    _exp_between,
    exp_bounds,
    exponential,
    laplace,
    laplace_radius,
    rounded_up,
)
from shoal.dp.tau import STEPS, draw_tau, tau_distances


def _fits(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value of a chi-square test with rare outcomes pooled."""
    expected = probabilities * observed.sum()
    common = expected >= 10
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0
    return stats.chisquare(f_obs[keep], f_exp[keep] * f_obs[keep].sum() / f_exp[keep].sum()).pvalue


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100, 7)])
def test_laplace_noise_has_its_exact_distribution(scale):
    draws = laplace(np.full(40_000, 7), scale) - 7
    reach = int(40 * scale) + 5
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(support) / float(scale))
    observed = np.bincount(np.clip(draws + reach, 0, 2 * reach), minlength=2 * reach + 1)
    assert _fits(observed, weights / weights.sum()) > 1e-5


def test_laplace_radius_is_the_smallest_that_covers():
    for scale in (Fraction(1, 3), Fraction(2), Fraction(10), Fraction(12345, 10)):
        q = np.exp(-1 / float(scale))
        radius = laplace_radius(scale)
        outside = lambda r: 2 * q ** (r + 1) / (1 + q)  # noqa: E731
        assert outside(radius) <= 0.05 * (1 + 1e-9)
        assert radius == 0 or outside(radius - 1) > 0.05


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**12))
def test_a_scale_is_never_rounded_down(scale):
    assert Fraction(rounded_up(scale)) >= scale
    assert rounded_up(scale) <= float(scale) * (1 + 1e-15)


@given(st.fractions(min_value=0, max_value=200), st.sampled_from([64, 128, 256]))
@settings(max_examples=200)
def test_bounds_of_the_exponential_function_hold(x, precision):
    low, high = _exp_between(x, precision)
    with localcontext() as context:
        context.prec = 200
        exact = (-(Decimal(x.numerator) / Decimal(x.denominator))).exp() * 2**precision
    assert low <= exact <= high
    assert high - low <= 2


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30, unique=True))
def test_bounds_of_many_steps_hold(steps):
    steps = sorted(steps)
    rate = Fraction(3, 17)
    lows, highs = exp_bounds(steps, rate, 128)
    with localcontext() as context:
        context.prec = 200
        for step, low, high in zip(steps, lows, highs, strict=True):
            x = rate * (step - steps[0])
            exact = (-(Decimal(x.numerator) / Decimal(x.denominator))).exp() * 2**128
            assert low <= exact <= high
            assert high - low <= 2 * len(steps)


@pytest.mark.parametrize("weighted", [False, True])
def test_exponential_mechanism_has_its_exact_distribution(weighted):
    distances = np.array([0, 3, 3, 1, 40, 0, 7, 2])
    weights = np.array([1, 2, 5, 1, 100, 3, 1, 4]) if weighted else None
    draws = exponential(distances, Fraction(2, 5), weights, draws=40_000)
    expected = np.exp(-0.4 * distances) * (1 if weights is None else weights)
    assert _fits(np.bincount(draws, minlength=8), expected / expected.sum()) > 1e-5


def test_exponential_mechanism_refines_when_a_draw_is_in_doubt():
    """A uniform number right at a border needs more bits than the first 128."""
    calls = []

    def bits(size):
        calls.append(size)
        return 2**127 if len(calls) == 1 else 0  # one half, next to where two nearly equal candidates meet

    assert exponential(np.array([0, 1]), Fraction(1, 10**40), _bits=bits)[0] == 0
    assert calls == [128, 128]


def test_far_candidates_are_possible_but_never_seen():
    assert set(exponential(np.array([10**15, 0, 10**18]), Fraction(1), draws=500)) == {1}


def test_uniform_integers_are_uniform():
    rng = random.Random(3)
    drawn = np.bincount([_below(5, rng.getrandbits) for _ in range(20_000)], minlength=5)
    assert stats.chisquare(drawn).pvalue > 1e-5
    assert _below(1, rng.getrandbits) == 0


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
    assert _fits(np.bincount(draws, minlength=STEPS), expected / expected.sum()) > 1e-5
