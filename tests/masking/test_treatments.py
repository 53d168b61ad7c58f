"""PRAM by a matrix, shuffling, rounding and targeted record swapping."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InputError, ParameterError
from shoal.masking import invariant_matrix, pram, round_to, shuffle, swap_records


def test_pram_follows_its_matrix():
    n = 60_000
    cells = pl.Series(["a"] * n + ["b"] * n)
    new = pram(cells, matrix=[[0.9, 0.1], [0.3, 0.7]], random_state=5)
    # Six deviations: a false alarm once in 5e8 runs.
    assert abs((new[:n] == "b").mean() - 0.1) < 6 * np.sqrt(0.09 / n)
    assert abs((new[n:] == "a").mean() - 0.3) < 6 * np.sqrt(0.21 / n)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10_000))
def test_an_invariant_matrix_keeps_the_shares(q, seed):
    rng = np.random.default_rng(seed)
    P, t = rng.dirichlet(np.ones(q), q), rng.dirichlet(np.ones(q))
    R = invariant_matrix(P, t)
    assert np.allclose(t @ R, t)
    assert np.allclose(R.sum(axis=1), 1)
    assert (R >= 0).all()


def test_pram_refuses_in_one_sentence():
    with pytest.raises(ParameterError, match="either a probability or a matrix"):
        pram(["a"])
    with pytest.raises(ParameterError, match="a row for each level"):
        pram(["a", "b"], matrix=[[1.0]])
    with pytest.raises(ParameterError, match="square"):
        pram(["a", "b"], matrix=[[1.0, 0.5], [0.0, 1.0]])
    assert pram([None, "a"], matrix=[[1.0]]) == [None, "a"]


def test_shuffling_keeps_each_column_and_its_relations():
    rng = np.random.default_rng(3)
    n = 4_000
    s = rng.normal(size=n)
    X = np.stack([np.exp(s + 0.5 * rng.normal(size=n)), s + rng.normal(size=n)], axis=1)
    Y = shuffle(X, s[:, None], random_state=1)
    assert (np.sort(Y, axis=0) == np.sort(X, axis=0)).all()
    assert (Y[:, 0] == X[:, 0]).mean() < 0.05

    def ranks(*columns):
        return np.corrcoef(np.argsort(np.argsort(np.stack(columns), axis=1), axis=1))

    # The deviation of a rank correlation is about 1/sqrt(n) = .016: six of them.
    assert np.abs(ranks(X[:, 0], X[:, 1], s) - ranks(Y[:, 0], Y[:, 1], s)).max() < 0.1
    Z = X.copy()
    Z[:7, 0] = np.nan
    assert np.isnan(shuffle(Z, random_state=1)[:7, 0]).all()


def test_rounding():
    assert round_to([14.0, 15.0, 25.0], 10) == [10.0, 20.0, 20.0]
    with pytest.raises(ParameterError):
        round_to([1.0], 0)
    with pytest.raises(InputError, match="needs numbers"):
        round_to(["a"], 5)


def people(homes, seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 4, homes)
    home = np.repeat(np.arange(homes), size)
    county = rng.integers(0, 3, homes)
    town = county * 10 + rng.integers(0, 3, homes)
    return pl.DataFrame(
        {"home": home, "county": county[home], "town": town[home], "age": rng.integers(0, 8, home.size),
         "owner": rng.integers(0, 2, homes)[home]}
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(10, 80))
def test_swapping_moves_whole_households_and_keeps_counts_by_area(seed, homes):
    table = people(homes, seed)
    done = swap_records(
        table,
        ["county", "town"],
        ["age"],
        similar=["owner"],
        households="home",
        k=3,
        share=0.2,
        random_state=seed,
    )
    out = done.frame
    assert out.drop("county", "town").equals(table.drop("county", "town"))
    assert out.group_by("home").agg(pl.col("town").n_unique())["town"].max() == 1
    for names in (["county"], ["county", "town"], ["town", "owner"]):
        assert table.group_by(names).len().sort(names).equals(out.group_by(names).len().sort(names))
    moved = (table.unique("home").sort("home")["town"] != out.unique("home").sort("home")["town"]).sum()
    assert moved == done.n_swapped
    assert done.n_left <= done.n_risky <= homes


def test_swapping_refuses_in_one_sentence():
    table = people(10, 0)
    with pytest.raises(InputError, match="must lie in one area"):
        swap_records(table.with_columns(town=pl.arange(0, pl.len())), ["town"], ["age"], households="home")
    with pytest.raises(ParameterError, match="stands out"):
        swap_records(table, ["town"], [])
