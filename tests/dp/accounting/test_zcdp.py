"""From rho to (epsilon, delta): never better than an exact oracle, and hardly worse."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp import budget
from shoal.dp.accounting import delta_bound, epsilon_of_rho, rho_of_epsilon
from shoal.dp.mechanisms.discrete_gaussian import gaussian, gaussian_scale
from shoal.errors import ParameterError


def best_log_delta(rho, epsilon):
    """The infimum over all orders of the logarithm of the formula, to forty digits."""
    with mpmath.workdps(40):
        rho, epsilon = (
            mpmath.mpf(rho.numerator) / rho.denominator,
            mpmath.mpf(epsilon.numerator) / epsilon.denominator,
        )

        def slope(alpha):  # derivative of the logarithm; it rises, since the logarithm is convex in alpha
            return 2 * alpha * rho - rho - epsilon + mpmath.log1p(-1 / alpha)

        low, high = mpmath.mpf(1) + mpmath.mpf(10) ** -30, mpmath.mpf(2)
        while slope(high) < 0:
            high *= 2
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        alpha = (low + high) / 2
        return (
            (alpha - 1) * (alpha * rho - epsilon) + alpha * mpmath.log1p(-1 / alpha) - mpmath.log(alpha - 1)
        )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 2 * 10**7))
def test_delta_is_at_or_above_the_infimum_and_close(rho, epsilon):
    rho, epsilon = Fraction(rho, 10**6), Fraction(epsilon, 10**6)
    exact, ours = best_log_delta(rho, epsilon), delta_bound(rho, epsilon)
    if ours == 1:
        assert exact > -1e-8
        return
    with mpmath.workdps(40):
        log_ours = mpmath.log(mpmath.mpf(ours.numerator) / ours.denominator)
        assert exact <= log_ours <= max(exact, -10_000) + 1e-8 + 1e-10 * abs(exact)


def test_a_delta_too_small_to_write_is_not_nothing():
    assert 0 < delta_bound(Fraction(1, 10**6), Fraction(20)) < Fraction(1, 10**4000)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.02, 20), st.sampled_from([1e-5, 1e-9, 1e-12]))
def test_rho_is_the_last_millionth_that_keeps_the_promise(epsilon, delta):
    rho = rho_of_epsilon(epsilon, delta)
    exact = Fraction(budget.micro(epsilon), budget.MICRO)
    with mpmath.workdps(40):
        assert best_log_delta(Fraction(rho, 10**6), exact) <= mpmath.log(delta)
        assert best_log_delta(Fraction(rho + 1, 10**6), exact) > mpmath.log(delta) - 1e-7
    assert epsilon_of_rho(rho, delta) <= float(exact)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5 * 10**6), st.sampled_from([1e-5, 1e-9, 1e-12]))
def test_epsilon_is_the_first_millionth_that_rho_implies(millionths, delta):
    """One told too small would promise what does not hold."""
    rho, told = Fraction(millionths, 10**6), budget.micro(epsilon_of_rho(millionths, delta))
    with mpmath.workdps(40):
        assert best_log_delta(rho, Fraction(told, 10**6)) <= mpmath.log(delta)
        assert best_log_delta(rho, Fraction(told - 1, 10**6)) > mpmath.log(delta) - 1e-7


def test_gaussian_mechanism_keeps_the_delta_exactly():
    # The exact delta of a Gaussian answer lies below what the conversion of its rho states.
    for sigma in (0.7, 3.0, 20.0):
        rho = Fraction(1, 2) / Fraction(sigma) ** 2
        for epsilon in (0.1, 1.0, 4.0):
            with mpmath.workdps(30):
                cut = mpmath.mpf(epsilon) * sigma - 1 / (2 * mpmath.mpf(sigma))
                tail = mpmath.ncdf(-cut) - mpmath.exp(epsilon) * mpmath.ncdf(-cut - 1 / mpmath.mpf(sigma))
                assert (
                    tail
                    <= mpmath.mpf(delta_bound(rho, Fraction(epsilon)).numerator)
                    / delta_bound(rho, Fraction(epsilon)).denominator
                )


@pytest.mark.parametrize("delta", [0, 1, -1e-9, float("nan"), "1e-9", True])
def test_delta_must_be_a_share(delta):
    with pytest.raises(ParameterError, match="'delta' must be"):
        rho_of_epsilon(1.0, delta)


def test_an_epsilon_too_small_for_a_millionth_is_said():
    with pytest.raises(ParameterError, match="rho would be less than a millionth"):
        rho_of_epsilon(0.000001, 1e-9)
    with pytest.raises(ParameterError, match="at least a millionth"):
        epsilon_of_rho(0, 1e-9)


@settings(max_examples=100, deadline=None)
@given(st.fractions(Fraction(1, 10**6), 10**12))
def test_scales_are_rounded_up(variance):
    scale = Fraction(gaussian_scale(variance))
    assert variance <= scale**2 <= variance * (1 + Fraction(1, 10**14))


def test_gaussian_noise_has_its_distribution():
    scale, draws = 1.3, 20_000
    drawn = gaussian(np.zeros(draws, dtype=np.int64), scale)
    weights = {z: np.exp(-z * z / (2 * scale**2)) for z in range(-12, 13)}
    total = sum(weights.values())
    for z in range(-3, 4):
        share = weights[z] / total
        assert abs((drawn == z).sum() - draws * share) < 5.5 * np.sqrt(draws * share * (1 - share))
