"""Lists of the nearest records, beside a slow oracle."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shoal.engine.kernels import nearest as module
from shoal.engine.kernels.axes import blocks_of
from shoal.engine.kernels.nearest import KernelRows, neighbour_lists


def laid_out(Z, leaf):
    """Rows padded, in the order of a tree, and where its leaves begin."""
    X = np.zeros((len(Z), -(-Z.shape[1] // 8) * 8), np.float32)
    X[:, : Z.shape[1]] = Z
    leaves = blocks_of(X, leaf)
    return np.take(X, np.concatenate(leaves), axis=0), np.cumsum([0, *(rows.size for rows in leaves)])


def lists(X, p, edges, most, m, each=map):
    """Of numbers alone."""
    rows = KernelRows(X, np.zeros((len(X), 0), np.int16), np.zeros(0, np.float32))
    return neighbour_lists(rows, p, X, edges, most, m, each)


def oracle(X, m, codes=None, worth=None):
    D = ((X[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    if codes is not None:
        D += (codes[:, None] != codes[None]) @ worth
    np.fill_diagonal(D, np.inf)
    return np.sort(D, axis=1)[:, :m]


@pytest.mark.parametrize("n", [6, 30, 200])
@pytest.mark.parametrize("p", [1, 3, 17])
def test_one_block_is_exact(n, p):
    X, edges = laid_out(np.random.default_rng(n + p).normal(size=(n, p)), 1024)
    near, distance = lists(X, p, edges, 1024, 5)
    np.testing.assert_allclose(distance, oracle(X, 5), rtol=1e-4)
    true = ((X[:, None].astype(float) - X[near]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distance, true, rtol=1e-4)


def test_many_blocks_find_nearly_all_and_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(module, "RANGE", 200)
    X, edges = laid_out(np.random.default_rng(0).normal(size=(1_200, 4)), 100)
    near, distance = lists(X, 4, edges, 100, 8)
    assert (distance[:, -1] <= 1.001 * oracle(X, 8)[:, -1]).mean() > 0.9
    assert all(len({i, *row}) == 9 for i, row in enumerate(near))  # no record twice, none lists itself
    assert (np.diff(distance, axis=1) >= 0).all()
    with ThreadPoolExecutor(3) as workers:
        threaded, _ = lists(X, 4, edges, 100, 8, workers.map)
    np.testing.assert_array_equal(threaded, near)


def test_duplicates_do_not_all_list_the_same_few():
    X, edges = laid_out(np.zeros((600, 2)), 1024)
    near, distance = lists(X, 2, edges, 1024, 6)
    assert (distance == 0).all()
    assert np.bincount(near.ravel(), minlength=600).max() <= 30


@pytest.mark.parametrize("leaf", [1024, 120])
def test_codes_count_as_what_they_are_worth(leaf):
    rng = np.random.default_rng(0)
    X, edges = laid_out(rng.normal(size=(400, 2)), leaf)
    codes, worth = (
        rng.integers(0, 3, (400, 8)).astype(np.int16),
        np.array([2, 1, 0.5, 0, 0, 0, 0, 0], np.float32),
    )
    _, distance = neighbour_lists(KernelRows(X, codes, worth), 2, X, edges, leaf, 6)
    exact = oracle(X, 6, codes, worth)
    assert (distance >= exact * (1 - 1e-4)).all()
    assert np.isclose(distance, exact, rtol=1e-3).mean() > (0.999 if leaf > 400 else 0.6)
