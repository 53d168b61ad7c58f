"""Members of households: described one after the other, and grouped with members of at least k households."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engine.encode import sum_of_squares
from shoal.publish import protect
from shoal.publish.stages.members import exchanged, profiles


def homes_of(labels: np.ndarray, households: np.ndarray) -> dict[int, set[int]]:
    return {group: set(households[labels == group].tolist()) for group in np.unique(labels).tolist()}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(2, 4), p=st.integers(1, 4), grid=st.booleans())
def test_exchanges_keep_k_households_and_leave_no_swap_that_gains(seed, k, p, grid):
    rng = np.random.default_rng(seed)
    households, labels = [], []
    for block in range(rng.integers(1, 4)):  # sets of households, whose members fill one or two groups
        for home in range(rng.integers(k, 2 * k)):
            members = rng.integers(2, 5)
            households += [100 * block + home] * members
            labels += [
                2 * block,
                2 * block + 1,
                *rng.integers(2 * block, 2 * block + 2, members - 2).tolist(),
            ]
    order = rng.permutation(len(labels))
    households, labels = np.array(households)[order], np.array(labels)[order]
    Z = rng.integers(0, 4, (labels.size, p)).astype(float) if grid else rng.normal(size=(labels.size, p))
    new = exchanged(Z, labels, households, k)
    assert sum_of_squares(Z, new) <= sum_of_squares(Z, labels) + 1e-9
    np.testing.assert_array_equal(new // 2, labels // 2)  # nobody leaves the set
    assert all(len(each) >= k for each in homes_of(new, households).values())
    best = sum_of_squares(Z, new)
    for i in range(new.size):
        for j in range(i):
            if households[i] == households[j] and new[i] != new[j]:
                other = new.copy()
                other[[i, j]] = other[[j, i]]
                assert sum_of_squares(Z, other) >= best - 1e-7


def test_a_profile_tells_households_of_other_members_apart():
    """Same means, other make-up: a parent and a child are not two people of middle age."""
    Z = np.array([[50.0, 1], [10, 1], [30, 1], [30, 1], [50, 1], [10, 1]])
    found = profiles(Z, np.array([0, 0, 1, 1, 2, 2]), np.array([False, True]))
    apart = ((found[:, None] - found[None]) ** 2).sum(axis=2)
    assert apart[0, 2] == 0
    assert apart[0, 1] == pytest.approx(2 * 20**2)
    own = profiles(Z, np.array([0, 0, 1, 1, 2, 2]), np.array([True, True]))
    np.testing.assert_array_equal(own, [[30, 1]] * 3)


def test_families_of_one_make_up_share_a_set():
    """Couples and single parents of the same mean age: without a mix, ages of children stay those of children."""
    rng = np.random.default_rng(0)
    rows = []
    for home in range(40):
        ages = (30, 30) if home % 2 else (50, 10)
        rows += [(home, age + rng.normal(), 500.0) for age in ages]
    frame = pl.DataFrame(rows, schema=["home", "age", "rent"], orient="row")
    made = protect(frame, 4, households="home", method="mdav", columns=["age", "rent"])
    assert made.figures.information_loss < 1
    assert made.status == "green"
