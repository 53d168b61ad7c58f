"""Who spent what, and when it will be used up."""

from __future__ import annotations

import datetime

import pytest

from shoal.dp import Ledger
from shoal.dp.ledger.claims import Amount, Caps, Claim
from shoal.dp.ledger.spending import Spending, spending
from shoal.dp.unit import AddRemoveRecord

NOW = datetime.datetime(2026, 3, 20, tzinfo=datetime.UTC)


def claim(analyst, number, micro):
    return Claim(
        "d", analyst, f"Q{number}", str(number), Amount(micro, "pure"), AddRemoveRecord(), Caps(10**9, 10**9)
    )


def test_an_analyst_is_not_pushed_out_of_the_sums_by_those_who_ask_later():
    with Ledger() as ledger:
        ledger.declare("d", 10**9, 10**9, "pure")
        ledger.once(claim("ann", 0, 7_000_000), lambda: "1")
        for number in range(1, 40):
            ledger.once(claim("bob", number, 1_000), lambda: "1")
        found = spending(ledger, "d")
        assert found.analysts == (("ann", 7_000_000), ("bob", 39_000))
        assert found.total == ledger.spent("d") == 7_039_000
        assert spending(ledger, "other").analysts == ()


@pytest.mark.parametrize(
    ("days", "cap", "left"),
    [
        ((0, 1, 2, 3, 4, 5, 6), 14, 7),  # one a day, seven left
        ((6,), 3, 2),  # one in the last day
        ((5, 6), 1, 0),  # used up
        ((-30, -20, -10), 100, None),  # nothing for a week
        ((6,), 10**6, None),  # not within a hundred years
        ((-0.5, 6), 3, 7),  # what is older than a week does not set the pace
        ((), 100, None),
    ],
)
def test_a_forecast_goes_by_the_last_week(days, cap, left):
    begun = NOW - datetime.timedelta(days=7)
    times = tuple(
        ((begun + datetime.timedelta(days=day)).isoformat(), at + 1) for at, day in enumerate(sorted(days))
    )
    over = Spending((), times).exhausted(cap, NOW)
    assert (None if over is None else round((over - NOW) / datetime.timedelta(days=1))) == left


@pytest.mark.parametrize(
    ("days", "steps"),
    [
        ((0, 0.5, 0.5 + 1 / 1440, 1.9), 4),  # within two days: by the minute
        ((0, 0.5, 0.5 + 1 / 1440, 2.1), 3),  # beyond: by the hour
        ((0, 0.5, 0.5 + 1 / 1440, 59.5), 3),
        ((0, 0.5, 0.5 + 1 / 1440, 60.1), 2),  # beyond two months: by the day
    ],
)
def test_times_are_as_fine_as_the_span_allows(monkeypatch, days, steps):
    with Ledger() as ledger:
        ledger.declare("d", 10**9, 10**9, "pure")
        for number, day in enumerate(days):
            at = (NOW + datetime.timedelta(days=day)).timestamp()
            monkeypatch.setattr("shoal.dp.ledger.writer.time.time", lambda at=at: at)
            ledger.once(claim("ann", number, 1_000), lambda: "1")
        found = spending(ledger, "d").over_time
    assert len(found) == steps
    assert found[-1][1] == 1_000 * len(days)
