"""Tables of every kind: the same kind comes out, or one sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shoal
from shoal.engine.frame import Frame, is_frame
from shoal.errors import InputError
from shoal.microaggregation import MDAV

TABLE = pl.DataFrame({"a": [1.0, 2, 3, 10, 11, 12], "b": [5, 6, 5, 8, 9, 8], "town": list("xxxyyy")})


class Capsule:
    """A table that only speaks the Arrow PyCapsule interface."""

    def __init__(self, table):
        self._table = table.to_arrow()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


KINDS = {
    "pandas": (lambda t: t.to_pandas(), pd.DataFrame),
    "pandas nullable": (lambda t: t.to_pandas().convert_dtypes(), pd.DataFrame),
    "pandas arrow": (lambda t: t.to_pandas().convert_dtypes(dtype_backend="pyarrow"), pd.DataFrame),
    "pandas categorical": (lambda t: t.to_pandas().astype({"town": "category"}), pd.DataFrame),
    "polars": (lambda t: t, pl.DataFrame),
    "polars lazy": (lambda t: t.lazy(), pl.LazyFrame),
    "pyarrow": (lambda t: t.to_arrow(), pa.Table),
    "record batch": (lambda t: t.to_arrow().combine_chunks().to_batches()[0], pa.Table),
    "capsule": (Capsule, pa.Table),
}


def values(frame):
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    return pl.from_arrow(frame) if isinstance(frame, pa.Table) else pl.DataFrame(frame) if isinstance(
        frame, pl.DataFrame
    ) else pl.from_pandas(frame)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_methods_take_every_kind(kind):
    make, came = KINDS[kind]
    given = make(TABLE)
    assert is_frame(given)
    after = MDAV(k=3).fit_transform(given)
    assert isinstance(after, came)
    assert values(after)["a"].to_list() == [2.0, 2.0, 2.0, 11.0, 11.0, 11.0]
    assert values(after)["town"].cast(pl.String).to_list() == list("xxxyyy")


@pytest.mark.parametrize("kind", KINDS)
def test_protect_takes_every_kind(kind):
    make, came = KINDS[kind]
    result = shoal.protect(make(TABLE), k=3, method="mdav")
    assert isinstance(result.frame, came)
    assert values(result.frame)["a"].to_list() == [2.0, 2.0, 2.0, 11.0, 11.0, 11.0]
    assert values(result.frame)["town"].cast(pl.String).to_list() == list("xxxyyy")


def test_columns_keep_what_they_can_hold():
    given = TABLE.to_pandas().convert_dtypes().astype({"town": "category"})
    given.loc[0, "b"] = pd.NA
    after = shoal.protect(
        given, k=3, method="mdav", schema={"columns": {"b": {"on_missing": "category"}}}
    ).frame
    assert str(after["b"].dtype) in ("Float64", "Int64")
    assert str(after["town"].dtype) == "category"
    assert Frame(given).replaced({"b": pl.Series([None, 1.5] * 3)})["b"].isna().tolist() == [True, False] * 3


def test_names_that_are_numbers_come_back():
    given = pd.DataFrame(TABLE.select("a", "b").to_numpy(), columns=[0, 1], index=list("uvwxyz"))
    after = shoal.protect(given, k=3, method="mdav").frame
    assert after.columns.tolist() == [0, 1]
    assert after.index.tolist() == list(range(6))
    assert after[0].tolist() == [2.0, 2.0, 2.0, 11.0, 11.0, 11.0]
    assert MDAV(k=3).fit_transform(given).columns.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "must differ as texts"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])), "one level"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "must differ"),
        (TABLE.to_arrow().to_reader(), "stream"),
        (pl.LazyFrame({"a": [1]}).select("b"), "cannot be collected"),
        (TABLE["a"], "must be a pandas, polars"),
        (TABLE.to_pandas()["a"], "must be a pandas, polars"),
        (pa.chunked_array([[1, 2]]), "must be a pandas, polars"),
        (np.zeros((3, 2)), "must be a pandas, polars"),
        ("table.csv", "must be a pandas, polars"),
        (None, "must be a pandas, polars"),
    ],
)
def test_what_is_no_table_is_one_sentence(given, word):
    with pytest.raises(InputError, match=word) as caught:
        Frame(given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "cells", [[1, "a", None] * 2, [1 + 2j] * 6, [object()] * 6, pd.arrays.SparseArray(range(6))]
)
def test_a_column_that_cannot_be_read_is_named(cells):
    given = TABLE.to_pandas().assign(odd=cells)
    with pytest.raises(InputError, match=r"one simple type\. Column 'odd' \("):
        shoal.protect(given, k=3, method="mdav")


def test_who_protects_nothing_is_told_what_the_columns_were_taken_for():
    given = pl.DataFrame({"key": range(100_000, 100_040), "empty": [None] * 40})
    with pytest.raises(InputError, match="taken were 'key' as identifier, 'empty' as"):
        shoal.protect(given, k=3, method="mdav")
