"""Regions solved by an integer programme: prices hold, sizes are kept, and the best partition is found."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.bounds import information_loss_bound
from shoal.engine.encode import standardise, sum_of_squares
from shoal.microaggregation import MDAV
from shoal.microaggregation._exact import Neighbourhood, RecordPrices, rows_of_groups


@pytest.fixture(scope="module")
def priced():
    Z = standardise(np.random.default_rng(1).normal(size=(120, 3)))
    labels = MDAV(k=3).fit(Z).labels_
    return Z, labels, RecordPrices(Z, 3, labels, 20.0, lambda: False)


def test_no_group_is_below_its_price(priced):
    Z, labels, prices = priced
    rng = np.random.default_rng(0)
    for _ in range(50):
        other = rng.permutation(labels)
        assert (prices.above(other) >= 0).all()
    gap = sum_of_squares(Z, labels) - (prices.pi.sum() - prices.mu.sum())
    assert prices.above(labels).sum() <= gap + 1e-9  # a cut that no group meets is in the gap alone


def test_a_region_of_all_records_ends_at_a_partition_that_keeps_sizes(priced):
    Z, labels, prices = priced
    everything = np.arange(120)
    for seed in range(6):
        solved = prices.solve(
            labels,
            prices.above(labels),
            everything,
            Neighbourhood(120, 1500, 40),
            seed,
            lambda: None,
            lambda: False,
        )
        assert solved.in_time
        sizes = np.bincount(solved.labels)
        assert sizes.min() >= 3
        assert sizes.max() <= 5
        assert sum_of_squares(Z, labels) - sum_of_squares(Z, solved.labels) == pytest.approx(
            solved.fallen, abs=1e-6
        )
        labels = solved.labels
    bound = information_loss_bound(Z, 3, 60, scaled=True)
    assert bound.optimal
    assert sum_of_squares(Z, labels) == pytest.approx(sum_of_squares(Z, bound.labels))


def test_records_outside_a_region_stay(priced):
    _, labels, prices = priced
    records = np.flatnonzero(labels < 12)
    solved = prices.solve(
        labels, prices.above(labels), records, Neighbourhood(36, 600, 15), 0, lambda: None, lambda: False
    )
    assert solved.labels.shape == records.shape
    assert np.bincount(solved.labels).min() >= 3


def test_an_end_at_once_leaves_prices_that_hold():
    Z = standardise(np.random.default_rng(2).normal(size=(60, 2)))
    labels = MDAV(k=3).fit(Z).labels_
    prices = RecordPrices(Z, 3, labels, 20.0, lambda: True)
    assert prices.pi.sum() <= sum_of_squares(Z, labels)
    assert prices.mu.size == 0


def test_rows_hold_the_members_in_order():
    assert rows_of_groups(np.array([1, 0, 1, 0, 0]), 4).tolist() == [[1, 3, 4, -1], [0, 2, -1, -1]]
