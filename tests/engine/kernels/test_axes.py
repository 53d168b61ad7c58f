"""Rows cut along axes."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.engine.kernels.axes import blocks_of, random_cuts


def draws(rng, p):
    made = rng.normal(size=(32, p + 1))
    made[:, p] = rng.random(32)
    return made


@pytest.mark.parametrize("share", [0.5, 0.38])
def test_blocks_hold_every_row_once_and_no_more_than_asked(share):
    blocks = blocks_of(np.random.default_rng(0).normal(size=(500, 3)), 60, share)
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(500))
    assert max(rows.size for rows in blocks) <= 60


def test_random_cuts_keep_the_mass_and_differ():
    rng = np.random.default_rng(0)
    mass = rng.integers(3, 6, 500).astype(np.int32)
    M = rng.normal(size=(500, 3)).astype(np.float32)
    part, parts = random_cuts(M, mass, 300, draws(rng, 3))
    assert set(part) == set(range(parts))
    weight = np.bincount(part, mass)
    assert weight.max() <= 300
    assert weight.min() >= 0.4 * 150
    other, _ = random_cuts(M, mass, 300, draws(rng, 3))
    assert not np.array_equal(part, other)


def test_equal_rows_are_cut_too():
    part, _ = random_cuts(np.zeros((90, 2), np.float32), np.ones(90, np.int32), 20, np.ones((4, 3)))
    assert np.bincount(part).max() <= 20
