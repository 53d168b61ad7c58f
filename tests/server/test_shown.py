"""How answers are shown and taken along: charts, tables, files, forecasts, questions put together."""

from __future__ import annotations

import csv
import io
import json
import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Session
from shoal.dp import Answer
from shoal.dp.mechanisms.currency import CurrencyAmount
from shoal.dp.past import Past, past
from shoal.errors import ParameterError, QueryError
from shoal.schema import Column, Schema
from shoal.server.accounts import Accounts
from shoal.server.accuracy import Forecast
from shoal.server.builder import Choice, ConditionLine
from shoal.server.charts import axis_of, bars
from shoal.server.exports import citation, csv_of, facts_of, long_csv, notebook_of, python_of
from shoal.server.names import Names
from shoal.server.shown import ShownFigure, by_name, table_of

GUARANTEE = "guarantee: epsilon-DP, add or remove one record"
SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 110)),
        "order": Column("order", bounds=(-5.5, 5.5)),
        "straße": Column("straße", kind="category", levels=("a", "b, c", "d'e", "=1+1")),
        "sex": Column("sex", kind="category", levels=("f", "m")),
        "child": Column("child", kind="boolean"),
    },
    id="my survey",
    budget=1e4,
)
WORD = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), max_size=6)


def grouped(rows: list[dict], figures: dict[str, float]) -> Past:
    value = [row | dict.fromkeys(figures, 0) | figures for row in rows]
    ends = [row | {name: (each - 1, each + 1) for name, each in figures.items()} for row in rows]
    return Past(
        "0" * 16,
        "2026-11-17T12:00:00",
        "SELECT ...",
        CurrencyAmount(100_000),
        Answer(value, GUARANTEE, 0.1, 1.0, ends),
    )


def test_several_figures_by_several_groups_are_one_tidy_table():
    taken = grouped([{"a": "x", "b": "y, z"}, {"a": "x, y", "b": "z"}], {"n": 3, "mean": 1.5})
    rows = list(csv.DictReader(io.StringIO(csv_of(taken))))
    assert [(row["a"], row["b"]) for row in rows] == [("x", "y, z"), ("x, y", "z")]
    assert rows[0] | {"n": "3", "n_low": "2", "n_high": "4", "mean": "1.5", "guarantee": GUARANTEE} == rows[0]
    assert facts_of(taken)["table"][1] == {
        "a": "x, y", "b": "z", "n": 3, "n_low": 2, "n_high": 4, "mean": 1.5, "mean_low": 0.5, "mean_high": 2.5,
    }  # fmt: skip
    many = list(csv.DictReader(io.StringIO(long_csv([taken], "epsilon"))))
    assert [json.loads(row["group"]) for row in many[:2]] == [
        {"a": "x", "b": "y, z"},
        {"a": "x, y", "b": "z"},
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), WORD, st.integers(-9, 9)), min_size=1, max_size=5, unique_by=repr))
def test_two_groups_never_look_alike_in_a_file(labels):
    text = csv_of(grouped([{"g": each} for each in labels], {"n": 1}))
    cells = re.findall(r'(?:^|\r\n)("(?:[^"]|"")*"|[^",]*),', text)[1:]
    assert len(set(cells)) == len(labels)
    for cell, label in zip(cells, labels, strict=True):
        if isinstance(label, str):
            inner = cell[1:-1].replace('""', '"')
            assert (inner[1:] if inner.startswith("'") else inner) == label
            assert not inner.startswith(("=", "+", "-", "@"))


def test_a_group_that_is_called_like_an_end_keeps_its_column():
    table = table_of(grouped([{"n_low": "x"}], {"n": 3}).answer)
    assert table.headings == ("n_low", "n", "n_low_2", "n_high")
    assert table.rows == (("x", 3, 2, 4),)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=9), st.floats(0, 1e9))
def test_an_axis_has_zero_all_values_and_two_ticks_or_more(values, apart):
    axis = axis_of([ShownFigure((("g", "x"),), each, each - apart, each + apart) for each in values])
    assert 2 <= len(axis.ticks) <= 8
    assert axis.low <= min(0, *values) * (1 - 1e-9) + 1e-200
    assert max(0, *values) * (1 - 1e-9) - 1e-200 <= axis.high
    assert 0 in axis.ticks


def test_bars_begin_at_zero_with_whiskers_on_top_largest_first_and_labels_in_full():
    long = "a label that is far longer than eighteen characters <b>"
    figures = [
        ShownFigure((("g", "small"),), 2, 1, 3),
        ShownFigure((("g", long),), 10, 5, 15),
        ShownFigure((("g", "below"),), -4, -6, None),
    ]
    drawn = str(bars("n", figures))
    assert drawn.index("longer than eighteen") < drawn.index("small") < drawn.index("below")
    assert "a label that is far longer than eighteen characters &lt;b&gt;" in drawn
    rows = drawn.split('<div class="bar-row">')[1:]
    for row in rows:
        assert row.index('class="fill"') < row.index('class="whisker"')
    zero = re.search(r'class="zero" x1="([0-9.]+)%', rows[0])[1]
    assert re.search(r'class="fill" x="([0-9.]+)%', rows[0])[1] == zero
    assert rows[0].count("whisker") == 3
    assert rows[2].count("whisker") == 2  # where no bound is known there is no end
    assert bars("mode", [ShownFigure((), "north")]) == ""


