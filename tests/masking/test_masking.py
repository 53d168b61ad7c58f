"""Masking beside microaggregation: what each keeps, what it changes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import privacy
from shoal.compare import compare
from shoal.errors import ParameterError, SchemaError
from shoal.masking import add_noise, code_ends, pram, rank_swap, recode, suppress
from shoal.schema import Column, Schema


def rng():
    return np.random.default_rng(1)


def test_noise_has_the_asked_deviation():
    X = rng().normal(5, [1, 10], size=(20_000, 2))
    noise = add_noise(X, 0.3, np.random.default_rng(2)) - X
    np.testing.assert_allclose(noise.std(axis=0), 0.3 * X.std(axis=0), rtol=0.05)


def test_correlated_noise_keeps_correlations():
    x = rng().normal(size=20_000)
    X = np.column_stack([x, x + 0.3 * np.random.default_rng(3).normal(size=20_000)])
    noisy = add_noise(X, 0.5, np.random.default_rng(4), correlated=True)
    plain = add_noise(X, 0.5, np.random.default_rng(4))
    before = np.corrcoef(X, rowvar=False)[0, 1]
    assert np.corrcoef(noisy, rowvar=False)[0, 1] == pytest.approx(before, abs=0.01)
    assert np.corrcoef(plain, rowvar=False)[0, 1] < before - 0.1


def test_rank_swapping_keeps_each_column_and_its_reach():
    X = rng().normal(size=(200, 3))
    swapped = rank_swap(X, 0.05, np.random.default_rng(0))
    for before, after in zip(X.T, swapped.T, strict=True):
        np.testing.assert_array_equal(np.sort(before), np.sort(after))
        moved = np.abs(before.argsort().argsort() - np.searchsorted(np.sort(before), after))
        assert 0 < moved.max() <= 10


def test_pram_keeps_the_shares():
    codes = rng().choice([0.0, 1.0, 2.0], size=30_000, p=[0.7, 0.2, 0.1])
    after = pram(codes, 0.5, np.random.default_rng(5))
    np.testing.assert_allclose(np.bincount(after.astype(int)) / 30_000, [0.7, 0.2, 0.1], atol=0.01)
    assert 0.15 < (after != codes).mean() < 0.3


@settings(max_examples=50, deadline=None)
@given(n=st.integers(2, 40), q=st.integers(1, 4), k=st.integers(2, 5), seed=st.integers(0, 10**6))
def test_suppression_reaches_k(n, q, k, seed):
    k = min(k, n)
    codes = np.random.default_rng(seed).integers(0, 4, size=(n, q))
    gone = suppress(codes, k)
    frame = pl.DataFrame(np.where(gone, -1, codes), schema=[f"c{j}" for j in range(q)])
    assert privacy.k_anonymity(frame, frame.columns).value >= k


def test_suppression_leaves_common_classes_alone():
    codes = np.array([[0, 0]] * 5 + [[1, 1]] * 5 + [[0, 1]])
    gone = suppress(codes, 3)
    # The record alone loses both cells, and so do two of the five that a common class can spare.
    assert gone[10].all()
    assert gone.sum() == 6
    assert not gone[5:10].any()
    assert not suppress(codes[:10], 3).any()
    # Nobody can spare a record where classes are just large enough: the smallest class joins as a whole.
    gone = suppress(np.array([[0, 0]] * 4 + [[1, 1]] * 3 + [[0, 1]]), 3)
    assert gone.all(axis=1).tolist() == [False] * 4 + [True] * 4
    assert gone.sum() == 8


def test_ends_and_hierarchies_as_steps_of_the_schema():
    frame = pl.DataFrame({"age": [1, 2, 50, 51, 98, 99], "town": ["a", "a", "b", "b", "c", "c"]})
    facts = Schema(
        {
            "age": Column("age", "quasi", bottom=10, top=90),
            "town": Column("town", "quasi", "category", hierarchy=(("a", "b"), ("c",)), recode=1),
        }
    )
    result = shoal.protect(frame, 2, schema=facts, method="mdav")
    assert result.frame["age"].to_list() == [10, 10, 50.5, 50.5, 90, 90]
    assert set(result.frame["town"]) == {"a|b", "c"}
    assert any("bottom coded at 10" in note for note in result.notes)


def test_hierarchies_must_hold_all_values():
    with pytest.raises(SchemaError, match="lacks 'z'"):
        recode(pl.Series("town", ["a", "z"]), (("a",),))
    assert code_ends(pl.Series([1, None, 9]), top=5).to_list() == [1, None, 5]


def test_masks_are_points_on_the_map(census):
    result = compare(census, k=[3], methods=["mdav", "noise:0.2", "rank-swap"])
    by_name = {cell.method: cell for cell in result.cells}
    assert set(by_name) == {"mdav", "noise:0.2", "rank-swap"}
    assert by_name["noise:0.2"].information_loss == pytest.approx(4.0, rel=0.1)
    assert by_name["noise:0.2"].smallest_group == 1
    assert result.recommended.method == "mdav"


def test_unknown_masks_are_refused(census):
    with pytest.raises(ParameterError, match="must be among"):
        compare(census, k=[3], methods=["magic:2"])
