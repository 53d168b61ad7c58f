"""Odd data and odd shapes of SQL beside DuckDB: halves, signs, empty texts, days before 1970, shadowed names, constants."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from shoal.dp import Session
from shoal.errors import QueryError
from shoal.schema import Column, Schema

from .test_against_duckdb import LOOSE, connected, near, noiseless, plain, rows_of  # noqa: F401 - a fixture

SHAPES = (Path(__file__).parent / "queries" / "odd.sql").read_text(encoding="utf-8").strip().split("\n")
TEXTS = ("", "a", "A", "é", "É", "ß", "SS", "z%", "_x", "it's", "10", "9")
DAYS = [
    (1899, 12, 31),
    (1900, 1, 1),
    (1960, 2, 29),
    (1969, 7, 20),
    (1969, 12, 31),
    (1970, 1, 1),
    (2020, 12, 31),
]
SCHEMA = Schema(
    {
        "a": Column("a", bounds=(-9, 9), step=1),
        "b": Column("b", bounds=(-4, 4), step=1),
        "f": Column("f", bounds=(-10, 10), step=0.01),
        "s": Column("s", kind="category", levels=TEXTS),
        "d": Column("d", kind="date", bounds=("1890-01-01", "2021-12-31")),
        "t": Column("t", kind="boolean"),
        "o": Column("o", kind="ordered", levels=("low", "mid", "high")),
    },
    id="t",
)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)

    def some(*values):
        return [values[at] for at in rng.integers(0, len(values), 400)]

    return pl.DataFrame(
        {
            "a": some(None, -9, -7, -3, -1, 0, 1, 2, 3, 7, 9),
            "b": some(None, -4, -2, -1, 0, 1, 3, 4),
            "f": some(None, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 0.1, 0.3, 9.99, -9.99),
            "s": some(None, *TEXTS),
            "d": some(None, *(datetime.date(*each) for each in DAYS)),
            "t": some(None, True, False),
            "o": some(None, "low", "mid", "high"),
        }
    )


@pytest.fixture(scope="module")
def both(table):
    """A session and a DuckDB over the same rows."""
    return Session(table, SCHEMA, budget=1e6), connected(t=table)


@pytest.mark.parametrize("text", SHAPES)
def test_an_odd_shape_means_what_duckdb_answers(text, both, noiseless):  # noqa: F811 - the fixture
    session, duck = both
    slack = 0.02 if any(word in text.upper() for word in LOOSE) else 1e-6
    ours = rows_of(session.ask(text, 900.0).value)
    theirs = [[plain(cell) for cell in row] for row in duck.execute(text).fetchall()]
    groups = len(session._question(text).groups)

    def same(mine, other):
        """A missing label is NULL, a figure over nothing 0."""
        pairs = zip(mine[groups:], other[groups:], strict=True)
        return mine[:groups] == other[:groups] and all(near(*pair, slack) for pair in pairs)

    assert ours or not theirs
    for row in theirs:  # SQL has a group of NULL, which is no declared level
        if None not in row[:groups]:
            assert any(same(each, row) for each in ours), row
    for row in ours:  # every declared level is shown, with or without rows
        if any(row[groups:]) and not session._question(text).sets:
            assert any(same(row, each) for each in theirs), row


def test_an_order_that_is_declared_is_said(table):
    session = Session(table, SCHEMA, budget=9.0)
    said = "o is compared in the order of its declared levels, not as a text"
    assert said in session.ask("SELECT COUNT(*) FROM t WHERE o > 'low'", 1.0).notes
    assert said in session.ask("SELECT MAX(o) FROM t", 1.0).notes
    assert said not in session.ask("SELECT COUNT(*) FROM t WHERE o = 'low'", 1.0).notes


REFUSED = {
    "SELECT a AS b, COUNT(*) FROM t GROUP BY b": "'b' is the name of a column and of something else in SELECT",
    "SELECT ABS(a) AS a, COUNT(*) FROM t GROUP BY a": "give it another name, or group by its position",
    "SELECT -a AS a, COUNT(*) AS n FROM t GROUP BY 1 ORDER BY -a": "give it another name",
    "SELECT ABS(a) AS a, COUNT(*) AS n FROM t GROUP BY 1 HAVING a > 3": "give it another name",
    "WITH q AS (SELECT * FROM t WHERE a > 0), q AS (SELECT * FROM t) SELECT COUNT(*) FROM q": "Two queries of WITH",
    "SELECT SUM(CEIL(f)), SUM(CEILING(f)) FROM t": "name them apart by AS",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_shape_with_two_meanings_is_refused(text, table):
    with pytest.raises(QueryError, match=REFUSED[text]):
        Session(table, SCHEMA, budget=1.0).ask(text, 0.5)


def test_a_name_of_an_inner_with_ends_with_it(table, noiseless):  # noqa: F811 - the fixture
    session = Session(table, SCHEMA, budget=1e4)
    text = "WITH q AS (WITH t AS (SELECT * FROM t WHERE a > 0) SELECT * FROM t) SELECT COUNT(*) FROM q"
    assert session.ask(text, 900.0).value == table.filter(pl.col("a") > 0).height
    with pytest.raises(QueryError, match="must be one of"):
        session.ask("WITH q AS (WITH z AS (SELECT * FROM t) SELECT * FROM z) SELECT COUNT(*) FROM z", 900.0)
