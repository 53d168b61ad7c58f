"""The page's map is drawn from as much of a table as can be compared in about a minute."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from shoal.comparison import DEFAULT_METHODS
from shoal.schema import Column, Schema
from shoal.server.map_size import MOST_WORK, SLOW, MapSample, many_values

ROWS = 12_944


def _table(levels: int, rows: int = ROWS) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    places = [f"place {each}" for each in range(levels)]
    return pl.DataFrame(
        {"place": rng.choice(places, rows), "age": rng.integers(18, 90, rows), "home": np.arange(rows) // 3}
    )


def _schema(home: str = "leave") -> Schema:
    place = Column("place", role="quasi", kind="category")
    return Schema(
        {"place": place, "age": Column("age", role="quasi"), "home": Column("home", role=home)}, id="t"
    )


def test_a_small_table_is_compared_whole_by_all_methods():
    frame = _table(20, 800)
    assert MapSample.of(frame, _schema(), DEFAULT_METHODS) == MapSample(frame, DEFAULT_METHODS, ())


def test_thousands_of_values_are_compared_on_fewer_rows_and_it_is_said():
    frame = _table(6000)
    sample = MapSample.of(frame, _schema(), DEFAULT_METHODS)
    places = sample.frame["place"].n_unique()
    assert (
        sample.frame.height**2 * (places + 1) <= MOST_WORK < (1.3 * sample.frame.height) ** 2 * 1.3 * places
    )
    assert not set(sample.methods) & set(SLOW)
    rows, slow = sample.notes
    assert rows.startswith(f"Compared on {sample.frame.height:,} rows drawn by chance, of 12,944")
    assert slow == "Left out, since they take minutes on this table: fdm, kckw."
    assert sample.frame.join(frame, on=frame.columns, how="semi").height == sample.frame.height
    (said,) = many_values(_schema(), frame)
    assert said.startswith("'place' has 5,")
    assert many_values(_schema(), _table(900)) == []


@pytest.mark.parametrize("rows", [100_000, 300_000])
def test_households_stay_whole(rows):
    sample = MapSample.of(_table(10, rows), _schema("household"), DEFAULT_METHODS)
    assert 5_000 < sample.frame.height < 12_000
    assert sample.frame.group_by("home").len()["len"].is_between(3, 3).mean() > 0.99
