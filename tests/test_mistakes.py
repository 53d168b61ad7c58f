"""Mistakes that users of other tools met when publishing tables; each test is named after what it prevents.

Those of checks on a table (index labels taken for positions, missing quasi-identifiers dropped, recursive
diversity sorted the wrong way, unused levels) are in `privacy/test_rivals_mistakes.py`; those of query servers
(budgets per analyst only, spending after the answer, locks that outlive a crash) in `dp/test_ledger.py`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shoal
from shoal import privacy
from shoal.errors import InputError
from shoal.microaggregation import NPNMHM, Univariate
from shoal.schema import Column, Schema


@pytest.fixture
def mixed():
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, 60),
            "income": rng.lognormal(9, 1, 60).round(),
            "town": rng.choice(list("abc"), 60),
            "weight": rng.uniform(1, 9, 60),
        }
    )


def test_a_stratum_smaller_than_k_is_not_released_unchanged(mixed):
    """sdcMicro releases it as it is."""
    small = mixed.with_columns(town=pl.Series(["rare"] * 2 + ["common"] * 58))
    result = shoal.protect(
        small, 4, columns=["age", "income"], strata="town", method="mdav", accept_risk=True
    )
    assert privacy.k_anonymity(result.frame, ["age", "income", "town"]).value >= 4
    assert "rare" not in result.frame["town"].to_list()
    with pytest.raises(InputError, match="Stratum 'rare' has 2"):
        shoal.protect(
            small, 4, columns=["age"], strata="town", method="mdav", accept_risk=True, small_strata="refuse"
        )


def test_minus_999_is_published_as_a_value(mixed):
    """sdcMicro takes it for a missing cell."""
    frame = mixed.with_columns(age=pl.Series([-999] * 4 + list(range(56))))
    kept = shoal.protect(frame, 4, columns=["age"], method="univariate", accept_risk=True).frame
    assert kept["age"].to_list()[:4] == [-999.0] * 4
    declared = Schema({"age": Column("age", "quasi", missing_codes=(-999,), on_missing="impute")})
    assert (
        shoal.protect(frame, 4, columns=["age"], schema=declared, method="univariate", accept_risk=True)
        .frame["age"]
        .min()
        >= 0
    )


def test_weights_are_those_of_the_record_whatever_the_order_of_rows(mixed):
    """sdcMicro pairs the weights of the file with records it has sorted."""
    shuffled = mixed.with_row_index().sample(fraction=1, shuffle=True, seed=3)
    options = {"columns": ["age", "income"], "weights": "weight", "method": "mdav", "accept_risk": True}
    first = shoal.protect(mixed, 5, **options).frame
    second = shoal.protect(shuffled.drop("index"), 5, **options).frame
    back = second.with_columns(shuffled["index"]).sort("index").select("age", "income")
    np.testing.assert_allclose(back.to_numpy(), first.select("age", "income").to_numpy(), rtol=1e-12)
    for name in ("age", "income"):
        means = [float(np.average(each[name], weights=each["weight"])) for each in (mixed, first)]
        assert means[0] == pytest.approx(means[1], rel=1e-9)


def test_mixed_columns_reach_the_k_that_was_asked_for(mixed):
    """sdcMicro's microaggrGower ignores its k."""
    for k in (3, 7):
        result = shoal.protect(mixed, k, columns=["age", "income", "town"], method="mdav", accept_risk=True)
        assert np.bincount(result.labels).min() >= k
        assert privacy.k_anonymity(result.frame, ["age", "income", "town"]).value >= k


@pytest.mark.parametrize("policy", ["impute", "category", "drop"])
def test_one_missing_cell_neither_breaks_nor_spreads(mixed, policy):
    """In sdcMicro one missing cell stops most methods, or empties its whole group."""
    holed = mixed.with_columns(income=pl.Series([None, *mixed["income"].to_list()[1:]]))
    result = shoal.protect(
        holed, 4, columns=["age", "income"], method="mdav", accept_risk=True, on_missing=policy
    )
    assert result.frame["income"].null_count() == 0
    assert result.frame.height == (59 if policy == "drop" else 60)


