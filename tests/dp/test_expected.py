"""The error to expect of ranks, variances and covariances: told from public facts, and true of what is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from shoal.dp import Session
from shoal.dp.answering.cost import parts_of
from shoal.dp.answering.shown import figures
from shoal.schema import Column, Schema, Unit
from shoal.server.accuracy import Forecast

from .test_currencies import drawn

COLUMNS = {
    "age": Column("age", bounds=(0, 110), step=1),
    "wage": Column("wage", bounds=(0, 1000)),
    "sex": Column("sex", kind="category", levels=("f", "m")),
    "who": Column("who", kind="category"),
}
PURE = Schema(COLUMNS, id="t", budget=50.0)
ZCDP = replace(PURE, currency="zcdp", delta=1e-6)
BOTH = pytest.mark.parametrize("schema", [PURE, ZCDP], ids=["pure", "zcdp"])


def _table(ages: np.ndarray, wages: np.ndarray | None = None) -> pl.DataFrame:
    wages = ages if wages is None else wages
    cells = {"age": ages, "wage": wages, "sex": ["f"] * len(ages), "who": np.arange(len(ages))}
    return pl.DataFrame({name: [str(each) for each in values] for name, values in cells.items()})


@BOTH
@pytest.mark.parametrize("spread", [1, 30], ids=["ties", "spread"])
@pytest.mark.parametrize(("sql", "share"), [("MEDIAN(age)", 0.5), ("QUANTILE(age, 0.9)", 0.9)])
def test_a_quantile_is_off_by_no_more_ranks_than_told(schema, spread, sql, share):
    ages = 40 + np.arange(1000) % spread
    plan, _, noisy = drawn(f"SELECT {sql} FROM t", 0.05, schema, table=_table(ages))
    (part,) = parts_of(plan)
    points = np.array(noisy[0]).reshape(-1)
    below, upto = ((compare(ages, points[:, None])).sum(axis=1) for compare in (np.less, np.less_equal))
    off = np.maximum(np.maximum(below - share * 1000, share * 1000 - upto), 0)
    assert np.mean(off <= part["error_in_rows"]) >= 0.95
    assert np.isclose(points, np.round(points)).all()


@BOTH
@pytest.mark.parametrize("figure", ["MIN", "MAX"])
def test_at_most_so_many_rows_lie_beyond_an_end(schema, figure):
    ages = np.arange(1000) // 10
    plan, _, noisy = drawn(f"SELECT {figure}(age) FROM t", 0.5, schema, table=_table(ages))
    (part,) = parts_of(plan)
    points = np.array(noisy[0]).reshape(-1)[:, None]
    beyond = (ages < points if figure == "MIN" else ages > points).sum(axis=1)
    assert np.mean(beyond <= part["error_in_rows"]) >= 0.95
    assert np.quantile(beyond, 0.97) >= part["error_in_rows"] / 4  # and not far beyond what is needed


@BOTH
@pytest.mark.parametrize("sql", ["VAR_POP(age)", "VAR_SAMP(age)", "COVAR_POP(age, wage)"])
@pytest.mark.parametrize("ages", [[0], [55], [0, 110]], ids=["low", "middle", "ends"])
def test_the_error_of_a_variance_is_that_of_its_rows(schema, sql, ages):
    plan, _, noisy = drawn(
        f"SELECT {sql} FROM t", 0.2, schema, draws=400, table=_table(np.resize(ages, 1000))
    )
    (part,) = parts_of(plan)
    told = part["error_of_1000_rows"]
    truth = np.cov(np.resize(ages, 1000), np.resize(ages, 1000), bias="POP" in sql)[0, 1]
    values = [figures(plan, tuple(each[at : at + 1] for each in noisy)).value for at in range(400)]
    away = np.abs(np.array(values) - truth)
    assert np.mean(away <= told) >= 0.91  # 400 draws, 0.95 told: by chance once in 10,000
    if ages == [0] and "VAR_POP(" in sql:
        assert np.quantile(away, 0.98) >= told / 2  # and not far beyond what is needed
    assert "inside" not in part


def test_words_for_every_kind_of_figure_and_what_it_is_made_of():
    ages = np.arange(50)
    with Session(_table(ages), PURE) as session:
        said = {
            sql: Forecast(session.cost(f"SELECT {sql} FROM t", 0.5)).sentence
            for sql in ("MEDIAN(age)", "MAX(age)", "MODE(sex)", "STDDEV_POP(age)", "AVG(age) * 2 AS twice")
        }
        assert said["MEDIAN(age)"].startswith("Right within 16 ranks with 95 %: costs epsilon 0.5")
        assert said["MAX(age)"].startswith("With at most 62 rows above it with 95 %: costs")
        assert said["MODE(sex)"].startswith("With no level 8 rows more frequent with 95 %: costs")
        assert said["STDDEV_POP(age)"].startswith("Its square within about ±76 for 1,000 rows in a group")
        assert "avg_age within about ±0.66 for 1,000 rows" in said["AVG(age) * 2 AS twice"]
        several = "SELECT sex, COUNT(*) AS n, AVG(age) AS a, STDDEV(age) AS s, MIN(age) FROM t GROUP BY sex"
        parts = session.cost(several, 2).parts
        assert not any("inside" in each for each in parts)
        assert "square_of_1000_rows" in parts[2]


def test_nothing_of_it_depends_on_the_rows():
    sql = "SELECT sex, MEDIAN(age), MAX(age), VAR_POP(wage), COVAR_POP(age, wage) FROM t GROUP BY sex"
    for schema in (PURE, ZCDP, replace(PURE, unit=Unit("who", 40))):
        costs = []
        for ages in (np.arange(3), np.full(900, 7)):
            with Session(_table(ages), schema) as session:
                costs.append(session.cost(sql, **{session.currency.word: 1.0}).parts)
        assert costs[0] == costs[1]
