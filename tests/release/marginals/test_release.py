"""A table released through marginals: from the schema to rows, charged once, and what is refused."""

import contextlib
import dataclasses
import json
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from shoal.cli import app
from shoal.datasets import load_survey, load_survey_schema
from shoal.dp import Ledger
from shoal.dp.accounting import rho_of_epsilon
from shoal.errors import BudgetError, ParameterError, SchemaError
from shoal.release import release_marginals
from shoal.release.marginals._axes import axis
from shoal.release.marginals._choice import candidates, divide
from shoal.release.marginals._measure import MIDDLE, POOR, RICH, measure
from shoal.release.marginals._mixture import draw, fit
from shoal.release.marginals._residuals import count_table, moved
from shoal.release.marginals._spend import Measurement, Purse, residuals_of
from shoal.schema import Column, Rule, Schema, Unit

AGE = Column("age", bounds=(0, 100), step=1)
SEX = Column("sex", role="quasi", kind="category", levels=("f", "m"))


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, n)
    age = np.clip(rng.normal(30 + 30 * sex, 8), 0, 100).round()
    return pl.DataFrame({"age": age, "sex": np.array(["f", "m"])[sex]})


def schema(**facts):
    return Schema({"age": AGE, "sex": SEX}, id="t", **{"budget": 1000.0, **facts})


def test_with_much_budget_the_table_comes_back():
    out = release_marginals(table(), schema(), 400.0, bins={"age": 10})
    assert abs(out.frame.height - 400) <= 2
    true = (table()["sex"] == "m").sum()
    assert (out.frame["sex"] == "m").sum() == pytest.approx(true, abs=16)
    old = out.frame.filter(pl.col("sex") == "m")["age"].mean()
    young = out.frame.filter(pl.col("sex") == "f")["age"].mean()
    assert old - young == pytest.approx(30, abs=4)
    assert out.frame.schema == {"age": pl.Int64, "sex": pl.String}
    assert out.marginal("sex", "age").height == 20


def test_rows_are_as_many_as_asked_for():
    assert release_marginals(table(), schema(), 1.0, rows=7).frame.height == 7


def test_a_release_is_charged_once_and_kept():
    ledger = Ledger(None)
    first = release_marginals(table(), schema(), 1.0, ledger=ledger, data_version="1")
    again = release_marginals(table(), schema(), 1.0, ledger=ledger, data_version="1")
    assert first.frame.equals(again.frame)
    assert first.remaining == again.remaining == 999.0
    with pytest.raises(BudgetError):
        release_marginals(table(), schema(), 999.5, ledger=ledger)


@contextlib.contextmanager
def choices_paid():
    """What selections are paid with while this lasts: scores with noise, and short lists."""
    paid = []
    with pytest.MonkeyPatch.context() as patched:
        for name in ("noisy_scores", "choose"):
            plain = getattr(Purse, name)

            def noted(self, *words, plain=plain):
                paid.append(self.amount)
                return plain(self, *words)

            patched.setattr(Purse, name, noted)
        yield paid


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.booleans(), st.sampled_from([3, 30, 300]), st.integers(0, 1000))
def test_what_is_measured_and_chosen_costs_no_more_than_the_purse(currency, rows, replaced, amount, seed):
    rng = np.random.default_rng(seed)
    sizes = (2, 3, 1, 4)
    codes = np.column_stack([rng.integers(0, size, 300) for size in sizes])
    codes[:, 1] = np.where(rng.random(300) < 0.8, codes[:, 0], codes[:, 1])
    purse = Purse(currency, Fraction(amount), rows, replaced)
    with choices_paid() as paid:
        found = measure(codes, sizes, purse)
    spent = sum(paid, Fraction(0))
    for each in found:
        scale = Fraction(each.scale)
        if each.kind == "table":
            spent += Fraction(rows * (2 if replaced else 1)) / scale
        elif scale:
            spent += Fraction(rows**2 * moved(each.key, sizes, replaced)) / (2 * scale**2)
    assert spent <= purse.amount


def test_every_division_adds_up_to_the_same():
    assert {each.weights for each in (POOR, MIDDLE, RICH)} == {100}
    assert {each.total for each in (POOR, MIDDLE, RICH)} == {1}


