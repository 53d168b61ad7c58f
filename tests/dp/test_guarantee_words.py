"""Every guarantee that an answer can carry stands word for word on the page of guarantees."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.dp.correlation import Grid
from shoal.dp.pufferfish import DEPENDENT_GUARANTEE, PUFFERFISH_GUARANTEE, Scenario, over_ledger
from shoal.dp.unit import (
    NO_GUARANTEE,
    AddRemoveCell,
    AddRemoveRecord,
    AddRemoveUnit,
    Edges,
    Protected,
    Records,
    ReplaceRecord,
    Stated,
)
from shoal.schema import Column, Schema

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "guarantees.md"
CELLS = Grid(Schema({"age": Column("age", bounds=(0, 100))}, id="t"), ("age",), 400)
ALONE = Scenario({(0,): "1/2", (1,): "1/2"})
UNITS: dict[type[Protected], tuple[str, ...]] = {
    AddRemoveRecord: (AddRemoveRecord().guarantee,),
    AddRemoveUnit: (
        AddRemoveUnit("<unit>", 3).guarantee,
        AddRemoveUnit("household", 3, jointly=True).guarantee,
    ),
    Records: (Records(4).guarantee,),
    AddRemoveCell: (AddRemoveCell(CELLS, 4).guarantee,),
    ReplaceRecord: (ReplaceRecord().guarantee,),
    Edges: (Edges(3).guarantee,),
    Stated: (PUFFERFISH_GUARANTEE, DEPENDENT_GUARANTEE, over_ledger(0.5, [ALONE], 0)[1]),
}


def told() -> str:
    return PAGE.read_text(encoding="utf-8").replace("\\", "").replace("\n", " ")


def test_every_unit_is_listed():
    assert set(UNITS) == set(Protected.__subclasses__())


@pytest.mark.parametrize("guarantee", [*(each for some in UNITS.values() for each in some), NO_GUARANTEE])
def test_the_page_says_it(guarantee):
    words = guarantee.removeprefix("guarantee: ").replace(
        "add or remove one record", "add or remove one <unit>"
    )
    words = words.replace("grid(age), 401 cells, at most 4", "<model>, <K> cells, at most <tau>")
    assert f'"{words}"' in told()
