"""Missing cells: one decoder, the same whatever type the cells are kept in."""

from __future__ import annotations

import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp.loading.load import load
from shoal.engine.columns import read_column
from shoal.schema import Column, Schema, decode_missing, decode_table


@pytest.mark.parametrize(
    ("cells", "column", "left"),
    [
        (pl.Series([1, -9, 3]), Column("x", missing_codes=("-9",)), [1, None, 3]),
        (pl.Series([1.0, -9.0, float("nan")]), Column("x", missing_codes=(-9,)), [1.0, None, None]),
        (pl.Series(["1", " -9.0 ", "NA"]), Column("x", missing_codes=(-9, "NA")), ["1", None, None]),
        (pl.Series(["007", "7"]), Column("x", kind="category", missing_codes=("7",)), ["007", None]),
        (pl.Series(["a", "", "  ", None]), Column("x", kind="category", missing_codes=("",)), ["a", None, None, None]),
        (pl.Series([2**53, 2**53 + 1]), Column("x", missing_codes=(2**53 + 1,)), [2**53, None]),
        (pl.Series([1, 200], dtype=pl.UInt8), Column("x", missing_codes=(-9, 999, 200)), [1, None]),
        (pl.Series([True, False]), Column("x", kind="boolean", missing_codes=(False,)), [True, None]),
        (pl.Series(["x", "y"], dtype=pl.Categorical), Column("x", kind="category", missing_codes=("y",)), ["x", None]),
        (pl.Series([None, None]), Column("x", missing_codes=("y",)), [None, None]),
        (
            pl.Series([datetime.date(1900, 1, 1), datetime.date(2000, 1, 1)]),
            Column("x", kind="date", missing_codes=("1900-01-01",)),
            [None, datetime.date(2000, 1, 1)],
        ),
        (
            pl.Series([datetime.datetime(1900, 1, 1), datetime.datetime(1900, 1, 1, 1)]),
            Column("x", kind="date", missing_codes=(datetime.date(1900, 1, 1),)),
            [None, datetime.datetime(1900, 1, 1, 1)],
        ),
    ],
)  # fmt: skip
def test_codes_are_missing_and_nothing_else_is(cells, column, left):
    found = decode_missing(cells, column)
    assert found.to_list() == left
    assert found.dtype == cells.dtype


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["-9", "-9.0", "9", "12", "NA", "", None]), min_size=1),
    st.lists(st.sampled_from([-9, "-9", "NA", "", 9.0]), unique_by=str, max_size=3),
)
def test_publishing_checking_and_answering_miss_the_same_cells(cells, codes):
    column = Column("x", kind="category", missing_codes=tuple(codes))
    schema, table = Schema({"x": column}), pl.DataFrame({"x": cells}, schema={"x": pl.String})
    gone = decode_missing(table["x"], column).is_null().to_list()
    assert decode_table(table, schema)["x"].is_null().to_list() == gone
    assert read_column(table["x"], column).missing.tolist() == gone
    assert load(table, schema)["x"].is_null().to_list() == gone


def test_decoding_one_row_does_not_depend_on_the_others():
    column = Column("x", missing_codes=("-9", "NA"))
    cells = ["-9", "NA", "1", "x", "-9.00", None]
    alone = [decode_missing(pl.Series([each], dtype=pl.String), column)[0] for each in cells]
    assert decode_missing(pl.Series(cells), column).to_list() == alone
