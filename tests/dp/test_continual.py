"""Streams: running totals of appended rows for one charge, that no restart forgets."""

from __future__ import annotations

import math
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp import Ledger, Session
from shoal.dp.continual import PeriodTree, best_tree, toeplitz, told
from shoal.dp.continual import _stream as stream_module
from shoal.dp.continual._design import Design, laplace_sum_quantile, laplace_sum_radius
from shoal.dp.unit import ENDED
from shoal.errors import BudgetError, LedgerError, ParameterError, QueryError
from shoal.release import KeptReleases, release_marginals
from shoal.schema import Cells, Column, Schema, Unit

SCHEMA = Schema(
    {
        "age": Column("age", bounds=(0, 100)),
        "region": Column("region", kind="category", levels=("north", "south")),
        "who": Column("who", kind="category"),
    },
    id="visits",
    budget=1e6,
)
COUNT = "SELECT COUNT(*) FROM t WHERE age >= 40"
NONE = pl.DataFrame(
    {"age": [], "region": [], "who": []}, schema={"age": pl.Float64, "region": pl.String, "who": pl.String}
)


def rows(n: int, who: str = "p", region: str = "north") -> pl.DataFrame:
    return pl.DataFrame({"age": [50.0] * n, "region": [region] * n, "who": [who] * n})


