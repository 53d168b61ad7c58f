"""Households with persons, and rules that drawn rows keep."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.dp import Ledger
from shoal.errors import ParameterError, SchemaError
from shoal.release import release_households, release_marginals
from shoal.release.marginals._households import SHARE
from shoal.release.marginals._rules import keep_rules
from shoal.rules import edits_of
from shoal.schema import Column, Rule, Schema, Unit

COLUMNS = {
    "flat": Column("flat", role="household", kind="category"),
    "town": Column("town", role="quasi", kind="category", levels=("a", "b")),
    "age": Column("age", bounds=(0, 99), step=1, breaks=(18, 65)),
}


def census(n=800):
    rng = np.random.default_rng(0)
    size = rng.integers(1, 5, n)
    flat = np.repeat(np.arange(n), size)
    town = np.where(size > 2, "a", "b")
    age = np.where(size[flat] > 2, rng.integers(0, 18, len(flat)), rng.integers(65, 99, len(flat)))
    return pl.DataFrame({"flat": flat, "town": town[flat], "age": age})


def schema(rows=4, **facts):
    return Schema(COLUMNS, id="census", unit=Unit("flat", rows), budget=100.0, **facts)


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_households_come_back_with_their_sizes_towns_and_persons(delta):
    out = release_households(census(), schema(), 60.0, shared=["town"], delta=delta)
    assert abs(out.households.height - 800) < 40
    assert out.frame["flat"].n_unique() == out.households.height
    sizes = out.frame.group_by("flat").agg(
        pl.len(), pl.col("household_size").first(), pl.col("town").n_unique()
    )
    assert (sizes["len"] == sizes["household_size"]).all()
    assert (sizes["town"] == 1).all()
    large = out.frame.with_columns(large=pl.col("household_size") > 2)
    assert large.filter(pl.col("large"))["age"].lt(18).mean() > 0.9
    assert large.filter(~pl.col("large"))["town"].eq("b").mean() > 0.9
    assert out.guarantee.startswith("guarantee: ")
    assert "one flat" in out.guarantee


def test_a_household_moves_what_is_told_by_no_more_than_is_paid():
    ledger = Ledger()
    out = release_households(census(50), schema(rows=3), 2.0, shared=["town"], ledger=ledger)
    assert ledger.spent("census") == 2_000_000
    spent = sum(Fraction(1) / Fraction(each.scale) for each in out.of_households.measurements)
    assert spent <= 2 * SHARE
    spent = sum(Fraction(3) / Fraction(each.scale) for each in out.of_persons.measurements)
    assert spent <= 2 * (1 - SHARE)


def test_a_kept_release_of_households_costs_nothing_again():
    ledger = Ledger()
    first, again = (
        release_households(census(50), schema(), 2.0, shared=["town"], ledger=ledger, data_version="1")
        for _ in range(2)
    )
    assert first.frame.equals(again.frame)
    assert ledger.spent("census") == 2_000_000


def test_mistakes_are_one_sentence():
    plain = Schema(COLUMNS, id="census", budget=1.0)
    with pytest.raises(ParameterError, match="group|unit"):
        release_households(census(9), plain, 1.0)
    with pytest.raises(ParameterError, match="'shared'"):
        release_households(census(9), schema(), 1.0, shared=["flat"])
    with pytest.raises(ParameterError, match="'households'"):
        release_households(census(9), schema(), 1.0, households=0)


def test_rows_keep_the_rules():
    rng = np.random.default_rng(2)
    gross = rng.integers(0, 1000, 600)
    frame = pl.DataFrame({"net": gross * 7 // 10, "gross": gross, "age": rng.integers(0, 99, 600)})
    columns = {
        "net": Column("net", bounds=(0, 1000), step=1),
        "gross": Column("gross", bounds=(0, 1000), step=1),
        "age": COLUMNS["age"],
    }
    rules = (
        Rule(order="net <= gross"),
        Rule(impossible="age < 10 and gross > 500"),
        Rule(integer="net"),
    )
    kept = Schema(columns, id="t", budget=9.0, rules=rules)
    out = release_marginals(frame, kept, 1.0, workload="tables", bins=6)
    assert (out.frame["net"] <= out.frame["gross"]).all()
    assert out.frame.filter((pl.col("age") < 10) & (pl.col("gross") > 500)).is_empty()
    assert out.frame["net"].dtype == pl.Int64
    assert any("net <= gross" in note for note in out.notes)


@pytest.mark.parametrize("step", [None, 0.1])
def test_rules_hold_to_the_last_digit_in_the_file(step, tmp_path):
    rng = np.random.default_rng(0)
    gross = rng.uniform(0, 100, 2000)
    frame = pl.DataFrame({"net": gross * rng.uniform(0.5, 1, 2000), "gross": gross, "tax": gross / 4})
    ends = {"net": (0, 100), "gross": (0.2, 100.2), "tax": (0, 100)}
    columns = {name: Column(name, bounds=each, step=step) for name, each in ends.items()}
    texts = ("net <= gross", "tax <= 0.7*gross + 0.1")
    kept = Schema(columns, id="t", budget=9.0, rules=tuple(Rule(order=each) for each in texts))
    out = release_marginals(frame, kept, 2.0, workload="tables", bins=8)
    out.frame.write_csv(tmp_path / "rows.csv")
    rows = pl.read_csv(tmp_path / "rows.csv")
    assert (rows["net"] == rows["gross"]).any()  # some were moved to their limit
    assert (rows["net"] <= rows["gross"]).all()
    assert (rows["tax"] <= 0.7 * rows["gross"] + 0.1).all()
    assert (rows["tax"] - 0.1 <= 0.7 * rows["gross"]).all()


def test_whole_numbers_are_moved_to_whole_numbers():
    rows = pl.DataFrame({"tax": [9, 1], "gross": [10, 30]})
    kept = keep_rules(
        rows, edits_of([Rule(order="tax <= 0.55*gross")], rows.columns), np.random.default_rng(0)
    )
    assert kept.rows() == [(5, 10), (1, 30)]


NUMBERS = {name: Column(name, bounds=(0, 100), step=1) for name in ("net", "gross")}
SEX = Column("sex", kind="category", role="quasi", levels=("f", "m"))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (
            ({"order": "net <= gross"}, {"range": "60 <= net <= 80"}, {"range": "gross <= 50"}),
            "No record can keep the rules 'net <= gross', '60 <= net <= 80' and 'gross <= 50' together.",
        ),
        (
            ({"range": "net >= 200"},),
            "No record can keep the rules 'net >= 200' and '0 <= net <= 100' together.",
        ),
        (({"range": "sex <= 3"},), "The rule 'sex <= 3' compares numbers. The column 'sex' holds none."),
        (
            ({"structural_zero": "net >= 0 AND gross >= 0"},),
            "A rule calls every row impossible: every value of net, gross meets it.",
        ),
    ],
)
def test_rules_that_no_row_can_keep_are_refused_before_the_charge(rules, said):
    schema = Schema(NUMBERS | {"sex": SEX}, id="t", budget=9.0, rules=tuple(Rule(**each) for each in rules))
    rows = pl.DataFrame({"net": [1], "gross": [2], "sex": ["f"]})
    ledger = Ledger()
    with pytest.raises(SchemaError) as told:
        release_marginals(rows, schema, 1.0, ledger=ledger)
    assert str(told.value) == said
    assert ledger.spent("t") == 0


def test_rules_between_a_household_and_its_persons_hold():
    flat = np.arange(600) // 3
    gross = (flat * 7) % 101
    frame = pl.DataFrame({"flat": flat, "gross": gross, "net": gross // 2})
    facts = NUMBERS | {"flat": COLUMNS["flat"]}
    schema = Schema(facts, id="t", unit=Unit("flat", 3), budget=9.0, rules=(Rule(order="net <= gross"),))
    out = release_households(frame, schema, 3.0, shared=["gross"])
    assert (out.frame["net"] <= out.frame["gross"]).all()
    assert out.frame.group_by("flat").agg(pl.col("gross").n_unique())["gross"].max() == 1
    assert "Rows keep 1 of the schema's rules: net <= gross." in out.notes


def test_what_the_report_or_another_method_needs_is_refused_before_the_charge(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"net": [1, 2], "gross": [2, 3]}).write_csv("t.csv")
    (tmp_path / "t.toml").write_text(Schema(NUMBERS, id="t", budget=9.0).to_toml(), encoding="utf-8")
    for words, said in (
        (("--report", "r.html", "--target", "zip"), "--target must be one of net, gross. Got 'zip'."),
        (
            ("--report", "r.html", "--against", "1,nan"),
            "'epsilon' must be a number in [0.000001, 1000000]. Got nan.",
        ),
        (
            ("--method", "insensitive", "--delta", "1e-6"),
            "Method 'insensitive' does not take --delta. Got 1e-06.",
        ),
        (("--shares", "net:1"), "Method 'marginals' does not take --shares. Got net:1."),
        (
            ("--method", "magic"),
            "'method' must be one of marginals, insensitive, individual-ranking. Got 'magic'.",
        ),
    ):
        done = CliRunner().invoke(app, ["release", "t.csv", "--epsilon", "1", "-o", "out.csv", *words])
        assert str(done.exception) == said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.csv", "t.toml"]
