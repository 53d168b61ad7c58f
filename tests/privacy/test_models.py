"""The four models against plain oracles, on any kind of frame."""

import datetime
import math

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from shoal import privacy
from shoal.errors import InputError, ParameterError

from . import oracles

QUASI = ["age", "zip", "member"]
cells = {
    "age": st.sampled_from([20, 30, 2**40, None]),
    "zip": st.sampled_from(["a", "b", "", None]),
    "member": st.sampled_from([True, False, None]),
    "weight": st.sampled_from([-1.5, 0.0, 2.25, 3.0]),
    "disease": st.sampled_from(["flu", "cold", "ulcer", None]),
}
tables = st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=30)
TYPES = {
    "age": pl.Int64,
    "zip": pl.String,
    "member": pl.Boolean,
    "weight": pl.Float64,
    "disease": pl.String,
}


def as_kind(rows, kind):
    frame = pl.DataFrame(rows, schema=TYPES)
    if kind == "polars":
        return frame
    if kind == "polars categorical":
        return frame.with_columns(pl.col("zip", "disease").cast(pl.Categorical))
    if kind == "arrow":
        return pa.concat_tables([frame.to_arrow(), frame.to_arrow()[:0]])
    if kind == "pandas":
        shuffled = np.random.default_rng(0).permutation(len(rows)) * 7 - 3
        return frame.to_pandas().set_index(pd.Index(shuffled))
    assert kind == "pandas categorical"
    data = frame.to_pandas()
    data["zip"] = pd.Categorical(data["zip"], categories=["z", "b", "a", ""])
    data["disease"] = pd.Categorical(data["disease"], categories=["x", "ulcer", "flu", "cold"])
    return data


KINDS = ["polars", "polars categorical", "arrow", "pandas", "pandas categorical"]


@pytest.mark.parametrize("kind", KINDS)
@given(rows=tables, c=st.sampled_from([0.5, 1.0, 2.0, 3.5]))
@settings(max_examples=40, deadline=None)
def test_k_and_l_equal_the_plain_definitions(kind, rows, c):
    verdicts = privacy.check(as_kind(rows, kind), QUASI, "disease", c=c)
    assert verdicts[0].value == oracles.k(rows, QUASI)
    assert verdicts[1].value == oracles.l_distinct(rows, QUASI, "disease")
    assert verdicts[2].value == pytest.approx(oracles.l_entropy(rows, QUASI, "disease"))
    assert verdicts[3].value == oracles.l_recursive(rows, QUASI, "disease", c)
    assert verdicts[0].n_classes == len(oracles.classes(rows, QUASI))
    assert verdicts[0].missing_records == sum(any(row[q] is None for q in QUASI) for row in rows)
    assert sum(each.value is not None for each in verdicts) == 5


@pytest.mark.parametrize("kind", ["polars", "pandas categorical"])
@given(rows=tables)
@settings(max_examples=25, deadline=None)
def test_t_with_equal_distance_is_the_transport_optimum(kind, rows):
    values = ["flu", "cold", "ulcer", None]
    expected = oracles.t(rows, ["zip"], "disease", values, lambda i, j: float(i != j))
    found = privacy.t_closeness(as_kind(rows, kind), ["zip"], "disease", distance="equal")
    assert found.value == pytest.approx(expected, abs=1e-9)


@given(rows=tables)
@settings(max_examples=25, deadline=None)
def test_t_with_ordered_distance_is_the_transport_optimum(rows):
    values = sorted({row["weight"] for row in rows})
    span = max(len(values) - 1, 1)
    expected = oracles.t(rows, ["zip"], "weight", values, lambda i, j: abs(i - j) / span)
    found = privacy.t_closeness(as_kind(rows, "pandas"), ["zip"], "weight")
    assert "ordered" in found.model
    assert found.value == pytest.approx(expected, abs=1e-9)


TREE = [["flu", "cold"], [["ulcer", "gastritis"]]]


@given(rows=tables)
@settings(max_examples=25, deadline=None)
def test_t_with_hierarchical_distance_is_the_transport_optimum(rows):
    """Heights: {flu, cold} 1, {ulcer, gastritis} 1, its parent 2, root 3; a missing leaf hangs on the root."""
    values = ["flu", "cold", "ulcer", "gastritis", None]
    height = {frozenset(("flu", "cold")): 1, frozenset(("ulcer", "gastritis")): 1}

    def distance(i, j):
        return 0.0 if i == j else height.get(frozenset((values[i], values[j])), 3) / 3

    expected = oracles.t(rows, ["zip"], "disease", values, distance)
    found = privacy.t_closeness(
        as_kind(rows, "polars"), ["zip"], "disease", distance="hierarchical", levels=TREE
    )
    assert found.value == pytest.approx(expected, abs=1e-9)


