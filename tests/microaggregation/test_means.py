import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_clustering import fill, h_means, sse
from shoal.errors import InputError
from shoal.microaggregation import HMeans, KMeans
from shoal.microaggregation.means import _fill, _h_means, _k_means, improve, middle_number_of_groups


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("least_to_leave", [2, 4])
def test_relocations_equal_the_plain_algorithm(seed, least_to_leave):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 3))
    start = rng.permutation(24) % 5
    labels = start.copy()
    _h_means(X, labels, 5, least_to_leave)
    assert (labels == h_means(X, start, 5, least_to_leave)).all()


@pytest.mark.parametrize("seed", range(6))
def test_filling_equals_the_plain_algorithm(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2))
    start = np.minimum(rng.integers(0, 9, 20), 5)
    start[start == 4] = 3  # one group is empty
    labels = start.copy()
    _fill(X, labels, 6, 3)
    assert (labels == fill(X, start, 6, 3)).all()
    assert np.bincount(labels, minlength=6).min() >= 3


def test_k_means_ends_with_every_record_at_its_nearest_centre():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    labels = rng.permutation(100) % 8
    _k_means(X, labels, 8, 1)
    centres = np.array(
        [X[labels == g].mean(axis=0) if (labels == g).any() else [np.inf] * 2 for g in range(8)]
    )
    nearest = ((X[:, None] - centres[None]) ** 2).sum(-1).argmin(axis=1)
    assert (nearest == labels).all()


def test_hand_solved():
    X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    for method in (KMeans, HMeans):
        labels = method(k=2, n_groups=2, strategy="II", split=False).fit(X).labels_
        assert labels[:3].tolist() == [labels[0]] * 3
        assert labels[3:].tolist() == [1 - labels[0]] * 3
    # Strategy I from groups of exactly k can move nothing.
    stuck = HMeans(k=3, n_groups=2, strategy="I", random_state=1).fit(X)
    start = np.random.default_rng(1).permutation(6) % 2
    assert (stuck.labels_ == start).all()


def test_hm_km_never_loses_to_its_start():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3))
    start = np.arange(120) % 24
    labels = improve(X, start, 24, 5, ("h-means", "k-means"))
    assert np.bincount(labels).min() >= 5
    assert sse(X, labels) < sse(X, start)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 5),
    st.integers(2, 50),
    st.integers(0, 1000),
    st.sampled_from(["I", "II"]),
    st.booleans(),
    st.booleans(),
)
def test_sizes(k, n, seed, strategy, split, tied):
    if n < k:
        return
    X = np.random.default_rng(seed).normal(size=(n, 2))
    for method in (KMeans, HMeans):
        fitted = method(k=k, strategy=strategy, split=split, random_state=seed).fit(
            np.round(X) if tied else X
        )
        sizes = np.bincount(fitted.labels_)
        assert sizes.min() >= k
        if split:
            assert sizes.max() < 2 * k
        else:
            assert sizes.size == middle_number_of_groups(n, k)


def test_splitting_lowers_the_loss():
    X = np.random.default_rng(2).normal(size=(300, 3))
    for method in (KMeans, HMeans):
        assert method(k=3).fit(X).sse_ <= method(k=3, split=False).fit(X).sse_


def test_strategy_two_wins_on_clustered_data():
    # The first experiment of the derivative-free paper in kind: mixtures, random starts.
    wins = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 2))[rng.integers(0, 40, 400)] * 10 + rng.normal(size=(400, 2))
        one, two = (KMeans(k=5, strategy=s, split=False, random_state=seed).fit(X).sse_ for s in ("I", "II"))
        wins += two < one
    assert wins >= 9


def test_too_many_groups():
    with pytest.raises(InputError, match="4 groups of at least 3 records need 12 records. Got 10."):
        KMeans(k=3, n_groups=4).fit(np.arange(10.0)[:, None])
