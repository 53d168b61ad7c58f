"""The log by rows: states, filters, pages; an independent count over all entries agrees."""

from __future__ import annotations

import contextlib

import polars as pl
import pytest

from shoal.dp import Ledger, Session
from shoal.dp.ledger.log import STATES, Filters, read_log
from shoal.errors import BudgetError, ParameterError
from shoal.schema import Column, Schema

SCHEMA = Schema({"x": Column("x", bounds=(0, 10))}, id="t", budget=100.0)


class PowerCutError(Exception):
    pass


@pytest.fixture(scope="module")
def ledger():
    with Ledger() as ledger:
        session = Session(pl.DataFrame({"x": [1, 5, 9]}), SCHEMA, ledger=ledger, data_version="1")
        for number in range(6):
            session.ask(
                f"SELECT COUNT(*) FROM t WHERE x >= {number}", 1.0, analyst="ann" if number % 2 else "bob"
            )
        session.ask("SELECT COUNT(*) FROM t WHERE x >= 1", 1.0, analyst="bob")  # ann's, given again
        with contextlib.suppress(BudgetError):
            session.ask("SELECT SUM(x) FROM t", 500.0, analyst="eve")

        def cut(name):
            if name == "charge-committed":
                raise PowerCutError

        ledger._hook, hook = cut, ledger._hook
        with contextlib.suppress(PowerCutError):
            session.ask("SELECT AVG(x) FROM t", 1.0, analyst="ann")
        ledger._hook = hook
        yield ledger


@pytest.mark.parametrize(
    ("state", "count"),
    [("answered", 6), ("given again", 1), ("refused", 1), ("charged, no answer stored", 1), ("caps", 1)],
)
def test_each_question_is_one_row_with_its_state(ledger, state, count):
    found = read_log(ledger, Filters(state=state)).rows
    assert [row.state for row in found] == [state] * count


def test_questions_are_all_that_was_asked_whatever_became_of_it(ledger):
    found = read_log(ledger, Filters(state="questions")).rows
    assert len(found) == 9
    assert {row.state for row in found} == {"answered", "given again", "refused", "charged, no answer stored"}


def test_all_entries_but_stored_answers_are_rows_and_pages_join(ledger):
    expected = [each for each in ledger.entries() if each.kind != "settle"][::-1]
    whole = read_log(ledger)
    assert ([row.entry for row in whole.rows], whole.older) == (expected, None)
    pieces, before = [], None
    while True:
        page = read_log(ledger, before=before, most=4)
        pieces += [row.entry for row in page.rows]
        before = page.older
        if before is None:
            break
    assert pieces == expected
    assert {row.state for row in whole.rows} <= set(STATES)


@pytest.mark.parametrize(
    ("filters", "keep"),
    [
        ({"analyst": "ann"}, lambda each: each.analyst == "ann"),
        ({"dataset": "none"}, lambda each: False),
        ({"text": ">= 1"}, lambda each: ">= 1" in each.body),
        ({"text": "%"}, lambda each: "%" in each.body),
        ({"since": "2000-01-01", "until": "2999-01-01"}, lambda each: True),
        ({"until": "2000-01-01"}, lambda each: False),
        ({"since": "20000101", "until": "9999-12-31"}, lambda each: True),
    ],
)
def test_filters_keep_what_they_say(ledger, filters, keep):
    expected = [each.seq for each in ledger.entries() if each.kind != "settle" and keep(each)][::-1]
    assert [row.entry.seq for row in read_log(ledger, Filters(**filters)).rows] == expected


@pytest.mark.parametrize("wrong", [{"state": "x"}, {"since": "yesterday"}, {"until": "2026-13-01"}])
def test_a_filter_that_makes_no_sense_is_one_sentence(wrong):
    with pytest.raises(ParameterError, match="must be"):
        Filters(**wrong)
