"""Which coordinates are published as a mode."""

from __future__ import annotations

import polars as pl

from shoal.engine.columns import read_column
from shoal.engine.encode import Encoder
from shoal.schema import Column


def test_columns_of_categories_and_only_those_without_another_aggregate():
    columns = [
        read_column(pl.Series("age", [1.0, 2.0, 3.0]), Column("age", kind="number")),
        read_column(pl.Series("colour", ["a", "b", "c"]), Column("colour", kind="category")),
        read_column(pl.Series("town", ["x", "y", "x"]), Column("town", kind="category", aggregate="medoid")),
        read_column(pl.Series("here", [True, False, True]), Column("here", kind="boolean")),
    ]
    assert Encoder.fit(columns).modes(columns) == [(1, 4), (6, 8)]
