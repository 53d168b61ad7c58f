"""The optimum of one column, by both costs, against a plain dynamic programme."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.engine.encode import standardise
from shoal.microaggregation import Univariate, UnivariateMedian, _univariate
from shoal.microaggregation._path import cut


def squares(group):
    mean = sum(group) / len(group)
    return sum((x - mean) ** 2 for x in group)


def distances(group):
    middle = group[len(group) // 2]
    return sum(abs(x - middle) for x in group)


def least(x, k, cost):
    """The least cost of all cuts of sorted numbers into runs of k..2k-1; exact for fractions."""
    best = {0: 0}
    for end in range(k, len(x) + 1):
        options = [best[s] + cost(x[s:end]) for s in range(max(0, end - 2 * k + 1), end - k + 1) if s in best]
        if options:
            best[end] = min(options)
    return best[len(x)]


def cost_of(x, labels, cost):
    return sum(cost(sorted(x[i] for i in np.flatnonzero(labels == g))) for g in range(labels.max() + 1))


columns = st.lists(
    st.integers(-5, 5).map(float) | st.floats(-1e3, 1e3, width=32) | st.sampled_from([1e6, -1e6, 1e-9]),
    min_size=4,
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(columns, st.integers(2, 12), st.sampled_from([False, True]), st.booleans())
def test_the_line_is_cut_at_least_cost(values, k, absolute, tried):
    k = min(k, len(values))
    x = np.sort(np.array(values))
    cost = distances if absolute else squares
    exact = [Fraction(v) for v in x.tolist()]
    short = absolute and tried
    starts = _univariate._cut_by_distances(x, k) if short else _univariate._cut_line(x, k, absolute)
    labels = np.cumsum(starts) - 1
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    best = float(least(exact, k, cost))
    assert float(cost_of(exact, labels, cost)) == pytest.approx(best, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(
    ("n", "k"), [(500, 13), (997, 40), (1000, 250), (1001, 333), (64, 32), (65, 32), (63, 32)]
)
def test_longer_lines_cost_what_trying_all_starts_costs(n, k):
    rng = np.random.default_rng(n)
    for x in (
        rng.normal(size=n),
        np.round(rng.exponential(size=n), 1),
        np.repeat(rng.normal(size=n // 8 + 1), 8)[:n],
    ):
        line = np.sort(x)
        linear = np.cumsum(_univariate._cut_line(line, k, False)) - 1
        tried = cut(line[:, None], np.arange(n), k)
        costs = [squares_of(line, labels) for labels in (linear, tried)]
        assert costs[0] == pytest.approx(costs[1], rel=1e-10, abs=1e-12)
        assert np.bincount(linear).min() >= k
        assert np.bincount(linear).max() < 2 * k


@pytest.mark.parametrize("k", [2, 9, _univariate.SMALL_ABSOLUTE])
@pytest.mark.parametrize("far", [0.0, 1e8])
def test_distances_cost_the_same_by_either_way(k, far):
    """Sums from the start of the line, as other libraries take them, cost 0.6 % more at 1e8 with k = 5."""
    x = far + np.sort(np.random.default_rng(k).normal(size=2_000))
    tried = np.cumsum(_univariate._cut_by_distances(x, k)) - 1
    linear = np.cumsum(_univariate._cut_line(x, k, True)) - 1
    assert np.bincount(tried).min() >= k
    assert np.bincount(tried).max() < 2 * k
    both = [
        sum(np.abs(x[g == j] - np.median(x[g == j])).sum() for j in range(g.max() + 1))
        for g in (tried, linear)
    ]
    assert both[0] == pytest.approx(both[1], rel=1e-9)


def squares_of(line, labels):
    return sum(((line[labels == g] - line[labels == g].mean()) ** 2).sum() for g in range(labels.max() + 1))


@pytest.mark.parametrize("method", [Univariate, UnivariateMedian])
@pytest.mark.parametrize("k", [3, 20])
@pytest.mark.parametrize(
    ("offset", "unit"), [(1e8, 1e-6), (-1e15, 10.0), (0.0, 1e300), (0.0, 1e-300), (1e-3, 1.0)]
)
def test_far_and_huge_values(method, k, offset, unit):
    x = offset + unit * np.random.default_rng(1).integers(-9, 9, 90).astype(float)
    fitted = method(k=k).fit(x[:, None])
    Z = standardise(x[:, None])
    exact = [Fraction(v) for v in np.sort(Z[:, 0]).tolist()]
    cost = distances if method is UnivariateMedian else squares
    exact_cost = cost_of([Fraction(v) for v in Z[:, 0].tolist()], fitted.labels_, cost)
    assert float(exact_cost) == pytest.approx(float(least(exact, k, cost)), rel=1e-9, abs=1e-12)


def test_two_dense_clusters_far_apart_do_not_cancel():
    rng = np.random.default_rng(0)
    x = np.sort(np.concatenate([rng.normal(size=45) * 1e-6, 1e8 + rng.integers(0, 9, 45) * 1e-7]))
    labels = np.cumsum(_univariate._cut_line(x, 20, False)) - 1
    exact = [Fraction(v) for v in x.tolist()]
    assert float(cost_of(exact, labels, squares)) == pytest.approx(float(least(exact, 20, squares)), rel=1e-9)


def test_medians_are_published_and_measured():
    x = np.array([1.0, 2.0, 3.0, 7.0, 8.0, 60.0, 61.0])[:, None]
    fitted = UnivariateMedian(k=3).fit(x)
    assert fitted.centroids_.ravel().tolist() == [2.0, 60.0]  # of four the lower of the two in the middle
    Z = standardise(x)[:, 0]
    assert fitted.absolute_deviation_ == pytest.approx(cost_of(Z.tolist(), fitted.labels_, distances))
    assert UnivariateMedian(k=3).fit(x).sse_ >= Univariate(k=3).fit(x).sse_


def test_several_columns_are_grouped_along_one_axis():
    X = np.random.default_rng(2).normal(size=(50, 3)) * [3.0, 1.0, 0.1]
    for method in (Univariate, UnivariateMedian):
        sizes = np.bincount(method(k=4).fit(X).labels_)
        assert sizes.min() >= 4
        assert sizes.max() < 8


def test_the_command_line_and_protect_know_the_median():
    assert shoal.methods()["univariate-median"] is UnivariateMedian
    assert math.isfinite(UnivariateMedian(k=2).fit(np.ones((5, 1))).absolute_deviation_)
