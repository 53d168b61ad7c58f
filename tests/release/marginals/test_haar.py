"""Blocks of differences: one record moves one number of each, counts come back, ranges have the variance stated."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.release.marginals._haar import (
    block_counts,
    block_loads,
    blocks_of,
    draw_joint,
    fit_joint,
    fits,
    level_matrices,
    linear,
    measure_blocks,
    range_loads,
    widths,
)
from shoal.release.marginals._residuals import count_table
from shoal.release.marginals._spend import Purse


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_one_record_moves_one_number_of_each_block_by_one(sizes):
    for place in itertools.product(*map(range, sizes)):
        codes = np.array([place])
        for key, levels in blocks_of(sizes, 7):
            moved = block_counts(count_table(codes, key, sizes), levels)
            assert np.abs(moved).sum() == 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 20), st.integers(0, 1000))
def test_counts_come_back_from_all_levels(size, seed):
    counts = np.random.default_rng(seed).integers(0, 9, size)
    back = sum(
        rows.T @ (rows @ counts) / width
        for rows, width in zip(level_matrices(size), widths(size), strict=True)
    )
    assert np.allclose(back, counts)


def test_loads_are_the_mean_over_all_pairs_of_ends():
    size = 5
    loads = np.zeros(len(widths(size)))
    for a, b in itertools.product(range(size), repeat=2):
        inside = np.array([min(a, b) <= at <= max(a, b) for at in range(size)], dtype=float)
        for level, (rows, width) in enumerate(zip(level_matrices(size), widths(size), strict=True)):
            loads[level] += ((rows @ inside / width) ** 2).sum() / size**2
    assert np.allclose(loads, range_loads(size))
    assert block_loads((size,), 7)[(0,), (1,)] == pytest.approx(loads[1], rel=1e-6)


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_ranges_scatter_as_stated(currency):
    codes = np.random.default_rng(0).integers(0, 6, (300, 1))
    inside = np.array([0, 1, 1, 1, 0, 0.5])
    exact = float((inside * np.bincount(codes[:, 0], minlength=6)).sum())
    purse = Purse(currency, Fraction(1, 2))
    drawn = [linear(measure_blocks(codes, (6,), purse), (0,), {0: inside}, (6,)) for _ in range(400)]
    errors = np.array([value - exact for value, _ in drawn])
    stated = drawn[0][1]
    assert np.var(errors) == pytest.approx(stated, rel=0.3)
    assert abs(errors.mean()) < 5 * np.sqrt(stated / 400)


@pytest.mark.parametrize("replaced", [False, True])
def test_blocks_cost_no_more_than_the_purse(replaced):
    codes = np.zeros((10, 2), dtype=np.int64)
    for currency in ("pure", "zcdp"):
        purse = Purse(currency, Fraction(1, 3), 2, replaced)
        spent = Fraction(0)
        for each in measure_blocks(codes, (5, 3), purse):
            scale = Fraction(each.scale)
            if scale:
                moves = purse.moves
                spent += (
                    Fraction(moves) / scale if currency == "pure" else Fraction(moves**2) / (2 * scale**2)
                )
        assert Fraction(99, 100) * purse.amount <= spent <= purse.amount


def test_with_much_budget_the_joint_table_is_found():
    rng = np.random.default_rng(2)
    first = rng.integers(0, 12, 5_000)
    codes = np.column_stack([first, np.clip(first + rng.integers(-2, 3, 5_000), 0, 11)])
    joint = fit_joint(measure_blocks(codes, (12, 12), Purse("zcdp", Fraction(100))), (12, 12))
    true = count_table(codes, (0, 1), (12, 12))
    assert np.abs(joint.counts - true).sum() / 2 / 5_000 < 0.15
    drawn = draw_joint(joint, 1_000, rng)
    half = (drawn < 8).all(axis=1).mean() - joint.counts[:8, :8].sum() / joint.counts.sum()
    assert abs(half) < 0.002


def test_what_fits_is_small():
    assert fits((74, 16, 99))
    assert not fits((300, 2))
    assert not fits((2, 2, 2, 2))
    assert not fits((200, 200, 200))
