"""Masking beside microaggregation: what each keeps, what it changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shoal
from shoal.comparison import compare
from shoal.engine.columns import TypedColumn
from shoal.errors import ParameterError, SchemaError, ShoalError
from shoal.masking import add_noise, code_ends, mask, pram, rank_swap, recode
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


KINDS = {
    "array": np.asarray,
    "list": lambda X: X.tolist(),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]).with_columns(town=pl.lit("x")),
    "pandas": lambda X: pl.DataFrame(X, schema=["a", "b"]).with_columns(town=pl.lit("x")).to_pandas(),
    "arrow": lambda X: pl.DataFrame(X, schema=["a", "b"]).with_columns(town=pl.lit("x")).to_arrow(),
}


def numbers(data):
    if isinstance(data, pa.Table):
        data = pl.from_arrow(data)
    if isinstance(data, pl.DataFrame):
        return data.select("a", "b").to_numpy()
    return data[["a", "b"]].to_numpy() if isinstance(data, pd.DataFrame) else np.asarray(data)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [lambda X: add_noise(X, 0.3), lambda X: rank_swap(X, 0.2),
                                    lambda X: add_noise(X, 0.3, correlated=True)])  # fmt: skip
def test_tables_and_arrays_are_masked_alike(kind, change):
    X = rng().normal(size=(40, 2))
    given = KINDS[kind](X)
    after = change(given)
    assert type(after) is (np.ndarray if kind == "list" else type(given))
    np.testing.assert_array_equal(numbers(after), change(X))
    assert (numbers(after) != X).any()


@pytest.mark.parametrize("change", [lambda X: add_noise(X, 0.3), lambda X: rank_swap(X, 0.5),
                                    lambda X: add_noise(X, 0.3, correlated=True)])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_missing_cells_stay_where_they_were(change, kind):
    X = rng().normal(size=(60, 2))
    X[::7, 0], X[3, 1] = np.nan, np.nan
    after = numbers(change(KINDS[kind](X)))
    np.testing.assert_array_equal(np.isnan(after), np.isnan(X))
    assert (after != X)[~np.isnan(X)].any()
    holes = pl.DataFrame({"a": [1.0, None, 3.0, float("nan")], "b": [1, 2, None, 4]})
    masked = change(holes)
    assert masked["a"].is_null().to_list() == [False, True, False, False]
    assert masked["a"].is_nan().to_list() == [False, None, False, True]
    assert masked["b"].is_null().to_list() == [False, False, True, False]


def test_rank_swapping_at_share_zero_changes_nothing():
    X = rng().normal(size=(50, 2))
    np.testing.assert_array_equal(rank_swap(X, 0.0), X)
    np.testing.assert_array_equal(rank_swap(X, 0.01), X)


def test_masks_of_columns_leave_missing_cells_out():
    holes = np.array([False, True] * 20)
    column = TypedColumn(Column("x"), np.where(holes, 0.0, 1000.0 + np.arange(40)), holes, None, pl.Float64())
    level = TypedColumn(
        Column("s", kind="category"), np.where(holes, 0.0, 1.0), holes, pl.Series(["a", "b"]), pl.String()
    )
    for name in ("noise", "correlated-noise", "rank-swap", "pram"):
        for after in mask(name, [column, level], 1.0):
            np.testing.assert_array_equal(after.missing, holes)
            assert (after.values[~holes] != 0).all()


def test_series_of_levels_keep_their_kind():
    levels = ["a", "b", None, "a"] * 20
    for cells in (
        pl.Series("s", levels),
        pd.Series(levels, name="s"),
        pd.Series(levels, dtype="category", name="s"),
    ):
        after = pram(cells, 0.9)
        assert type(after) is type(cells)
        assert after.name == "s"
        assert [each is None or each != each for each in list(after)] == [each is None for each in levels]
    assert recode(pd.Series(["a", "b"]), (("a", "b"),)).tolist() == ["a|b", "a|b"]
    assert recode(["a", "b"], (("a", "b"),)) == ["a|b", "a|b"]
    assert code_ends(np.array([1, 50]), top=9).tolist() == [1, 9]
    assert code_ends(pd.Series([1.5, None]), bottom=2).tolist()[0] == 2


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: add_noise([[1.0, np.inf]], 1), "finite"),
        (lambda: add_noise([["a"]], 1), "Numbers"),
        (lambda: add_noise([1.0], -1), "'scale'"),
        (lambda: rank_swap([1.0], 2), "'share'"),
        (lambda: pram(["a"], 2), "'probability'"),
        (lambda: rank_swap(pl.DataFrame({"x": ["a"]}), 0.1), "numeric column"),
        (lambda: pram(np.zeros((2, 2)), 0.1), "one dimension"),
    ],
)
def test_wrong_calls_of_masks_are_one_sentence(call, word):
    with pytest.raises(ShoalError, match=word):
        call()
