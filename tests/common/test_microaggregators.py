"""What every registered method promises: group sizes, figures, repeatability, and an answer for odd tables."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

import shoal
from shoal.engine.encode import standardise, sum_of_squares
from shoal.errors import InputError, ParameterError

METHODS = shoal.methods()
# Settings that make the searching methods fast enough for a test.
QUICK = {
    "time_limit": None,
    "max_proposals": 20_000,
    "random_state": 0,
    "generations": 5,
    "population": 20,
    "rounds": 5,
}


def quick(name: str, k: int):
    cls = METHODS[name]
    options = {option: value for option, value in QUICK.items() if cls.takes(option)}
    return cls(k=k, **options)


every_method = pytest.mark.parametrize("name", list(METHODS))


def sizes(labels):
    return np.bincount(labels)


@every_method
@pytest.mark.parametrize("k", [2, 3, 7])
def test_sizes_are_k_to_2k_minus_1(name, k, blobs):
    fitted = quick(name, k).fit(blobs)
    assert sizes(fitted.labels_).min() >= k
    assert sizes(fitted.labels_).max() <= 2 * k - 1
    assert fitted.n_groups_ == sizes(fitted.labels_).size
    assert fitted.labels_.dtype == np.int64


@every_method
def test_figures_are_those_of_the_labels(name, blobs):
    fitted = quick(name, 3).fit(blobs)
    Z = standardise(blobs)
    assert fitted.sse_ == pytest.approx(sum_of_squares(Z, fitted.labels_))
    assert fitted.information_loss_ == pytest.approx(100 * fitted.sse_ / (Z**2).sum())


@every_method
def test_output_rows_are_group_means_or_medians(name, blobs):
    fitted = quick(name, 3).fit(blobs)
    masked = fitted.transform(blobs)
    if name == "univariate-median":
        for group in range(fitted.n_groups_):
            members = np.sort(blobs[fitted.labels_ == group], axis=0)
            assert (masked[fitted.labels_ == group] == members[(len(members) - 1) // 2]).all()
        return
    for group in range(fitted.n_groups_):
        members = fitted.labels_ == group
        np.testing.assert_allclose(
            masked[members], np.tile(blobs[members].mean(axis=0), (members.sum(), 1)), atol=1e-9
        )
    np.testing.assert_allclose(masked.mean(axis=0), blobs.mean(axis=0), atol=1e-9)


@every_method
def test_runs_repeat(name, blobs):
    first, second = quick(name, 3).fit(blobs), clone(quick(name, 3)).fit(blobs)
    np.testing.assert_array_equal(first.labels_, second.labels_)


@every_method
def test_thread_count_does_not_matter(name, blobs):
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one thread only")
    many = quick(name, 3).fit(blobs).labels_
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = quick(name, 3).fit(blobs).labels_
    finally:
        numba.set_num_threads(before)
    np.testing.assert_array_equal(many, one)


@every_method
def test_order_of_rows_does_not_matter_without_ties(name, blobs):
    if not METHODS[name].deterministic:
        pytest.skip("a random method draws by position")
    order = np.random.default_rng(1).permutation(len(blobs))
    straight, shuffled = quick(name, 3).fit(blobs), quick(name, 3).fit(blobs[order])
    assert shuffled.sse_ == pytest.approx(straight.sse_)


@every_method
@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_far_from_the_origin(name, shift, blobs):
    near, far = quick(name, 3).fit(blobs), quick(name, 3).fit(blobs + shift)
    assert 0 < far.sse_ == pytest.approx(near.sse_, rel=0.05)


@every_method
@pytest.mark.parametrize(
    "X",
    [
        np.ones((7, 2)),
        np.repeat([[0.0, 0.0], [1.0, 1.0]], [5, 9], axis=0),
        np.column_stack([np.arange(9.0), np.full(9, 3.3)]),
        np.arange(10.0)[:, None] ** 2,
        np.array([[1e300, 1.0], [-1e300, 2.0], [0.0, 3.0], [1e299, 4.0], [5.0, 5.0]]),
    ],
    ids=["constant", "duplicates", "constant column", "one column", "huge values"],
)
def test_odd_tables(name, X):
    fitted = quick(name, 2).fit(X)
    assert sizes(fitted.labels_).min() >= 2
    assert sizes(fitted.labels_).max() <= 3
    assert np.isfinite(fitted.information_loss_)


@every_method
@pytest.mark.parametrize("n", [3, 4, 5, 6, 7])
def test_tables_barely_large_enough(name, n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    labels = quick(name, 3).fit(X).labels_
    assert sizes(labels).min() >= 3
    assert n < 6 or sizes(labels).size == 2


@every_method
def test_fewer_records_than_k_is_an_error(name):
    with pytest.raises(InputError, match="k = 5 records"):
        quick(name, 5).fit(np.random.default_rng(0).normal(size=(4, 2)))


@every_method
@pytest.mark.parametrize("k", [1, 0, -3, 2.5, "three", None, True])
def test_bad_k_is_an_error(name, k, blobs):
    with pytest.raises(ParameterError, match="'k' of"):
        METHODS[name](k=k).fit(blobs)


@every_method
@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_odd_cells_are_errors(name, cell, blobs):
    blobs[3, 1] = cell
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        quick(name, 3).fit(blobs)


@every_method
def test_pipelines(name, blobs):
    masked = make_pipeline(RobustScaler(), quick(name, 3)).fit_transform(blobs)
    assert len(np.unique(masked, axis=0)) <= len(blobs) // 3


@every_method
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_table_gives_sizes(name, data):
    n = data.draw(st.integers(2, 24))
    k = data.draw(st.integers(2, n))
    p = data.draw(st.integers(1, 3))
    cells = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6, allow_nan=False))
    X = data.draw(hnp.arrays(np.float64, (n, p), elements=cells))
    labels = quick(name, k).fit(X).labels_
    assert sizes(labels).min() >= k
    assert sizes(labels).max() <= 2 * k - 1
