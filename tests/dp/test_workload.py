"""Counting queries together: exact below the noise, cheaper than one by one, and never dearer than what was charged."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp import Session, count
from shoal.dp.workload._answer import plan_workload
from shoal.dp.workload.strategy import WAYS, Products, alone, applied, blocks, choose_strategy, lengths
from shoal.errors import ShoalError
from shoal.schema import Column, Schema, Unit

SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 100), step=1),
        "sex": Column("sex", kind="category", levels=("f", "m")),
        "region": Column("region", kind="category", levels=("north", "south", "east", "west")),
        "born": Column("born", kind="date", bounds=("1920-01-01", "2020-12-31")),
        "class": Column("class", kind="number", levels=(1, 2, 3)),
        "who": Column("who", kind="category"),
    },
    id="people",
    budget=1e5,
)
RHO = replace(SCHEMA, currency="zcdp", delta=1e-6)
RNG = np.random.default_rng(5)
N = 900
TABLE = pl.DataFrame(
    {
        "age": [None if each % 50 == 0 else float(RNG.integers(0, 100)) for each in range(N)],
        "sex": [("f", "m", "?")[int(RNG.integers(0, 3)) if each % 9 == 0 else each % 2] for each in range(N)],
        "region": RNG.choice(["north", "south", "east", "west"], N).tolist(),
        "born": [f"{int(RNG.integers(1920, 2021))}-05-05" for _ in range(N)],
        "class": RNG.integers(1, 5, N).tolist(),
        "who": [str(each // 3) for each in range(N)],
    }
)
QUERIES = [
    "SELECT COUNT(*) FROM t WHERE age >= 40 AND age < 65",
    "SELECT COUNT(*) FROM t WHERE NOT (age >= 40) OR sex = 'm'",
    "SELECT COUNT(*) FROM t WHERE age IS NULL",
    "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex",
    "SELECT region, sex, COUNT(*) AS n FROM t WHERE age BETWEEN 20 AND 60 GROUP BY region, sex",
    "SELECT COUNT(*) FROM t WHERE region IN ('north', 'east') AND age <> 40",
    "SELECT class, COUNT(*) FROM t WHERE age < 30 GROUP BY class",
    "SELECT COUNT(*) FROM t",
]


@pytest.mark.parametrize("schema", [SCHEMA, RHO])
def test_without_noise_the_answers_are_those_asked_alone(schema):
    with Session(TABLE, schema) as s:
        found = s.workload(QUERIES, 2e3)
        assert schema is RHO or found.strategy != "one by one"
        for query, each in zip(QUERIES, found.answers, strict=True):
            exact = s.ask(query, 100.0).value
            if isinstance(exact, list):
                assert len(exact) == len(each.value)
                for row, ours in zip(exact, each.value, strict=True):
                    assert {k: v for k, v in row.items() if k not in ("n", "count")} == {
                        k: v for k, v in ours.items() if k not in ("n", "count")
                    }
                    name = "n" if "n" in row else "count"
                    assert ours[name] == pytest.approx(row[name], abs=2)
            else:
                assert each.value == pytest.approx(exact, abs=2)


def test_every_way_gives_the_exact_counts_below_its_noise():
    from shoal.dp.workload.strategy import _taken_apart

    s = Session(TABLE, RHO)
    _, domain, _ = plan_workload(s, QUERIES, 10_000)
    counts = domain.counts(s._rows.frame)
    exact = domain.matrix.reshape(len(domain.matrix), -1) @ counts.ravel()
    assert exact[0] == TABLE.filter((pl.col("age") >= 40) & (pl.col("age") < 65)).height
    assert exact[-1] == N
    for ways in [("even",) * 4, ("halves",) * 4, ("cells",) * 4, ("halves", "even", "even", "cells")]:
        strategy = _taken_apart(Products.of(domain.matrix), ways, "zcdp", Fraction(10**12), 1)
        assert strategy.answers(counts, domain.matrix) == pytest.approx(exact, abs=1e-6)


def test_dates_and_queries_of_python():
    with Session(TABLE, RHO) as s:
        sql = "SELECT COUNT(*) FROM t WHERE born >= '1950-01-01' AND born < '1980-01-01'"
        found = s.workload([sql, count()], 5e4)
        assert found.answers[0].value == pytest.approx(s.ask(sql, 100.0).value, abs=2)
        assert found.answers[1].value == pytest.approx(N, abs=2)


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 11])
def test_blocks_put_a_query_together_and_move_as_stated(way, size):
    parts = WAYS[way](size)
    w = np.random.default_rng(1).normal(size=size)
    x = np.random.default_rng(2).integers(0, 50, size)
    assert sum((each.back @ w) @ (each.rows @ x) for each in parts) == pytest.approx(w @ x)
    for each in parts:
        assert np.abs(each.rows).sum(axis=0).max() == each.size
        assert (each.rows**2).sum(axis=0).max() == each.square


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_blocks_cost_what_was_charged_and_not_more(currency, rows):
    queries = np.random.default_rng(3).integers(0, 2, (12, 5, 3)).astype(float)
    for ways in itertools.product(WAYS, repeat=2):
        from shoal.dp.workload.strategy import _taken_apart

        found = _taken_apart(Products.of(queries), ways, currency, Fraction(1, 7), rows)
        spent = Fraction(0)
        for at, block in enumerate(blocks(ways, (5, 3))):
            if found.shares[at]:
                size, square = lengths(block)
                scale = Fraction(found.noise(at, size, square).scale)
                spent += (
                    Fraction(rows * size) / scale
                    if currency == "pure"
                    else Fraction(rows**2 * square) / (2 * scale**2)
                )
        assert spent <= Fraction(1, 7)
        assert spent > Fraction(1, 7) * (1 - Fraction(1, 10**9))


def test_deviations_are_those_of_the_answers():
    queries = [
        f"SELECT COUNT(*) FROM t WHERE age >= {a} AND age < {a + w}"
        for a in range(0, 80, 8)
        for w in (10, 30)
    ]
    for schema, amount in ((SCHEMA, 1.0), (RHO, 0.5)):
        with Session(TABLE, schema) as s:
            _, domain, strategy = plan_workload(s, queries, s._amount(amount))
            exact = domain.matrix.reshape(len(queries), -1) @ domain.counts(s._rows.frame).ravel()
            off = np.array(
                [strategy.answers(domain.counts(s._rows.frame), domain.matrix) - exact for _ in range(400)]
            )
            assert np.abs(off.mean(axis=0)).max() < 5 * math.sqrt(strategy.variances.max() / 400)
            assert (off.var(axis=0) / strategy.variances).mean() == pytest.approx(1, abs=0.1)
            inside = [
                low <= true <= high
                for true, each in zip(exact, s.workload(queries, amount).answers, strict=True)
                for low, high in [each.interval]
            ]
            assert sum(inside) >= len(inside) - 5


def test_the_strategy_fits_the_questions():
    amount = Fraction(1, 10)
    ranges = np.array(
        [[a <= at < b for at in range(128)] for a in range(0, 128, 5) for b in range(a + 1, 129, 5)], float
    )
    found = choose_strategy(ranges, [1] * len(ranges), "zcdp", amount, orders=[True])
    assert found.ways == ("halves",)
    assert alone([1] * len(ranges), "zcdp", amount).variances.mean() > 20 * found.variances.mean()
    sizes = (5, 6, 7)
    tables = []
    for key in itertools.combinations(range(3), 2):
        for place in itertools.product(*(range(sizes[at]) for at in key)):
            mask = np.ones(sizes, bool)
            for at, here in zip(key, place, strict=True):
                mask &= (np.arange(sizes[at]) == here).reshape([-1 if axis == at else 1 for axis in range(3)])
            tables.append(mask.astype(float))
    found = choose_strategy(np.array(tables), [30, 35, 42], "zcdp", amount)
    assert found.ways == ("even", "even", "even")
    assert alone([30, 35, 42], "zcdp", amount).variances.mean() > found.variances.mean()
    one = choose_strategy(np.array([[1.0, 0.0]]), [1], "zcdp", amount)
    assert one.variances[0] <= alone([1], "zcdp", amount).variances[0]


def test_one_charge_one_entry_and_the_same_answer_again():
    with Session(TABLE, replace(RHO, budget=2.0, version="1")) as s:
        found = s.workload(QUERIES, rho=0.01)
        again = s.workload(QUERIES, rho=0.01)
        assert [each.value for each in found.answers] == [each.value for each in again.answers]
        assert (found.rho, again.rho) == (0.01, 0.0)
        assert s.ledger.spent("people") == 10_000
        kinds = [each.kind for each in s.ledger.entries(dataset="people")]
        assert kinds.count("charge") == 1
        assert found.guarantee.startswith("guarantee: rho-zCDP, add or remove one record; all answers")
        assert found.to_dict()["strategy"] == found.strategy


def test_the_price_told_before_is_what_a_workload_costs():
    with Session(TABLE, SCHEMA, budget=2.0, data_version="first") as session:
        assert session.version == "first"
        told = session.workload_cost(QUERIES, 0.5)
        assert (told.epsilon, told.spent, told.rho, told.affordable) == (0.5, 0.5, None, True)
        assert told.workloads_left == 4
        assert not session.workload_cost(QUERIES, 2.5).affordable
        assert session.workload(QUERIES, 0.5).strategy == told.strategy
        assert session.remaining() == 1.5
        again = session.workload_cost(QUERIES, 0.5)
        assert (again.epsilon, again.workloads_left) == (0.0, None)


def test_a_unit_of_several_rows_moves_several():
    schema = replace(RHO, unit=Unit("who", 2))
    with Session(TABLE, schema) as s:
        found = s.workload(["SELECT COUNT(*) FROM t", "SELECT sex, COUNT(*) FROM t GROUP BY sex"], 5e4)
        assert found.answers[0].value == pytest.approx(600, abs=2)  # two of three rows
        assert "at most 2 rows of a unit count" in found.notes[-1]
    one = plan_workload(Session(TABLE, RHO), QUERIES, 10_000)[2]
    two = plan_workload(Session(TABLE, schema), QUERIES, 10_000)[2]
    assert two.variances == pytest.approx(4 * one.variances, rel=1e-3)


def test_too_many_combinations_are_answered_one_by_one():
    columns = {f"c{at}": Column(f"c{at}", kind="category", levels=tuple("abcdefgh")) for at in range(8)}
    table = pl.DataFrame({name: ["a", "b"] * 20 for name in columns})
    with Session(table, Schema(columns, id="wide", budget=1e6)) as s:
        found = s.workload([f"SELECT COUNT(*) FROM t WHERE c{at} = 'a'" for at in range(8)], 5e5)
        assert (found.strategy, found.gain) == ("one by one", pytest.approx(1.0))
        assert all(each.value == pytest.approx(20, abs=1) for each in found.answers)


@pytest.mark.parametrize(
    ("queries", "sentence"),
    [
        ([], "a list of at least one query"),
        ("SELECT COUNT(*) FROM t", "a list of at least one query"),
        (["SELECT SUM(age) FROM t"], "queries of one COUNT"),
        (["SELECT COUNT(*), COUNT(age) FROM t"], "queries of one COUNT"),
        (["SELECT COUNT(*) FROM t WHERE age * 2 > 5"], "Conditions of a workload compare"),
        (["SELECT COUNT(*) FROM t WHERE who = '3'"], "Conditions of a workload compare|declared levels"),
        (["SELECT sex, COUNT(*) FROM t GROUP BY ROLLUP(sex)"], "queries of one COUNT"),
        (["SELECT sex, COUNT(*) AS n FROM t GROUP BY sex HAVING n > 3"], "HAVING"),
        (["SELECT COUNT(*) FROM t WHERE nothing = 3"], "nothing"),
    ],
)
def test_what_cannot_be_asked_together_is_refused_by_name(queries, sentence):
    with Session(TABLE, RHO) as s:
        with pytest.raises(ShoalError, match=sentence):
            s.workload(queries, rho=0.1)
        assert s.ledger.spent("people") == 0


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["even", "halves", "cells"]),
    st.sampled_from(["even", "halves", "cells"]),
)
@settings(max_examples=30, deadline=None)
def test_loads_of_products_are_those_of_the_whole_queries(seed, first, second):
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 6, 2).tolist())
    products = [np.outer(rng.random(sizes[0]) < 0.5, rng.random(sizes[1]) < 0.5) for _ in range(4)]
    queries = np.array([*products, *(rng.random((3, *sizes)) < 0.5)], dtype=float)
    taken = Products.of(queries)
    assert taken.plain[:4].all()
    expected = [
        (applied(queries, [each.back for each in block], 1).reshape(7, -1) ** 2).sum(axis=1)
        for block in blocks((first, second), sizes)
    ]
    np.testing.assert_allclose(taken.loads((first, second)), expected, atol=1e-12)
