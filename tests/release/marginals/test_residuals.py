"""Residuals against plain matrices: what they are, what one record moves, what noise costs, what tables follow."""

import itertools
import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from shoal.release.marginals._residuals import (
    Residual,
    cell_variance,
    closure,
    cost_of,
    count_table,
    covers,
    keys_of,
    moved,
    noisy_residual,
    optimal_scales,
    pooled,
    reconstruct,
    residual,
    residuals_of_table,
    scaled_residual,
    subsets,
    variance_of,
)

SIZES = st.lists(st.integers(2, 4), min_size=1, max_size=3)


def kron(matrices):
    return reduce(np.kron, matrices, np.ones((1, 1)))


def centring(size):
    return np.eye(size) - 1 / size


@settings(max_examples=40, deadline=None)
@given(SIZES, st.integers(0, 2**32 - 1))
def test_a_scaled_residual_is_the_product_of_matrices(sizes, seed):
    table = np.random.default_rng(seed).integers(0, 50, sizes)
    plain = kron([size * np.eye(size) - 1 for size in sizes]) @ table.ravel()
    assert np.array_equal(scaled_residual(table).ravel(), np.rint(plain))


@settings(max_examples=30, deadline=None)
@given(SIZES)
def test_one_record_moves_a_residual_by_exactly_what_is_charged(sizes):
    key = tuple(range(len(sizes)))
    records = [np.zeros(sizes, dtype=np.int64) for _ in itertools.product(*map(range, sizes))]
    for each, place in zip(records, itertools.product(*map(range, sizes)), strict=True):
        each[place] = 1
    scaled = [scaled_residual(each) for each in records]
    assert {int((each**2).sum()) for each in scaled} == {moved(key, sizes)}
    apart = max(int(((a - b) ** 2).sum()) for a, b in itertools.combinations(scaled, 2))
    assert apart == moved(key, sizes, replaced=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 2**32 - 1))
def test_marginals_without_noise_come_back(sizes, seed):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, 60) for size in sizes])
    exact = {
        key: residual(noisy_residual(count_table(codes, key, sizes), 0.0), 0.0)
        for key in closure(keys_of(len(sizes), (2,)), sizes)
    }
    for key in keys_of(len(sizes), (1, 2)):
        assert covers(key, exact, sizes)
        assert np.allclose(reconstruct(key, exact, sizes), count_table(codes, key, sizes))


def measured(rng, sizes, keys):
    return {
        key: residual(rng.normal(0, 5, [sizes[at] for at in key]), float(rng.uniform(1, 9)))
        for key in closure(keys, sizes)
    }


def test_noisy_tables_agree_with_each_other():
    rng, sizes = np.random.default_rng(3), (3, 4, 2)
    found = measured(rng, sizes, [(0, 1, 2)])
    whole = reconstruct((0, 1, 2), found, sizes)
    assert np.allclose(whole.sum(axis=2), reconstruct((0, 1), found, sizes))
    assert np.allclose(reconstruct((0, 1), found, sizes).sum(axis=1), reconstruct((0,), found, sizes))
    assert math.isclose(float(whole.sum()), float(found[()].values))


def test_variances_equal_those_of_the_covariance_matrix():
    rng, sizes, key = np.random.default_rng(4), (3, 4, 2), (0, 1, 2)
    found = measured(rng, sizes, [key])
    covariance = np.zeros((24, 24))
    for part in subsets(key):
        spread = kron([centring(s) if at in part else np.ones((s, s)) / s**2 for at, s in enumerate(sizes)])
        covariance += found[part].variance * spread
    assert np.allclose(np.diag(covariance), cell_variance(key, found, sizes))
    query = rng.normal(size=sizes)
    assert math.isclose(variance_of(query, key, found, sizes), query.ravel() @ covariance @ query.ravel())


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_cost_never_exceeds_what_is_charged(rows, replaced):
    for millionths in (1, 177, 14_973, 10**7):
        rho = Fraction(millionths, 10**6)
        scales = optimal_scales(dict.fromkeys(keys_of(4, (1, 2)), 1.0), (2, 3, 5, 1), rho, rows, replaced)
        spent = cost_of(scales, (2, 3, 5, 1), rows, replaced)
        assert rho * Fraction(999_999, 10**6) <= spent <= rho
        assert (scales[()] == 0.0) is replaced  # a public total has no noise


def test_the_split_is_the_best_there_is():
    sizes, rho = (2, 3, 4), Fraction(1, 2)
    weights = {key: float(1 + sum(key)) for key in keys_of(3, (1, 2))}
    scales = optimal_scales(weights, sizes, rho)
    keys = list(scales)
    size = {key: math.prod(sizes[at] for at in key) for key in keys}

    def loss(variances):
        found = {key: Residual(np.zeros(1), each) for key, each in zip(keys, variances, strict=True)}
        return sum(weight * cell_variance(key, found, sizes) for key, weight in weights.items())

    def at(shares):
        part = np.exp(shares - np.logaddexp.reduce(shares)) * float(rho)
        square = np.array([moved(key, sizes) for key in keys])
        return loss(square / (2 * part) / np.array([size[key] ** 2 for key in keys]))

    ours = loss([scales[key] ** 2 / size[key] ** 2 for key in keys])
    found = minimize(at, np.zeros(len(keys)), method="BFGS").fun
    assert ours == pytest.approx(found, rel=1e-4)
    assert ours <= found * (1 + 1e-6)


def test_residuals_of_a_noisy_marginal_have_the_variance_stated():
    rng, draws, scale = np.random.default_rng(5), 4_000, 3.0
    noisy = [residuals_of_table(rng.normal(0, scale, (3, 4)), (0, 1), scale**2) for _ in range(draws)]
    for part in subsets((0, 1)):
        stated = noisy[0][part].variance * math.prod(1 - 1 / (3, 4)[at] for at in part)
        seen = np.var([each[part].values for each in noisy], axis=0)
        assert np.allclose(seen, stated, rtol=0.15)


def test_pooling_weighs_by_worth():
    both = pooled([Residual(np.array([1.0, -1.0]), 1.0), Residual(np.array([4.0, -4.0]), 2.0)])
    assert both.values.tolist() == [2.0, -2.0]
    assert both.variance == pytest.approx(2 / 3)


def test_measured_residuals_scatter_as_stated():
    codes, sizes, scale = np.zeros((5, 2), dtype=np.int64), (2, 3), 9.0
    exact = count_table(codes, (0, 1), sizes)
    drawn = [residual(noisy_residual(exact, scale), scale).values for _ in range(1_500)]
    stated = scale**2 / 36 * (1 / 2) * (2 / 3)
    assert np.allclose(np.var(drawn, axis=0), stated, rtol=0.25)
    truth = residual(noisy_residual(exact, 0.0), 0.0).values
    assert np.abs(np.mean(drawn, axis=0) - truth).max() < 6 * math.sqrt(stated / 1_500)