@pytest.mark.parametrize("currency", ["zcdp", "pure"])
def test_little_budget_goes_to_single_columns_alone(currency):
    codes = np.random.default_rng(0).integers(0, 3, (400, 6))
    found = measure(codes, (3,) * 6, Purse(currency, Fraction(1, 10_000)))
    assert {len(each.key) for each in found} == {0, 1}


@pytest.mark.parametrize("currency", ["zcdp", "pure"])
def test_what_no_pair_is_worth_goes_to_single_columns_once_more(currency):
    sizes, purse = (3, 3, 3), Purse(currency, Fraction(1))
    keys, errors = candidates(sizes), np.full(3, 5.0)
    nothing = divide(keys, np.zeros(3), errors, sizes, purse, purse)
    assert (nothing.singles, nothing.chosen) == (1, ())
    much = divide(keys, np.array([9e5, 0, 9e5]), np.zeros(3), sizes, purse, purse)
    assert much.singles == 0
    assert set(much.chosen) == {(0, 1), (1, 2)}


def test_a_second_round_learns_what_the_first_has_not_said():
    rng = np.random.default_rng(0)
    codes = np.repeat(
        rng.integers(0, 4, (40_000, 1)), 5, axis=1
    )  # a chain: each pair follows from its neighbours
    found = measure(codes, (4,) * 5, Purse("zcdp", Fraction(1, 200)))
    pairs = [each.key for each in found if len(each.key) == 2]
    assert len(pairs) >= 4
    assert {at for key in pairs for at in key} == set(range(5))


def test_measurements_read_back_as_written():
    kept = Measurement((0, 2), "residual", 3.25, np.array([[1, -2], [3, 2**40]]))
    back = Measurement.from_json(json.loads(json.dumps(kept.to_json())))
    assert (back.key, back.kind, back.scale) == (kept.key, kept.kind, kept.scale)
    assert np.array_equal(back.numbers, kept.numbers)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**31))
def test_systematic_draws_miss_a_distribution_by_less_than_one_row_each(rows, size, seed):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, 50), rng.integers(0, 2, 50)])
    known = residuals_of(measure(codes, (size, 2), Purse("zcdp", Fraction(5))))
    mixture = fit(50.0, known, (size, 2), 1, components=1, iterations=3)
    drawn = draw(mixture, rows, rng)
    for at in range(2):
        seen = np.bincount(drawn[:, at], minlength=mixture.starts[at + 1] - mixture.starts[at])
        assert np.abs(seen - rows * mixture.column(at)[0]).max() < 1 + 1e-4


def test_the_fit_stops_before_it_fits_the_noise():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, (2_000, 4))
    codes[:, 1] = np.where(rng.random(2_000) < 0.7, codes[:, 0], codes[:, 1])
    known = residuals_of(measure(codes, (5,) * 4, Purse("zcdp", Fraction(1, 10))))
    mixture = fit(2_000.0, known, (5,) * 4, 7)
    assert mixture.loss <= mixture.freedom
    true = count_table(codes, (0, 1), (5,) * 4) / 2_000
    assert np.abs(mixture.marginal((0, 1)) - true).sum() / 2 < 0.12  # independent columns: 0.55
    assert mixture.marginal((0, 1)).sum() == pytest.approx(1)


def test_a_person_counts_with_so_many_rows_at_most():
    frame = pl.DataFrame({"person": ["a"] * 50 + ["b"], "sex": ["f"] * 50 + ["m"]})
    facts = Schema({"sex": SEX}, id="p", unit=Unit("person", 2), budget=1000.0)
    out = release_marginals(frame, facts, 900.0)
    assert out.guarantee == "guarantee: epsilon-DP, add or remove one person"
    assert out.frame.height <= 4


def test_in_zcdp_the_stamp_says_what_holds_and_what_all_answers_keep():
    ledger = Ledger(None)
    facts = schema(budget=2.0, currency="zcdp", delta=1e-9)
    out = release_marginals(table(), facts, 1.0, ledger=ledger)
    assert out.guarantee.startswith("guarantee: (1, 1e-09)-DP, add or remove one record; all answers")
    assert "together (2, 1e-09)-DP" in out.guarantee  # 1.999991, never rounded down
    assert ledger.spent("t") == rho_of_epsilon(1.0, 1e-9)
    assert release_marginals(table(), facts, 0.5, ledger=ledger).delta == 1e-9
    with pytest.raises(BudgetError):
        release_marginals(table(), facts, 1.9, ledger=ledger)
    with pytest.raises(BudgetError, match="counted in rho for life"):
        release_marginals(table(), schema(), 0.5, ledger=ledger)


