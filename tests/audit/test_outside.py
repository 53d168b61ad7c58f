"""The auditor from outside: files in, all that is seen out."""

from __future__ import annotations

import pytest

from faults.files import FAULTS
from shoal.audit import OUTSIDE, play

STAGES = (60, 240, 960)  # a run opens a ledger or times a draw, so there are few


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_fault_between_file_and_log_is_found(fault):
    assert play(FAULTS[fault](1.0), STAGES).refuted


@pytest.mark.parametrize("place", [0, 4, 6, 7])
def test_the_products_own_way_is_not_refuted(place):
    verdict = play(OUTSIDE[place](1.0), stages=(60,), alpha=1e-7)
    assert not verdict.refuted, verdict
