"""The replay of a chain: every rule of the ledger broken once by somebody who can compute hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal.dp.ledger.chain import Replay, replay
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.entries import CLOSED_KEY, START, TEAM_CLOSED_KEY, Entry, Head
from shoal.dp.ledger.rights import Rights, Team

CAPS = Caps(total=100, per_analyst=60, keys=10)


def chain(*said):
    """Entries with right hashes, numbers and totals, whatever they say."""
    found, spent, own = [], {}, {}
    for seq, (kind, facts) in enumerate(said, 1):
        entry = Entry(
            seq, "2026-01-01", kind, facts.get("dataset", "d"), "record", facts.get("analyst", ""), facts.get("key", ""),
            facts.get("micro", 0), 0, 0, 0, 0, facts.get("body", ""), found[-1].hash if found else START,
        )  # fmt: skip
        owner = entry.dataset, entry.analyst
        if kind == "charge":
            spent[entry.dataset] = spent.get(entry.dataset, 0) + entry.micro
        if kind in ("charge", "receipt"):
            own[owner] = own.get(owner, 0) + entry.micro
        totals = spent.get(entry.dataset, 0), own.get(owner, 0)
        found.append(replace(entry, dataset_total=totals[0], analyst_total=totals[1]).chained())
    return found


def checked(entries, expects=None):
    return replay(entries, Head(len(entries), entries[-1].hash if entries else START), expects)


def caps(given=CAPS, dataset="d"):
    return "caps", {"body": given.to_json(), "dataset": dataset}


def charge(analyst, micro, dataset="d"):
    return "charge", {"analyst": analyst, "micro": micro, "dataset": dataset}


def receipt(analyst, micro):
    return "receipt", {"analyst": analyst, "micro": micro}


def rights(given):
    return "rights", {"body": given.to_json()}


def refusal(analyst, key):
    return "refusal", {"analyst": analyst, "key": key}


def delta(micro, total, dataset="d"):
    return "delta", {"micro": micro, "body": str(total), "dataset": dataset}


TEAM = Rights(teams={"t": Team(30, ("ann", "ben"))})
CLOSED, BEYOND = "for whom the data set was closed", "was charged beyond its cap"


@pytest.mark.parametrize(
    "said",
    [
        [],
        [charge("ann", 5)],  # no caps are stated yet
        [caps(), charge("ann", 60), charge("ben", 40)],
        [
            caps(),
            charge("ann", 60),
            receipt("ben", 60),
        ],  # the same answer given again costs the data set nothing
        [caps(), charge("ann", 60), caps(Caps(200, 70)), charge("ann", 10)],
        [caps(), charge("ann", 60), charge("ann", 60, "other")],
        [caps(), rights(TEAM), charge("ann", 20), charge("ben", 10), charge("cai", 60)],
        [caps(), rights(Rights(False, {"ann": None})), charge("ann", 60)],
        [caps(), refusal("ann", CLOSED_KEY), charge("ben", 1)],
        [caps(), refusal("ann", CLOSED_KEY), caps(), charge("ann", 1)],
        [caps(), refusal("ann", TEAM_CLOSED_KEY), caps(), charge("ann", 1)],
        [caps(), refusal("ann", TEAM_CLOSED_KEY), rights(TEAM), charge("ann", 1)],
        [caps(), refusal("ann", "another question"), charge("ann", 1)],
        [caps(), delta(4, 4), delta(6, 10), delta(3, 3, "other")],
    ],
)
def test_what_the_rules_allow_holds(said):
    found = checked(chain(*said))
    assert (found.holds, found.problem, found.entries) == (True, "", len(said))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([caps(), charge("ann", 61)], f"entry 2 {BEYOND}"),
        ([caps(), charge("ann", 60), charge("ben", 41)], f"entry 3 {BEYOND}"),
        ([caps(), charge("ann", 60), caps(Caps(200, 60)), charge("ann", 1)], f"entry 4 {BEYOND}"),
        ([caps(), charge("ann", 60), charge("ann", 61, "other"), charge("ben", 41)], f"entry 4 {BEYOND}"),
        ([caps(), rights(TEAM), charge("ann", 20), charge("ben", 11)], f"entry 4 {BEYOND}"),
        ([caps(), rights(Rights(False, {"ann": None})), charge("ben", 1)], "entry 3 was charged to an analyst who might not ask"),
        ([caps(), refusal("ann", CLOSED_KEY), charge("ann", 1)], f"entry 3 was charged to an analyst {CLOSED}"),
        ([caps(), refusal("ann", CLOSED_KEY), receipt("ann", 1)], f"entry 3 was charged to an analyst {CLOSED}"),
        ([caps(), refusal("ann", TEAM_CLOSED_KEY), charge("ann", 1)], f"entry 3 was charged to an analyst {CLOSED}"),
        ([caps(), refusal("ann", CLOSED_KEY), rights(TEAM), charge("ann", 1)], f"entry 4 was charged to an analyst {CLOSED}"),
        ([caps(), refusal("ann", CLOSED_KEY), caps(dataset="other"), charge("ann", 1)], f"entry 4 was charged to an analyst {CLOSED}"),
        ([caps(), delta(4, 4), delta(7, 11)], "entry 3 took more delta than is reserved"),
        ([caps(), delta(4, 4), delta(4, 4)], "the totals of entry 3 do not add up"),
    ],
)  # fmt: skip
def test_what_the_rules_forbid_is_found_though_all_hashes_are_right(said, problem):
    found = checked(chain(*said))
    assert (found.holds, found.problem) == (False, problem)
    assert f"entry {found.entries + 1} " in problem  # it holds as far as it goes


@pytest.mark.parametrize("name", ["dataset_total", "analyst_total"])
def test_totals_that_do_not_add_up_are_found(name):
    first, second = chain(caps(), charge("ann", 5))
    forged = replace(second, **{name: 4}).chained()
    assert checked([first, forged]).problem == "the totals of entry 2 do not add up"


def test_a_chain_that_was_changed_cut_or_replaced_is_found():
    entries = chain(caps(), charge("ann", 5), charge("ann", 6))
    assert checked([entries[0], entries[2]]).problem == "entry 2 is missing"
    assert checked([entries[0], replace(entries[1], micro=1), entries[2]]).problem == "entry 2 was changed"
    assert checked([entries[0], replace(entries[1], micro=1).chained(), entries[2]]).problem.startswith(
        "the totals"
    )
    again = replace(entries[1], at="2027-01-01").chained()  # right by itself
    assert checked([entries[0], again, entries[2]]).problem == "entry 3 was changed"
    head = Head(3, entries[2].hash)
    assert replay(entries[:2], head).problem == "the ledger says it has 3 entries, and 2 are there"
    assert replay(entries, Head(3, "f" * 64)).problem.startswith("the ledger says it has 3")


def test_a_head_that_was_kept_elsewhere_must_be_met():
    entries = chain(caps(), charge("ann", 5), charge("ann", 6))
    for kept in (None, START, entries[0].hash, entries[2].hash):
        assert checked(entries, kept).holds
    assert "rolled back or replaced" in checked(entries[:2], entries[2].hash).problem
    assert "rolled back or replaced" in checked(entries, "f" * 64).problem


def test_a_replay_goes_on_where_it_stopped():
    entries = chain(caps(), charge("ann", 50), charge("ann", 10), charge("ann", 1))
    going = Replay(expects=entries[0].hash)
    assert going.follow(entries[:2], Head(2, entries[1].hash)).holds
    assert going.follow(entries[2:3], Head(3, entries[2].hash)).holds
    assert going.follow(entries[3:], Head(4, entries[3].hash)).problem == f"entry 4 {BEYOND}"
    assert not going.follow([], Head(3, entries[2].hash)).holds  # a problem stays
