"""Neighbouring tables give the same kind of outcome, whatever odd values they hold."""

from __future__ import annotations

import math
import re

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp import Session
from shoal.errors import ShoalError
from shoal.schema import Cells, Column, Schema, Unit

SCHEMA = Schema(
    {
        "x": Column("x", bounds=(-50, 10), step=1, missing_codes=("-9",)),
        "big": Column("big", bounds=(-1e99, 1e99)),
        "tiny": Column("tiny", bounds=(0, 1e-12)),
        "level": Column("level", kind="category", levels=("a", "b")),
        "rank": Column("rank", kind="ordered", levels=("lo", "hi")),
        "yes": Column("yes", kind="boolean"),
        "day": Column("day", kind="date", bounds=("2000-01-01", "2010-01-01")),
        "who": Column("who", kind="category"),
    },
    cells=Cells(("x", "level"), (30, 1), 3),
    group=Unit("who", 2),
)
number = st.one_of(
    st.none(),
    st.floats(width=64),
    st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 1e16 + 2, 5e-324]),
)
text = st.one_of(
    st.none(),
    st.sampled_from(["a", "b", "lo", "hi", "true", "1", "nan", "inf", "", "2005-05-05", "9999-99-99"]),
    st.text(max_size=5),
)
row = st.fixed_dictionaries(
    {
        "x": number,
        "big": number,
        "tiny": number,
        "level": text,
        "rank": text,
        "yes": text,
        "day": text,
        "who": text,
    }
)
TYPES = {name: pl.Float64 if name in ("x", "big", "tiny") else pl.String for name in SCHEMA.columns}
ASKED = [
    "SELECT COUNT(*), SUM(x), AVG(x), VAR_POP(x), MIN(x), MAX(x), MEDIAN(x) FROM t WHERE x > -60",
    "SELECT SUM(big), AVG(big), VAR_POP(big), MAX(big), SUM(tiny), VAR_POP(tiny), QUANTILE(tiny, 0.0001) FROM t",
    "SELECT COVAR_POP(x, big), CORR(big, tiny), CORR(x, x) FROM t",
    "SELECT level, yes, COUNT(*), SUM(x), MAX(rank), MIN(day) FROM t WHERE NOT (rank = 'lo' OR x IS NULL) GROUP BY level, yes",
    "SELECT COUNT(who), MEDIAN(day) FROM t WHERE who <> 'a' AND day > '2001-01-01' OR yes IS TRUE",
    "SELECT COUNT(*) FROM t WHERE nothing = 1",
    "SELECT COUNT(*) FROM t WHERE level = 'c'",
]


def outcome(rows, sql, mode, as_text):
    frame = pl.DataFrame({name: [each[name] for each in rows] for name in TYPES}, schema=TYPES)
    if as_text:
        frame = frame.cast(pl.String)
    try:
        answer = Session(frame, SCHEMA, mode, 10.0).ask(sql, 0.5)
    except ShoalError as error:
        return type(error), str(error)
    return (
        shape(answer.value),
        shape(answer.interval),
        answer.guarantee,
        answer.epsilon,
        answer.remaining,
        [re.sub(r"[0-9.e+]+", "0", note) for note in answer.notes],  # limits drawn are part of the answer
    )


def shape(value):
    if isinstance(value, dict):
        return {
            # a correlation has no value where a variance, noise included, is not above 0
            key: each if key in ("level", "yes") else float if key.startswith("corr") else shape(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [shape(each) for each in value]
    assert not isinstance(value, float) or math.isfinite(value)
    return type(value)


@given(
    st.lists(row, max_size=5),
    row,
    st.sampled_from(ASKED),
    st.sampled_from(["dp", "group", "correlated"]),
    st.booleans(),
)
@settings(max_examples=70, deadline=None)
def test_one_more_row_gives_the_same_kind_of_outcome(rows, more, sql, mode, as_text):
    if mode == "correlated":
        import warnings

        from shoal.dp import FewCellsWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewCellsWarning)
            one, two = (outcome(each, sql, mode, as_text) for each in (rows, [*rows, more]))
    else:
        one, two = (outcome(each, sql, mode, as_text) for each in (rows, [*rows, more]))
    assert one == two