@given(st.sampled_from([2, 3, 5, 7, 11, 29]), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_a_running_total_is_a_signed_sum_of_nodes(base, periods):
    levels = 1
    while (base**levels - 1) // (2 if base > 2 else 1) < periods:
        levels += 1
    tree = PeriodTree(periods, base, levels)
    for period in range(1, periods + 1):
        held = np.zeros(base**levels, dtype=int)
        nodes = tree.nodes(period)
        for sign, (level, place) in nodes:
            assert 0 <= level < levels  # so that a period lies in as many nodes as there are levels
            held[place * base**level : (place + 1) * base**level] += sign
        assert held.tolist() == [1] * period + [0] * (len(held) - period)
        assert len(nodes) == len(set(nodes))


def test_the_tree_beats_the_binary_one():
    for periods in (12, 52, 365):
        best, binary = best_tree(periods), PeriodTree(periods, 2, periods.bit_length())
        assert best.levels**2 * best.used < 0.3 * binary.levels**2 * binary.used


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_totals_are_made_of_weighted_sums_of_the_past(exact):
    shape = toeplitz(len(exact))
    released = [shape.weighted(exact[: at + 1]) for at in range(len(exact))]
    for at in range(len(exact)):
        assert shape.total(released[: at + 1]) == sum(exact[: at + 1])


def test_without_noise_a_stream_tells_running_totals(tmp_path):
    schema = SCHEMA
    with Session(NONE, schema, ledger=tmp_path / "l.db") as session:
        stream = session.stream("s", "SELECT region, SUM(age) FROM t GROUP BY region", epsilon=1e5, periods=9)
        for n in range(1, 4):
            stream.add(pl.concat([rows(n), rows(1, region="south")]), period=n)
        found = stream.to_frame()
    assert found["period"].to_list() == [1, 1, 2, 2, 3, 3]
    assert found["region"].to_list() == ["north", "south"] * 3
    assert np.allclose(found["total"], [50, 50, 150, 100, 300, 150], atol=0.1)
    assert np.allclose(found["change"], [50, 50, 100, 50, 150, 50], atol=0.1)


def test_one_charge_whatever_comes_after(tmp_path):
    with Session(NONE, SCHEMA, budget=2.0, ledger=tmp_path / "l.db") as session:
        stream = session.stream("s", COUNT, epsilon=1.5, periods=3)
        assert (stream.epsilon, session.remaining()) == (1.5, 0.5)
        for _ in range(3):
            stream.add(rows(2))
        assert session.remaining() == 0.5
        with pytest.raises(BudgetError, match="opened for 3 periods, which are over"):
            stream.add(rows(2))
        with pytest.raises(BudgetError):
            session.stream("another", COUNT, epsilon=1.5, periods=3)


def test_a_stream_is_found_again_where_it_stood(tmp_path):
    """Opened again it tells the same totals, and nodes keep their noise."""
    file = tmp_path / "l.db"
    with Session(NONE, SCHEMA, ledger=file) as session:
        first = session.stream("s", COUNT, epsilon=1.0, periods=20)
        told_first = [first.add(rows(1)).value for _ in range(4)]
        noise = dict(first._state._do("SELECT node, drawn FROM noise").fetchall())
    with Session(NONE, SCHEMA, ledger=file) as session:
        spent = session.remaining()
        again = session.stream("s", COUNT, epsilon=1.0, periods=20)
        assert session.remaining() == spent
        assert [step.value for step in again.steps()] == told_first
        assert again.add(rows(1), period=5).period == 5
        after = dict(again._state._do("SELECT node, drawn FROM noise").fetchall())
        assert noise.items() <= after.items()
        assert [each["name"] for each in told(again._state, "visits")] == ["s"]
        assert len(told(again._state, "visits")[0]["steps"]) == 5
    assert (tmp_path / "l.db.streams").stat().st_mode & 0o077 == 0


def test_the_noise_of_a_node_is_drawn_once(tmp_path, monkeypatch):
    """Drawn anew for every total that it is part of, its noise could be averaged away."""
    drawn, draw = [], Design.draw
    monkeypatch.setattr(Design, "draw", lambda self, width: drawn.append(width) or draw(self, width))
    for _ in range(2):
        with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
            stream = session.stream("s", COUNT, epsilon=1.0, periods=20)
            for _ in range(6):
                stream.add(rows(1))
    needed = [node for period in range(1, 13) for node in best_tree(20).nodes(period)]
    assert len(drawn) == len(set(needed)) < len(needed)


def test_a_crash_within_a_period_changes_nothing(tmp_path, monkeypatch):
    with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
        stream = session.stream("s", COUNT, epsilon=1.0, periods=20)
        stream.add(rows(1))
        before = list(stream._state._base.iterdump())
        monkeypatch.setattr(type(stream._state), "add_period", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            stream.add(rows(1))
        assert list(stream._state._base.iterdump()) == before


def test_lost_state_is_never_drawn_again(tmp_path):
    file = tmp_path / "l.db"
    with Session(NONE, SCHEMA, ledger=file) as session:
        session.stream("s", COUNT, epsilon=1.0, periods=20).add(rows(1))
    (tmp_path / "l.db.streams").unlink()
    for analyst in ("me", "another"):
        with (
            Session(NONE, SCHEMA, ledger=file, analyst=analyst) as session,
            pytest.raises(BudgetError, match="its state is not here"),
        ):
            session.stream("s", COUNT, epsilon=1.0, periods=20)


def test_an_older_copy_of_the_state_tells_no_period_a_second_time(tmp_path):
    """Drawn anew for each copy, sixty totals of one week would average the noise away."""
    file, streams = tmp_path / "l.db", tmp_path / "l.db.streams"
    with Session(NONE, SCHEMA, ledger=file) as session:
        session.stream("s", COUNT, epsilon=1.0, periods=20).add(rows(1))
    shutil.copy(streams, tmp_path / "older")
    with Session(NONE, SCHEMA, ledger=file) as session:
        session.stream("s", COUNT, epsilon=1.0, periods=20).add(rows(2))
    shutil.copy(streams, tmp_path / "newest")
    shutil.copy(tmp_path / "older", streams)
    with Session(NONE, SCHEMA, ledger=file) as session:
        stream = session.stream("s", COUNT, epsilon=1.0, periods=20)
        with pytest.raises(BudgetError, match="older or another copy"):
            stream.add(rows(2))
        assert len(stream) == 1
    shutil.copy(tmp_path / "newest", streams)
    with Session(NONE, SCHEMA, ledger=file) as session:
        assert session.stream("s", COUNT, epsilon=1.0, periods=20).add(rows(3)).period == 3


def test_of_two_copies_of_the_state_one_goes_on(tmp_path, monkeypatch):
    with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
        first = session.stream("s", COUNT, epsilon=1.0, periods=20)
        first.add(rows(1))
        shutil.copy(tmp_path / "l.db.streams", tmp_path / "copy")
        second = session.stream("s", COUNT, epsilon=1.0, periods=20, state=tmp_path / "copy")
        first.add(rows(2))
        monkeypatch.setattr(type(second), "_require_newest", lambda *_: None)  # it looked a moment before
        with pytest.raises(BudgetError, match="another copy"):
            second.add(rows(2))
        monkeypatch.undo()
        assert len(second) == 2  # as many periods as the ledger knows, and not the ones it knows
        with pytest.raises(BudgetError, match="another copy"):
            second.add(rows(2))
        assert first.add(rows(3)).period == 3
        assert session.ledger.verify().holds


def test_a_period_that_the_ledger_did_not_learn_of_is_made_known_with_the_next(tmp_path, monkeypatch):
    def falls_over(*_, **__):
        raise LedgerError("gone")

    with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
        stream = session.stream("s", COUNT, epsilon=1.0, periods=20)
        monkeypatch.setattr(stream_module, "note_period", falls_over)
        assert stream.add(rows(1)).period == 1
        for _ in range(2):  # one period at most is told that the ledger does not know
            with pytest.raises(LedgerError, match="gone"):
                stream.add(rows(1))
        assert len(stream) == 1
        monkeypatch.undo()
        assert stream.add(rows(1), period=2).period == 2
        said = [each.body for each in session.ledger.entries() if each.kind == "event"]
        assert said == ["period 1 of stream 's'", "period 2 of stream 's'"]


def test_who_adds_to_one_file_a_moment_before_another_is_told_as_well(tmp_path, monkeypatch):
    """The other makes both periods known; the first was then told of an older or another copy."""
    with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
        first, second = (session.stream("s", COUNT, epsilon=1.0, periods=20) for _ in range(2))

        def late(*words, **more):
            monkeypatch.undo()
            assert second.add(rows(1)).period == 2
            return stream_module.note_period(*words, **more)

        monkeypatch.setattr(stream_module, "note_period", late)
        assert first.add(rows(1)).period == 1
        said = [each.body for each in session.ledger.entries() if each.kind == "event"]
        assert said == ["period 1 of stream 's'", "period 2 of stream 's'"]


def test_a_total_that_has_ended_is_said_of_streams_and_of_free_answers(tmp_path):
    """Both told the stamp that was written down when they were paid for, or left the end out."""
    regions = NONE.select("region")
    schema = Schema({"region": SCHEMA.columns["region"]}, id="visits", budget=1e6, version="1")
    count = "SELECT region, COUNT(*) AS n FROM t GROUP BY region"
    with Ledger(tmp_path / "l.db") as ledger:
        bought = release_marginals(regions, schema, 2.0, columns=["region"], ledger=ledger)
        kept = KeptReleases(ledger, schema)
        held, plain = (Session(regions, schema, ledger=ledger, releases=[each]) for each in (kept, bought))
        before = plain.stream("s", count, epsilon=1.0, periods=20)
        said = (before.guarantee, held.ask(count, 0.1).guarantee, plain.ask(count, 0.1).guarantee)
        assert not any(each.endswith(ENDED) for each in said)
        ledger.end_total("visits", "protected copy")
        after = plain.stream("t", count, epsilon=1.0, periods=20)
        free = [session.ask(count, 0.1) for session in (held, plain)]
        assert [each.epsilon for each in free] == [0, 0]
        said = [each.guarantee for each in (before, after, *free)]
        said += [each["guarantee"] for each in told(before._state, "visits", ended=True)]
        said += [each.to_dict()["stamp"] for each in kept.of("me")]
        assert [each.count(ENDED) for each in said] == [1] * 7


def test_a_person_counts_so_many_rows_in_all_periods_together(tmp_path):
    schema = Schema(SCHEMA.columns, id="visits", budget=1e6, unit=Unit("who", 3))
    with Session(NONE, schema) as session:
        stream = session.stream("s", COUNT, epsilon=1e5, periods=9)
        found = [
            stream.add(each).value
            for each in (rows(2), pl.concat([rows(2), rows(1, "q")]), rows(5), rows(9, "q"))
        ]
        assert found == [2, 4, 4, 6]
        assert stream._design.scale == Fraction(3 * best_tree(9).levels, 100_000)


def test_rows_that_are_not_asked_about_use_up_nothing_of_a_person():
    schema = Schema(SCHEMA.columns, id="visits", budget=1e6, unit=Unit("who", 3))
    with Session(NONE, schema) as session:
        stream = session.stream("s", COUNT, epsilon=1e5, periods=9)
        young = rows(7).with_columns(age=10.0)
        assert [stream.add(each).value for each in (young, rows(2), young, rows(2))] == [0, 2, 2, 3]


def test_a_ledger_whose_chain_is_broken_tells_no_period(tmp_path):
    with Session(NONE, SCHEMA, ledger=tmp_path / "l.db") as session:
        session.stream("s", COUNT, epsilon=1.0, periods=20).add(rows(1))
        stream = session.stream("s", COUNT, epsilon=1.0, periods=20)
        with sqlite3.connect(tmp_path / "l.db") as raw:  # as if the period had never been told
            raw.execute("UPDATE shoal_entries SET nonce = '' WHERE kind = 'event'")
        session.ledger._watch._checked_at = -math.inf
        with pytest.raises(LedgerError, match="chain is broken, so nothing is answered"):
            stream.add(rows(1))
        assert len(stream) == 1


def test_a_stream_of_cells_is_refused():
    cells = replace(SCHEMA, cells=Cells(("age",), (400,), 2))
    with (
        Session(NONE, cells, "correlated") as session,
        pytest.raises(ParameterError, match="Streams are for modes 'dp' and 'group'"),
    ):
        session.stream("s", COUNT, epsilon=1.0, periods=4)


def test_noise_is_as_wide_as_it_says():
    """Variance of totals over many draws, and the share of intervals that miss, in both currencies."""
    with Session(NONE, SCHEMA) as session:
        stream = session.stream("s", COUNT, epsilon=1.0, periods=30)
        plan = stream._plan
    for currency in ("pure", "zcdp"):
        design = Design(plan, 30, 5_000, currency, 1)
        draws, period = 4000, 17
        if currency == "pure":
            noise = {}
            total = design.shape.total(
                period, np.zeros(draws), lambda node: noise.setdefault(node, np.array(design.draw(draws)))
            )
            variance = 2 * float(design.scale) ** 2 * len(design.shape.nodes(period))
        else:
            released = [np.array(design.draw(draws)) for _ in range(period)]
            total = np.array(
                [design.shape.total([int(each[at]) for each in released]) for at in range(draws)]
            )
            variance = design.shape.deviation(period) ** 2 * float(design.scale)
        assert abs(total.var() / variance - 1) < 0.15
        assert abs(total.mean()) < 5 * math.sqrt(variance / draws)
        missed = (np.abs(total) > design.radius(period)).mean()
        assert 0.025 < missed < 0.065


@pytest.mark.parametrize("text", [COUNT, "SELECT SUM(age) FROM t"])
@pytest.mark.parametrize(("periods", "units_rows"), [(1, 1), (7, 3), (40, 2)])
def test_the_noise_pays_for_all_that_the_rows_of_a_unit_move(text, periods, units_rows):
    """All of them in the first period: of the tree they are in one node of each level, of the weights in every release."""
    with Session(NONE, SCHEMA) as session:
        plan = session.stream("s", text, epsilon=1.0, periods=2)._plan
    moved, spent = plan.releases[0].sensitivity * units_rows, Fraction(5_000, 10**6)
    pure, zcdp = (Design(plan, periods, 5_000, currency, units_rows) for currency in ("pure", "zcdp"))
    nodes = {node for at in range(1, periods + 1) for _, node in pure.shape.nodes(at)}
    first = [node for node in nodes if node[1] == 0]
    assert len(first) <= pure.shape.levels
    assert moved * pure.shape.levels / pure.scale == spent
    released = [zcdp.shape.weighted([moved] + [0] * at) for at in range(periods)]
    assert sum(Fraction(each) ** 2 for each in released) / (2 * zcdp.scale) == spent


def test_the_quantile_of_sums_of_laplace_noise():
    for count in (1, 4, 17):  # the two ways agree
        assert abs(laplace_sum_radius(300.0, count) / (300 * laplace_sum_quantile(count)) - 1) < 0.01
    draws = np.random.default_rng(1).laplace(size=(40_000, 5)).sum(axis=1)
    assert abs((np.abs(draws) > laplace_sum_quantile(5)).mean() - 0.05) < 0.006


def test_streams_in_zcdp(tmp_path):
    schema = Schema(SCHEMA.columns, id="visits", budget=10.0, currency="zcdp", delta=1e-6)
    with Session(NONE, schema, ledger=tmp_path / "l.db") as session:
        before = session.remaining()
        stream = session.stream("s", COUNT, rho=0.4, periods=52)
        assert stream.add(rows(3)).period == 1
        assert abs(before - session.remaining() - 0.4) < 1e-9
        assert "rho-zCDP" in stream.guarantee


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ({"query": "SELECT AVG(age) FROM t"}, QueryError, "one COUNT or SUM"),
        ({"query": "SELECT COUNT(*), SUM(age) FROM t"}, QueryError, "one COUNT or SUM"),
        ({"query": "SELECT COUNT(*) FROM t HAVING COUNT(*) > 3"}, QueryError, "one COUNT or SUM"),
        ({"periods": 0}, ParameterError, "'periods' must be a whole number from 1 to 10000"),
        ({"periods": True}, ParameterError, "'periods' must be"),
        ({"name": " "}, ParameterError, "The name of a stream"),
        ({"epsilon": 1e-6}, ParameterError, "at least 0.001"),
    ],
)
def test_what_no_stream_can_be_of(words, error, said):
    with Session(NONE, SCHEMA) as session:
        before = session.remaining()
        with pytest.raises(error, match=said):
            session.stream(**{"name": "s", "query": COUNT, "epsilon": 1.0, "periods": 4, **words})
        assert session.remaining() == before


