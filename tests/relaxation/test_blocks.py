"""A bound with blocks of records solved as wholes is one: against all partitions of small tables."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shoal.relaxation.ascent import Ascent
from shoal.relaxation.blocked import BlockAscent
from shoal.relaxation.blocks import RecordBlocks, best_choices, prove
from shoal.relaxation.cheap import cheap_duals
from shoal.relaxation.surroundings import Surroundings


def squares(Z: np.ndarray) -> list[Fraction]:
    """Sum of squares around the mean of every subset, exactly."""
    columns = [[Fraction(v) for v in column] for column in Z.T.tolist()]
    out = [Fraction(0)]
    for mask in range(1, 1 << len(Z)):
        rows = [i for i in range(len(Z)) if mask >> i & 1]
        out.append(
            sum(
                (sum(c[i] ** 2 for i in rows) - sum(c[i] for i in rows) ** 2 / len(rows) for c in columns),
                Fraction(0),
            )
        )
    return out


def least(Z: np.ndarray, k: int, pi: list[Fraction] | None = None) -> Fraction:
    """Least sum of squares of all partitions; with prices, of what disjoint groups cost above theirs."""
    costs, n = squares(Z), len(Z)
    best: list[Fraction | None] = [Fraction(0)]
    for mask in range(1, 1 << n):
        high = 1 << (mask.bit_length() - 1)
        rest = mask ^ high
        found = None if pi is None else best[rest]
        sub = rest
        while True:
            group = sub | high
            left = best[mask ^ group]
            if group.bit_count() >= k and left is not None:
                cost = costs[group] + left
                if pi is not None:
                    cost -= sum(pi[i] for i in range(n) if group >> i & 1)
                found = cost if found is None else min(found, cost)
            if sub == 0:
                break
            sub = (sub - 1) & rest
        best.append(found)
    assert best[-1] is not None
    return best[-1]


tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(6, 7), st.integers(1, 2)),
    elements=st.integers(-3, 3).map(float)
    | st.floats(-10, 10, width=32)
    | st.sampled_from([1e4, 1e8 + 1e-6, 1e8, 1e-9]),
)


@settings(max_examples=12, deadline=None)
@given(tables, st.integers(2, 3), st.integers(0, 2**32 - 1))
def test_no_partition_costs_less_than_is_proven(Z, k, seed):
    """Whatever the prices and the blocks."""
    rng = np.random.default_rng(seed)
    n = len(Z)
    around = Surroundings.of(Z, k, 2 * k)
    joined = rng.permuted(np.tile(np.arange(n), (2, 1)), axis=1)[:, : k + 1]
    blocks = RecordBlocks.none(n).joined(joined, rng.random(2), k)
    scale = ((Z - Z.mean(axis=0)) ** 2).sum(axis=1)
    found = prove(around, blocks, (scale * rng.uniform(0.0, 1.5, n))[around.order])
    assert Fraction(found.value) <= least(Z, k)


@pytest.mark.parametrize("k", [2, 3])
def test_a_block_is_solved(k):
    rng = np.random.default_rng(k)
    Z = rng.normal(size=(8, 2))
    around = Surroundings.of(Z, k, 7)
    blocks = RecordBlocks.none(8).joined(np.arange(8)[None, :], np.ones(1), k)
    X, pi = Z[around.order], rng.uniform(0.0, 1.0, 8)
    values, sets, costs = best_choices(around.space, blocks, pi, k)
    expected = least(X, k, [Fraction(v) for v in pi.tolist()])
    assert expected < 0
    assert values[0] == pytest.approx(float(expected), rel=1e-9)
    assert Fraction(values[0]) <= expected
    # Without each record in turn, and, last, of all.
    assert [not s >> x & 1 for x, s in enumerate(sets[0, :8].tolist())] == [True] * 8
    priced = sum(pi[i] for i in range(8) if sets[0, 8] >> i & 1)
    assert costs[0, 8] - priced == pytest.approx(float(expected), rel=1e-9)


def test_clusters_of_seven_are_proven_optimal():
    """Groups of five of them in part cost less, so prices alone fall short by a fifteenth."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(8, 3)) * 100
    Z = np.repeat(centres, 7, axis=0) + rng.normal(size=(56, 3))
    labels = np.repeat(np.arange(8), 7)
    loss = sum(float(((rows - rows.mean(axis=0)) ** 2).sum()) for rows in Z.reshape(8, 7, 3))
    around = Surroundings.of(Z, 5, 40)
    ascent = Ascent(around, cheap_duals(Z, 5), labels, lambda: 99.0)
    ascent.run(math.inf, lambda stage, value: None)
    assert ascent.value < 0.95 * loss
    blocked = BlockAscent(around, ascent, labels, lambda: 99.0)
    blocked.run(loss, lambda stage, value: None)
    assert 0.999 * loss < blocked.value <= loss * (1 + 1e-12)
