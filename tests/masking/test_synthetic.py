"""Synthetic and hybrid records keep means and covariances, and lose the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import measures
from shoal.errors import InputError, ParameterError
from shoal.masking import hybrid, synthetic


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(12, 60),
    p=st.integers(1, 5),
    seed=st.integers(0, 10**6),
    share=st.floats(0, 1),
    kind=st.sampled_from(["normal", "skewed", "dependent", "constant", "far", "units"]),
)
def test_means_and_covariances_are_kept(n, p, seed, share, kind):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X = {
        "normal": X,
        "skewed": np.exp(2 * X),
        "dependent": np.repeat(X[:, :1], p, axis=1),
        "constant": np.where(np.arange(p) == 0, 3.0, X),
        "far": X + 1e6,
        "units": X * 10.0 ** np.arange(p),
    }[kind]
    for Y in (synthetic(X, seed), hybrid(X, share, seed)):
        size = np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1.0)
        np.testing.assert_allclose((Y.mean(axis=0) - X.mean(axis=0)) / size, 0, atol=1e-3)
        gap = (np.cov(Y.T) - np.cov(X.T)) / np.outer(size, size)
        assert np.abs(gap).max() < 1e-5


def test_a_seed_repeats_and_the_ends_of_the_share():
    X = np.random.default_rng(0).normal(size=(80, 3)) ** 3
    np.testing.assert_array_equal(synthetic(X, 4), synthetic(X, 4))
    assert np.abs(synthetic(X, 4) - synthetic(X, 5)).max() > 0.1
    np.testing.assert_allclose(hybrid(X, 1.0), X, atol=1e-9)
    shares = [measures.dld(X, hybrid(X, share)) for share in (0.0, 0.9, 0.999)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="more records than columns"):
        synthetic(np.ones((2, 3)))
    with pytest.raises(InputError, match="finite numbers"):
        synthetic(np.full((5, 1), np.nan))
    with pytest.raises(InputError, match="more than 4 records. Got 4"):
        hybrid(np.random.default_rng(0).normal(size=(4, 2)))
    with pytest.raises(ParameterError, match="'share'"):
        hybrid(np.ones((9, 2)), 1.5)
