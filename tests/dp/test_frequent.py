"""The most frequent level: what is counted, how it is drawn, and how it is charged."""

from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from shoal import Session
from shoal.cli import app
from shoal.dp import AddRemoveUnit
from shoal.dp.answering.frequent import level_counts, read_mode
from shoal.errors import BudgetError, QueryError
from shoal.schema import Column, Schema

SCHEMA = Schema(
    {
        "region": Column("region", kind="category", levels=("north", "south", "west")),
        "age": Column("age", bounds=(0, 110)),
    },
    id="t",
)
TABLE = pl.DataFrame(
    {
        "who": [1] * 30 + list(range(2, 22)),
        "region": ["south"] * 30 + ["north"] * 15 + ["elsewhere"] * 5,
        "age": [30.0] * 30 + [60.0] * 20,
    }
)


def test_levels_are_counted_within_the_condition_and_undeclared_ones_are_not():
    session = Session(TABLE, SCHEMA, budget=9.0)
    for text, wanted in (
        ("SELECT MODE(region) FROM t", [15, 30, 0]),
        ('select mode ( "region" ) from t where age >= 40', [15, 0, 0]),
    ):
        assert level_counts(session._rows.frame, read_mode(text, session), SCHEMA, 1).tolist() == wanted


def test_rows_of_a_person_are_cut():
    session = Session(TABLE, SCHEMA, budget=9.0, unit=AddRemoveUnit("who", 2))
    asked = read_mode("SELECT MODE(region) FROM t", session)
    assert level_counts(session._rows.frame, asked, SCHEMA, 2).tolist() == [15, 2, 0]


def test_it_is_drawn_with_the_probabilities_of_permute_and_flip():
    """Two levels apart by one row: the lesser wins with probability exp(-a) / 2; 3,000 draws, five deviations."""
    table = pl.DataFrame({"region": ["north", "north", "south"], "age": [1.0] * 3})
    two = Schema({"region": Column("region", kind="category", levels=("north", "south"))}, id="t")
    session = Session(table, two, budget=1e6)
    from fractions import Fraction

    from shoal.dp.mechanisms.selection import permute_and_flip

    counts = level_counts(session._rows.frame, read_mode("SELECT MODE(region) FROM t", session), two, 1)
    drawn = permute_and_flip(counts.max() - counts, Fraction(1), 3000)
    assert abs(np.mean(drawn == 1) - math.exp(-1) / 2) < 5 * math.sqrt(0.15 / 3000)


@pytest.mark.parametrize("name", ["count", "len", "proportion"])
def test_a_column_of_any_name_is_counted(name):
    """The levels of a column called `count` could not be counted, and the charge was lost."""
    column = Column(name, kind="category", levels=("a", "b"))
    with Session(
        pl.DataFrame({name: ["a"] * 200 + ["b"]}), Schema({name: column}, id="t"), budget=1.0
    ) as session:
        assert session.ask(f"SELECT MODE({name}) FROM t", 0.9).value == "a"


def test_it_is_charged_kept_and_told():
    session = Session(TABLE, SCHEMA, budget=1.0, data_version="1")
    assert session.cost("SELECT MODE(region) FROM t", 0.8).epsilon == 0.8
    answer = session.ask("SELECT MODE(region) FROM t", 0.8)
    assert answer.value in ("north", "south", "west")
    assert answer.guarantee == "guarantee: epsilon-DP, add or remove one record"
    assert any("no level has 6 rows more" in note for note in answer.notes)  # ln(3 / .05) / .8 = 5.1
    assert session.ask("SELECT MODE(region) FROM t", 0.8).value == answer.value
    assert session.remaining() == pytest.approx(0.2)
    assert session.cost("SELECT MODE(region) FROM t", 0.8).epsilon == 0
    with pytest.raises(BudgetError):
        session.ask("SELECT MODE(region) FROM t WHERE age > 40", 0.5)


def test_a_clear_winner_wins():
    """Fifteen rows ahead at epsilon 4: another level is drawn with a probability of at most 2 exp(-60)."""
    assert Session(TABLE, SCHEMA, budget=4.0).ask("SELECT MODE(region) FROM t", 4.0).value == "south"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT MODE(age) FROM t", "levels the schema declares"),
        ("SELECT MODE(nothing) FROM t", "levels the schema declares"),
        ("SELECT MODE(region), AVG(age) FROM t", "asked alone"),
        ("SELECT MODE(region) FROM t GROUP BY region", "asked alone"),
        ("SELECT MODE(a + b) FROM t", "one column"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_the_charge(text, said):
    session = Session(TABLE, SCHEMA, budget=1.0)
    with pytest.raises(QueryError, match=said):
        session.ask(text, 0.5)
    assert session.remaining() == 1.0


def test_from_the_command_line(tmp_path):
    TABLE.write_csv(tmp_path / "t.csv")
    (tmp_path / "t.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    words = [
        "ask",
        str(tmp_path / "t.csv"),
        "SELECT MODE(region) FROM t",
        "--schema",
        str(tmp_path / "t.toml"),
    ]
    found = CliRunner().invoke(app, [*words, "--epsilon", "4", "--budget", "5", "--json"])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["value"] == "south"
    shown = CliRunner().invoke(app, [*words, "--epsilon", "4", "--budget", "5", "--data-version", "2"])
    assert shown.exit_code in (0, 1)  # the budget of 5 is spent
