"""The auditor over HTTP: a real server on loopback for each of two files."""

from __future__ import annotations

import pytest

from shoal.audit import audit_fault, audit_intervals, play

audited = pytest.importorskip("shoal.server.audit", reason="the server's extra is not installed")


@pytest.mark.parametrize("fault", ["http-refusal-counts", "http-types-inferred"])
def test_faults_of_a_server_are_found(fault):
    """Those that show at once; the command plays all of them."""
    report = audited.audit_http(stages=(48,), fault=fault)
    assert report.refuted, report.verdicts


def test_the_server_as_it_is_is_not_refuted():
    with audited.served(audited.FILES[0], 1.0) as game:
        verdict = play(game, (20,), 1e-7)
    assert not verdict.refuted, verdict


def test_intervals_hold_and_those_without_bias_are_refuted():
    assert not any(each.refuted for each in audit_intervals(runs=200, alpha=1e-7))
    report = audit_fault("interval-without-bias")
    assert report.refuted
    worst = max(report.verdicts, key=lambda each: each.hits)
    assert worst.hits > 0.5 * worst.of
