"""Logistic regression beside another implementation of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from shoal.measures._logistic import probabilities


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_same_probabilities_as_scikit_learn(seed, scale):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(300, 7)) * scale
    F[:, 3] = F[:, 2]  # collinear
    which = (rng.random(300) < 1 / (1 + np.exp(-F[:, 0]))).astype(np.int64)
    expected = LogisticRegression(max_iter=10_000, tol=1e-9).fit(F, which).predict_proba(F)[:, 1]
    np.testing.assert_allclose(probabilities(F, which), expected, atol=2e-4)


def test_rows_that_can_be_told_apart_and_columns_that_are_constant():
    F = np.column_stack([np.repeat([-1.0, 1.0], 50), np.zeros(100)])
    score = probabilities(F, np.repeat([0, 1], 50))
    assert score[:50].max() < 0.2
    assert score[50:].min() > 0.8
