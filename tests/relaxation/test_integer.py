"""The choice of groups is the best one, found the plain way."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from shoal.relaxation.integer import choose


def best_cost(groups, costs, left):
    """Least cost of covering the records that are left, by trying all."""
    if not left:
        return 0.0
    first = min(left)
    values = [
        cost + best_cost(groups, costs, left - set(group))
        for group, cost in zip(groups, costs, strict=True)
        if first in group and set(group) <= left
    ]
    return min(values, default=np.inf)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_choice_is_found(seed):
    rng = np.random.default_rng(seed)
    groups = [group for size in (3, 4) for group in combinations(range(8), size)]
    groups = [groups[g] for g in rng.choice(len(groups), 60, replace=False)]
    costs = rng.uniform(1, 2, len(groups))
    rows = np.array([list(group) + [-1] * (4 - len(group)) for group in groups])
    chosen = choose(rows, costs, 8)
    best = best_cost(groups, costs, set(range(8)))
    assert chosen.finished
    if np.isinf(best):
        assert chosen.taken is None
    else:
        assert chosen.cost == pytest.approx(best)
        assert sorted(rows[chosen.taken][rows[chosen.taken] >= 0]) == list(range(8))
        known = np.zeros(len(groups), bool)
        known[chosen.taken] = True
        assert choose(rows, costs, 8, known=known).cost == pytest.approx(best)


def test_no_choice_and_no_time_are_told_apart():
    rows = np.array([[0, 1, 2]])
    none = choose(rows, np.ones(1), 4)
    assert none.finished
    assert none.taken is None
    rng = np.random.default_rng(0)
    rows = np.array([rng.choice(60, 4, replace=False) for _ in range(1500)])
    late = choose(rows, rng.uniform(1, 2, 1500), 60, seconds=0.05)
    assert not late.finished
    assert not late.in_time
    asked = []
    stopped = choose(
        rows, rng.uniform(1, 2, 1500), 60, stopped=lambda: bool(asked.append(1)) or len(asked) > 3
    )
    assert not stopped.in_time
    assert len(asked) > 3
