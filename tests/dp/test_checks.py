"""What public facts can show to fail is refused before the charge, in one sentence; the rest is answered."""

from __future__ import annotations

import datetime
import decimal
import time
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from shoal.dp import Session, col, count
from shoal.dp.sql.query import Aggregate, And, Compare, In, IsNull, Not, Or, Query
from shoal.errors import QueryError
from shoal.schema import Column, Schema, Unit

SCHEMA = Schema(
    {
        "x": Column("x", bounds=(0, 100)),
        "vast": Column("vast", bounds=(-1e99, 1e99)),
        "level": Column("level", kind="category", levels=tuple(f"v{i}" for i in range(5000))),
        "day": Column("day", kind="date", bounds=("2000-01-01", "2010-01-01")),
        "free": Column("free", kind="category"),
    },
    id="odd",
)
FRAME = pl.DataFrame(
    {name: [None, "1", "v1"] for name in SCHEMA.columns}, schema=dict.fromkeys(SCHEMA.columns, pl.String)
)


def deep(levels):
    condition = IsNull("x")
    for _ in range(levels):
        condition = Not(condition)
    return condition


class Angry:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


def of(condition):
    return Query((Aggregate("count"),), condition)


REFUSED = {
    "an empty and": of(And(())),
    "an empty or": of(Or(())),
    "a list of conditions": of(And([IsNull("x")])),
    "no condition at all": of("x > 1"),
    "an empty in": of(In("x", ())),
    "too deep": of(deep(5000)),
    "too many constants": of(In("x", tuple(range(1001)))),
    "too many conditions": of(And(tuple(IsNull("x") for _ in range(1200)))),
    "an object": of(Compare("free", "=", Angry())),
    "a list": of(Compare("free", "=", [1])),
    "a decimal": of(Compare("x", "=", decimal.Decimal(3))),
    "half a surrogate": of(Compare("free", "=", "\ud800")),
    "a long text": of(Compare("free", "=", "9" * 5000 + "x")),
    "a number of 400 digits": of(Compare("x", "=", 10**400)),
    "a text of 400 digits": of(Compare("free", "=", 10**400)),
    "NaN": of(Compare("x", "=", np.float64("nan"))),
    "no such operator": of(Compare("x", "~", 1)),
    "an unknown column": of(Compare(7, "=", 1)),
    "a group that is no name": Query((Aggregate("count"),), None, (3,)),
    "groups in a list": Query((Aggregate("count"),), None, ["level"]),
    "groups times figures": Query(
        tuple(Aggregate("quantile", "x", Fraction(i + 1, 100)) for i in range(50)), None, ("level",)
    ),
    "a float as share": Query((Aggregate("quantile", "x", 0.5),)),
    "a share without a quantile": Query((Aggregate("sum", "x", Fraction(1, 2)),)),
    "a quantile without a share": Query((Aggregate("quantile", "x"),)),
    "a share of many digits": Query((Aggregate("quantile", "x", Fraction(1, 3)),)),
    "a label that is no text": Query((Aggregate("count", label=3),)),
    "no aggregate": Query(("count",)),
    "a NUL": of(Compare("free", "=", "a\x00b")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_odd_queries_are_refused_before_the_charge(name):
    session = Session(FRAME, SCHEMA, budget=1.0)
    start = time.process_time()
    with pytest.raises(QueryError) as refused:
        session.ask(REFUSED[name], 0.1)
    assert time.process_time() - start < 2
    assert "\n" not in str(refused.value)
    assert session.remaining() == 1.0


ANSWERED = {
    "many constants": of(In("level", tuple(f"v{i}" for i in range(1000)))),
    "many conditions": of(Or(tuple(Compare("x", "=", i) for i in range(900)))),
    "nested": of(deep(90)),
    "numpy constants": of(In("x", (np.int64(3), np.float32(2.5)))),
    "a day": of(Compare("day", ">", datetime.date(2005, 1, 1))),
    "a vast sum": Query((Aggregate("sum", "vast"), Aggregate("avg", "vast"), Aggregate("var", "vast"))),
    "infinity": of(Compare("x", "<", float("inf"))),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_large_queries_within_the_caps_are_answered_in_linear_time(name):
    session = Session(FRAME, SCHEMA, budget=1.0)
    start = time.process_time()
    session.ask(ANSWERED[name], 0.1)
    assert time.process_time() - start < 5
    assert session.remaining() == pytest.approx(0.9)


@pytest.mark.parametrize("sql", ["SUM(x)", "AVG(x)", "VAR_POP(x)", "MEDIAN(x)", "COUNT(*)"])
def test_what_would_leave_64_bits_is_refused_before_the_charge(sql):
    """By the declared rows and epsilon alone, and otherwise answered with a finite interval."""
    frame = FRAME.with_columns(who=pl.Series(["p", "p", "q"]))
    for rows, epsilon in ((2**30, 0.001), (2**30, 1.0), (2**20, 0.001), (500, 0.001)):
        schema = Schema({**SCHEMA.columns, "who": Column("who", kind="category")}, unit=Unit("who", rows))
        session = Session(frame, schema, budget=2.0)
        try:
            answer = session.ask(f"SELECT {sql} FROM t", epsilon)
        except QueryError:
            assert session.remaining() == 2.0
            assert rows * 1000 > 2**29 * epsilon
            continue
        low, high = answer.interval
        assert low <= answer.value <= high


def test_a_text_of_digits_is_read_in_linear_time():
    start = time.process_time()
    with pytest.raises(QueryError):
        Session(FRAME, SCHEMA, budget=1.0).ask(count().where(col("level") == "9" * 900 + "x"), 0.1)
    with pytest.raises(QueryError):
        Session(FRAME, SCHEMA, budget=1.0).ask(
            "SELECT COUNT(*) FROM t WHERE level = '" + "9" * 19_000 + "x'", 0.1
        )
    assert time.process_time() - start < 2
