"""The auditor against marginals: the real steps stand, every planted fault falls, members stay hidden."""

import math

import numpy as np
import pytest

from faults.releases import MARGINAL_FAULTS, unpaid_rounds
from shoal.audit import play
from shoal.datasets import load_survey, load_survey_schema
from shoal.release import audit_releases, membership
from shoal.release.marginals._audit import marginal_cases


def test_marginals_are_not_refuted():
    report = audit_releases("marginals", epsilons=(1.0,), stages=(200,))
    assert not report.refuted
    assert len(report.verdicts) == len(marginal_cases(1.0))


@pytest.mark.parametrize("fault", list(MARGINAL_FAULTS))
def test_planted_faults_are_refuted(fault):
    assert play(MARGINAL_FAULTS[fault](1.0), stages=(400, 1_500)).refuted


def test_two_unpaid_rounds_are_refuted_too():
    assert play(unpaid_rounds(1.0, rounds=2), stages=(2_000, 4_000), alpha=1e-3).refuted


def log_gaussian(variance, reach):
    at = np.arange(-reach, reach + 1)
    logs = -(at**2) / (2 * variance)
    return logs - np.logaddexp.reduce(logs)


def divergence(logs, order):
    """The Renyi divergence of an integer noise from itself moved by one."""
    return np.logaddexp.reduce(order * logs[1:] + (1 - order) * logs[:-1]) / (order - 1)


def test_noise_on_the_marginal_itself_costs_more_than_its_residual_would():
    # Two positions: the residual is the difference of their counts. With variance v on each count its noise is the
    # difference of two noises. At small v that is far from Gaussian: it costs more than the claim, 1 / (4 v).
    variance = 0.1
    lone = log_gaussian(variance, 45)
    size = len(lone)
    both = np.array(
        [
            np.logaddexp.reduce(
                [lone[i] + lone[k - i] for i in range(max(0, k - size + 1), min(size, k + 1))]
            )
            for k in range(2 * size - 1)
        ]
    )
    claim = 1 / (4 * variance)
    assert divergence(both, 1.05) / 1.05 > 1.4 * claim  # the planted fault
    assert divergence(log_gaussian(2 * variance, 90), 1.05) / 1.05 <= claim * (
        1 + 1e-9
    )  # noise on the residual


def test_members_are_told_from_others_no_better_than_allowed():
    schema = load_survey_schema()
    found = membership(load_survey(), schema, 1.0, runs=2)
    spread = math.sqrt(1 / found.records)
    assert found.most == pytest.approx(math.tanh(0.5))
    assert found.advantage <= found.most + 5 * spread
    assert abs(found.auc - 0.5) < 0.1


def test_without_noise_to_speak_of_members_show():
    schema = load_survey_schema()
    assert membership(load_survey(), schema, 3_000.0, runs=2).auc > 0.55
