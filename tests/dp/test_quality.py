"""What the owner learns about how cells were understood."""

from __future__ import annotations

import datetime

import polars as pl
import pytest

from shoal.dp.loading.quality import quality
from shoal.schema import Column, Schema


@pytest.mark.parametrize(
    ("cells", "column", "expected"),
    [
        (["40", "x", "", " ", None, "120", "-1"], {"bounds": (0, 99)}, (3, 1, 2)),
        (["40", "-9", "98"], {"bounds": (0, 99), "missing_codes": ("-9",)}, (1, 0, 0)),
        (["f", "m", "?", None], {"kind": "category", "levels": ("f", "m")}, (1, 1, 0)),
        ([1.0, float("nan"), float("inf")], {"bounds": (0, 99)}, (1, 0, 0)),
        (["anything", None], {"kind": "category"}, (1, 0, 0)),
        (
            ["2020-01-01", "2031-01-01", "yesterday"],
            {"kind": "date", "bounds": (datetime.date(2019, 1, 1), datetime.date(2029, 1, 1))},
            (0, 1, 1),
        ),
        (["true", "0", "maybe"], {"kind": "boolean"}, (0, 1, 0)),
    ],
)
def test_cells_are_counted_by_what_became_of_them(cells, column, expected):
    found = quality(pl.DataFrame({"x": cells}), Schema({"x": Column("x", **column)}))[0]
    assert (found.missing, found.unread, found.outside) == expected
    assert found.fine == (expected[1:] == (0, 0))
    assert found.rows == len(cells)