def test_collinear_columns_are_no_failure(mixed):
    """sdcMicro's robust methods fail on a singular covariance."""
    twins = mixed.with_columns(
        double=2 * pl.col("income"), total=pl.col("income") + pl.col("age"), constant=pl.lit(1.0)
    )
    columns = ["age", "income", "double", "total", "constant"]
    for method in ("mdav", "fdm", "k-ward", "anneal"):
        limit = {"max_proposals": 10_000} if method == "anneal" else {}
        result = shoal.protect(twins, 4, columns=columns, method=method, accept_risk=True, **limit)
        assert privacy.k_anonymity(result.frame, columns).value >= 4
        assert np.isfinite(result.frame.select(columns).to_numpy()).all()


def test_a_factor_column_is_aggregated_not_refused(mixed):
    """sdcMicro answers a factor column with an error."""
    frame = mixed.to_pandas().astype({"town": "category"})
    result = shoal.protect(frame, 4, columns=["age", "town"], method="mdav", accept_risk=True).frame
    assert isinstance(result["town"].dtype, pd.CategoricalDtype)
    assert set(result["town"]) <= set("abc")


def test_group_labels_come_back(mixed):
    """sdcMicro gives the masked values only."""
    result = shoal.protect(mixed, 4, columns=["age", "income"], method="mdav", accept_risk=True)
    assert result.labels.shape == (60,)
    by_group = result.frame.with_columns(group=pl.Series(result.labels)).group_by("group")
    distinct = by_group.agg(pl.col("age", "income").n_unique()).drop("group")
    assert distinct.max().row(0) == (1, 1)


@pytest.mark.parametrize("shift", [0.0, 1e8, -1e12])
def test_sums_on_a_path_do_not_cancel_far_from_zero(shift):
    """A public shortest-path code answers with a negative SSE when the data are shifted by 1e8."""
    x = np.random.default_rng(0).integers(0, 1000, 80).astype(float)[:, None]
    plain, shifted = Univariate(k=3).fit(x), Univariate(k=3).fit(x + shift)
    assert shifted.sse_ >= 0
    assert shifted.sse_ == pytest.approx(plain.sse_, rel=1e-6)
    assert (shifted.labels_ == plain.labels_).all()


@pytest.mark.parametrize("method", [Univariate, NPNMHM])
def test_nan_and_too_few_records_are_an_error_not_infinity(method):
    """A public shortest-path code returns `inf` without a word."""
    with pytest.raises(ValueError, match=r"missing|NaN"):
        method(k=3).fit(np.array([[1.0], [np.nan], [3.0], [4.0]]))
    with pytest.raises(InputError, match="at least that many"):
        method(k=3).fit(np.array([[1.0], [2.0]]))


def test_as_many_rows_come_out_as_went_in(mixed):
    """anonypyx returns fewer rows than it got."""
    for frame in (mixed, mixed.head(7), pl.concat([mixed, mixed])):
        result = shoal.protect(frame, 4, columns=["age", "income", "town"], method="mdav", accept_risk=True)
        assert result.frame.height == frame.height
        assert (
            result.frame["weight"].to_list() == frame["weight"].to_list()
        )  # left, as nobody named it a weight


def test_failure_is_an_error_not_an_empty_frame(mixed):
    """anjana returns an empty frame where it cannot reach the demand."""
    same = mixed.with_columns(disease=pl.lit("flu"))
    facts = Schema({"age": Column("age", "quasi"), "disease": Column("disease", "sensitive", "category")})
    with pytest.raises(InputError):
        shoal.protect(same, 4, schema=facts, columns=["age"], l=2, method="mdav", accept_risk=True)
    with pytest.raises(InputError, match="at least that many"):
        shoal.protect(mixed.head(3), 4, columns=["age"], method="mdav", accept_risk=True)