def test_a_question_put_together_is_sql_that_is_answered():
    choice = Choice(
        "avg", "order", ("straße", "child"),
        (ConditionLine("straße", "in", ("b, c", "d'e")), ConditionLine("age", ">=", ("40",)), ConditionLine("sex", "known"),
         ConditionLine("child", "=", ("true",))),
    )  # fmt: skip
    sql = choice.sql(SCHEMA)
    assert sql == (
        "SELECT AVG(\"order\") FROM \"my survey\" WHERE \"straße\" IN ('b, c', 'd''e') AND age >= 40 AND sex IS NOT NULL "
        'AND child = TRUE GROUP BY "straße", child'
    )
    with Session(pl.DataFrame({each: ["1"] for each in SCHEMA.columns}), SCHEMA) as session:
        answer = session.ask(sql, 5.0)
        assert len(by_name(answer)[0][1]) == 8
        kept = past([session], "me")[0]
        assert kept.answer.value == answer.value
        assert "straße" in kept.query


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        (Choice("avg", "sex"), "needs a number"),
        (Choice("mean"), "one of count"),
        (Choice(groups=("age",)), "declared levels"),
        (Choice(conditions=(ConditionLine("nothere"),)), "column"),
        (Choice(conditions=(ConditionLine("sex", "=", ("x",)),)), "no declared level"),
        (Choice(conditions=(ConditionLine("sex", "="),)), "value"),
        (Choice(conditions=(ConditionLine("age", "=", ("1 OR 1=1",)),)), "is a number"),
        (Choice(conditions=(ConditionLine("age", "; DROP", ("1",)),)), "comparison"),
        (Choice(conditions=(ConditionLine("child", "=", ("x",)),)), "true or false"),
    ],
)
def test_what_makes_no_question_is_one_sentence(choice, says):
    with pytest.raises(QueryError, match=says):
        choice.sql(SCHEMA)


def test_how_exact_stands_before_the_price():
    frame = pl.DataFrame({each: ["1"] * 50 for each in SCHEMA.columns})
    with Session(frame, SCHEMA) as session:
        told = Forecast(session.cost("SELECT COUNT(*) FROM t", error=30))
        assert re.fullmatch(
            r"Within ±30 with 95 %: costs epsilon 0.09\d+; about 10\d,\d{3} such questions left.",
            told.sentence,
        )
        assert told.expected[0].error <= 30
        several = Forecast(session.cost("SELECT COUNT(*), AVG(age), SUM(age) FROM t", 3)).sentence
        assert several.startswith(
            "With 95 % each (ten times the rows, a tenth): count within ±3, avg_age within about ±0.33 for 1,000 rows in a "
        )
        session.ask("SELECT COUNT(*) FROM t", error=30)
        assert (
            "hold this answer already" in Forecast(session.cost("SELECT COUNT(*) FROM t", error=30)).sentence
        )
        average = Forecast(session.cost("SELECT AVG(age) FROM t", 1)).sentence
        assert average.startswith(
            "Within about ±0.33 for 1,000 rows in a group with 95 % (ten times the rows, a tenth): costs"
        )
        unknown = Forecast(session.cost("SELECT CORR(age, age) FROM t", 1)).sentence
        assert "depends on how many rows" in unknown
        assert "does not allow" in Forecast(session.cost("SELECT AVG(age) FROM t", 99999)).sentence


def test_what_is_taken_along_runs_and_names_its_guarantee():
    with Session(pl.DataFrame({each: ["1"] for each in SCHEMA.columns}), SCHEMA) as session:
        session.ask("SELECT COUNT(*) FROM t WHERE sex = 'f'", 0.5)
        kept = past([session], "me")[0]
    said = citation(kept, "my survey")
    assert GUARANTEE[1:] in said
    assert kept.entry in said
    assert "95 %" in said
    compile(python_of(kept, "https://h", 'a"b', "dp"), "python", "exec")
    cells = json.loads(notebook_of(kept, "https://h", 'a"b'))["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), "cell", "exec")
    scope: dict = {}
    exec("".join(cells[-1]["source"]).replace("pl.DataFrame", "t = pl.DataFrame"), scope)
    assert scope["t"]["answer"].to_list() == [kept.answer.value]


def test_names_are_ones_own(tmp_path):
    for names in (Names(), Names(Accounts(tmp_path / "accounts.db").engine)):
        names.call("ann", "t", "0" * 16, " two   words ")
        names.call("ann", "t", "1" * 16, "x")
        names.call("ann", "t", "1" * 16, "")
        assert names.of("ann", "t") == {"0" * 16: "two words"}
        assert names.of("bob", "t") == names.of("ann", "u") == {}
        with pytest.raises(ParameterError, match="at most 80"):
            names.call("ann", "t", "0" * 16, "x" * 81)
