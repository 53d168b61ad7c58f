"""The traffic light: its rule, case by case."""

from __future__ import annotations

import pytest

from shoal.report.light import Left, traffic_light

FREE = Left("zip", "leave", 5, 0, "")
SENSITIVE = Left("disease", "sensitive", 5, 0, "")
WEIGHT = Left("w", "weight", 5, 5, "")
GOOD = {
    "failed": (),
    "anonymous": True,
    "covered": frozenset(),
    "left": (),
    "alone_share": 0.0,
    "linkage": 0.1,
}


@pytest.mark.parametrize(
    ("changes", "colour", "reason"),
    [
        ({}, "green", None),
        ({"linkage": 0.2}, "green", None),
        ({"linkage": 0.21}, "amber", "linkage is 21 %"),
        ({"linkage": None}, "green", None),
        ({"left": (FREE,)}, "amber", "1 column is published unprotected (zip)"),
        ({"left": (FREE, WEIGHT)}, "amber", "2 columns are published unprotected (zip and w)"),
        ({"left": (WEIGHT,), "alone_share": 0.0}, "amber", "unprotected (w)"),
        ({"left": (SENSITIVE,)}, "amber", "covers the sensitive disease"),
        ({"left": (SENSITIVE,), "covered": frozenset({"disease"})}, "green", None),
        ({"left": (FREE,), "alone_share": 0.9}, "red", "zip single out 90 % of the records"),
        ({"left": (FREE,), "alone_share": 0.89}, "amber", "unprotected"),
        ({"failed": ("l-diversity of disease",)}, "red", "l-diversity of disease does not hold"),
        ({"anonymous": False}, "red", "no demand of k-anonymity"),
    ],
)
def test_rule(changes, colour, reason):
    light = traffic_light(**(GOOD | changes))
    assert light.colour == colour
    assert any(reason in each for each in light.reasons) if reason else light.reasons == ()


def test_rule_is_stated_and_names_linkage_only_where_it_is_used():
    assert "linkage (DLD) is at most 20 %" in traffic_light(**GOOD).rule
    assert "linkage" not in traffic_light(**(GOOD | {"linkage": None})).rule
