"""The simulated cluster deals all parts out, and lost workers' parts again."""

from __future__ import annotations

import numpy as np
import pytest

cluster = pytest.importorskip("benchmarks.cluster")


def test_equal_workers_share_equal_parts():
    assert cluster.deal(np.ones(12), np.ones(4)) == pytest.approx(3)
    assert cluster.deal(np.ones(13), np.ones(4)) == pytest.approx(4)
    assert cluster.deal(np.ones(12), np.full(4, 2.0)) == pytest.approx(1.5)


@pytest.mark.parametrize("lost", [0, 1, 3, 9])
def test_never_faster_than_the_work_nor_slower_than_one_worker(lost):
    rng = np.random.default_rng(lost)
    costs, speed = rng.gamma(2, size=200), rng.uniform(0.5, 2, 9)
    least, most = costs.sum() / speed.sum(), 2 * costs.sum() / speed.min()
    assert least <= cluster.deal(costs, speed, lost) <= most
    assert cluster.deal(costs, speed, lost) >= cluster.deal(costs, speed) - costs.max() / speed.min()


def test_ten_million_rows_take_about_what_was_measured():
    ours = cluster.simulate(10**7, cluster.Cluster(workers=2, start=2.0))
    assert 30 < ours["seconds"] < 65
    hundred = cluster.simulate(10**9, cluster.Cluster(workers=100))
    assert hundred["seconds"] < 0.1 * cluster.simulate(10**9, cluster.Cluster(workers=2))["seconds"]
