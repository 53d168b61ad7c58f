import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles_clustering import cut_tree, same_partition, table
from shoal.microaggregation import MSTCentroid, MSTDiameter
from shoal.microaggregation._spanning_tree import _cut_tree, _spanning_tree


@pytest.mark.parametrize("seed", range(6))
def test_cut_equals_the_plain_algorithm(seed):
    X = np.random.default_rng(seed).normal(size=(40, 2))
    for k in (2, 3, 7):
        assert same_partition(_cut_tree(X, k), cut_tree(X, k))


def test_tree_has_the_weight_scipy_finds():
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import cdist

    X = np.random.default_rng(1).normal(size=(80, 4))
    order, parent, length = _spanning_tree(X)
    assert sorted(order) == list(range(80))
    assert (parent < 0).sum() == 1
    assert np.sqrt(length).sum() == pytest.approx(minimum_spanning_tree(cdist(X, X)).sum())


def test_a_long_edge_is_kept_where_a_side_would_be_too_small():
    X = np.array([[0.0], [1.0], [2.0], [50.0], [51.0]])
    assert MSTDiameter(k=3).fit(X).n_groups_ == 1
    assert MSTDiameter(k=2).fit(X).labels_.tolist() == [0, 0, 0, 1, 1]


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(2, 60), st.integers(0, 2**32 - 1), st.booleans())
def test_sizes(k, n, seed, tied):
    if n < k:
        return
    X = np.random.default_rng(seed).normal(size=(n, 2))
    for method in (MSTDiameter, MSTCentroid):
        sizes = np.bincount(method(k=k).fit(np.round(X) if tied else X).labels_)
        assert sizes.min() >= k
        assert sizes.max() < 2 * k


@pytest.mark.parametrize(
    ("name", "losses"), [("tarragona", (16.6273, 24.5029, 38.5831)), ("census", (6.1146, 10.3064, 17.1813))]
)
def test_benchmark_losses(name, losses):
    X = table(name)
    for k, loss in zip((3, 5, 10), losses, strict=True):
        assert MSTDiameter(k=k).fit(X).information_loss_ == pytest.approx(loss, abs=1e-3)
