"""Who may ask, up to what: the ledger decides, and the chain shows it."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Session
from shoal.dp import Ledger
from shoal.dp.ledger.claims import CLOSED, Caps, ClosedError
from shoal.dp.ledger.log import Filters, read_log
from shoal.dp.ledger.rights import OPEN, Rights, Team
from shoal.dp.past import past
from shoal.errors import BudgetError, ParameterError
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


def test_members_of_a_team_may_ask_where_it_is_not_open(session):
    team = Rights(False, {}, {"health": Team(1_000_000, ("ann",))})
    session.ledger.set_rights("survey", lambda _: team)
    assert ask(session, "ann", 1).remaining == 0.5
    with pytest.raises(BudgetError, match="not open to this analyst"):
        ask(session, "ben", 1)


def test_a_team_spends_its_budget_to_the_last_millionth(session):
    """Members who asked nothing count nothing, and the chain agrees."""
    team = Rights(True, {}, {"health": Team(500_000, ("ann", "ben", "cai"))})
    session.ledger.set_rights("survey", lambda _: team)
    assert team.team_left("ann", {}.get) == session.ledger.team_left("survey", "ann") == 500_000
    assert ask(session, "ann", 1).remaining == session.ledger.team_left("survey", "ben") == 0
    assert session.ledger.verify().holds


@pytest.mark.parametrize("words", [{"people": {"ann": -1}}, {"teams": {"health": Team(-1, ("ann",))}}])
def test_no_cap_is_below_zero(words):
    with pytest.raises(ParameterError, match="at least 0. Got -1"):
        Rights(**words)
    assert Rights(people={"ann": 0, "ben": None}).caps_of(Caps(5, 3), "ann").per_analyst == 0


def test_a_team_shares_its_budget(session):
    ask(session, "ben", 1)
    team = Team(1_200_000, ("ann", "ben"))
    session.ledger.set_rights("survey", lambda old: replace(old, teams={"health": team}), "olga", "a project")
    assert session.remaining("ann") == 1.0  # as if ben had asked nothing
    assert ask(session, "ann", 2).remaining == 0.5
    assert session.remaining("ben") == 0.5
    assert session.ledger.team_left("survey", "ben") == 200_000
    with pytest.raises(ClosedError):
        ask(session, "ben", 3)
    assert session.remaining("ben") == 0
    held = ask(session, "ben", 1)
    assert held.epsilon == held.remaining == 0  # what is held stays free
    with pytest.raises(ClosedError):
        ask(session, "ben", 3, 0.1)  # although so much is left: no search
    assert ask(session, "cai", 3).remaining == 0.5
    session.ledger.set_rights(
        "survey", lambda old: replace(old, teams={"health": replace(team, cap=2_000_000)})
    )
    assert ask(session, "ben", 3).remaining == 0
    assert session.ledger.verify().holds
    *_, row = read_log(session.ledger, Filters(state="rights")).rows
    assert '"why": "a project"' in row.entry.body


def test_rights_hold_in_every_opening_of_the_ledger(tmp_path):
    for first in (True, False):
        with Session(TABLE, SCHEMA, budget=5.0, per_analyst=1.0, ledger=tmp_path / "l.db") as session:
            if first:
                session.ledger.set_rights("survey", lambda _: Rights(False, {"ann": 600_000}))
            assert ask(session, "ann", 1, 0.3).remaining == (0.3 if first else 0)
            with pytest.raises(BudgetError, match="not open to this analyst"):
                ask(session, "ben", 2)


def test_rights_stated_anew_do_not_open_what_the_total_closed(session):
    session.ledger.set_caps("survey", 600_000)
    ask(session, "ben", 1)
    for _ in range(2):
        with pytest.raises(ClosedError):
            ask(session, "ann", 2, 0.2)
        session.ledger.set_rights("survey", lambda _: Rights(True, {"ann": 600_000}))
    with pytest.raises(ClosedError):
        ask(session, "ann", 2, 0.1)


def seen_by(session, who, asks):
    """Everything that an analyst sees: what is left, prices, answers' costs, refusals word for word."""
    found = []
    for place, amount in asks:
        sql = f"SELECT COUNT(*) FROM t WHERE age > {place}"
        cost = session.cost(sql, amount, analyst=who)
        found.append((session.remaining(who), cost.remaining, cost.questions_left, cost.affordable))
        try:
            answer = session.ask(sql, amount, analyst=who)
            found.append((answer.epsilon, answer.remaining, answer.notes, answer.guarantee))
        except BudgetError as error:
            found.append((type(error).__name__, str(error)))
        found.append([(each.query, each.charged, each.asked) for each in past([session], who)])
    return found


@settings(max_examples=30, deadline=None)
@given(
    mate=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=4),
    asks=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=6),
)
def test_nothing_shows_what_team_mates_spent_until_the_one_refusal(mate, asks):
    """The attack: two worlds that differ in what ben asked, and all that ann can see in each."""
    seen = []
    for others in ([], mate):
        with Session(TABLE, SCHEMA, budget=90.0, per_analyst=1.0, ledger=Ledger()) as session:
            team = Rights(True, {}, {"health": Team(1_500_000, ("ann", "ben"))})
            session.ledger.set_rights("survey", lambda _, team=team: team)
            for place, tenths in others:
                with contextlib.suppress(BudgetError):
                    ask(session, "ben", place, tenths / 10)
            seen.append(seen_by(session, "ann", [(place, tenths / 10) for place, tenths in asks]))
            assert session.ledger.verify().holds
    alone, shared = seen
    differ = next((at for at, (a, b) in enumerate(zip(alone, shared, strict=True)) if a != b), None)
    if differ is not None:  # the first difference is the refusal itself, in a sentence without a number
        assert shared[differ] == ("ClosedError", CLOSED)
        assert not any(each.isdigit() for each in CLOSED)
        after = [each for each in shared[differ + 1 :] if isinstance(each, tuple)]
        assert {each for each in after if each[0] == "ClosedError"} <= {("ClosedError", CLOSED)}


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
    session.ledger.note("data set opened", "olga", "to all", "survey")
    assert [each.body for each in session.ledger.entries(dataset="survey")][-1] == "to all"
    assert session.ledger.unit("survey") == "record"
    rows = read_log(session.ledger, Filters(state="changes by owners")).rows
    assert [each.entry.body for each in rows if each.state == "event"] == ["to all", "ann, analyst"]
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
    closed = set()
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
            allowed = rights.may_ask(who) and micro <= min(most) and who not in closed
            try:
                ask(session, who, place, tenths / 10)
                assert allowed
                spent[who] += micro
            except ClosedError:
                assert not allowed
                closed.add(who)
            except BudgetError:
                assert not allowed
        assert session.ledger.verify().holds
        assert {who: session.ledger.spent("survey", who) for who in spent} == spent


def test_caps_of_one_without_rights_are_those_of_each():
    assert OPEN.caps_of(Caps(5, 3), "ann") == Caps(5, 3)
