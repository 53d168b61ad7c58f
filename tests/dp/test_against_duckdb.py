"""Exact answers beside DuckDB's: an accepted query has the meaning of SQL, or its answer says where it differs."""

from __future__ import annotations

import datetime
import math
import sys
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.dp.queries import clinic, collection, pums

from shoal.dp import Session
from shoal.dp.answering import noise
from shoal.dp.mechanisms import discrete_laplace as mechanisms
from shoal.errors import QueryError
from shoal.schema import Column, Schema

duckdb = pytest.importorskip("duckdb")
MACROS = (
    "CREATE MACRO clamp(x, a, b) AS CASE WHEN x < a THEN a WHEN x > b THEN b ELSE x END",
    "CREATE MACRO iff(a, b, c) AS CASE WHEN a THEN b ELSE c END",
    "CREATE MACRO countif(a) AS COUNT(CASE WHEN a THEN 1 END)",
)


@pytest.fixture
def noiseless(monkeypatch):
    """Noise of nothing, and the best candidate of every draw."""
    monkeypatch.setattr(mechanisms, "laplace", lambda values, scale: np.array(values))
    best = lambda distances, rate, *more, **rest: np.array([int(np.argmin(distances))])  # noqa: E731
    monkeypatch.setattr(noise, "exponential", best)
    monkeypatch.setattr(noise, "choose", lambda currency, *words: best(*words))


@cache
def database():
    """One for all tests: to open it takes longer than to ask it."""
    con = duckdb.connect()
    for each in MACROS:
        con.execute(each)
    return con


def connected(**tables):
    con = database().cursor()  # with tables of its own
    for name, frame in tables.items():
        con.register(name, frame.to_arrow())
    return con


def plain(value):
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()[:10]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return float(value)


def rows_of(value):
    rows = value if isinstance(value, list) else [value]
    return [[plain(each) for each in (row.values() if isinstance(row, dict) else [row])] for row in rows]


def near(ours, theirs, slack):
    theirs = 0.0 if theirs is None else theirs  # a sum of nothing is 0 and noise
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=slack, abs_tol=slack)
    return ours == theirs


OURS = (
    "DIFFERENTIAL_PRIVACY",
    "ANONYMIZATION",
    "DP_INTERVAL",
    "OFFSET(",
    "TOP 5",
    "WIDTH_BUCKET",
    "LIMIT",
    "GROUPING(",
    " VAR(",
    "SELECT MAX(n)",
)
SAME = [each for each in collection() if each.refused is None and not any(word in each.sql for word in OURS)]
# Ranks are of a grid of a thousand points, and variances of whole numbers of a range: not the last digit.
LOOSE = ("MEDIAN", "QUANTILE", "PERCENTILE", "VAR", "STDDEV", "CORR", "COVAR", "AVG", "MAX", "MIN")


@pytest.mark.parametrize("each", SAME, ids=lambda each: each.sql[:60])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_collection_means_what_duckdb_answers(each, seed, noiseless):
    session, duck = given_both(each.data, seed)
    expected = [[plain(cell) for cell in row] for row in duck.execute(each.sql).fetchall()]
    found = rows_of(session.ask(each.sql, 900.0).value)
    slack = 0.02 if any(word in each.sql.upper() for word in LOOSE) else 1e-6
    groups = len(session._question(each.sql).groups)
    if not groups:
        assert all(near(a, b, slack) for a, b in zip(found[0], expected[0], strict=True)), (found, expected)
        return
    if not expected:
        assert not found
        return
    if len(found[0]) != len(expected[0]):
        pytest.skip("the groups are not shown in this query")
    mine = {tuple(row[:groups]): row[groups:] for row in found}
    sets = bool(session._question(each.sql).sets)
    for row in expected:
        if None in row[:groups] and not sets:
            continue  # SQL's group of NULL
        if sets and tuple(row[:groups]) not in mine:
            continue
        ours = mine[tuple(row[:groups])]
        if sets and None in row[:groups]:
            continue  # NULL stands for "all" and for a missing cell
        assert all(near(a, b, slack) for a, b in zip(ours, row[groups:], strict=True)), (row, ours)


@cache
def given_both(data, seed):
    """A session and a DuckDB over the same rows."""
    tables = {"pums": pums(seed=seed)} if data == "pums" else clinic(seed=seed)
    return given_sessions(tables), connected(**tables)


