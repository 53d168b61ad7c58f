"""Noise against its exact distribution, and its parts against independent computations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles_draws import fits
from shoal.dp.mechanisms.discrete_laplace import Laplace, laplace, laplace_radius, rounded_up


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(100, 7)])
def test_laplace_noise_has_its_exact_distribution(scale):
    draws = laplace(np.full(40_000, 7), scale) - 7
    reach = int(40 * scale) + 5
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(support) / float(scale))
    observed = np.bincount(np.clip(draws + reach, 0, 2 * reach), minlength=2 * reach + 1)
    assert fits(observed, weights / weights.sum()) > 1e-5


def test_laplace_radius_is_the_smallest_that_covers():
    for scale in (Fraction(1, 3), Fraction(2), Fraction(10), Fraction(12345, 10)):
        q = np.exp(-1 / float(scale))
        radius = laplace_radius(scale)
        outside = lambda r: 2 * q ** (r + 1) / (1 + q)  # noqa: E731
        assert outside(radius) <= 0.05 * (1 + 1e-9)
        assert radius == 0 or outside(radius - 1) > 0.05


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**12))
def test_a_scale_is_never_rounded_down(scale):
    assert Fraction(math.nextafter(rounded_up(scale), 0)) < scale <= Fraction(rounded_up(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 800), Fraction(1, 3), Fraction(10), Fraction(12345, 10)])
def test_what_is_told_of_the_noise_is_that_of_its_distribution(scale):
    noise = Laplace(scale)
    support = np.arange(-60_000, 60_001)
    weights = np.exp(noise.log_density(support))
    weights /= weights.sum()
    assert noise.deviation == pytest.approx(
        np.sqrt((weights * support.astype(float) ** 2).sum()), rel=1e-9, abs=1e-12
    )
    assert weights[np.abs(support) <= noise.radius(0.9)].sum() >= 0.9
    assert noise.radius(0.9) == 0 or weights[np.abs(support) < noise.radius(0.9)].sum() < 0.9


def test_noise_of_no_width_has_no_deviation():
    """Where epsilon is in the thousands nothing is drawn beside 0, and nothing leaves the range of floats."""
    for per_epsilon in (600, 800, 5000):
        assert Laplace(Fraction(1, per_epsilon)).deviation < 1e-100
