import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_clustering import best_partition_sse, sse, table
from shoal.microaggregation import GA, MDAV
from shoal.microaggregation._ga import _repaired_sse, _uniform


@pytest.mark.parametrize("seed", range(4))
def test_small_tables_are_solved(seed):
    X = np.random.default_rng(seed).normal(size=(9, 2))
    fitted = GA(k=2, random_state=seed).fit(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert fitted.sse_ == pytest.approx(best_partition_sse(Z, 2), rel=0.1)
    assert fitted.sse_ <= MDAV(k=2).fit(X).sse_ * 1.0001


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(2, 40), st.integers(0, 1000))
def test_any_chromosome_is_repaired(k, n, seed):
    if n < k:
        return
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    labels = np.minimum(rng.integers(0, n // k, n), rng.integers(0, n // k, n))
    value = _repaired_sse(X, labels, n // k, k)
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    assert value == pytest.approx(sse(X, labels))


def test_the_generator_is_even():
    state = np.array([12345], np.uint64)
    drawn = np.array([_uniform(state) for _ in range(4000)])
    assert 0 <= drawn.min() < 0.01 < 0.99 < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.02)


def test_sizes_across_macro_groups_and_repeatability():
    X = np.random.default_rng(0).normal(size=(150, 3))
    quick = {"k": 4, "macro_size": 20, "generations": 30}
    fitted = [GA(random_state=seed, **quick).fit(X).labels_ for seed in (1, 1, 2)]
    sizes = np.bincount(fitted[0])
    assert sizes.min() >= 4
    assert sizes.max() < 8
    assert (fitted[0] == fitted[1]).all()
    assert (fitted[0] != fitted[2]).any()


def test_more_generations_lose_less():
    X = np.random.default_rng(1).normal(size=(60, 2))
    assert GA(k=5, generations=500).fit(X).sse_ < GA(k=5, generations=0).fit(X).sse_


def test_census_is_within_reach_of_mdav():
    X = table("census")
    assert GA(k=3).fit(X).information_loss_ < 1.15 * MDAV(k=3).fit(X).information_loss_
