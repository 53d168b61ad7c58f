"""Probabilistic and information-theoretic loss against plain versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy, norm

from shoal.measures import information_theoretic_loss, pil
from shoal.microaggregation import MDAV


def table(seed, n=60, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def test_nothing_moved_nothing_lost():
    X = table(0)
    found = pil(X, X)
    assert (found.means, found.variances, found.covariances, found.correlations, found.quantiles) == (
        0,
        0,
        0,
        0,
        0,
    )
    assert information_theoretic_loss(X, X) == 0


def test_means_variances_and_covariances_are_those_of_the_definition():
    X = table(1)
    Y = X + np.random.default_rng(2).normal(scale=0.3, size=X.shape)
    n = X.shape[0]
    m, v = X.mean(axis=0), X.var(axis=0)
    means = [2 * (norm.cdf(abs(b - a) / np.sqrt(s / n)) - 0.5) for a, b, s in zip(m, Y.mean(axis=0), v)]
    fourth = ((X - m) ** 4).mean(axis=0)
    variances = [
        2 * (norm.cdf(abs(b - a) / np.sqrt((f - a**2) / n)) - 0.5)
        for a, b, f in zip(v, Y.var(axis=0), fourth)
    ]
    covariances = []
    for i in range(3):
        for j in range(i + 1, 3):
            products = (X[:, i] - m[i]) * (X[:, j] - m[j])
            moved = np.cov(Y.T, bias=True)[i, j] - products.mean()
            covariances.append(2 * (norm.cdf(abs(moved) / np.sqrt(products.var() / n)) - 0.5))
    found = pil(X, Y)
    assert found.means == pytest.approx(100 * np.mean(means))
    assert found.variances == pytest.approx(100 * np.mean(variances))
    assert found.covariances == pytest.approx(100 * np.mean(covariances))


def test_the_variance_of_a_correlation_is_that_of_normal_data():
    """For normal data it is (1 - r^2)^2 / n, so a known move has a known loss."""
    rng = np.random.default_rng(4)
    X = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 200_000)
    Y = X.copy()
    Y[:, 1] += 0.004 * rng.normal(size=200_000) + 0.002 * X[:, 0]
    r, after = np.corrcoef(X.T)[0, 1], np.corrcoef(Y.T)[0, 1]
    z = abs(after - r) / ((1 - r**2) / np.sqrt(200_000))
    assert pil(X, Y).correlations == pytest.approx(100 * 2 * (norm.cdf(z) - 0.5), rel=0.02)


def test_larger_groups_lose_more():
    X = table(5, 200)
    losses = []
    for k in (3, 20, 100):
        m = MDAV(k=k).fit(X)
        Y = np.vstack([X[m.labels_ == each].mean(axis=0) for each in m.labels_])
        losses.append((pil(X, Y).average, information_theoretic_loss(X, Y)))
    assert losses[0][0] < losses[1][0] < losses[2][0]
    assert losses[0][1] < losses[1][1] < losses[2][1]


def test_information_theoretic_loss_is_conditional_over_whole_entropy():
    rng = np.random.default_rng(6)
    x, y = rng.integers(0, 4, 300).astype(float), rng.integers(0, 4, 300).astype(float)
    joint = np.zeros((4, 4))
    for a, b in zip(x.astype(int), y.astype(int), strict=True):
        joint[a, b] += 1
    expected = (entropy(joint.ravel()) - entropy(joint.sum(axis=0))) / entropy(joint.sum(axis=1))
    assert information_theoretic_loss(x, y, bins=50) == pytest.approx(100 * expected)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 4))
def test_losses_stay_between_0_and_100(seed, n, d):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (n, d)).astype(float)
    Y = rng.permuted(X, axis=0)
    for figure in (pil(X, Y).average, information_theoretic_loss(X, Y)):
        assert -1e-9 <= figure <= 100 + 1e-9
