"""Exact sums against SQLite as an independent oracle, and parts against the whole."""

from __future__ import annotations

import math
import sqlite3

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp.answering.exact import combine, compute, finish, partial
from shoal.dp.answering.noise import cut_sums, histograms, mean_scores, outermost
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.releases import Mean, Ranks
from shoal.dp.correlation import Grid
from shoal.dp.loading.load import RESERVED, load, protect_rows
from shoal.dp.meaning.check import check
from shoal.dp.meaning.relation import UNIT
from shoal.dp.session import Session
from shoal.dp.sql.parse import parse
from shoal.dp.unit import resolve
from shoal.errors import SchemaError
from shoal.schema import Column, Schema, Unit


def _plan(sql, schema, mode="dp", epsilon=1_000_000, **options):
    query = parse(sql, schema.id)
    check(query, schema)
    return make_plan(query, schema, resolve(mode, schema, **options), epsilon)


SCHEMA = Schema(
    {
        "a": Column("a", bounds=(-5, 5), step=1),
        "b": Column("b", bounds=(0, 9), step=1),
        "s": Column("s", kind="category", levels=("x", "y")),
    }
)
leaf = st.one_of(
    st.builds(
        "{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["=", "<>", "<", ">="]), st.integers(-3, 3)
    ),
    st.builds(
        "{} IN ({})".format,
        st.sampled_from("ab"),
        st.lists(st.integers(-3, 3).map(str), min_size=1, max_size=3).map(",".join),
    ),
    st.builds("{} IS {}NULL".format, st.sampled_from("abs"), st.sampled_from(["", "NOT "])),
    st.builds("a BETWEEN {} AND {}".format, st.integers(-3, 3), st.integers(-3, 3)),
    st.builds("s = '{}'".format, st.sampled_from("xy")),
)
condition = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=6,
)
cell = st.one_of(st.none(), st.integers(-5, 5))
row = st.tuples(cell, st.one_of(st.none(), st.integers(0, 9)), st.sampled_from([None, "x", "y"]))


@given(condition, st.lists(row, max_size=12))
@settings(max_examples=150, deadline=None)
def test_conditions_follow_three_valued_logic(where, rows):
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Int64, "s": pl.String}, orient="row")
    with sqlite3.connect(":memory:") as oracle:
        oracle.execute("CREATE TABLE t (a, b, s)")
        oracle.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        sql = f"SELECT COUNT(*), COUNT(a), TOTAL(a) FROM t WHERE {where}"
        expected = [int(each) for each in oracle.execute(sql).fetchone()]
    text = f"SELECT COUNT(*) AS n, COUNT(a), SUM(a) FROM t WHERE {where}"
    plan = _plan(text, SCHEMA)
    count, known, total = compute(load(frame, SCHEMA), plan)
    quantum = plan.releases[2].fixed.quantum
    assert [count.moments[0, 0], known.moments[0, 0], total.moments[0, 1] * quantum] == expected
    for what, number in (("*", expected[0]), ("a", expected[1])):  # one count alone is read by a shorter way
        (alone,) = compute(load(frame, SCHEMA), _plan(f"SELECT COUNT({what}) FROM t WHERE {where}", SCHEMA))
        assert alone.moments.tolist() == [[number, 0, 0]]


QUERIES = [
    ("SELECT COUNT(*) FROM t WHERE age > 30", {}),
    ("SELECT region, COUNT(*), SUM(income), AVG(age), MAX(age), MEDIAN(age) FROM t GROUP BY region", {}),
    ("SELECT smoker, school, COUNT(age) FROM t GROUP BY smoker, school", {}),
    (
        "SELECT COUNT(*), SUM(age), MAX(income), MIN(age), VAR_POP(age), CORR(age, income) FROM t",
        {"mode": "correlated", "tau": 3},
    ),
    ("SELECT region, COUNT(*), SUM(age) FROM t GROUP BY region", {"mode": "correlated", "tau": 3}),
    ("SELECT region, CORR(age, income), COVAR_SAMP(income, age) FROM t GROUP BY region", {}),
    ("SELECT COUNT(*), MEDIAN(age) FROM t", {"mode": "group", "group": Unit("house", 2)}),
]


