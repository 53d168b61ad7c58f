"""The auditor over HTTP: a real server on loopback for each of two files."""

from __future__ import annotations

import pytest

from faults.answers import without_bias
from shoal.audit import audit_intervals, play

audited = pytest.importorskip("shoal.server.audit", reason="the server's extra is not installed")


@pytest.mark.parametrize("fault", ["refusal-counts", "types-inferred"])
def test_faults_of_a_server_are_found(fault):
    """Those that show at once, in every run: so few runs tell, the fewer the less is claimed."""
    from faults import server

    planted = server.FAULTS[fault]
    with audited.served(planted.pair, 0.25, server.command(fault), planted.settings) as game:
        verdict = play(game, (30,))
    assert verdict.refuted, verdict


def test_the_server_as_it_is_is_not_refuted():
    with audited.served(audited.FILES[0], 1.0) as game:
        verdict = play(game, (20,), 1e-7)
    assert not verdict.refuted, verdict


def test_intervals_hold_and_those_without_bias_are_refuted():
    assert not any(each.refuted for each in audit_intervals(runs=200, alpha=1e-7))
    worst = max(audit_intervals(chosen=without_bias), key=lambda each: each.hits)
    assert worst.refuted
    assert worst.hits > 0.5 * worst.of