def given_sessions(tables):
    from tests.dp.queries import CLAIMS, MEMBERS, PUMS, REGIONS

    if "pums" in tables:
        return Session(tables["pums"], PUMS, budget=1e5)
    linked = {"claims": (tables["claims"], CLAIMS), "regions": (tables["regions"], REGIONS)}
    return Session(tables["members"], MEMBERS, budget=1e5, tables=linked)


# Random expressions over random rows

SCHEMA = Schema(
    {
        "a": Column("a", bounds=(-9, 9), step=1),
        "b": Column("b", bounds=(-4, 4), step=1),
        "s": Column("s", kind="category", levels=("it's", "b%", "", "Zz")),
        "d": Column("d", kind="date", bounds=("2019-12-30", "2021-01-05")),
    }
)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(-4, 4),
        st.none() | st.sampled_from(["it's", "b%", "Zz"]),
        st.none() | st.dates(datetime.date(2019, 12, 30), datetime.date(2021, 1, 5)),
    ),
    max_size=8,
)
LEAVES = st.sampled_from(
    [
        "a",
        "b",
        "3",
        "-2",
        "0",
        "LENGTH(s)",
        "EXTRACT(MONTH FROM d)",
        "DATE_DIFF('month', d, DATE '2020-06-15')",
        "YEAR(d)",
    ]
)
TESTS = st.sampled_from(
    ["a > b", "s = 'it''s'", "s LIKE '%''%'", "s LIKE '_%'", "a IS NULL", "b BETWEEN -1 AND a", "s IN ('b%', 'Zz')", "d >= DATE '2020-02-29'",
     "NOT (a = b)", "a IS NOT DISTINCT FROM b", "UPPER(s) = 'ZZ'", "DATE_TRUNC('month', d) = DATE '2020-02-01'"]
)  # fmt: skip


def combined(inner):
    sign = st.sampled_from(["+", "-", "*"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, sign, inner),
        st.builds("({} / NULLIF({}, 0))".format, inner, inner),
        st.builds("ABS({})".format, inner),
        st.builds("FLOOR({})".format, inner),
        st.builds("CEIL({})".format, inner),
        st.builds("ROUND({})".format, inner),
        st.builds("COALESCE({}, {})".format, inner, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, TESTS, inner, inner),
        st.builds("CASE WHEN {} THEN {} END".format, TESTS, inner),
        st.builds("NULLIF({}, {})".format, inner, inner),
        st.builds("(a % NULLIF(b, 0))".format),
        st.builds("SIGN({})".format, inner),
    )


NUMBERS = st.recursive(LEAVES, combined, max_leaves=5)


def exact(rows, text):
    """Rows answering, rows in which the expression is not missing, and their exact sum."""
    frame = pl.DataFrame(
        rows, schema={"a": pl.Int64, "b": pl.Int64, "s": pl.String, "d": pl.Date}, orient="row"
    )
    session = Session(frame, SCHEMA, budget=1e4)
    return frame, session.ask(text, 900.0)


@given(ROWS, NUMBERS, TESTS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_expressions_mean_what_duckdb_computes(noiseless, rows, number, test):
    # Rounding halves of quotients differs by the last bit of a division; whole numbers do not.
    text = f"SELECT COUNT(*) AS n, COUNT({number}) AS k, SUM(CLAMP({number}, -1000, 1000)) AS s FROM t WHERE {test}"
    try:
        frame, answer = exact(rows, text)
    except QueryError:
        return  # refused by its text: another test says for which reasons
    n, k, s = connected(t=frame).execute(text).fetchone()
    assert answer.value["n"] == n
    assert answer.value["k"] == k
    assert math.isclose(answer.value["s"], float(s or 0), rel_tol=1e-5, abs_tol=1e-4)


@given(ROWS, st.sampled_from(["FLOOR(a / 3) * 3", "a", "a * b", "DATE_TRUNC('quarter', d)", "EXTRACT(ISODOW FROM d)", "UPPER(s)", "CASE WHEN a > 0 THEN 'x' WHEN a <= 0 THEN 'y' END", "SUBSTR(s, 1, 1)", "YEAR(d) - 2019", "ABS(b) % 2"]))  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_by_expression_are_duckdbs_groups(noiseless, rows, group):
    text = f"SELECT {group} AS g, COUNT(*) AS n, COUNT(DISTINCT a) AS k FROM t GROUP BY 1"
    frame, answer = exact(rows, text)
    mine = {plain(row["g"]): (row["n"], row["k"]) for row in answer.value}
    theirs = {plain(g): (n, k) for g, n, k in connected(t=frame).execute(text).fetchall() if g is not None}
    assert {label: each for label, each in mine.items() if each != (0, 0)} == theirs