@pytest.mark.parametrize(("sql", "options"), QUERIES)
def test_parts_combine_to_the_whole(sql, options, survey, schema):
    if options.get("mode") == "correlated":
        options = {**options, "model": Grid.of_schema(schema)}
    plan = _plan(sql, schema, **options)
    frame = protect_rows(load(survey, schema), survey, schema, plan.protected, options.get("model"))
    whole = compute(frame, plan)
    parts = [frame[i::3] for i in range(3)] + [frame[:0]]
    again = finish(combine([partial(each, plan) for each in parts]), plan)
    for release, one, two in zip(plan.releases, whole, again, strict=True):
        assert np.array_equal(_laid_out(release, one), _laid_out(release, two))


def _laid_out(release, totals):
    """What noise is added to, for the largest limit."""
    limit = release.most if release.limit.column is not None and not isinstance(release, Mean) else None
    if isinstance(release, Ranks):
        return histograms(release, outermost(release, totals), limit)
    if isinstance(release, Mean):
        return mean_scores(release, totals)
    return cut_sums(release, totals, limit)


def test_figures_are_the_plain_ones(survey, schema):
    plan = _plan("SELECT region, COUNT(*), SUM(age) FROM t WHERE age >= 20 GROUP BY region", schema)
    count, total = (
        cut_sums(release, each, None)
        for release, each in zip(plan.releases, compute(load(survey, schema), plan), strict=True)
    )
    for position, region in enumerate(("north", "south", "east")):
        rows = survey.filter((pl.col("age") >= 20) & (pl.col("region") == region))
        quantum = plan.releases[1].fixed.quantum
        assert (count[position], total[position] * quantum) == (rows.height, rows["age"].sum())


def test_at_most_m_rows_of_a_person_from_its_own_rows(survey, schema):
    plan = _plan(
        "SELECT COUNT(*), SUM(age) FROM t WHERE smoker = TRUE", schema, "group", group=Unit("house", 2)
    )

    def laid_out(rows):
        frame = protect_rows(load(rows, schema), rows, schema, plan.protected)
        exact = compute(frame, plan)
        return [int(_laid_out(release, each)[0]) for release, each in zip(plan.releases, exact, strict=True)]

    counts = survey.filter("smoker").group_by("house").len()["len"].clip(upper_bound=2).sum()
    assert laid_out(survey)[0] == counts
    assert laid_out(survey.sample(fraction=1.0, shuffle=True, seed=3)) == laid_out(survey)
    # Taking one house away changes nothing but that house's share.
    house = survey["house"][0]
    rest, one = survey.filter(pl.col("house") != house), survey.filter(pl.col("house") == house)
    assert [a + b for a, b in zip(laid_out(rest), laid_out(one), strict=True)] == laid_out(survey)


def test_rows_without_a_unit_are_dropped(schema):
    frame = pl.DataFrame({name: [None] * 5 for name in schema.columns if name != "house"})
    frame = frame.with_columns(house=pl.Series(["1", None, " ", "?", "1.0"]))
    facts = schema.with_columns(house={"missing_codes": ("?",)})
    unit = resolve("group", facts, group=Unit("house", 2))
    found = protect_rows(load(frame, facts), frame, facts, unit)[UNIT].to_list()
    assert sorted(found) == ["1", "1.0"]  # ids are opaque


