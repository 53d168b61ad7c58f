"""Prices proven from the roots are undercut by no group: in fractions, over all groups of small tables."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shoal.relaxation import rooted
from shoal.relaxation.ascent import Ascent
from shoal.relaxation.cheap import cheap_duals
from shoal.relaxation.rooted import price_all, price_near
from shoal.relaxation.surroundings import Surroundings


def cost(rows: np.ndarray) -> Fraction:
    """Sum of squares around the mean, exactly."""
    total = Fraction(0)
    for column in rows.T.tolist():
        values = [Fraction(v) for v in column]
        total += sum(v * v for v in values) - sum(values) ** 2 / len(values)
    return total


def undercut(Z: np.ndarray, k: int, pi: np.ndarray, sizes: range) -> list[tuple[int, ...]]:
    """Groups that cost less than their prices; none, if the prices are proven."""
    exact = [Fraction(v) for v in pi.tolist()]
    return [
        group
        for size in sizes
        for group in combinations(range(len(Z)), size)
        if cost(Z[list(group)]) < sum(exact[i] for i in group)
    ]


tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(6, 9), st.integers(1, 3)),
    elements=st.integers(-3, 3).map(float)
    | st.floats(-10, 10, width=32)
    | st.sampled_from([1e4, 1e8 + 1e-6, 1e8, -1e6, 1e-9]),
)


@settings(max_examples=80, deadline=None)
@given(tables, st.integers(2, 5), st.integers(0, 2**32 - 1), st.sampled_from([1, 20_000]))
def test_no_group_undercuts_proven_prices(Z, k, seed, nodes):
    rng = np.random.default_rng(seed)
    around = Surroundings.of(Z, k, 2 * k)
    scale = ((Z - Z.mean(axis=0)) ** 2).sum(axis=1)
    pi = (
        scale * rng.uniform(0.0, 1.5, len(Z))
        + rng.normal(size=len(Z)) * rng.choice([0.0, 0.1]) * scale.mean()
    )
    found = price_all(around, pi[around.order], nodes)
    proven = np.empty(len(Z))
    proven[around.order] = found.proven
    assert (proven <= pi).all()
    assert undercut(Z, k, proven, range(k, min(2 * k, len(Z) + 1))) == []


def test_prices_that_nothing_undercuts_are_kept():
    Z = np.random.default_rng(0).normal(size=(40, 2))
    around = Surroundings.of(Z, 4, 8)
    pi = cheap_duals(Z, 4)[around.order]
    found = price_all(around, pi, 1000)
    assert found.proven == pytest.approx(pi, rel=1e-9)
    assert found.groups.size == 0


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_cheapest_groups_are_found(k):
    """All groups of negative reduced cost lower their members: the same sharing, by enumeration."""
    rng = np.random.default_rng(k)
    Z = rng.normal(size=(14, 2))
    around = Surroundings.of(Z, k, 13)
    pi = cheap_duals(Z, k)[around.order] * 1.6
    X = Z[around.order]
    share = np.zeros(14)
    for group in combinations(range(14), k):
        f = float(cost(X[list(group)])) - pi[list(group)].sum()
        for i in group:
            share[i] = min(share[i], f / k)
    assert (share < 0).any()
    exact = price_all(around, pi, 10**6)
    assert exact.proven == pytest.approx(pi + share, rel=1e-9)
    near = price_near(around, pi, 10**6)  # here all records are near
    assert near.proven is None
    for found in (near, exact):
        assert found.groups.size > 0
        assert all(float(cost(X[group])) < pi[group].sum() for group in found.groups)


def test_a_root_with_too_many_records_gives_way(monkeypatch):
    """One far record may be filled up with any of the others."""
    Z = np.random.default_rng(1).normal(size=(9, 2))
    Z[0] = 50.0
    monkeypatch.setattr(rooted, "WIDEST", 3)
    around = Surroundings.of(Z, 3, 6)
    pi = np.full(9, 5.0)
    pi[np.flatnonzero(around.order == 0)] = 1e4
    found = price_all(around, pi, 1)
    proven = np.empty(9)
    proven[around.order] = found.proven
    assert found.cut > 0
    assert undercut(Z, 3, proven, range(3, 6)) == []


@pytest.mark.parametrize(("offset", "unit"), [(0.0, 1.0), (1e8, 1e-6), (0.0, 1e100), (0.0, 1e-100)])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_ascent_proves_prices_on_any_scale(k, offset, unit):
    rng = np.random.default_rng(k)
    Z = offset + unit * np.repeat(rng.normal(size=(8, 2)), [1, 2, 1, 1, 1, 3, 1, 1], axis=0)
    duals = cheap_duals(Z, k)
    ascent = Ascent(Surroundings.of(Z, k, 8 * k), duals, None, lambda: 99.0)
    ascent.run(math.inf, lambda stage, value: None)
    assert ascent.value >= math.fsum(duals)
    assert undercut(Z, k, ascent.pi, range(k, 2 * k)) == []


def test_the_same_bound_for_any_number_of_threads(monkeypatch):
    Z = np.random.default_rng(5).normal(size=(600, 3))
    values = []
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        ascent = Ascent(Surroundings.of(Z, 3, 24), cheap_duals(Z, 3), None, lambda: 999.0)
        ascent.run(math.inf, lambda stage, value: None)
        values.append(ascent.value)
    assert values[0] == values[1]