def test_t_reproduces_the_examples_of_li_li_and_venkatasubramanian():
    salary = pl.DataFrame({"zip": list("aaabbbccc"), "salary": [3, 4, 5, 6, 11, 8, 7, 9, 10]})
    by_class = {w.values["zip"]: w.figure for w in privacy.t_closeness(salary, "zip", "salary").worst}
    assert by_class["a"] == pytest.approx(0.375)
    assert by_class["b"] == pytest.approx(0.167, abs=5e-4)
    # Table 5: with quasi-identifiers 4767*, 4790*, 4760* the salaries are 0.167-close.
    table5 = pl.DataFrame({"zip": list("aaabbbccc"), "salary": [3, 5, 9, 6, 11, 8, 4, 7, 10]})
    assert privacy.t_closeness(table5, "zip", "salary").value == pytest.approx(0.167, abs=5e-4)
    disease = table5.with_columns(
        disease=pl.Series(
            [
                "gastric ulcer",
                "stomach cancer",
                "pneumonia",
                "gastritis",
                "flu",
                "bronchitis",
                "gastritis",
                "bronchitis",
                "stomach cancer",
            ]
        )
    )
    tree = [
        [["flu", "pneumonia", "bronchitis"], ["pulmonary edema", "pulmonary embolism"]],
        [["gastric ulcer", "gastritis"], ["stomach cancer", "colon cancer"]],
    ]
    found = privacy.t_closeness(disease, "zip", "disease", distance="hierarchical", levels=tree)
    assert 0 < found.value < 0.5


def test_ordered_distance_with_many_values_needs_no_table_of_classes_times_values():
    rng = np.random.default_rng(1)
    n = 4000
    frame = pl.DataFrame({"g": rng.integers(0, 900, n), "income": rng.normal(size=n)})
    found = privacy.t_closeness(frame, "g", "income")
    ranks = frame["income"].rank().to_numpy().astype(int) - 1
    table = np.arange(1, n + 1) / n
    worst = 0.0
    for g in frame["g"].unique():
        mine = np.bincount(ranks[frame["g"].to_numpy() == g], minlength=n)
        worst = max(worst, np.abs(np.cumsum(mine) / mine.sum() - table).sum() / (n - 1))
    assert found.value == pytest.approx(worst, rel=1e-12)


def test_one_class_is_exactly_zero_close():
    frame = pl.DataFrame({"g": [1] * 7, "s": [0.1, 0.2, 0.3, 0.3, 9.0, 9.0, 9.0], "d": list("aabbbcd")})
    for distance, name in (("ordered", "s"), ("equal", "d")):
        verdict = privacy.t_closeness(frame, "g", name, t=0, distance=distance)
        assert verdict.value == 0.0
        assert verdict.holds


def test_ordered_categories_go_by_their_levels_and_text_needs_them():
    text = pl.DataFrame({"g": [1, 1, 2, 2], "s": ["low", "mid", "mid", "high"]})
    levels = ["low", "mid", "high"]
    expected = oracles.t(text.to_dicts(), ["g"], "s", levels, lambda i, j: abs(i - j) / 2)
    ordered = text.with_columns(pl.col("s").cast(pl.Enum(["never", *levels])))
    assert privacy.t_closeness(ordered, "g", "s").value == pytest.approx(expected)
    categories = pd.DataFrame(text.to_dict(as_series=False))
    categories["s"] = pd.Categorical(categories["s"], categories=levels, ordered=True)
    assert privacy.t_closeness(categories, "g", "s").value == pytest.approx(expected)
    assert privacy.t_closeness(text, "g", "s", distance="ordered", levels=levels).value == pytest.approx(
        expected
    )
    with pytest.raises(ParameterError, match="has no order of its own"):
        privacy.t_closeness(text, "g", "s", distance="ordered")
    with pytest.raises(ParameterError, match="It lacks 'high'"):
        privacy.t_closeness(text, "g", "s", levels=["low", "mid"])


def test_entropy_of_equally_frequent_values_reaches_l_in_spite_of_rounding():
    for l in range(2, 40):
        frame = pl.DataFrame({"g": [0] * 3 * l, "s": list(range(l)) * 3})
        verdict = privacy.l_diversity(frame, "g", "s", kind="entropy", l=l)
        assert verdict.holds
        assert verdict.value == l


def test_presence_counts_everyone_in_the_population():
    population = pd.DataFrame({"zip": ["a"] * 4 + ["b"] * 2 + ["c"], "age": [1.0, 1, 1, 1, 2, 2, math.nan]})
    table = pl.DataFrame({"age": [1, 2, 2], "zip": ["a", "b", "b"]})
    verdict = privacy.delta_presence(table, population, ["zip", "age"])
    assert verdict.value == (0.0, 1.0)
    assert verdict.records_at_risk == 2
    assert verdict.n_classes == 3
    bounded = privacy.delta_presence(table, population, ["zip"], limits=(0.1, 0.6))
    assert not bounded.holds
    assert bounded.records_at_risk == 3
    assert bounded.n_records == 7
    with pytest.raises(InputError, match="The population must hold everyone"):
        privacy.delta_presence(pl.DataFrame({"zip": ["z"]}), population, "zip")
    with pytest.raises(ParameterError, match="two numbers"):
        privacy.delta_presence(table, population, "zip", limits=(0.6, 0.1))


