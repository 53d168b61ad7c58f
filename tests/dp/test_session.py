"""Sessions: the right figure with the right noise, charge and guarantee, in every mode."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from shoal.dp import (
    AddRemoveCell,
    AddRemoveRecord,
    AddRemoveUnit,
    Answer,
    FewCellsWarning,
    Heuristic,
    Ledger,
    Records,
    Reproduction,
    Session,
    col,
    correlation,
    count,
)
from shoal.dp.answering.told import WEAKER
from shoal.dp.correlation import Grid
from shoal.dp.mechanisms import discrete_laplace as mechanisms
from shoal.errors import BudgetError, ParameterError, QueryError
from shoal.schema import Cells, Column, Schema

SURE = 1000.0  # an epsilon at which noise practically vanishes


def test_answers_are_right_when_noise_is_small(survey, schema):
    s = Session(survey, schema, budget=100_000.0)
    assert (
        s.ask("SELECT COUNT(*) FROM t WHERE age >= 40", SURE).value
        == survey.filter(pl.col("age") >= 40).height
    )
    assert s.ask("SELECT SUM(age) FROM survey", SURE).value == pytest.approx(survey["age"].sum(), abs=2)
    clamped = survey["income"].clip(-1000, 200_000)
    assert s.ask("SELECT AVG(income) FROM t", SURE).value == pytest.approx(clamped.mean(), abs=5)
    assert s.ask("SELECT VAR_POP(age) FROM t", SURE).value == pytest.approx(
        survey["age"].var(ddof=0), abs=0.5
    )
    assert s.ask("SELECT MEDIAN(age) FROM t", SURE).value == pytest.approx(survey["age"].median(), abs=1)
    assert s.ask("SELECT MAX(age), MIN(age) FROM t", SURE).value == {"max_age": 99, "min_age": 0}
    assert s.ask("SELECT MAX(school) FROM t WHERE school < 'high'", SURE).value == "basic"
    youngest = s.ask("SELECT QUANTILE(born, 0.9) FROM t", SURE)
    assert abs(int(youngest.value[:4]) - survey["born"].sort()[int(0.9 * survey.height)].year) <= 1
    assert youngest.interval == ("1900-01-01", "2020-12-31")


def test_every_declared_level_is_answered_and_no_other(survey, schema):
    s = Session(survey, schema, budget=5000.0)
    answer = s.ask("SELECT region, smoker, COUNT(*) AS n, AVG(age) FROM t GROUP BY region, smoker", SURE)
    assert [(row["region"], row["smoker"]) for row in answer.value] == [
        (region, smoker) for region in ("north", "south", "east") for smoker in (False, True)
    ]
    for row, interval in zip(answer.value, answer.interval, strict=True):
        rows = survey.filter((pl.col("region") == row["region"]) & (pl.col("smoker") == row["smoker"]))
        assert row["n"] == rows.height
        assert interval["n"][0] <= row["n"] <= interval["n"][1]
    empty = s.ask("SELECT region, COUNT(*) FROM t WHERE age > 105 GROUP BY region", SURE)
    assert [row["count"] for row in empty.value] == [0, 0, 0]


def test_levels_of_numbers_and_dates_are_grouped_too():
    import datetime

    days = (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2))
    facts = Schema(
        {"size": Column("size", levels=(1, 2, 3.5)), "day": Column("day", kind="date", levels=days)},
        id="levels",
    )
    frame = pl.DataFrame(
        {"size": ["1", "2.0", "3.5", "3.5", "4", None], "day": ["2020-01-01"] * 4 + ["2020-01-02", "x"]}
    )
    s = Session(frame, facts, budget=9000.0)
    rows = s.ask("SELECT size, COUNT(*) FROM t GROUP BY size", SURE).value
    assert rows == [{"size": 1, "count": 1}, {"size": 2, "count": 1}, {"size": 3.5, "count": 2}]
    answer = s.ask("SELECT day, COUNT(*) FROM t GROUP BY day", SURE)
    assert [row["count"] for row in answer.value] == [4, 1]
    assert json.loads(answer.to_json())["value"][0]["day"] == "2020-01-01"
    assert s.ask("SELECT day, COUNT(*) FROM t GROUP BY day", SURE).value == answer.value


def test_an_empty_answer_is_an_answer(survey, schema):
    s = Session(survey, schema, budget=100.0)
    answer = s.ask(
        "SELECT SUM(age), AVG(age), VAR_POP(income), MIN(age), MAX(age), MEDIAN(income) FROM t WHERE age > 108",
        1.0,
    )
    assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in answer.value.values())
    assert 0 <= answer.value["avg_age"] <= 110
    drawn = {s.ask(f"SELECT MIN(age) FROM t WHERE age > 10{i}.5", 0.5).value for i in range(9)}
    assert len(drawn) > 1  # from the whole grid


def test_intervals_cover_at_their_level(survey, schema):
    s = Session(survey, schema, budget=100_000.0)
    true = {
        "count": 2000,
        "sum_age": survey["age"].sum(),
        "avg_age": survey["age"].mean(),
        "var_age": survey["age"].var(ddof=0),
    }
    inside = dict.fromkeys(true, 0)
    for i in range(150):
        answer = s.ask(f"SELECT COUNT(*), SUM(age), AVG(age), VAR_POP(age) FROM t WHERE age > -{i + 1}", 0.2)
        for name, value in true.items():
            low, high = answer.interval[name]
            inside[name] += low <= value <= high
    assert all(hits >= 130 for hits in inside.values()), inside


def test_an_answer_survives_the_wire(survey, schema):
    s = Session(survey, schema, budget=9.0)
    for sql in (
        "SELECT COUNT(*) FROM t",
        "SELECT region, MAX(age) FROM t GROUP BY region",
        "SELECT QUANTILE(age, 0.25), MEDIAN(age) FROM t",
    ):
        answer = s.ask(sql, 0.5)
        again = Answer.from_dict(json.loads(answer.to_json()))
        assert again.to_json() == answer.to_json()
        assert again.notes == answer.notes
    assert set(answer.value) == {"quantile_0.25_age", "quantile_0.5_age"}
    assert {"value", "stamp", "epsilon", "remaining", "interval"} <= set(answer.to_dict())


def test_the_budget_is_kept_and_shown(survey, schema):
    s = Session(survey, schema, budget=1.0)
    first = s.ask("SELECT COUNT(*) FROM t", 0.3)
    assert (first.epsilon, first.remaining) == (0.3, 0.7)
    with pytest.raises(BudgetError, match=r"does not allow epsilon 0.8: 0.7 of 1.0 is left"):
        s.ask("SELECT SUM(age) FROM t", 0.8)
    assert s.remaining() == 0.7
    again = s.ask("select count( * ) from survey", 0.3)
    assert (again.value, again.epsilon, again.remaining) == (first.value, 0.0, 0.7)
    assert s.ask(count(), 0.3).epsilon == 0.0
    rows = s.ask("SELECT region, COUNT(*) AS n FROM t GROUP BY region", 0.1).value
    named = s.ask("SELECT COUNT(*) AS many FROM t GROUP BY region", 0.1)  # labels are not part of a question
    assert named.epsilon == 0.0
    assert [row["many"] for row in named.value] == [row["n"] for row in rows]
    assert s.ask("SELECT COUNT(*) FROM t", 0.2).epsilon == 0.2  # another epsilon is another question


def test_stored_answers_follow_the_declared_version_and_the_schema(survey, schema, tmp_path):
    sql, words = "SELECT COUNT(*) FROM t", {"budget": 9.0, "ledger": tmp_path / "l.db"}
    first = Session(survey, schema, **words, data_version="May").ask(sql, 0.5)
    again = Session(survey.reverse(), schema, **words, data_version="May").ask(sql, 0.5)
    assert (again.value, again.epsilon) == (first.value, 0.0)
    other = schema.with_columns(age={"bounds": (0, 120)})
    for facts, version in ((schema, "June"), (other, "May"), (schema, None), (schema, None)):
        assert Session(survey, facts, **words, data_version=version).ask(sql, 0.5).epsilon == 0.5
    assert Ledger(tmp_path / "l.db").spent("survey") == 2_500_000


def test_analysts_pay_for_what_they_receive(survey, schema):
    s = Session(survey, schema, budget=2.0, per_analyst=0.5)
    one = s.ask("SELECT COUNT(*) FROM t", 0.4, analyst="ann")
    assert s.cost("SELECT COUNT(*) FROM t", 0.4, analyst="bob").epsilon == 0.4  # others' answers do not show
    two = s.ask("SELECT COUNT(*) FROM t", 0.4, analyst="bob")
    assert (two.value, two.epsilon, two.remaining) == (one.value, 0.4, 0.1)
    assert s.ledger.spent("survey") == 400_000
    with pytest.raises(BudgetError, match="analyst"):
        s.ask("SELECT SUM(age) FROM t", 0.2, analyst="bob")
    assert s.cost("SELECT COUNT(*) FROM t", 0.4, analyst="bob").epsilon == 0.0


def test_cost_shows_the_split_beforehand(survey, schema):
    s = Session(survey, schema, budget=2.0)
    cost = s.cost("SELECT AVG(income), COUNT(*) FROM t", 0.4)
    assert [(part["figure"], part["release"], part["epsilon"]) for part in cost.parts] == [
        ("avg_income", "avg", 0.2),
        ("count", "count", 0.2),
    ]
    assert cost.parts[1]["noise_scale"] == pytest.approx(1 / 0.2)
    both = s.cost(["SELECT COUNT(*) FROM t", "SELECT SUM(age) FROM t"], 1.5)
    assert (both.epsilon, both.affordable, both.remaining) == (3.0, False, 2.0)
    assert s.cost("SELECT COUNT(*) FROM t").parts[0]["share"] == 1.0
    assert s.cost(["SELECT COUNT(*) FROM t", "select count(*) from survey"], 0.5).epsilon == 0.5  # asked once
    with pytest.raises(ParameterError, match="'analyst' must be"):
        s.ask("SELECT COUNT(*) FROM t", 0.1, analyst="")
    assert s.ledger.spent("survey") == 0


def test_noise_is_what_was_charged(survey, schema):
    """The average size of the noise is that of the discrete Laplace distribution of the stated scale."""
    s = Session(survey, schema, budget=1e6, unit=Records(3))
    noise = [s.ask(f"SELECT COUNT(*) FROM t WHERE age >= -{i + 1}", 0.5).value - 2000 for i in range(400)]
    assert np.mean(np.abs(noise)) == pytest.approx(6.0, rel=0.25)
    assert (
        s.ask("SELECT COUNT(*) FROM t", 1.0).guarantee
        == "guarantee: epsilon-DP for the records of one group jointly"
    )


def test_stamps_are_word_for_word(survey, schema, household):
    assert Session(survey, schema, budget=1.0).ask("SELECT COUNT(*) FROM t", 0.1).guarantee == (
        "guarantee: epsilon-DP, add or remove one record"
    )
    person = Schema(schema.columns, unit=household)
    assert Session(survey, person, budget=1.0).ask("SELECT COUNT(*) FROM t", 0.1).guarantee == (
        "guarantee: epsilon-DP, add or remove one house"
    )
    assert Session(survey, schema, "correlated", 1.0).ask("SELECT COUNT(*) FROM t", 0.1).guarantee == (
        "guarantee: epsilon-DP, add or remove all rows of one look-alike cell "
        "(grid(age, income), 483 cells, at most 8 counted per cell)"
    )
    public = replace(schema, private=False)
    assert Heuristic(survey, public).ask("SELECT COUNT(*) FROM t", 0.1).guarantee == (
        "guarantee: none (research reproduction)"
    )


def test_one_data_set_keeps_one_unit(survey, schema, tmp_path):
    sql, words = "SELECT COUNT(*) FROM t", {"budget": 9.0, "ledger": tmp_path / "l.db"}
    house, cells = AddRemoveUnit("house", 4, jointly=True), Grid.of_schema(schema)
    first = Session(survey, schema, **words).ask(sql, 0.5)
    assert not first.notes
    # For one row of a house that stays, a vector counts twice: the house taken out and put back.
    small = replace(schema, id="small")
    Session(survey, small, **words).ask(sql, 0.5)
    grouped = Session(survey, small, **words, unit=house).ask(
        "SELECT region, COUNT(*) FROM t GROUP BY region", 0.5
    )
    assert grouped.epsilon == 1.0
    assert Session(survey, schema, **words, unit=house).ask(sql, 0.5).notes[-1] == WEAKER
    for unit in (AddRemoveRecord(), Records(3), AddRemoveCell(cells, 8)):
        with pytest.raises(BudgetError, match="'column:house' for life"):
            Session(survey, schema, **words, unit=unit).ask(sql, 0.25)
    other = replace(schema, id="other")
    assert Session(survey, other, **words, unit=Records(3)).ask(sql, 0.5).epsilon == 0.5
    record = Session(survey, other, **words)
    assert record.cost(sql, 0.25).epsilon == 0.75
    answer = record.ask(sql, 0.25)
    assert (answer.epsilon, answer.notes) == (0.75, ("counts 3 times in the unit that the ledger keeps",))
    third = replace(schema, id="third")
    Session(survey, third, "correlated", **words).ask(sql, 0.5)
    for unit in (AddRemoveRecord(), house):
        with pytest.raises(BudgetError, match="for life"):
            Session(survey, third, **words, unit=unit).ask(sql, 0.25)


def test_heuristic_answers_end_the_total_and_keep_out_of_the_budget(survey, schema):
    ledger, public = Ledger(), replace(schema, private=False)
    h = Heuristic(survey, public, correlation.Groups(schema, "house", 64), ledger=ledger)
    answer = h.ask("SELECT COUNT(*), AVG(age) FROM t WHERE age > 10", 0.5)
    assert isinstance(answer, Reproduction)
    assert not hasattr(answer, "epsilon")
    facts = json.loads(answer.to_json())
    assert [facts[name] for name in ("epsilon", "remaining", "interval", "noise_parameter")] == [None] * 3 + [
        0.5
    ]
    assert Reproduction.from_dict(facts) == answer
    assert ledger.spent("survey") == 0
    later = Session(survey, schema, "dp", 1.0, ledger=ledger).ask("SELECT COUNT(*) FROM t", 0.5)
    assert later.guarantee == (
        "guarantee: epsilon-DP, add or remove one record; the ledger total of this data set has ended"
    )
    assert h.ask("SELECT AVG(age) FROM t WHERE age > 109", 0.5).value is None
    assert h.ask("SELECT COUNT(*) FROM t WHERE age > 109", 0.5).value == 0  # exactly: that is its flaw
    with pytest.raises(QueryError, match="heuristic"):
        h.ask("SELECT MEDIAN(age) FROM t", 0.5)


def test_the_heuristic_is_refused_on_a_private_table(survey, schema):
    assert schema.private
    with pytest.raises(ParameterError, match="refused on a data set marked private"):
        Heuristic(survey, schema)
    with pytest.raises(ParameterError, match=r"Mode 'heuristic' is dp\.Heuristic"):
        Session(survey, schema, "heuristic", 1.0)


def test_cells_and_tau(survey, schema):
    s = Session(survey, schema, "correlated", 2000.0, tau=2)
    sizes = np.bincount(s.model.cell(s._rows.frame), minlength=s.model.n_cells)
    assert s.ask("SELECT COUNT(*) FROM t", SURE).value == np.minimum(sizes, 2).sum()
    open_tau = Schema(schema.columns, id="open", cells=Cells(("age", "income"), (22, 20)))
    bare = Session(survey, open_tau, "correlated", 20.0)
    with pytest.raises(ParameterError, match="bought with buy_tau"):
        bare.ask("SELECT COUNT(*) FROM t", 0.1)
    tau = bare.buy_tau(5.0, r=20)
    cut = [(sizes > t).sum() for t in (tau // 2, tau)]
    assert cut[1] <= 25
    assert cut[0] >= 15
    assert bare.remaining() == 15.0
    assert bare.buy_tau(5.0, r=20) == tau  # stored: bought once
    for r in (-1, True, 2.0):
        with pytest.raises(ParameterError, match="'r' must be an int of at least 0"):
            bare.buy_tau(5.0, r=r)
    assert bare.remaining() == 15.0
    assert f"at most {tau} counted" in bare.ask("SELECT COUNT(*) FROM t", 0.1).guarantee
    with pytest.raises(ParameterError, match="Only mode 'correlated'"):
        Session(survey, schema, "dp", 1.0).buy_tau(0.1)


def test_few_cells_are_warned_about(survey, schema):
    with pytest.warns(FewCellsWarning, match="12 cells are few"):
        s = Session(survey, schema, "correlated", 1.0, model=correlation.Grid(schema, ["age"], 11), tau=50)
    assert any("12 cells" in note for note in s.ask("SELECT COUNT(*) FROM t", 0.1).notes)


def test_models_that_read_the_table_are_refused_for_correlated(survey, schema):
    degrees = correlation.GivenDegrees(factor=np.ones((2000, 1)))
    with pytest.raises(ParameterError, match="needs a frozen model"):
        Session(survey, schema, "correlated", 1.0, model=degrees, tau=5)
    h = Heuristic(survey, replace(schema, private=False), degrees)
    assert isinstance(h.ask("SELECT SUM(age) FROM t", 1.0).value, float)


def test_factor_and_matrix_give_the_same_influence():
    rng = np.random.default_rng(1)
    factor = rng.dirichlet(np.ones(4), 50)
    omega = factor @ factor.T
    np.fill_diagonal(omega, 1.0)
    rows, weights = np.arange(0, 50, 3), rng.random(17)
    one = correlation.GivenDegrees(factor=factor).row_influence(weights, rows)
    two = correlation.GivenDegrees(matrix=omega).row_influence(weights, rows)
    assert np.allclose(one, two)


@pytest.mark.parametrize("model", ["grid", "groups", "hashed"])
def test_simple_models_keep_the_protocol(model, survey, schema):
    from shoal.dp.loading.load import load

    frame = load(survey, schema)
    made = {
        "grid": lambda: correlation.Grid(schema, ["age", "region"], (10, 1)),
        "groups": lambda: correlation.Groups(schema, "region"),
        "hashed": lambda: correlation.Groups(schema, "house", 50),
    }[model]()
    assert isinstance(made, correlation.Model)
    cells = made.cell(frame)
    assert cells.min() >= 0
    assert cells.max() < made.n_cells
    assert np.array_equal(made.cell(frame[::-1]), cells[::-1])  # row by row
    rows = np.flatnonzero(survey["age"].to_numpy() > 50)
    influence = np.asarray(made.fit(frame).row_influence(np.ones(len(rows)), rows))
    assert influence.shape == rows.shape
    assert influence.min() >= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "magic"}, "'mode' must be one of"),
        ({"budget": None}, "'budget' must be given"),
        ({"budget": math.nan}, "'budget' must be a number"),
        ({"budget": -1}, "'budget' must be a number"),
        ({"mode": "group"}, "needs a number of records"),
        ({"mode": "correlated", "tau": 0}, "must be an int in"),
        ({"analyst": ""}, "'analyst' must be"),
        ({"per_analyst": 0}, "'per_analyst' must be"),
    ],
)
def test_bad_sessions_are_one_sentence(survey, schema, options, message):
    with pytest.raises(ParameterError, match=message):
        Session(survey, schema, **{"budget": 1.0, **options})


@pytest.mark.parametrize("epsilon", [0, -1, 1e-9, math.nan, math.inf, "x", None, 1e300])
def test_bad_epsilons_cost_nothing(survey, schema, epsilon):
    s = Session(survey, schema, budget=1.0)
    with pytest.raises(ParameterError, match="'epsilon' must be"):
        s.ask("SELECT COUNT(*) FROM t", epsilon)
    assert s.ledger.spent("survey") == 0


@pytest.mark.parametrize("n", [0, -1, True, 2**31, "3"])
def test_bad_units_are_one_sentence(n):
    with pytest.raises(ParameterError, match="must be an int in"):
        Records(n)
    with pytest.raises(ParameterError, match="must be an int in"):
        AddRemoveUnit("house", n)


def test_a_figure_has_a_least_epsilon(survey, schema):
    s = Session(survey, schema, budget=1.0)
    for sql, epsilon in (
        ("SELECT COUNT(*) FROM t", 0.0009),
        ("SELECT COUNT(*), SUM(age), MAX(age) FROM t", 0.0029),
    ):
        with pytest.raises(ParameterError, match=r"'epsilon' must be at least 0\.001 for each figure"):
            s.ask(sql, epsilon)
    assert s.ask("SELECT COUNT(*) FROM t", 0.001).epsilon == 0.001
    assert (
        Session(survey, schema, budget=1.0, minimum=1e-6).ask("SELECT COUNT(*) FROM t", 1e-6).epsilon == 1e-6
    )


def test_a_session_closes_its_own_ledger_only(survey, schema, tmp_path):
    with Session(survey, schema, budget=1.0, ledger=tmp_path / "l.db") as s:
        s.ask("SELECT COUNT(*) FROM t", 0.5)
    with Ledger(tmp_path / "l.db") as shared:
        with Session(survey, schema, budget=1.0, ledger=shared) as again:
            assert again.remaining() == 0.5
        assert shared.spent("survey") == 500_000


def test_answers_as_tables(survey, schema):
    s = Session(survey, schema, budget=9.0)
    assert s.ask("SELECT COUNT(*) FROM t", 1.0).to_frame().columns == ["value", "value_low", "value_high"]
    several = s.ask("SELECT COUNT(*) AS n, AVG(age) FROM t", 1.0).to_frame()
    assert several.columns == ["n", "n_low", "n_high", "avg_age", "avg_age_low", "avg_age_high"]
    grouped = s.ask("SELECT region, COUNT(*) AS n FROM t GROUP BY region", 1.0)
    frame = grouped.to_frame()
    assert frame["region"].to_list() == ["north", "south", "east"]
    assert frame.rows()[0][1:] == (grouped.value[0]["n"], *grouped.interval[0]["n"])


def test_fifty_threads_spend_no_more_than_there_is(survey, schema, tmp_path):
    s = Session(survey, schema, budget=2.0, ledger=tmp_path / "l.db")
    outcomes = []

    def work(i):
        try:
            outcomes.append(
                s.ask(f"SELECT COUNT(*) FROM t WHERE age > {i}", 0.1, analyst=f"a{i % 5}").epsilon
            )
        except BudgetError:
            outcomes.append(0.0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [0.0] * 30 + [0.1] * 20
    assert s.ledger.spent("survey") == 2_000_000
    assert s.ledger.verify().holds


def test_pandas_and_arrow_tables_are_answered_too(survey, schema):
    for data in (survey.to_pandas(), survey.to_arrow()):
        answer = Session(data, schema, budget=2000.0).ask(count().where(col("region") == "north"), SURE)
        assert answer.value == survey.filter(pl.col("region") == "north").height


def test_the_work_of_a_private_count_is_what_it_needs(survey, tmp_path, monkeypatch):
    """Two transactions, one look at the table, one draw; seconds are for the benchmark (`make bench-server`)."""
    steps, looks, draws = [], [], []
    schema = Schema({"age": Column("age", bounds=(0, 110))}, id="fast")
    s = Session(survey, schema, budget=1000.0, ledger=tmp_path / "l.db", _hook=steps.append)
    s.ask("SELECT COUNT(*) FROM t", 0.1)
    steps.clear()
    collect, select, draw = pl.LazyFrame.collect, pl.DataFrame.select, mechanisms.laplace
    monkeypatch.setattr(pl.LazyFrame, "collect", lambda *w, **n: looks.append("lazy") or collect(*w, **n))
    monkeypatch.setattr(pl.DataFrame, "select", lambda *w, **n: looks.append("plain") or select(*w, **n))
    monkeypatch.setattr(mechanisms, "laplace", lambda *w: draws.append(1) or draw(*w))
    for i in range(5):
        s.ask(count().where(col("age") > i), 0.1)
    assert steps.count("before-commit") == 10
    assert (looks.count("plain"), len(draws)) == (5, 5)
    assert looks.count("lazy") in (0, 5)  # polars before 2 does the one by the other


@pytest.mark.parametrize("kind", ["numpy", "pandas"])
def test_what_happens_to_the_table_later_changes_no_answer(kind):
    ages = np.full(100, 30.0)
    table = pl.DataFrame({"age": ages})
    if kind == "pandas":
        table = pytest.importorskip("pandas").DataFrame({"age": ages}, copy=False)
    s = Session(table, Schema({"age": Column("age", bounds=(0, 100))}), budget=100_000.0)
    before = s.ask("SELECT SUM(age) FROM t", SURE).value
    if kind == "pandas":
        table.loc[:, "age"] = 90.0
    ages[:] = 90.0
    assert s.ask("SELECT SUM(age) FROM t WHERE age < 101", SURE).value == pytest.approx(before, abs=2)


def test_an_answer_shows_itself_in_a_notebook(survey, schema):
    s = Session(survey, schema, budget=2000.0)
    one = s.ask("SELECT COUNT(*) FROM t WHERE age >= 40", 1.0)
    shown = one._repr_html_()
    low, high = one.interval
    assert one.guarantee in shown
    assert f"<td>{one.value:,}</td><td>{low:,} to {high:,}</td>" in shown
    assert "epsilon 1.0 spent, 1999.0 left" in shown
    grouped = s.ask("SELECT COUNT(*) AS n, AVG(age) AS mean FROM t GROUP BY region", 5.0)
    page = grouped._repr_html_()
    assert page.count("<tr>") == 1 + len(grouped.value)
    assert "<th>region</th><th>n</th><th>n, 95 % interval</th><th>mean</th>" in page
    assert all(f"<td>{row['region']}</td><td>{row['n']:,}</td>" in page for row in grouped.value)


def test_what_a_notebook_shows_is_escaped_and_bounded():
    rows = [{"g": "<script>", "n & m": each} for each in range(60)]
    ends = [{"g": "<script>", "n & m": (None, each)} for each in range(60)]
    odd = Answer(rows, "g < h", 0.1, 1.9, ends, ("a <b> note",), ends, ("<i>cut</i>",))
    shown = odd._repr_html_()
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "<i>" not in shown
    assert "&lt;script&gt;" in shown
    assert "n &amp; m, 95 % interval of the cut figure" in shown
    assert "no bound known to 49" in shown
    assert "no bound known to 50" not in shown
    assert "10 more rows" in shown
    assert Answer([], "none", 0.1, 1.9, [])._repr_html_().count("<tr>") == 1
    assert "<td>NULL</td>" in Answer({"x": None}, "none", 0.1, 1.9, {"x": None})._repr_html_()


@pytest.mark.parametrize("given", [{"tau": 3}, {"tau": 3, "mode": "group"}, {"model": object()}])
def test_what_a_mode_would_not_heed_is_refused(survey, schema, given):
    with pytest.raises(ParameterError, match="mode correlated"):
        Session(survey, schema, **given)
