"""Answers found again: by their analyst, and by whoever holds the ledger."""

from __future__ import annotations

import polars as pl
import pytest

from shoal.dp import Ledger, Session
from shoal.dp.past import find, held, past
from shoal.errors import InputError
from shoal.schema import Column, Schema

SCHEMA = Schema({"x": Column("x", bounds=(0, 10))}, id="t", budget=100.0)
FIRST, SECOND = "SELECT COUNT(*) FROM t", "SELECT COUNT(*) FROM t WHERE x >= 5"


@pytest.fixture
def session():
    with Ledger() as ledger:
        yield Session(pl.DataFrame({"x": [1, 5, 9]}), SCHEMA, ledger=ledger, data_version="1")


@pytest.mark.parametrize("asked_before", [False, True])
def test_nothing_that_an_analyst_sees_counts_what_others_asked(session, asked_before):
    if asked_before:
        session.ask(FIRST, 1.0, analyst="ann")
    answers = [session.ask(sql, 1.0, analyst="bob") for sql in (FIRST, SECOND)]
    seen = past([session], "bob")
    assert [each.entry for each in seen] == [each.entry for each in answers[::-1]]
    for each in seen:
        assert len(each.entry) == 16
        assert set(each.entry) <= set("0123456789abcdef")
        assert not any(isinstance(value, int) for value in (each.entry, each.at, each.query))
    assert answers[0].to_dict()["entry"] == answers[0].entry


def test_a_repeated_answer_names_the_charge_that_paid_for_it(session):
    first = session.ask(FIRST, 1.0)
    again = session.ask(FIRST, 1.0)
    assert (again.epsilon, again.entry, again.value) == (0, first.entry, first.value)


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_a_workload_shows_its_figures_again(currency):
    more = {} if currency == "pure" else {"currency": "zcdp", "delta": 1e-6}
    columns = {
        "x": Column("x", bounds=(0, 10), step=1),
        "s": Column("s", kind="category", levels=("a;b", "it's")),
    }
    schema = Schema(columns, id="t", budget=50.0, **more)
    rows = pl.DataFrame({"x": [1, 5, 9], "s": ["a;b", "it's", None]})
    asked = ["SELECT s, COUNT(*) AS n FROM t GROUP BY s", "SELECT COUNT(*) FROM t WHERE s = 'a;b'", SECOND]
    with Ledger() as ledger:
        session = Session(rows, schema, ledger=ledger, data_version="1")
        told = session.workload(asked, 1.0, analyst="ann")
        left = session.remaining("ann")
        found = held([session], "ann", told.entry).workload
        assert [_numbers(each.value) for each in found.answers] == [
            _numbers(each.value) for each in told.answers
        ]
        assert (found.strategy, found.guarantee, found.entry) == (told.strategy, told.guarantee, told.entry)
        assert session.remaining("ann") == left
        assert past([session], "ann")[0].workload == found
        listed = past([session], "ann", figures=1000)[0]
        assert listed.large
        assert listed.workload is None
        assert held([session], "bob", told.entry) is None


def _numbers(value):
    return [list(row.values())[-1] for row in value] if isinstance(value, list) else value


def test_an_entry_is_found_by_its_name_and_its_number(session):
    answer = session.ask(FIRST, 1.0, analyst="ann")
    charge, released = find(session.ledger, answer.entry)
    assert (charge.analyst, charge.kind, charge.micro) == ("ann", "charge", 1_000_000)
    assert str(answer.value) in released
    assert find(session.ledger, str(charge.seq))[0] == charge
    assert find(session.ledger, answer.entry[:9])[0] == charge


@pytest.mark.parametrize(
    "entry", ["", "zz", "x'; DROP TABLE shoal_entries", "0123456789abcdef", "99999", "a%"]
)
def test_what_names_no_entry_is_one_sentence(session, entry):
    session.ask(FIRST, 1.0)
    with pytest.raises(InputError, match="entry"):
        find(session.ledger, entry)


def test_the_most_frequent_level_names_its_entry_too():
    schema = Schema({"c": Column("c", kind="category", levels=("a", "b"))}, id="t", budget=9.0)
    with Ledger() as ledger:
        session = Session(pl.DataFrame({"c": ["a", "b", "a"]}), schema, ledger=ledger)
        answer = session.ask("SELECT MODE(c) FROM t", 1.0)
        assert find(ledger, answer.entry)[0].micro == 1_000_000


def test_older_answers_are_paged_found_by_words_and_opened_by_name(session):
    asked = [f"SELECT COUNT(*) FROM t WHERE x >= {place}" for place in range(1, 8)]
    entries = [session.ask(each, 1.0, analyst="ann").entry for each in asked][::-1]
    session.ask(FIRST, 1.0, analyst="bob")
    seen, before = [], None
    while page := past([session], "ann", 3, before=before):
        seen += [each.entry for each in page]
        before = page[-1].entry
    assert seen == entries
    assert [each.entry for each in past([session], "ann", text='"X" >= 3')] == [entries[4]]
    assert past([session], "ann", text="%") == []
    assert past([session], "bob", before=entries[0]) == []  # no other's entry is a place in one's own list
    assert held([session], "ann", entries[2]).answer.value is not None
    for entry in (entries[2], "zz", "%" * 16, ""):
        assert held([session], "bob", entry) is None


def test_the_most_frequent_level_is_in_the_history_too():
    schema = Schema({"a": Column("a", kind="category", levels=("u", "v\u00e4"))}, id="t", budget=100.0)
    with Session(pl.DataFrame({"a": ["v\u00e4"] * 50}), schema, data_version="1") as session:
        answer = session.ask("SELECT MODE(a) FROM t", 5.0)
        assert past([session], "me")[0].answer.value == answer.value
        assert held([session], "me", answer.entry).answer.notes == answer.notes