@pytest.mark.parametrize("name", ["period", "total", "low", "high", "change"])
def test_groups_named_as_a_number_of_the_rows_are_refused_before_the_charge(name):
    schema = Schema({name: Column(name, kind="category", levels=("a", "b"))}, id="named", budget=1.0)
    with Session(pl.DataFrame({name: ["a"]}), schema) as session:
        with pytest.raises(QueryError, match=f"may not be grouped by a column named '{name}'"):
            session.stream("s", f'SELECT COUNT(*) FROM t GROUP BY "{name}"', 1.0, 4)
        assert session.remaining() == 1.0


def test_periods_come_in_order_and_bad_rows_take_none(tmp_path):
    with Session(NONE, SCHEMA) as session:
        stream = session.stream("s", COUNT, epsilon=1.0, periods=4)
        with pytest.raises(ParameterError, match="next period of stream 's' is 1. Got 2"):
            stream.add(rows(1), period=2)
        with pytest.raises(ValueError, match="declares column"):
            stream.add(pl.DataFrame({"age": [1]}))
        assert len(stream) == 0
        rows(3).write_parquet(tmp_path / "a.parquet")
        assert stream.add(tmp_path / "a.parquet").period == 1


def test_a_ledger_by_address_needs_a_file_for_its_streams(postgres):
    with (
        Ledger(postgres) as ledger,
        Session(NONE, SCHEMA, ledger=ledger) as session,
        pytest.raises(ParameterError, match="'state' must name a file"),
    ):
        session.stream("s", COUNT, epsilon=1.0, periods=4)
