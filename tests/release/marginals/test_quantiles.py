"""Bins by rank: paid for, on the declared grid, and filled evenly where numbers are skewed."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import ParameterError
from shoal.release import release_marginals, utility
from shoal.release.marginals._axes import axis
from shoal.release.marginals._quantiles import bins_by_rank
from shoal.release.marginals._spend import Purse
from shoal.schema import Column, Schema

INCOME = Column("income", bounds=(0, 1_000_000), step=1)
SEX = Column("sex", role="quasi", kind="category", levels=("f", "m"))


def skewed(n=3_000):
    rng = np.random.default_rng(0)
    income = np.where(rng.random(n) < 0.3, 0, np.minimum(rng.lognormal(8, 1.2, n), 1e6).round())
    return pl.DataFrame({"income": income, "sex": rng.choice(["f", "m"], n)})


def schema():
    return Schema({"income": INCOME, "sex": SEX}, id="t", budget=1000.0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(-5, 40), max_size=30),
    st.sampled_from(["pure", "zcdp"]),
    st.sampled_from([2, 4, 16]),
    st.sampled_from([None, 1.0, 3.0]),
)
def test_edges_rise_from_bound_to_bound_on_the_grid(values, currency, count, step):
    column = Column("x", bounds=(0, 30), step=step)
    purse = Purse(currency, Fraction(1))
    edges = bins_by_rank(np.array([*values, np.nan], dtype=float), axis(column, "quantiles"), count, purse)
    assert (edges[0], edges[-1]) == (0, 30)
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= count + 1
    if step is not None:
        assert all(each % step == 0 for each in edges)


def test_skewed_numbers_fill_their_bins():
    out = release_marginals(skewed(), schema(), 50.0, bins={"income": "quantiles:16"})
    counts = np.bincount(out.model.axes[0].encode(skewed()["income"].to_numpy()))
    assert len(counts) >= 9  # a third of the incomes are one value, which is not split
    assert counts.max() < 1_100  # of 3,000, of which 900 are zero
    even = release_marginals(skewed(), schema(), 50.0, bins={"income": 16})
    assert np.bincount(even.model.axes[0].encode(skewed()["income"].to_numpy())).max() > 2_900
    quarter = skewed().filter(pl.col("income") < 2_000).height / 3_000
    ours, theirs = (
        each.ask("SELECT COUNT(*) FROM t WHERE income < 2000").value / 3_000 for each in (out, even)
    )
    assert abs(ours - quarter) < abs(theirs - quarter)
    assert utility(out, skewed()).total_variation[1] < 0.2


def test_the_word_alone_leaves_declared_bins_alone():
    columns = {
        "income": INCOME,
        "age": Column("age", bounds=(0, 100), step=1, breaks=(20, 50)),
        "size": Column("size", bounds=(1, 9), step=1),
    }
    frame = skewed().with_columns(age=pl.lit(30), size=pl.lit(2))
    out = release_marginals(frame, Schema(columns, id="t", budget=9.0), 1.0, bins="quantiles")
    assert dict(out.plan.quantiles) == {"income": 16}
    assert [each.known for each in out.model.axes[1:]] == [3, 9]


@pytest.mark.parametrize("bins", ["ranks", "quantiles:3", "quantiles:x", {"income": "quantiles:512"}])
def test_what_is_no_number_of_bins_is_refused(bins):
    with pytest.raises(ParameterError, match="power of two"):
        release_marginals(skewed(), schema(), 1.0, bins=bins)


def test_the_same_words_of_a_kept_release_give_the_same_bins():
    from shoal.dp import Ledger

    ledger = Ledger(None)
    first, again = (
        release_marginals(skewed(), schema(), 1.0, bins="quantiles", ledger=ledger, data_version="1")
        for _ in range(2)
    )
    assert first.model.axes == again.model.axes
    assert first.frame.equals(again.frame)