def test_in_zcdp_a_record_counts_the_square_for_several_records():
    ledger = Ledger(None)
    facts = schema(budget=50.0, currency="zcdp", delta=1e-9)
    release_marginals(table(), facts, 0.1, mode="group", group=3, ledger=ledger)
    before = ledger.spent("t")
    release_marginals(table(), facts, 0.1, ledger=ledger)
    assert before == rho_of_epsilon(0.1, 1e-9)
    assert ledger.spent("t") == 10 * before


def test_the_number_of_records_is_public_where_they_are_replaced():
    out = release_marginals(table(), schema(), 1.0, neighbours="replace")
    assert out.guarantee == "guarantee: epsilon-DP, replace one record, number of records public"


AXES = st.sampled_from(
    [
        axis(AGE),
        axis(AGE, 7),
        axis(AGE, [18, 65]),
        axis(SEX),
        axis(Column("x", bounds=(-1.5, 2.5))),
        axis(Column("d", kind="date", bounds=("2020-01-01", "2020-03-01"))),
        axis(Column("b", kind="boolean")),
    ]
)


@settings(max_examples=60, deadline=None)
@given(AXES, st.integers(0, 2**31))
def test_positions_come_back_from_the_cells_they_are_written_as(each, seed):
    from shoal.dp.loading.load import load

    rng = np.random.default_rng(seed)
    codes = rng.integers(0, each.size, 40)
    cells = each.decode(codes, rng).to_frame()
    loaded = load(cells, Schema({each.name: each.column}))
    assert np.array_equal(
        each.encode(loaded.to_series().cast(pl.Float64).fill_null(np.nan).to_numpy()), codes
    )