def test_cells_are_cut_at_tau(survey, schema):
    grid = Grid.of_schema(schema)
    plan = _plan(
        "SELECT COUNT(*), SUM(income), MAX(income), MIN(age) FROM t", schema, "correlated", model=grid, tau=2
    )
    loaded = load(survey, schema)
    frame = protect_rows(loaded, survey, schema, plan.protected, grid)
    cells = grid.cell(loaded)
    sizes = np.bincount(cells, minlength=grid.n_cells)
    exact = compute(frame, plan)
    count, total, largest, smallest = (
        _laid_out(release, each) for release, each in zip(plan.releases, exact, strict=True)
    )
    assert count[0] == np.minimum(sizes, 2).sum()
    fixed = plan.releases[1].fixed
    whole = np.rint(survey["income"].clip(-1000, 200_000).to_numpy() / float(fixed.quantum)).astype(np.int64)
    sums = np.zeros(grid.n_cells, np.int64)
    np.add.at(sums, cells, whole)
    most = plan.releases[1].most
    assert total[0] == np.clip(sums, -most, most).sum()
    # Of a minimum or maximum each cell's outermost row counts.
    ages = survey["age"].to_numpy()
    occupied = np.flatnonzero(sizes)
    assert smallest.sum() == largest.sum() == len(occupied) << 16
    least = np.bincount([ages[cells == each].min() for each in occupied], minlength=111)
    assert (smallest[0] >> 16).tolist() == least.tolist()


def test_loading_never_fails_on_a_cell(schema):
    odd = ["", "NA", "1e400", "-inf", "nan", "12", " 13.0 ", "x" * 50, "0x10", "1_000", "٣", None]
    frame = pl.DataFrame(dict.fromkeys(schema.columns, odd))
    loaded = load(frame, schema)
    assert loaded["age"].to_list() == [None, None, 110.0, 0.0, None, 12.0, 13.0, None, None, None, None, None]
    assert loaded["region"].null_count() == len(odd)
    assert loaded["born"].null_count() == len(odd)
    assert loaded["house"].to_list()[5:7] == ["12", "13"]
    numbers = pl.DataFrame({"age": [math.nan, math.inf, 3.0]})
    assert load(numbers, Schema({"age": schema.columns["age"]}))["age"].to_list() == [None, 110.0, 3.0]


@pytest.mark.parametrize("cells", [[1, 2, 3], [1.0, 2.0, 3.0], ["1", "2.0", " 3"], ["01", "2", "3"]])
def test_a_level_is_the_same_however_it_was_stored(cells):
    column = Schema({"v": Column("v", kind="category", levels=("1", "2"), missing_codes=("3",))})
    assert load(pl.DataFrame({"v": cells}), column)["v"].to_list() == [0, 1, None]


def test_missing_codes_are_missing():
    column = Schema({"v": Column("v", bounds=(0, 9), missing_codes=("-9", "refused"))})
    assert load(pl.DataFrame({"v": ["-9", "refused", "3"]}), column)["v"].to_list() == [None, None, 3.0]
    assert load(pl.DataFrame({"v": [-9, 3]}), column)["v"].to_list() == [None, 3.0]


