"""Exchanges between neighbouring groups: the same on any number of threads, and never for the worse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shoal.engine.encode import sum_of_squares
from shoal.engine.kernels.axes import blocks_of
from shoal.microaggregation import MDAV, refine
from shoal.microaggregation import _refine as module


@pytest.mark.parametrize("share", [0.5, 0.38])
@pytest.mark.parametrize("n", [5, 999, 4_000])
def test_blocks_are_the_same_on_threads(n, share):
    Z = np.random.default_rng(0).normal(size=(n, 3))
    with ThreadPoolExecutor(3) as workers:
        threaded = blocks_of(Z, 50, share, workers.map)
    plain = blocks_of(Z, 50, share)
    assert [rows.tolist() for rows in threaded] == [rows.tolist() for rows in plain]
    assert max(rows.size for rows in plain) <= 50
    np.testing.assert_array_equal(np.sort(np.concatenate(plain)), np.arange(n))


def test_exchanges_are_the_same_on_threads_and_lose_less(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 40)
    monkeypatch.setattr(module, "LOT", 2)
    Z = np.random.default_rng(1).normal(size=(3_000, 4))
    labels = MDAV(k=4).partition(Z)
    plain = refine(Z, labels, 6)
    with ThreadPoolExecutor(3) as workers:
        threaded = refine(Z, labels, 6, workers.map)
    np.testing.assert_array_equal(threaded, plain)
    np.testing.assert_array_equal(np.bincount(plain), np.bincount(labels))
    assert sum_of_squares(Z, plain) < 0.97 * sum_of_squares(Z, labels)
