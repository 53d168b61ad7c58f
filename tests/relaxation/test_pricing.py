"""The pricing search finds every group it should, no more than once, with and without cuts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from shoal.relaxation.columns import group_costs
from shoal.relaxation.cuts import hits, separate, separate_fives
from shoal.relaxation.pricing import CutPrices, RoundedDistances, below, low, price


def reduced_costs(grid, pi, triples, mu, size):
    """Of all groups of a size, the plain way."""
    groups = np.array(list(combinations(range(len(pi)), size)))
    cost = group_costs(grid.D, groups) - pi[groups].sum(axis=1)
    for triple, price_of in zip(triples, mu, strict=True):
        cost += price_of * (np.isin(groups, triple).sum(axis=1) >= 2)
    return groups, cost


@pytest.fixture(params=[(0, False), (1, True), (2, True)])
def instance(request):
    seed, tied = request.param
    rng = np.random.default_rng(seed)
    Z = rng.integers(0, 3, size=(14, 2)).astype(float) if tied else rng.normal(size=(14, 3))
    grid = RoundedDistances.of(Z, 3)
    triples = np.sort(np.array([rng.choice(14, 3, replace=False) for _ in range(9)]), axis=1)
    triples = np.unique(triples, axis=0)
    thirds = grid.thirds(rng.uniform(0.0, 0.6, size=len(triples)))
    pi = grid.down(rng.uniform(0.2, 1.2, size=14))
    return grid, pi, triples, thirds


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("with_cuts", [False, True])
def test_every_group_below_a_threshold_is_listed_once(instance, size, with_cuts):
    grid, pi, triples, thirds = instance
    if not with_cuts:
        triples, thirds = triples[:0], thirds[:0]
    groups, cost = reduced_costs(grid, pi, triples, 3 * thirds, size)
    prices = CutPrices.of(14, triples, thirds)
    for threshold in (0.0, 0.3):
        listed = np.sort(below(grid, pi, prices, size, threshold, 10**6, 10**5), axis=1)
        assert len(np.unique(listed, axis=0)) == len(listed)
        wanted = {tuple(row) for row in groups[cost < threshold - 1e-9]}
        found = {tuple(row) for row in listed}
        assert wanted <= found
        assert found <= {tuple(row) for row in groups[cost < threshold + 1e-6]}


def test_low_lists_all_sizes_and_keeps_the_limit_of_a_record(instance):
    grid, pi, triples, thirds = instance
    prices = CutPrices.of(14, triples, thirds)
    groups, seen = low(grid, pi, prices, range(3, 6), 0.3, 10_000, 10_000)
    expected = [below(grid, pi, prices, size, 0.3, 10**6, 10**5) for size in (3, 4, 5)]
    assert {tuple(row[row >= 0]) for row in groups} == {
        tuple(sorted(row)) for each in expected for row in each
    }
    np.testing.assert_array_equal(seen, np.bincount(groups[groups >= 0], minlength=14))
    some, seen = low(grid, pi, prices, range(3, 6), 0.3, 10_000, 4)
    assert {tuple(row) for row in some} <= {tuple(row) for row in groups}
    assert seen.max() == 4
    assert low(grid, pi, prices, range(3, 6), 0.3, len(groups) - 1, 10_000) is None


@pytest.mark.parametrize("size", [3, 4, 5])
def test_shares_are_the_lowest_price_of_each_record(instance, size):
    grid, pi, triples, thirds = instance
    groups, cost = reduced_costs(grid, pi, triples, 3 * thirds, size)
    found = price(grid, pi, CutPrices.of(14, triples, thirds), size, 10**6)
    lowest = [min(0.0, cost[(groups == i).any(axis=1)].min()) for i in range(14)]
    assert found.complete
    np.testing.assert_allclose(found.share * size, lowest, atol=1e-9)


def test_search_cut_short_says_so(instance):
    grid, pi, triples, thirds = instance
    prices = CutPrices.of(14, triples, thirds)
    assert not price(grid, pi + 5.0, prices, 4, 8).complete
    assert below(grid, pi, prices, 4, 50.0, 10**6, 32) is None


def test_grid_lies_below_and_near():
    Z = np.random.default_rng(0).normal(size=(40, 5)) * 10
    exact = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    D = RoundedDistances.of(Z, 4).D
    assert (exact >= D).all()
    assert np.abs(exact - D).max() < 1e-6
    np.testing.assert_array_equal(D, D.T)


def test_half_of_three_overlapping_groups_is_cut_off():
    groups = np.array([[0, 1, 3, -1, -1], [0, 2, 4, -1, -1], [1, 2, 5, -1, -1]])
    found = separate(groups, np.full(3, 0.5), 6, 10, 4)
    assert found.tolist() == [[0, 1, 2, -1, -1]]
    assert (hits(groups, found, 6).toarray() == 1).all()


def test_odd_cycle_of_five_is_cut_off():
    groups = np.array([[i, (i + 1) % 5, 5 + i] for i in range(5)])
    found = separate_fives(groups, np.full(5, 0.5), 10, 10, 4)
    assert found.tolist() == [[0, 1, 2, 3, 4]]
    assert separate(groups, np.full(5, 0.5), 10, 10, 4).size == 0


def test_four_of_five_count_twice():
    cut = np.array([[0, 1, 2, 3, 4]])
    groups = np.array([[0, 1, 2, 3, 7], [0, 1, 2, 8, 9], [0, 8, 9, -1, -1]])
    assert hits(groups, cut, 10).toarray().ravel().tolist() == [2.0, 1.0, 0.0]
