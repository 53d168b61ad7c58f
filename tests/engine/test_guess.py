"""What is guessed about columns: everything is protected, identifiers are dropped, codes are never averaged."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.engine.columns import parse_dates, parse_numbers, read_column
from shoal.engine.guess import guess_schema
from shoal.errors import InputError
from shoal.schema import Column

N = 200
RNG = np.random.default_rng(0)
CASES = {
    "person": (np.arange(N), "identifier", "number"),
    "nr": (RNG.permutation(N) + 5000, "identifier", "number"),
    "account": (RNG.choice(900_000, N, replace=False) + 100_000, "identifier", "number"),
    "person_id": (np.repeat(np.arange(N // 2), 2), "identifier", "number"),
    "household": (np.repeat(np.arange(N // 4), 4), "identifier", "number"),
    "email": ([f"p{i}@x" for i in range(N)], "identifier", "category"),
    "age": (RNG.integers(18, 90, N), "quasi", "number"),
    "wage": (RNG.choice(100_000, N, replace=False) + 5, "quasi", "number"),
    "volcano": (RNG.choice(100_000, N, replace=False) + 5, "quasi", "number"),
    "rent": (RNG.random(N), "quasi", "number"),
    "children": (RNG.integers(0, 6, N), "quasi", "ordered"),
    "rooms": (RNG.integers(0, 6, N).astype(float), "quasi", "ordered"),
    "weight": (RNG.integers(1, 4, N), "quasi", "number"),
    "postcode": ([f"0{i % 9}123" for i in range(N)], "quasi", "category"),
    "nace": ([["01", "12", "35"][i % 3] for i in range(N)], "quasi", "category"),
    "turnover": ([["1,007", "12", "2,345,678.5"][i % 3] for i in range(N)], "quasi", "number"),
    "works": (RNG.random(N) < 0.5, "quasi", "boolean"),
    "born": (["2001-01-31"] * N, "quasi", "date"),
    "seen": (["2001-01-31T08:30:00"] * N, "quasi", "date"),
    "seen_at": (["2001-01-31 08:30"] * N, "quasi", "date"),
    "town": (["a", "b"] * (N // 2), "quasi", "category"),
    "empty": (pl.Series([None] * N, dtype=pl.Float64), "quasi", "category"),
    "nothing": ([None] * N, "leave", "category"),
}


@pytest.mark.parametrize("name", CASES)
def test_roles_and_kinds_are_guessed(name):
    cells, role, kind = CASES[name]
    column = guess_schema(pl.DataFrame({name: cells})).columns[name]
    assert (column.role, column.kind) == (role, kind)
    assert column.reason


def test_numbers_of_persons_that_repeat_are_said():
    frame = pl.DataFrame({"person_id": CASES["person_id"][0], "age": CASES["age"][0]})
    result = shoal.protect(frame, 5, method="mdav")
    assert result.frame.columns == ["age"]
    assert any("100 different numbers in 200 rows" in note for note in result.notes)


def test_amounts_that_all_differ_are_no_identifiers(census):
    assert set(guess_schema(census).names("quasi")) == set(census.columns)


def test_whatever_nobody_spoke_of_is_protected_and_keeps_its_kind():
    names = ["person", "age", "children", "postcode", "works", "born", "town", "turnover"]
    frame = pl.DataFrame({name: CASES[name][0] for name in names})
    result = shoal.protect(frame, 5, method="mdav")
    after = result.frame
    assert after.columns == names[1:]
    assert after.group_by(after.columns).len()["len"].min() >= 5
    for name in ("children", "postcode", "works", "town"):
        assert after[name].dtype == frame[name].dtype
        assert set(after[name]) <= set(frame[name])
    assert after["born"].cast(pl.String).to_list() == frame["born"].to_list()
    assert after["turnover"].dtype.is_numeric()


@pytest.mark.parametrize(
    "cells",
    [
        pl.Series([datetime.timedelta(1)] * 6),
        pl.Series([datetime.time(8)] * 6),
        pl.Series([[1, 2]] * 6),
        pl.Series([{"a": 1}] * 6),
    ],
)
def test_cells_without_a_mean_are_left_only_if_named(cells):
    frame = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12], "odd": cells})
    with pytest.raises(InputError, match="name it in 'leave'") as caught:
        shoal.protect(frame, 3, method="mdav")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be aggregated"):
        shoal.protect(frame, 3, method="mdav", columns=["odd"])
    dropped = shoal.protect(
        frame, 3, method="mdav", schema={"columns": {"odd": {"role": "identifier", "kind": "category"}}}
    )
    assert dropped.frame.columns == ["x"]
    if not cells.dtype.is_nested():
        left = shoal.protect(frame, 3, method="mdav", leave=["odd"], accept_risk=True)
        assert left.frame["odd"].to_list() == cells.to_list()


def test_texts_are_read_as_what_they_mean():
    assert parse_numbers(pl.Series(["1,007", " 12 ", "1,2", "x", None])).to_list() == [
        1007.0,
        12.0,
        None,
        None,
        None,
    ]
    found = parse_dates(pl.Series(["2020-01-31", "2020-01-31 08:30", "2020-01-31T08:30:01.5", "soon", None]))
    at = datetime.datetime
    assert found.to_list() == [
        at(2020, 1, 31),
        at(2020, 1, 31, 8, 30),
        at(2020, 1, 31, 8, 30, 1, 500_000),
        None,
        None,
    ]
    zoned = parse_dates(pl.Series(["2020-01-31T08:30:00Z", "2020-01-31T10:30:00+0200"]))
    assert zoned.n_unique() == 1
    with pytest.raises(InputError, match="2020-12-31T08:00"):
        read_column(pl.Series("d", ["soon"]), Column("d", kind="date"))