WRONG = {
    "no bounds": (Schema({"x": Column("x")}, budget=1.0), {}, SchemaError, "must declare its bounds"),
    "no levels": (
        Schema({"x": Column("x", role="quasi", kind="category")}, budget=1.0),
        {},
        SchemaError,
        "must declare its levels",
    ),
    "too many levels": (
        Schema({"x": Column("x", role="quasi", kind="category", levels=tuple(range(5000)))}, budget=1.0),
        {},
        SchemaError,
        "at most 4096",
    ),
    "no columns": (Schema({}, budget=1.0), {}, SchemaError, "No column is to be released"),
    "odd bins": (schema(), {"bins": {"age": [5, 3]}}, ParameterError, "rising numbers"),
    "bins of a category": (schema(), {"bins": {"sex": 3}}, ParameterError, "for numbers and dates"),
    "bins of another": (schema(), {"bins": {"zip": 3}}, ParameterError, "must name released columns"),
    "no rows": (schema(), {"rows": 0}, ParameterError, "'rows' must be"),
    "mode": (schema(), {"mode": "heuristic"}, ParameterError, "'mode' must be"),
    "neighbours": (schema(), {"neighbours": "swap"}, ParameterError, "'neighbours' must be"),
    "no budget": (schema(budget=None), {}, ParameterError, "'budget' must be given"),
    "delta": (schema(), {"delta": 1.0}, ParameterError, "'delta' must be"),
    "epsilon": (schema(), {"epsilon": 0}, ParameterError, "'epsilon' must be"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_what_cannot_be_released_is_said_in_a_sentence(name):
    facts, options, error, said = WRONG[name]
    frame = table().with_columns(pl.lit(1).alias("x"))
    with pytest.raises(error, match=said):
        release_marginals(frame, facts, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("frame", [table().head(0), table().head(1), table().with_columns(age=pl.lit(None))])
def test_empty_single_and_constant_tables_are_released_all_the_same(frame):
    out = release_marginals(frame, schema(), 0.01)
    assert out.frame.columns == ["age", "sex"]
    assert out.frame.height >= 1


def test_the_command_writes_rows_and_says_what_is_promised(tmp_path):
    facts = dataclasses.replace(load_survey_schema(), budget=9.0, per_analyst=None)
    (tmp_path / "s.toml").write_text(facts.to_toml())
    load_survey().write_csv(tmp_path / "s.csv")
    call = ["release", str(tmp_path / "s.csv"), "--epsilon", "2", "--schema", str(tmp_path / "s.toml")]
    done = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "out.csv"), "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["stamp"] == "guarantee: epsilon-DP, add or remove one record"
    assert said["remaining"] == 7.0
    assert said["information_loss"] == pytest.approx(100 * said["total_variation"][1])
    assert pl.read_csv(tmp_path / "out.csv").height == said["n_records"]
    refused = CliRunner().invoke(app, [*call, "-o", str(tmp_path / "o.csv"), "-k", "5"])
    assert refused.exit_code != 0
    assert not (tmp_path / "o.csv").exists()


def test_declared_impossible_combinations_are_not_drawn():
    rule = Rule(structural_zero="sex = 'f' AND age >= 50")
    out = release_marginals(table(), schema(rules=(rule,)), 0.05, bins={"age": [50]}, rows=500)
    assert out.frame.filter((pl.col("sex") == "f") & (pl.col("age") >= 50)).is_empty()
    assert out.frame.height == 500
    with pytest.raises(Exception, match="zip"):
        release_marginals(table(), schema(rules=(Rule(impossible="zip = 3"),)), 1.0)


def test_sources_are_released_like_files(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["datasets", "--copy", "."]).exit_code == 0
    cells = pl.read_csv("survey.csv", infer_schema=False)
    (tmp_path / "folder").mkdir()
    cells[:400].write_parquet("folder/a.parquet")
    cells[400:].write_parquet("folder/b.parquet")
    with duckdb.connect("s.duckdb") as made:
        made.execute("CREATE TABLE survey AS SELECT * FROM read_csv('survey.csv', all_varchar=true)")
    for place, where in enumerate(("survey.csv", "folder", "duckdb:///s.duckdb?table=survey")):
        words = ["release", where, "--epsilon", "1", "--schema", "survey.toml", "-o", f"{place}.csv"]
        done = CliRunner().invoke(app, [*words, "--columns", "age,sex", "--ledger", f"{place}.db"])
        assert done.exit_code == 0, done.output
        assert abs(pl.read_csv(f"{place}.csv").height - 1_000) < 300
        out = release_marginals(where, load_survey_schema(), 1.0, columns=["sex"], marginals=1)
        assert abs(out.model.total - 1_000) < 300
    missing = CliRunner().invoke(
        app, ["release", "nothing.csv", "--epsilon", "1", "--schema", "survey.toml", "-o", "x.csv"]
    )
    assert str(missing.exception) == "No file 'nothing.csv'."
    assert not (tmp_path / "x.csv").exists()


def test_more_positions_than_the_fit_can_hold_are_refused_before_the_charge():
    wide = {name: Column(name, bounds=(0, 2_999), step=1, breaks=tuple(range(1, 3_000))) for name in "abcd"}
    ledger, facts = Ledger(), Schema(wide, id="wide", budget=10.0)
    rows = pl.DataFrame({name: [1, 2, 3] for name in "abcd"})
    with pytest.raises(ParameterError, match=r"^The columns .* at most 8192 .* Got 1\d+: declare wider bins"):
        release_marginals(rows, facts, 1.0, ledger=ledger)
    assert ledger.spent("wide") == 0
    out = release_marginals(rows, facts, 1.0, columns=["a", "b"], ledger=ledger, rows=20)
    assert out.frame.height == 20


def test_an_epsilon_too_small_for_one_marginal_is_refused_before_it_is_charged(tmp_path):
    levels = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    schema = Schema({"answer": levels}, id="poll", budget=2.0)
    table = pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60})
    with Ledger(tmp_path / "poll.db") as ledger:
        with pytest.raises(ParameterError, match="too small for one marginal: .* about 1,000,000 records"):
            release_marginals(table, schema, 1e-6, ledger=ledger)
        with pytest.raises(ParameterError, match="about 200 records, and at most 100 are of use"):
            release_marginals(table, schema, 0.01, neighbours="replace", ledger=ledger)
        assert not list(ledger.entries())
    noisy = [release_marginals(table, schema, 0.0001).notes for _ in range(4)]
    assert any("the rows tell nothing" in each for notes in noisy for each in notes)
    assert not any("the rows tell nothing" in each for each in release_marginals(table, schema, 2.0).notes)