@given(rows=tables, chosen=st.lists(st.booleans(), min_size=30, max_size=30))
@settings(max_examples=30, deadline=None)
def test_presence_equals_the_plain_definition(rows, chosen):
    inside = [row for row, taken in zip(rows, chosen, strict=False) if taken]
    if not inside:
        inside = rows[:1]
    outer = oracles.classes(rows, QUASI)
    inner = oracles.classes(inside, QUASI)
    shares = [len(inner.get(key, [])) / len(members) for key, members in outer.items()]
    found = privacy.delta_presence(as_kind(inside, "pandas categorical"), as_kind(rows, "polars"), QUASI)
    assert found.value == pytest.approx((min(shares), max(shares)))


def test_odd_types_are_values_like_any_other():
    day = datetime.date(2020, 1, 1)
    frame = pd.DataFrame(
        {
            "mixed": pd.Series([1, "1", 1.5, True, None, math.nan, pd.NaT], dtype=object),
            "day": pd.to_datetime([day, day, None, None, day, day, day]),
            "s": list("abcdefg"),
        }
    )
    verdict = privacy.k_anonymity(frame, ["mixed"])
    assert verdict.n_classes == 5
    assert verdict.missing == {"mixed": 3}
    assert privacy.k_anonymity(frame, "day").value == 2
    assert privacy.k_anonymity(frame, "day").missing_records == 2
    zeros = pl.DataFrame({"x": [0.0, -0.0, math.nan, None]})
    assert privacy.k_anonymity(zeros, "x").value == 2
    with pytest.raises(InputError, match="single values"):
        privacy.k_anonymity(pl.DataFrame({"x": [[1], [2]]}), "x")


def test_many_wide_columns_never_fall_together():
    """The product of the numbers of levels exceeds 64 bits many times over."""
    rng = np.random.default_rng(2)
    data = {f"c{j}": rng.integers(0, 2**60, 300) for j in range(12)}
    frame = pl.DataFrame(data)
    twice = pl.concat([frame, frame.sample(fraction=1, shuffle=True, seed=1)])
    verdict = privacy.k_anonymity(twice, list(data))
    assert (verdict.value, verdict.n_classes) == (2, 300)


def test_verdict_says_what_it_found():
    frame = pl.DataFrame({"zip": ["a", "a", None], "disease": ["flu", "flu", "cold"]})
    verdict = privacy.k_anonymity(frame, "zip", k=2)
    assert not verdict.holds
    assert verdict.worst[0].values == {"zip": None}
    assert str(verdict.worst[0]) == "zip = missing: 1 record, 1"
    assert "1 record with a missing quasi-identifier" in str(verdict)
    assert str(verdict).count(".") - str(verdict).count("33.3") == 1
    assert verdict.share_at_risk == pytest.approx(1 / 3)
    assert verdict.to_dict()["worst"][0]["size"] == 1
    t = privacy.t_closeness(frame, "zip", "disease")
    assert t.holds is None
    assert t.records_at_risk is None


def test_other_sensitive_columns_are_stated():
    frame = pl.DataFrame({"zip": [1, 1, 1, 1], "a": [1, 1, 2, 2], "b": ["x", "x", "y", "y"]})
    verdicts = privacy.check(frame, "zip", ["a", "b"], l=2)
    assert [v.sensitive for v in verdicts] == [None, "a", "a", "a", "b", "b", "b"]
    assert verdicts[1].value == 2
    assert "with b known to the intruder as well, the value is 1" in verdicts[1].notes[-1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: privacy.k_anonymity(f.head(0), "zip"), "at least one record"),
        (lambda f: privacy.k_anonymity(f, []), "at least one column"),
        (lambda f: privacy.k_anonymity(f, ["zip", "zip"]), "more than once"),
        (lambda f: privacy.k_anonymity(f, "nope"), "No column 'nope'"),
        (lambda f: privacy.k_anonymity(f, "zip", k=0), "'k' of k_anonymity"),
        (lambda f: privacy.l_diversity(f, "zip", "zip"), "as both"),
        (lambda f: privacy.l_diversity(f, "zip", "s", kind="recursive"), "'c' of l_diversity"),
        (lambda f: privacy.l_diversity(f, "zip", "s", kind="odd"), "'kind' of l_diversity"),
        (lambda f: privacy.t_closeness(f, "zip", "s", t=2), "'t' of t_closeness"),
        (lambda f: privacy.t_closeness(f, "zip", "s", distance="hierarchical"), "nested lists"),
        (lambda f: privacy.k_anonymity([1], "zip"), "pandas, polars or pyarrow"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    frame = pl.DataFrame({"zip": [1], "s": [2]})
    with pytest.raises((InputError, ParameterError), match=message):
        call(frame)


@pytest.mark.parametrize("value", [0, 2**62, 2**63 + 5, 2**64 - 1])
def test_numbers_beyond_63_bits_are_told_apart(value):
    others = [value] * 3 + [value - 1 if value else 1] * 2
    table = pl.DataFrame({"x": pl.Series(others, dtype=pl.UInt64), "y": ["a"] * 5})
    assert privacy.k_anonymity(table, ["x", "y"]).value == 2
    assert privacy.k_anonymity(table[:3], ["x", "y"]).value == 3
