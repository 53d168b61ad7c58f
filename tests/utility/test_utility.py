"""Indicators against plain formulas and known packages; what must be kept, what must be refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.errors import InputError
from shoal.schema import Column, Indicator, Schema
from shoal.utility import Estimate, KeptFigure, fitness, general, overlap, quantile, ratio, total


def survey(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": np.round(rng.lognormal(7, 0.6, n), 2),
            "rent": np.round(rng.lognormal(6, 0.5, n), 2),
            "region": rng.choice(["north", "south"], n),
            "sick": rng.random(n) < 0.3,
            "w": rng.uniform(1, 5, n),
        }
    )


INDICATORS = (
    Indicator("total", column="income"),
    Indicator("mean", column="income", by="region"),
    Indicator("quantile", column="income", q=0.5),
    Indicator("share", column="region", level="north"),
    Indicator("ratio", column="rent", over="income"),
)


def with_indicators(*indicators):
    return Schema({"w": Column("w", role="weight")}, indicators=indicators)


def test_a_table_keeps_its_own_figures():
    frame = survey()
    found = fitness(frame, frame, with_indicators(*INDICATORS))
    assert found.kept == 1.0
    assert all(each.overlap == pytest.approx(1.0) for each in found.figures)
    assert len(found.figures) == 6


def test_figures_are_those_of_plain_formulas():
    frame = survey()
    found = {each.title: each.before for each in fitness(frame, frame, with_indicators(*INDICATORS)).figures}
    w, x = frame["w"].to_numpy(), frame["income"].to_numpy()
    north = (frame["region"] == "north").to_numpy()
    assert found["total of income"].value == pytest.approx((w * x).sum())
    assert found["mean of income, region north"].value == pytest.approx(
        np.average(x[north], weights=w[north])
    )
    assert found["share of north in region"].value == pytest.approx(w[north].sum() / w.sum())
    rent = frame["rent"].to_numpy()
    assert found["ratio of rent over income"].value == pytest.approx((w * rent).sum() / (w * x).sum())
    order = np.argsort(x)
    at = np.searchsorted(np.cumsum(w[order]) / w.sum(), 0.5)
    assert found["quantile 0.5 of income"].value == x[order][at]


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """1,500 samples: the count of intervals that hold is binomial; a false alarm has a chance below 1e-9."""
    rng = np.random.default_rng(3)
    held = {"mean": 0, "total": 0, "median": 0}
    for _ in range(500):
        x = rng.normal(10, 3, 120)
        w = np.full(120, 50.0)
        ones = np.ones(120)
        mean, sums, middle = ratio(x, ones, w), total(x, w), quantile(x, w, ones.astype(bool), 0.5)
        held["mean"] += mean.low <= 10 <= mean.high
        held["total"] += sums.low <= 10 * 6000 <= sums.high
        held["median"] += middle.low <= 10 <= middle.high
    for count in held.values():
        assert 0.87 * 500 < count <= 500


@given(st.floats(-5, 5), st.floats(0.1, 5), st.floats(-5, 5), st.floats(0.1, 5))
def test_overlap_is_symmetric_at_most_one_and_positive_where_they_meet(a, s, b, t):
    first, second = Estimate(a, a - s, a + s), Estimate(b, b - t, b + t)
    common = min(first.high, second.high) - max(first.low, second.low)
    assert overlap(first, second) == pytest.approx(overlap(second, first))
    assert overlap(first, second) <= 1 + 1e-9
    assert (overlap(first, second) > 0) == (common > 0)


def test_a_verdict_follows_the_overlap():
    def verdict(low):
        after = Estimate(low + 1, low, low + 2)
        return KeptFigure("x", "", Estimate(1, 0, 2), after, overlap(Estimate(1, 0, 2), after)).verdict

    assert [verdict(low) for low in (0.0, 1.0, 1.5, 2.5)] == ["kept", "kept", "moved", "lost"]


def test_models_agree_with_least_squares_and_with_a_logit():
    sm = pytest.importorskip("statsmodels.api")
    frame = survey()
    schema = Schema(
        {}, indicators=(Indicator("regression", formula="income ~ age"), Indicator("logit", formula="sick ~ age")),
    )  # fmt: skip
    found = {each.title: each.before.value for each in fitness(frame, frame, schema).figures}
    X = sm.add_constant(frame["age"].to_numpy().astype(float))
    line = np.linalg.lstsq(X, frame["income"].to_numpy(), rcond=None)[0]
    logit = sm.Logit(frame["sick"].to_numpy().astype(float), X).fit(disp=0).params
    assert found["regression income ~ age, age"] == pytest.approx(line[1])
    assert found["logit sick ~ age, age"] == pytest.approx(logit[1], rel=1e-5)
    assert found["logit sick ~ age, Intercept"] == pytest.approx(logit[0], rel=1e-5)


@pytest.mark.parametrize(
    ("indicator", "words"),
    [
        (Indicator("mean", column="gone"), "needs the column 'gone'. The table has"),
        (Indicator("mean", column="region"), "needs numbers in 'region'. Got '(north|south)'"),
        (Indicator("regression", formula="income age"), "A formula must be like"),
        (Indicator("regression", formula="income ~ gone"), "needs the column 'gone'"),
        (Indicator("regression", formula="income ~ age +* rent"), "cannot be computed"),
        (Indicator("logit", formula="region ~ age"), "left side of a logit must be 0 or 1"),
    ],
)
def test_indicators_that_cannot_be_computed_are_refused_in_one_sentence(indicator, words):
    pytest.importorskip("statsmodels")
    with pytest.raises(InputError, match=words) as caught:
        fitness(survey(), survey(), Schema({}, indicators=(indicator,)))
    assert "\n" not in str(caught.value)


def test_an_indicator_on_a_dropped_column_is_refused_before_anything_is_done():
    frame = survey().with_columns(pl.Series("person", [f"p{at}" for at in range(300)]))
    schema = Schema({}, indicators=(Indicator("share", column="person", level="p1"),))
    with pytest.raises(InputError, match="needs the column 'person', which is dropped before publishing"):
        shoal.protect(frame, k=3, method="mdav", schema=schema)


def test_a_column_recoded_to_texts_loses_its_mean_with_the_reason():
    frame = survey().select("age", "region")
    after = frame.with_columns(pl.lit("18-89").alias("age"))
    found = fitness(frame, after, Schema({}, indicators=(Indicator("mean", column="age"),)))
    assert found.figures[0].verdict == "lost"
    assert "needs numbers in 'age'" in found.figures[0].note


def test_protect_tells_of_its_indicators_and_compare_has_them_as_an_axis(tmp_path):
    frame = survey().drop("sick")
    schema = with_indicators(*INDICATORS)
    done = shoal.protect(frame, k=3, method="mdav", schema=schema)
    assert done.to_dict()["indicators"]["kept"] == done.fitness.kept
    assert any(line.startswith("indicators: ") for line in done.lines())
    done.report(tmp_path / "r.html")
    assert "Fitness for use" in (tmp_path / "r.html").read_text()
    done.report(tmp_path / "p.html", public=True)
    assert "Fitness for use" not in (tmp_path / "p.html").read_text()
    found = shoal.compare(frame, k=[3, 60], methods=["mdav"], schema=schema)
    first, last = (cell.indicators_kept for cell in found.cells)
    assert 0 <= last <= first <= 1
    found.report(tmp_path / "c.html")
    assert "Indicators kept" in (tmp_path / "c.html").read_text()


def test_shuffling_a_column_by_itself_keeps_its_mean_and_breaks_its_pairs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=800)
    frame = pl.DataFrame({"x": x, "y": x + 0.1 * rng.normal(size=800), "c": np.where(x > 0, "a", "b")})
    mixed = frame.with_columns(pl.Series("x", rng.permutation(x)))
    same, broken = general(frame, frame, target="c"), general(frame, mixed, target="c")
    assert same.total_variation == 0.0
    assert broken.total_variation > 0.3
    assert broken.mutual_information > 0.3
    assert broken.worst_pair in (("x", "y"), ("x", "c"))
    assert same.trained_there > 0.95
    assert fitness(frame, mixed, Schema({}, indicators=(Indicator("mean", column="x"),))).kept == 1.0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 30))
def test_general_utility_of_a_table_with_itself_is_perfect(seed, n):
    frame = survey(n, seed)
    found = general(frame, frame)
    assert found.total_variation == 0
    assert found.mutual_information == 0


def test_a_code_with_suppressed_cells_keeps_its_coefficients_and_domains():
    """Whole numbers become decimals where a cell is missing: 2 and 2.0 are one level all the same."""
    rng = np.random.default_rng(0)
    before = pl.DataFrame(
        {"x": rng.normal(size=200), "sex": rng.integers(1, 3, 200), "y": rng.normal(size=200)}
    )
    after = before.with_columns(
        pl.when(pl.int_range(200) < 5).then(None).otherwise(pl.col("sex").cast(pl.Float64)).alias("sex")
    )
    schema = with_indicators(
        Indicator("regression", formula="y ~ x + C(sex)"), Indicator("mean", column="y", by="sex")
    )
    found = fitness(before, after, schema)
    assert {each.domain for each in found.figures} == {"C(sex)[T.2]", "Intercept", "x", "sex 1", "sex 2"}
    assert all(each.verdict == "kept" for each in found.figures), found.lines()


def test_missing_weights_count_for_nothing_on_both_sides():
    before = pl.DataFrame({"x": [1.0, 2.0, 3.0, 100.0], "w": [1.0, 1.0, 1.0, None]})
    schema = Schema(
        {"x": Column("x", kind="number"), "w": Column("w", role="weight")},
        indicators=(Indicator("mean", column="x"), Indicator("total", column="x")),
    )
    figures = fitness(before, before, schema).figures
    assert [each.before.value for each in figures] == [2.0, 6.0]


def test_a_model_trained_there_is_not_asked_about_its_own_rows():
    """Noise cannot be guessed: a model that had seen the people asked about would seem to."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"x": rng.normal(size=600), "y": rng.normal(size=600), "d": rng.choice(list("ab"), 600)}
    )
    found = general(frame, frame, target="d")
    assert found.trained_there == pytest.approx(found.trained_here)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("income ~ age +* rent", "expected a noun"),
        ("income ~ log(age)", "name 'log' is not defined"),
        ("income ~ np.odd(age)", "odd"),
    ],
)
@pytest.mark.parametrize("memory", [None, "1GB"])
def test_a_formula_that_cannot_be_computed_writes_nothing(
    tmp_path, monkeypatch, capsys, formula, words, memory
):
    import sys

    from shoal import cli

    survey(60).write_csv(tmp_path / "in.csv")
    (tmp_path / "s.toml").write_text(f'[[indicators]]\nkind = "regression"\nformula = "{formula}"\n')
    more = [] if memory is None else ["--memory", memory]
    monkeypatch.setattr(
        sys, "argv",
        ["shoal", "protect", str(tmp_path / "in.csv"), "-k", "3", "-o", str(tmp_path / "out.csv"), "--method", "mdav",
         "--schema", str(tmp_path / "s.toml"), *more],
    )  # fmt: skip
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
