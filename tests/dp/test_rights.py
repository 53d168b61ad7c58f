"""Who may ask, up to what: the ledger decides, and the chain shows it."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Session
from shoal.dp import Ledger
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.log import Filters, read_log
from shoal.dp.ledger.rights import OPEN, Rights, Team
from shoal.errors import BudgetError
from shoal.schema import Column, Schema

SCHEMA = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
TABLE = pl.DataFrame({"age": [31, 45, 62]})


@pytest.fixture
def session():
    with Session(TABLE, SCHEMA, budget=5.0, per_analyst=1.0, ledger=Ledger()) as made:
        yield made


def ask(session, who, place, epsilon=0.5):
    return session.ask(f"SELECT COUNT(*) FROM t WHERE age > {place}", epsilon, analyst=who)


def test_an_own_cap_comes_before_that_of_each_analyst(session):
    session.ledger.set_rights("survey", lambda old: replace(old, people={"ann": 2_000_000, "ben": 300_000}))
    assert session.remaining("ann") == 2.0
    assert [ask(session, "ann", each).remaining for each in range(4)] == [1.5, 1.0, 0.5, 0.0]
    with pytest.raises(BudgetError, match=r"0.0 of 2.0 is left"):
        ask(session, "ann", 9)
    with pytest.raises(BudgetError, match=r"0.3 of 0.3 is left"):
        ask(session, "ben", 9)
    assert ask(session, "cai", 9).remaining == 0.5
    assert session.ledger.verify().holds


def test_who_is_not_named_may_not_ask_where_it_is_not_open(session):
    ask(session, "cai", 1)
    session.ledger.set_rights("survey", lambda old: replace(old, everyone=False, people={"ann": None}))
    assert ask(session, "ann", 1).remaining == 0.5
    before = session.ledger.head()
    for place in (1, 2):  # not even what is held
        with pytest.raises(BudgetError, match="not open to this analyst"):
            ask(session, "cai", place)
    assert session.ledger.head() == before
    assert session.remaining("cai") == 0
    assert session.ledger.verify().holds


def test_a_team_shares_its_budget(session):
    ask(session, "ben", 1)
    team = Team(1_200_000, ("ann", "ben"))
    session.ledger.set_rights("survey", lambda old: replace(old, teams={"health": team}), "olga", "a project")
    assert session.remaining("ann") == 0.7
    assert ask(session, "ann", 2).remaining == 0.2
    assert session.remaining("ben") == 0.2
    with pytest.raises(BudgetError):
        ask(session, "ben", 3)
    assert ask(session, "cai", 3).remaining == 0.5
    assert session.ledger.verify().holds
    (row,) = read_log(session.ledger, Filters(state="rights")).rows
    assert '"why": "a project"' in row.entry.body


def test_the_chain_shows_a_charge_beyond_an_own_cap(session):
    session.ledger.set_rights("survey", lambda old: replace(old, people={"ann": 100_000}))
    real = session.ledger.store._known.rights
    real["survey"] = OPEN  # a ledger that forgot what it keeps
    ask(session, "ann", 1)
    assert "beyond its cap" in session.ledger.verify().problem


def test_events_spend_nothing_and_are_found_as_changes(session):
    session.ledger.note("account added", "olga", "ann, analyst")
    session.ledger.note("sign-in", "ann", "by token")
    ask(session, "ann", 1)
    rows = read_log(session.ledger, Filters(state="changes by owners")).rows
    assert [each.entry.body for each in rows if each.state == "event"] == ["ann, analyst"]
    assert session.ledger.verify().holds
    assert session.ledger.spent("survey") == 500_000


names = st.sampled_from(["ann", "ben", "cai"])


@settings(max_examples=25, deadline=None)
@given(
    people=st.dictionaries(names, st.none() | st.integers(0, 900_000)),
    teams=st.dictionaries(
        st.sampled_from("xy"),
        st.builds(Team, st.integers(0, 900_000), st.lists(names, unique=True).map(tuple)),
    ),
    everyone=st.booleans(),
    asked=st.lists(st.tuples(names, st.integers(1, 9)), max_size=12),
)
def test_whatever_is_asked_the_rights_hold_and_the_chain_agrees(people, teams, everyone, asked):
    rights, spent = Rights(everyone, people, teams), dict.fromkeys(("ann", "ben", "cai"), 0)
    assert Rights.from_json(rights.to_json("why")) == rights
    with Session(TABLE, SCHEMA, budget=90.0, per_analyst=0.8, ledger=Ledger()) as session:
        session.ledger.set_rights("survey", lambda _: rights)
        for place, (who, tenths) in enumerate(asked):
            micro = tenths * 100_000
            most = [(rights.people.get(who) or 800_000) - spent[who]]
            if rights.people.get(who) == 0:
                most.append(0)
            most += [
                each.cap - sum(spent[m] for m in each.members)
                for each in teams.values()
                if who in each.members
            ]
            allowed = rights.may_ask(who) and micro <= min(most)
            try:
                ask(session, who, place, tenths / 10)
                assert allowed
                spent[who] += micro
            except BudgetError:
                assert not allowed
        assert session.ledger.verify().holds
        assert {who: session.ledger.spent("survey", who) for who in spent} == spent


def test_caps_of_one_without_rights_are_those_of_each():
    assert OPEN.caps_of(Caps(5, 3), "ann", {}.get) == Caps(5, 3)
