"""The auditor against releases: sound ones stand, planted faults fall."""

import numpy as np
import pytest

from faults.releases import noise_per_copy
from shoal.audit import Mechanism, play
from shoal.release import audit_releases
from shoal.release._audit import handing_on, total_order_case
from shoal.release._groups import group_starts, total_order
from shoal.release._table import ORDERS


def test_the_releases_are_not_refuted():
    report = audit_releases(epsilons=(1.0,), stages=(1_000,))
    assert not report.refuted
    assert len(report.verdicts) == 5


def test_the_graph_release_is_not_refuted():
    assert not audit_releases("graph", epsilons=(1.0,), stages=(300,)).refuted


def test_noise_per_copy_is_refuted():
    verdict = play(noise_per_copy(1.0), (1_000, 4_000))
    assert verdict.refuted
    assert verdict.epsilon_lower_bound > 1


def test_a_scale_without_the_number_of_groups_is_refuted():
    sound = total_order_case(1.0)
    claimed = Mechanism("as if one group moved", 0.25, sound.sample, sound.columns)
    assert play(claimed, (1_000, 4_000, 16_000)).refuted


@pytest.mark.parametrize("order", ORDERS)
def test_the_audited_tables_attain_the_bound(order):
    codes, tables = handing_on(order)
    sums = [np.add.reduceat(each[total_order(each, codes, order), -1], group_starts(8, 2)) for each in tables]
    assert np.abs(sums[0] - sums[1]).sum() == 4 * 100
