"""Risk by quasi-identifiers against plain definitions."""

from itertools import combinations
from math import prod

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

from shoal import risk
from shoal.errors import InputError, ParameterError


def classes(rows, quasi):
    return {tuple(row[name] for name in quasi) for row in rows}


def test_posterior_risk_is_the_sum_over_the_negative_binomial():
    """E(1/F | f), F - f negative binomial with f successes of probability p, summed term by term."""
    from scipy.stats import nbinom

    for f, weight in ((1, 3.0), (2, 8.0), (3, 30.0), (7, 7.0), (12, 15.0)):
        more = np.arange(0, 20_000)
        expected = (nbinom.pmf(more, f, f / weight) / (f + more)).sum() if weight > f else 1 / f
        table = pl.DataFrame({"g": [0] * f, "w": [weight / f] * f})
        assert risk.measure(table, "g", weights="w").individual[0] == pytest.approx(expected, rel=1e-9)


def test_prosecutor_journalist_marketer_and_k_map():
    population = pd.DataFrame({"zip": ["a"] * 8 + ["b"] * 2 + ["c"] * 5})
    table = pl.DataFrame({"zip": ["a", "a", "a", "b", "c"]})
    found = risk.measure(table, "zip", population=population)
    assert found.prosecutor == 1.0
    assert found.prosecutor_mean == pytest.approx(3 / 5)
    assert found.journalist == pytest.approx(1 / 2)
    assert found.k_map == 2
    assert found.marketer == pytest.approx((3 / 8 + 1 / 2 + 1 / 5) / 5)
    assert found.individual.tolist() == pytest.approx([1 / 8, 1 / 8, 1 / 8, 1 / 2, 1 / 5])
    assert found.expected_reidentifications == pytest.approx(found.marketer * 5)
    assert found.above_threshold == 1
    assert "2 are unique" in str(found)
    alone = risk.measure(table, "zip")
    assert (alone.journalist, alone.k_map, alone.source) == (1.0, 1.0, "sample")


def test_household_risk_is_that_of_its_members_together():
    table = pl.DataFrame({"zip": ["a", "a", "b", "b", "b", "c"], "home": [1, 2, 1, 2, None, None]})
    found = risk.measure(table, "zip", households="home")
    expected = 1 - (1 - 1 / 2) * (1 - 1 / 3)
    assert found.household[:4].tolist() == pytest.approx([expected] * 4)
    assert found.household[4:].tolist() == pytest.approx([1 / 3, 1.0])  # nobody to live with


def test_bad_weights_and_populations_are_one_sentence():
    table = pl.DataFrame({"zip": ["a"], "w": [0.0]})
    with pytest.raises(InputError, match="above 0"):
        risk.measure(table, "zip", weights="w")
    with pytest.raises(InputError, match="above 0"):
        risk.measure(pl.DataFrame({"zip": ["a"], "w": [-2.0]}), "zip", weights="w")
    with pytest.raises(InputError, match="1 missing or infinite of 2"):
        risk.measure(pl.DataFrame({"zip": ["a", "a"], "w": [None, 2.0]}), "zip", weights="w")
    with pytest.raises(InputError, match="1 records whose class it lacks"):
        risk.measure(table, "zip", population=pl.DataFrame({"zip": ["b"]}))
    with pytest.raises(ParameterError, match="exclude each other"):
        risk.measure(table, "zip", weights="w", population=table)
    with pytest.raises(ParameterError, match="at most 40000 sets"):
        risk.suda(pl.DataFrame({f"c{j}": [1] for j in range(60)}), [f"c{j}" for j in range(60)], max_size=4)


rows_of_codes = st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=25)


@given(rows=rows_of_codes, max_size=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_suda_equals_a_search_by_definition(rows, max_size):
    names = list("abcd")
    found = risk.suda(pl.DataFrame(rows, schema=names, orient="row"), names, max_size=max_size)

    def unique(row, chosen):
        return sum(all(other[j] == row[j] for j in chosen) for other in rows) == 1

    for at, row in enumerate(rows):
        minimal = [
            chosen
            for size in range(1, max_size + 1)
            for chosen in combinations(range(4), size)
            if unique(row, chosen)
            and not any(unique(row, less) for n in range(1, size) for less in combinations(chosen, n))
        ]
        assert found.n_minimal[at] == len(minimal)
        assert found.smallest[at] == min((len(each) for each in minimal), default=0)
        top = min(max_size, 3)
        assert found.scores[at] == sum(prod(4 - i for i in range(len(each), top + 1)) for each in minimal)


def test_data_intrusion_simulation_weighs_uniques_against_pairs():
    table = pl.DataFrame({"zip": ["a", "b", "c", "c", "d", "d", "e", "e", "e"]})
    found = risk.suda(table, "zip", sampling_fraction=0.1)
    assert found.match_probability == pytest.approx(2 * 0.1 / (2 * 0.1 + 2 * 2 * 0.9))
    assert found.contributions == {"zip": 1.0}


def test_shared_scores_share_the_match_probability_out():
    rng = np.random.default_rng(3)
    table = pl.DataFrame({name: rng.integers(0, levels, 200) for name, levels in zip("abcd", (3, 5, 9, 20))})
    found = risk.suda(table, list("abcd"), sampling_fraction=0.1)
    scored = found.scores > 0
    assert 0 < scored.sum() < 200
    assert found.shared_scores[scored].mean() == pytest.approx(found.match_probability, abs=1e-9)
    assert (found.shared_scores[~scored] == 0).all()
    order = np.argsort(found.scores[scored], kind="stable")
    assert (np.diff(found.shared_scores[scored][order]) >= -1e-12).all()
    assert found.shared_scores.max() <= 1
    odds = found.shared_scores[scored] / (1 - found.shared_scores[scored])
    assert np.ptp(odds / found.scores[scored]) < 1e-9 * odds.max()
    assert risk.suda(table, list("abcd")).shared_scores is None
    assert (risk.suda(table, list("abcd"), sampling_fraction=1.0).shared_scores == scored).all()


def test_the_column_that_brings_most_risk_comes_first():
    rng = np.random.default_rng(0)
    table = pl.DataFrame(
        {"sex": rng.integers(0, 2, 500), "age": rng.integers(0, 90, 500), "zip": rng.integers(0, 5, 500)}
    )
    gains = risk.column_risks(table, ["sex", "age", "zip"])
    assert next(iter(gains)) == "age"
    rows = table.to_dicts()
    expected = (len(classes(rows, ["sex", "age", "zip"])) - len(classes(rows, ["sex", "zip"]))) / 500
    assert gains["age"] == pytest.approx(expected)
    weighted = table.with_columns(w=pl.Series(rng.uniform(1, 30, 500)))
    gains = risk.column_risks(weighted, ["sex", "age", "zip"], weights="w")
    mean = [
        risk.measure(weighted, quasi, weights="w").individual.mean()
        for quasi in (["sex", "age", "zip"], ["sex", "zip"])
    ]
    assert gains["age"] == pytest.approx(mean[0] - mean[1])
    assert (
        risk.column_risks(weighted, "age", weights="w")["age"]
        < risk.measure(weighted, "age", weights="w").individual.mean()
    )
