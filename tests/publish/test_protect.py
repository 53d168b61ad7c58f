"""Tables in memory: what goes in, what may come out, and what is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal import datasets, privacy
from shoal.errors import GuaranteeError, InputError, ParameterError
from shoal.microaggregation import MDAV, Microaggregator
from shoal.publish.stages.release import class_weights
from shoal.schema import Column, Schema


def classes(frame: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    return frame.group_by(names).len()


@pytest.fixture(scope="module")
def survey():
    return datasets.load_survey()


@pytest.fixture(scope="module")
def schema():
    return datasets.load_survey_schema()


def test_the_survey_is_protected(survey, schema):
    result = shoal.protect(survey, 5, schema=schema, method="mdav")
    quasi = ["age", "sex", "region", "income", "rent", "taxes"]
    assert classes(result.frame, quasi)["len"].min() >= 5
    assert result.frame.columns == [*quasi, "disease", "weight"]
    assert result.frame["disease"].equals(survey["disease"])
    assert result.verdicts[0].holds
    assert 0 < result.figures.information_loss < 100
    assert any("disease" in note and "Not protected" in note for note in result.notes)


def test_loss_equals_the_methods_own_on_numbers(census):
    result = shoal.protect(census, 3, method="mdav")
    assert result.figures.information_loss == pytest.approx(5.6922, abs=1e-4)
    assert result.figures.dld == pytest.approx(shoal.measures.dld(census, result.frame))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_kind_of_table_is_kept(make, survey):
    small = survey.head(40)
    frame = small.to_pandas() if make is pd.DataFrame else small.to_arrow() if make is pa.table else small
    result = shoal.protect(frame, 4, columns=["age", "income", "sex"], method="mdav", accept_risk=True)
    assert isinstance(result.frame, type(frame))
    again = pl.DataFrame(result.frame)
    assert again.columns == [name for name in small.columns if name not in ("person", "household")]
    assert classes(again, ["age", "income", "sex"])["len"].min() >= 4


def test_rows_that_are_dropped_leave_their_number_out():
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 4.0, 5.0]})
    result = shoal.protect(frame, 2, method="mdav", on_missing="drop")
    assert list(result.frame.index) == [0, 1, 3, 4]


METHODS = [{"method": "mdav"}, {"method": "suppress"}, {"method": "generalize"}]


@pytest.mark.parametrize("wanted", METHODS, ids=str)
def test_an_index_that_may_name_people_is_not_published(survey, wanted):
    frame = survey.head(60).select("person", "region", "sex", "disease").to_pandas()
    frame["sex"], frame["disease"] = frame["sex"].astype("category"), frame["disease"].astype("category")
    for index in (["person"], ["region"], ["person", "region"]):
        result = shoal.protect(frame.set_index(index), 5, **wanted, accept_risk=True)
        assert list(result.frame.index) == list(range(60))
        assert not set(index) & set(result.frame.columns)
        assert any(f"index ({', '.join(map(repr, index))}) is left out" in note for note in result.notes)
    unnamed = frame.set_index("person").rename_axis(None)
    assert list(shoal.protect(unnamed, 5, **wanted, accept_risk=True).frame.index) == list(range(60))


@pytest.mark.parametrize("wanted", METHODS, ids=str)
def test_no_index_tells_the_order_of_rows_that_were_shuffled(survey, wanted):
    frame = survey.head(60).select("region", "sex", "disease").to_pandas()
    result = shoal.protect(frame, 5, order="shuffle", accept_risk=True, **wanted)
    assert list(result.frame.index) == list(range(60))


def test_integers_may_be_rounded(survey):
    kept = shoal.protect(survey, 5, columns=["age"], method="mdav", accept_risk=True)
    rounded = shoal.protect(survey, 5, columns=["age"], method="mdav", accept_risk=True, integers="round")
    assert kept.frame["age"].dtype == pl.Float64
    assert rounded.frame["age"].dtype == pl.Int64
    assert np.abs(kept.frame["age"] - rounded.frame["age"]).max() <= 0.5


def test_equal_values_keep_their_mean():
    frame = pl.DataFrame({"x": [0.1] * 3 + [1e9 + 0.1] * 3})
    assert shoal.protect(frame, 3, method="mdav").frame["x"].to_list() == frame["x"].to_list()


# Mixed columns


def test_impossible_categories_never_appear_and_dates_work():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "born": [
                datetime.date(1950, 1, 1) + datetime.timedelta(days=int(d))
                for d in rng.integers(0, 20_000, 60)
            ],
            "grade": rng.choice(["low", "mid", "high"], 60),
            "town": rng.choice(["A", "B", "C"], 60),
            "smokes": rng.random(60) < 0.5,
            "seen": [
                datetime.datetime(2020, 1, 1, 8) + datetime.timedelta(hours=int(h))
                for h in rng.integers(0, 900, 60)
            ],
        }
    )
    facts = Schema(
        {
            "born": Column("born", "quasi", "date"),
            "grade": Column("grade", "quasi", "ordered", levels=("low", "mid", "high")),
            "town": Column("town", "quasi", "category"),
            "smokes": Column("smokes", "quasi", "boolean"),
            "seen": Column("seen", "quasi", "date"),
        }
    )
    result = shoal.protect(frame, 4, schema=facts, method="mdav")
    assert result.frame.schema == frame.schema
    assert classes(result.frame, frame.columns)["len"].min() >= 4
    for name in ("grade", "town", "smokes"):
        assert set(result.frame[name]) <= set(frame[name])
    for group in range(result.figures.n_groups):
        rows = np.flatnonzero(result.labels == group)
        assert frame["born"][rows].min() <= result.frame["born"][int(rows[0])] <= frame["born"][rows].max()
        codes = sorted(["low", "mid", "high"].index(each) for each in frame["grade"][rows])
        assert result.frame["grade"][int(rows[0])] == ["low", "mid", "high"][codes[(len(codes) - 1) // 2]]


def test_a_factor_column_is_no_error(survey):
    frame = survey.head(50).to_pandas()
    frame["region"] = frame["region"].astype("category")
    result = shoal.protect(frame, 5, columns=["age", "region"], method="mdav", accept_risk=True)
    assert result.frame["region"].dtype == frame["region"].dtype


def test_medoids_are_records(survey):
    facts = Schema({name: Column(name, "quasi", aggregate="medoid") for name in ("age", "income")})
    result = shoal.protect(survey.select("age", "income"), 5, schema=facts, method="mdav")
    real = set(survey.select("age", "income").iter_rows())
    assert set(result.frame.with_columns(pl.all().cast(pl.Int64)).iter_rows()) <= real


def test_column_weights_steer_the_loss(survey):
    def loss(weight):
        facts = Schema(
            {"age": Column("age", "quasi", importance=weight), "income": Column("income", "quasi")}
        )
        return shoal.protect(
            survey.select("age", "income"), 5, schema=facts, method="mdav"
        ).figures.loss_per_column["age"]

    assert loss(10.0) < loss(1.0) < loss(0.1)


def test_undeclared_levels_are_refused():
    facts = Schema({"town": Column("town", "quasi", "category", levels=("A", "B"))})
    with pytest.raises(InputError, match="declared levels. Got 'C'"):
        shoal.protect(pl.DataFrame({"town": ["A", "B", "C", "A"]}), 2, schema=facts, method="mdav")


# Missing cells


def test_missing_cells_ask_for_a_policy(schema):
    with pytest.raises(InputError, match=r"need a policy .* 'age' \(32\)"):
        shoal.protect(datasets.load_survey(messy=True), 5, schema=schema, method="mdav")


@pytest.mark.parametrize("policy", ["impute", "category", "drop"])
def test_missing_cells_never_spread(policy, schema):
    messy = datasets.load_survey(messy=True)
    result = shoal.protect(messy, 5, schema=schema, method="mdav", on_missing=policy)
    quasi = ["age", "sex", "region", "income", "rent", "taxes"]
    assert sum(result.frame.select(quasi).null_count().row(0)) == 0
    assert classes(result.frame, quasi)["len"].min() >= 5
    assert result.frame.height == (messy.height if policy != "drop" else 836)
    words = {
        "impute": "filled in from the records",
        "category": "take the value of their group",
        "drop": "that were dropped: 176",
    }
    assert words[policy] in " ".join(result.notes)


def test_a_group_without_any_value_stays_missing():
    x = [0.0, 0.0, 0.0, 9.0, 9.0, 9.0]
    frame = pl.DataFrame({"x1": x, "x2": x, "x3": x, "y": [None, None, None, 1.0, 2.0, 3.0]})
    result = shoal.protect(frame, 3, method="mdav", on_missing="category")
    assert result.frame["y"].to_list() == [None, None, None, 2.0, 2.0, 2.0]


def test_minus_999_is_a_value_unless_the_schema_says_otherwise():
    frame = pl.DataFrame({"x": [-999, -999, 1, 2, 3, 4]})
    assert shoal.protect(frame, 2, method="mdav").frame["x"][0] == -999
    facts = Schema({"x": Column("x", "quasi", missing_codes=(-999,))})
    with pytest.raises(InputError, match=r"'x' \(2\)"):
        shoal.protect(frame, 2, schema=facts, method="mdav")


def test_imputed_values_come_from_like_records():
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 100, 80))
    y = (10 * x).tolist()
    y[40] = None
    result = shoal.protect(pl.DataFrame({"x": x, "y": y}), 3, method="mdav", on_missing="impute")
    assert result.frame["y"][40] == pytest.approx(10 * x[40], rel=0.15)


# Weights, strata, households


def test_weighted_means_are_kept(survey):
    result = shoal.protect(
        survey, 5, columns=["age", "income", "rent"], weights="weight", method="mdav", accept_risk=True
    )
    for name in ("age", "income", "rent"):
        before, after = (
            float(np.average(frame[name].to_numpy(), weights=frame["weight"].to_numpy()))
            for frame in (survey, result.frame)
        )
        assert after == pytest.approx(before, rel=1e-9)


def test_weights_of_a_recoded_class_are_their_mean():
    """So its total holds, and no weight tells one of the class apart; a class may have gone."""
    table = pl.DataFrame({"w": [1.0, 3.0, 5.0, 8.0, 2.0]})
    assert class_weights(table, "w", np.array([0, 0, 3, 3, 3])).to_list() == [2.0, 2.0, 5.0, 5.0, 5.0]


def test_weights_are_those_of_the_group_and_totals_hold(survey):
    result = shoal.protect(survey, 5, schema=datasets.load_survey_schema(), method="mdav")
    groups = pl.DataFrame(
        {"group": result.labels, "before": survey["weight"], "after": result.frame["weight"]}
    )
    by = groups.group_by("group").agg(
        pl.col("before").mean(), pl.col("after").first(), n=pl.col("after").n_unique()
    )
    assert by["n"].max() == 1
    np.testing.assert_allclose(by["before"], by["after"])
    for name in ("age", "income", "rent"):
        totals = [float((frame[name] * frame["weight"]).sum()) for frame in (survey, result.frame)]
        assert totals[1] == pytest.approx(totals[0], rel=1e-9)
    assert result.figures.at_risk == 0


@pytest.mark.parametrize(
    "weights", [[1.0, -1.0, 1.0, 1.0], [1.0, None, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], list("abcd")]
)
def test_odd_weights_are_refused(weights):
    with pytest.raises(InputError, match="weights 'w' must be (finite numbers|numbers|above 0)"):
        shoal.protect(
            pl.DataFrame({"x": [1, 2, 3, 4], "w": weights}), 2, columns=["x"], weights="w", method="mdav"
        )


def test_groups_never_cross_strata(survey):
    result = shoal.protect(
        survey, 5, columns=["age", "income"], strata="region", method="mdav", accept_risk=True
    )
    for group in range(result.figures.n_groups):
        assert survey["region"].filter(pl.Series(result.labels == group)).n_unique() == 1
    assert classes(result.frame, ["age", "income", "region"])["len"].min() >= 5


def test_a_stratum_smaller_than_k_is_never_released_as_it_is():
    frame = pl.DataFrame({"x": [1, 2, 3, 10, 11, 12, 100], "s": ["a"] * 3 + ["b"] * 3 + ["tiny"]})
    result = shoal.protect(frame, 3, columns=["x"], strata="s", method="mdav")
    assert result.frame["s"].to_list() == ["a"] * 3 + ["b"] * 4
    assert classes(result.frame, ["x", "s"])["len"].min() >= 3
    assert any("'tiny' has 1 record," in note for note in result.notes)
    with pytest.raises(InputError, match="Stratum 'tiny' has 1"):
        shoal.protect(frame, 3, columns=["x"], strata="s", method="mdav", small_strata="refuse")


def test_groups_hold_members_of_k_households_and_no_household_number(survey):
    result = shoal.protect(
        survey, 3, columns=["age", "income", "rent"], households="household", method="mdav", accept_risk=True
    )
    assert "household" not in result.frame.columns
    by_home = pl.DataFrame({"home": survey["household"], "group": result.labels})
    assert by_home.group_by("group").agg(pl.col("home").n_unique())["home"].min() >= 3
    held = [each for each in result.verdicts if each.model == "k-anonymity of households"]
    assert held[0].value >= 3


def homes(n: int = 60) -> pl.DataFrame:
    """Households of two grown-ups and a child, who share a rent."""
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(n), 3)
    age = np.tile([45, 43, 8], n) + rng.integers(-3, 4, 3 * n)
    return pl.DataFrame(
        {
            "home": home,
            "age": age,
            "sex": np.where(np.tile([0, 1, 1], n) == 1, "f", "m"),
            "rent": rng.integers(300, 2000, n)[home],
            "town": np.where(home < n // 2, "a", "b"),
        }
    )


def test_a_child_is_not_given_its_parents_age():
    result = shoal.protect(
        homes(), 4, households="home", strata="town", method="mdav",
        schema={"columns": {"sex": {"kind": "category", "role": "quasi"}, "age": {"role": "quasi"}, "rent": {"role": "quasi"}}},
    )  # fmt: skip
    frame = homes().with_columns(pl.Series("after", result.frame["age"]))
    children = frame.filter(pl.col("age") < 15)["after"]
    assert children.max() < 20
    rents = pl.DataFrame({"home": homes()["home"], "rent": result.frame["rent"]})
    assert rents.group_by("home").agg(pl.col("rent").n_unique())["rent"].max() == 1
    assert result.status == "green"


def test_strata_are_counted_in_households():
    frame = homes(9).with_columns(
        pl.when(pl.col("home") == 8).then(pl.lit("c")).otherwise("town").alias("town")
    )
    options = {
        "households": "home",
        "strata": "town",
        "columns": ["age", "rent"],
        "leave": [],
        "method": "mdav",
    }
    frame = frame.drop("sex")
    with pytest.raises(InputError, match="at least k = 3 households. Stratum 'c' has 1"):
        shoal.protect(frame, 3, small_strata="refuse", **options)
    result = shoal.protect(frame, 3, **options)
    assert "c" not in result.frame["town"].to_list()


# Identifiers and refusals


def test_identifiers_are_dropped_or_hashed(survey, schema):
    hashed = shoal.protect(
        survey, 5, schema=schema, method="mdav", identifiers="hash", key=b"secret", accept_risk=True
    ).frame
    again = shoal.protect(
        survey, 5, schema=schema, method="mdav", identifiers="hash", key=b"secret", accept_risk=True
    ).frame
    other = shoal.protect(survey, 5, schema=schema, method="mdav", identifiers="hash", accept_risk=True).frame
    assert hashed["person"].n_unique() == survey.height
    assert hashed["household"].n_unique() == survey["household"].n_unique()
    assert hashed["person"].equals(again["person"])
    assert not hashed["person"].equals(other["person"])


def test_what_looks_like_an_identifier_is_dropped_and_said():
    frame = pl.DataFrame({"x": [i * i for i in range(10)], "who": [f"person {i}" for i in range(10)]})
    result = shoal.protect(frame, 2, method="mdav")
    assert result.frame.columns == ["x"]
    assert any("Identifiers dropped: who" in note for note in result.notes)


def test_a_number_column_with_a_text_is_refused_not_published():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["1", "2", "x", "4"]})
    with pytest.raises(InputError, match="Column 'y' must hold numbers. Got 'x'"):
        shoal.protect(frame, 2, method="mdav")


class Broken(Microaggregator):
    """Puts one record alone."""

    name = "broken"
    _rules = MDAV._rules

    def __init__(self, k=5):
        self.k = k

    def _keeps_sizes(self):
        return False

    def _partition(self, Z):
        labels = np.zeros(len(Z), np.int64)
        labels[0] = 1
        return labels


@pytest.mark.parametrize("accepted", [False, True])
def test_nothing_is_given_out_when_the_check_fails(accepted):
    """Who accepts a risk does not accept a promise that is not kept."""
    with pytest.raises(GuaranteeError, match="does not keep its promise, so it is not given out"):
        shoal.protect(pl.DataFrame({"x": np.arange(8.0)}), 3, method=Broken(), accept_risk=accepted)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "'method' must be one of"),
        ({"on_missing": "guess"}, "'on_missing' of protect"),
        ({"integers": "no"}, "'integers' of protect"),
        ({"k": 1}, "'k' of protect"),
        ({"time_limit": 3}, "takes no 'time_limit'"),
        ({"columns": ["nope"]}, "No column 'nope'"),
        ({"strata": "nope"}, "No column 'nope'"),
        ({"l": 1}, "'l' of protect"),
    ],
)
def test_bad_options_are_one_sentence(options, message):
    with pytest.raises((ParameterError, InputError), match=message):
        shoal.protect(pl.DataFrame({"x": np.arange(8.0)}), **({"method": "mdav"} | options))


def test_a_column_of_nulls_is_refused():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": pl.Series([None, None, None], dtype=pl.Float64)})
    with pytest.raises(InputError, match="All its cells are missing"):
        shoal.protect(frame, 2, method="mdav", on_missing="impute")


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 40),
    k=st.integers(2, 4),
    policy=st.sampled_from(["impute", "category"]),
)
def test_any_mixed_table_comes_out_k_anonymous(seed, n, k, policy):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "number": rng.integers(0, 5, n),
            "town": rng.choice(["A", "B", "C"], n),
            "real": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
        }
    ).with_columns(pl.when(pl.Series(rng.random(n) < 0.2)).then(None).otherwise(pl.col("town")).alias("town"))
    if frame["town"].null_count() == n or frame["real"].is_nan().all():
        return
    result = shoal.protect(frame, k, columns=frame.columns, method="mdav", on_missing=policy)
    assert privacy.k_anonymity(result.frame, frame.columns).value >= k


@pytest.mark.parametrize("descending", [False, True])
def test_rows_sorted_by_a_protected_column_are_told(survey, descending):
    """Within a group of like incomes the order of the rows still tells who has more."""
    asked = {"columns": ["age", "income"], "method": "mdav", "accept_risk": True}

    def told(frame, **more):
        return any("sorted by 'income'" in note for note in shoal.protect(frame, 5, **asked, **more).notes)

    by_income = survey.sort("income", descending=descending)
    assert told(by_income)
    assert not told(by_income, order="shuffle")
    assert not told(survey)
