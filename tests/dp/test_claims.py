"""The rules by which a charge is priced and refused, at their borders."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shoal.dp.ledger.claims import (
    CLOSED,
    DELTA,
    NO_UNIT,
    Amount,
    Caps,
    Claim,
    ClosedError,
    Last,
    Receipt,
    delta_parts,
    left_over,
    no_caps,
    price,
    refuse,
    refuse_delta,
)
from shoal.dp.unit import AddRemoveRecord, Records
from shoal.errors import BudgetError, LedgerError, ParameterError


def claim(millionths: int, currency: str = "pure", unit=None) -> Claim:
    return Claim("d", "ann", "SELECT 1", "v1", Amount(millionths, currency), unit or AddRemoveRecord())


def last(unit: str = "record", dataset: int = 0, analyst: int = 0) -> Last:
    return Last("d", unit, dataset, analyst, 0)


@pytest.mark.parametrize(("millionths", "currency"), [(0, "pure"), (-1, "pure"), (1, "gold")])
def test_an_amount_is_above_zero_in_a_known_currency(millionths, currency):
    with pytest.raises(ParameterError, match="millionths above 0 in one of pure, zcdp"):
        Amount(millionths, currency)
    assert Amount(1).currency == "pure"


def test_caps_are_read_back_and_the_tighter_hold():
    caps = Caps(10, 4, "zcdp")
    assert caps.to_json() == '["zcdp", 10, 4]'
    assert Caps.from_json(caps.to_json()) == caps
    assert caps.within(None) == caps
    assert caps.within(Caps(7, 9, "zcdp")) == Caps(7, 4, "zcdp")
    assert Caps(5, 5).currency == "pure"
    reserved = Caps(10, 4, keys=7)
    assert Caps.from_json(reserved.to_json()) == reserved
    assert Caps.from_json('["pure", 10, 4]').keys == 0


def test_a_claim_is_told_from_others_by_all_its_facts():
    told = json.loads(claim(3).facts)
    assert told == ["SELECT 1", "v1", "pure", 3, "record"]


def test_a_new_data_set_takes_the_unit_of_its_first_answer():
    assert last("").new
    assert last(NO_UNIT).new
    assert not last().new
    first = price(claim(100, unit=Records(3)), last(""))
    assert (first.times, first.asked, first.unit) == (1, 100, "records:3")


def test_a_weaker_unit_counts_more_often_and_squared_in_rho():
    asked = price(claim(100), last("records:3"))
    assert (asked.times, asked.asked, asked.unit) == (3, 300, "records:3")
    assert price(claim(100, "zcdp"), last("records:3")).asked == 900
    assert price(claim(100, unit=Records(3)), last()).unit == "records:3"


def test_an_analyst_may_spend_exactly_what_is_left():
    caps = Caps(1_000_000, 400_000)
    refuse(claim(100_000), last(analyst=300_000), caps, price(claim(100_000), last()))
    with pytest.raises(BudgetError, match=r"does not allow epsilon 0\.100001: 0\.1 of 0\.4 is left\.$"):
        refuse(claim(100_001), last(analyst=300_000), caps, price(claim(100_001), last()))
    # Who has more than the cap, as caps may have been lowered, has nothing left.
    with pytest.raises(BudgetError, match=r": 0\.0 of 0\.4 is left\.$"):
        refuse(claim(1), last(analyst=500_000), caps, price(claim(1), last()))
    # A cap of one's own above the total is no more than the total.
    with pytest.raises(BudgetError, match="of 0.2 is left"):
        refuse(claim(200_001), last(), Caps(200_000, 400_000), price(claim(200_001), last()))


def test_the_total_may_be_spent_exactly_and_the_sentence_tells_nothing_of_others():
    caps = Caps(1_000_000, 1_000_000)
    refuse(claim(100_000), last(dataset=900_000), caps, price(claim(100_000), last()))
    with pytest.raises(ClosedError) as closed:
        refuse(claim(100_001), last(dataset=900_000), caps, price(claim(100_001), last()))
    assert "0.9" not in str(closed.value)


def test_what_a_team_has_left_may_be_spent_exactly_and_its_refusal_reads_like_the_totals():
    caps = Caps(1_000_000, 1_000_000)
    refuse(claim(100_000), last(), caps, price(claim(100_000), last()), team_left=100_000)
    with pytest.raises(ClosedError) as of_team:
        refuse(claim(100_001), last(), caps, price(claim(100_001), last()), team_left=100_000)
    with pytest.raises(ClosedError) as of_all:
        refuse(claim(100_001), last(dataset=900_000), caps, price(claim(100_001), last()))
    assert (of_team.value.of_team, of_all.value.of_team) == (True, False)
    assert str(of_team.value) == str(of_all.value) == CLOSED


def test_delta_is_counted_in_whole_parts_rounded_down():
    assert DELTA == 1_000_000_000_000_000_000
    assert delta_parts(0) == 0
    assert delta_parts(0.5) == 500_000_000_000_000_000
    assert delta_parts(2.0**-60) == 0
    for wrong in (True, "0.1", -1e-9, 1, 1.0, float("nan")):
        with pytest.raises(ParameterError, match="at least 0 and below 1"):
            delta_parts(wrong)


def test_the_reserved_delta_may_be_used_exactly():
    caps = Caps(1_000_000, 1_000_000, keys=100)
    asked = replace(claim(100), delta=40)
    cost = price(asked, last())
    refuse_delta(asked, caps, cost, used=60)
    with pytest.raises(BudgetError, match="does not allow this: declare the levels"):
        refuse_delta(asked, caps, cost, used=61)
    # What needs no delta does not ask how much is left, nor for the unit.
    assert claim(100).delta == 0
    refuse_delta(claim(100), caps, price(claim(100), last("records:3")), used=1_000)


@pytest.mark.parametrize("kept", ["records:2", "records:3"])
def test_groups_that_are_not_declared_are_answered_in_the_kept_unit_only(kept):
    asked = replace(claim(100), delta=40)
    with pytest.raises(BudgetError, match="this is another one"):
        refuse_delta(asked, Caps(1, 1, keys=100), price(asked, last(kept)), used=0)


def test_a_receipt_says_nothing_of_units_unless_told():
    assert not Receipt("1", 1, 1, ended=False).weaker


@pytest.mark.parametrize("times", [2, 3])
def test_how_often_a_charge_counts_is_said_where_it_is_more_than_once(times):
    kept = last(f"records:{times}")
    with pytest.raises(
        BudgetError, match=rf"does not allow epsilon 0\.{times}: .* it counts {times} times\.$"
    ):
        refuse(claim(100_000), kept, Caps(150_000, 150_000), price(claim(100_000), kept))


def test_other_currencies_and_other_units_are_refused():
    caps = Caps(1_000_000, 1_000_000)
    with pytest.raises(BudgetError, match="counted in epsilon for life. Got a cost in rho"):
        refuse(claim(1, "zcdp"), last(), caps, price(claim(1, "zcdp"), last()))
    stranger = last("column:person")
    with pytest.raises(BudgetError, match="in the unit 'column:person' for life"):
        refuse(claim(1), stranger, caps, price(claim(1), stranger))


def test_what_is_left_is_never_below_zero():
    assert left_over(Caps(10, 4), 1) == 3
    assert left_over(Caps(3, 4), 1) == 2
    assert left_over(Caps(10, 4), 9) == 0
    assert left_over(Caps(10, 4), 4) == 0


def test_without_caps_the_owner_is_asked_to_declare_them():
    error = no_caps("d")
    assert isinstance(error, LedgerError)
    assert "no budget for data set 'd'" in str(error)