def test_structure_that_does_not_fit_is_one_sentence(schema):
    with pytest.raises(SchemaError, match="declares column 'age'"):
        load(pl.DataFrame({"x": [1]}), schema)
    with pytest.raises(SchemaError, match="'v' must hold plain values"):
        load(pl.DataFrame({"v": [[1], [2]]}), Schema({"v": Column("v")}))


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=64), max_size=20),
    st.floats(-1e15, 1e15),
    st.floats(1e-3, 1e15),
)
@settings(max_examples=100, deadline=None)
def test_one_row_moves_a_sum_by_no_more_than_its_sensitivity(values, low, width):
    facts = Schema({"v": Column("v", bounds=(low, low + max(width, abs(low) * 1e-9)))})
    for sql in ("SELECT SUM(v) FROM t", "SELECT AVG(v) FROM t", "SELECT VAR_POP(v) FROM t"):
        plan = _plan(sql, facts)
        with_row = compute(
            load(pl.DataFrame({"v": [*values, low - 1.0]}, schema={"v": pl.Float64}), facts), plan
        )
        without = compute(load(pl.DataFrame({"v": values}, schema={"v": pl.Float64}), facts), plan)
        for release, one, two in zip(plan.releases, with_row, without, strict=True):
            moved = cut_sums(release, one, None) - cut_sums(release, two, None)
            assert np.abs(moved).sum() <= release.sensitivity


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t WHERE a > 3",
        "SELECT s, COUNT(*), SUM(b) FROM t WHERE a > 4 GROUP BY s",
        "SELECT s, AVG(b), VAR_POP(b) FROM t WHERE a IS NULL GROUP BY s",
        "SELECT CORR(a, b), COVAR_POP(a, b) FROM t WHERE s = 'x'",
        "SELECT MEDIAN(a), MAX(b) FROM t WHERE s = 'x'",
    ],
)
@pytest.mark.parametrize("unit", [Unit(), Unit("who", 3)])
def test_rows_that_do_not_answer_are_worked_on_like_the_others(monkeypatch, sql, unit):
    """Conditions that few rows meet were once quicker: nothing may be left out before it is added up."""
    schema = Schema(SCHEMA.columns, unit=unit)
    table = pl.DataFrame({"a": [1, 2, 5], "b": [1, 2, 3], "s": ["x", "y", "x"], "who": ["p", "q", "p"]})
    plan = _plan(sql, schema)
    frame = protect_rows(load(table, schema), table, schema, plan.protected, None)
    left_out = []
    for kind in (pl.LazyFrame, pl.DataFrame):
        for name in ("filter", "drop_nulls", "remove", "head", "limit"):
            monkeypatch.setattr(
                kind, name, lambda self, *words, _name=name, **more: left_out.append(_name) or self
            )
    compute(frame, plan)
    assert not left_out


@pytest.mark.parametrize("name", ["group", "unit", "bin", "n", "first", "second", "answers"])
@pytest.mark.parametrize("unit", [Unit(), Unit("who", 9)])
def test_a_column_may_have_any_name(name, unit):
    """A column called group was once overwritten under GROUP BY."""
    columns = {
        name: Column(name, kind="category", levels=("x", "y")),
        "v": Column("v", bounds=(0, 9), step=1),
    }
    schema = Schema(columns, id="names", unit=unit)
    table = pl.DataFrame({name: ["x", "y", "x"], "v": [1.0, 2.0, 5.0], "who": ["p", "q", "p"]})
    with Session(table, schema, budget=1e6) as session:
        asked = f'SELECT "{name}", COUNT(*) AS how_many, SUM(v) AS total FROM t GROUP BY "{name}"'
        found = session.ask(asked, 1e5).value
        assert [row[name] for row in found] == ["x", "y"]
        assert [row["how_many"] for row in found] == [2, 1]
        assert [row["total"] for row in found] == pytest.approx([6, 2], abs=0.01)
        assert session.ask(f"SELECT COUNT(*) FROM t WHERE \"{name}\" = 'x'", 1e5).value == 2


@pytest.mark.parametrize("name", ["group", "unit", "bin", "n", "first", "second"])
def test_a_number_column_may_have_any_name(name):
    schema = Schema({name: Column(name, bounds=(0, 9), step=1), "s": SCHEMA.columns["s"]}, id="names")
    table = pl.DataFrame({name: [1.0, 2.0, 5.0], "s": ["x", "y", "x"]})
    with Session(table, schema, budget=1e6) as session:
        found = session.ask(
            f'SELECT s, SUM("{name}") AS total, MEDIAN("{name}") AS middle FROM t GROUP BY s', 1e5
        )
        assert [row["total"] for row in found.value] == pytest.approx([6, 2], abs=0.01)
        assert found.value[1]["middle"] == 2


def test_names_of_the_program_are_refused_before_anything_is_charged():
    """Such a column would be taken for the unit's own, and fail after the charge."""
    for name in RESERVED:
        schema = Schema({name: Column(name, kind="category", levels=("x",))}, id="names", unit=Unit("who", 2))
        with pytest.raises(SchemaError, match="are the program's own"):
            Session(pl.DataFrame({name: ["x"], "who": ["p"]}), schema, budget=1.0)
