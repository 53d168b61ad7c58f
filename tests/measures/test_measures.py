"""The measures: zero on identical data, bounded, equal to plain versions and to published figures."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from shoal import measures
from shoal.engine.encode import group_means
from shoal.errors import InputError
from shoal.measures import _risk, cell_measures, evaluate
from shoal.measures._nearest import nearest_is_own
from shoal.measures._risk import linked_share
from shoal.microaggregation import MDAV


def one_group(frame):
    X = frame.to_numpy().astype(float)
    return X, np.tile(X.mean(axis=0), (len(X), 1))


@pytest.mark.parametrize(("name", "value"), [("tarragona", 31.32), ("census", 55.15)])
def test_il2_of_one_single_group(name, value, request):
    assert measures.il2(*one_group(request.getfixturevalue(name))) == pytest.approx(value, abs=0.005)


def test_il1_of_one_single_group_is_everything(census):
    assert measures.il1(*one_group(census)) == pytest.approx(100)


def test_il1_is_the_information_loss_of_the_method(census):
    fitted = MDAV(k=3).fit(census)
    assert measures.il1(census, fitted.transform(census)) == pytest.approx(fitted.information_loss_)


def test_dld_of_mdav_on_tarragona(tarragona):
    X = tarragona.to_numpy().astype(float)
    masked = MDAV(k=3).fit_transform(X)
    assert measures.dld(X, masked) == pytest.approx(0.313, abs=0.0005)
    assert measures.dld(X, masked, own=True) == pytest.approx(0.288, abs=0.0005)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 30),
    p=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    grid=st.booleans(),
    ties=st.sampled_from(["share", "first"]),
)
def test_linked_share_equals_the_whole_matrix(n, p, seed, grid, ties):
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 3, size=(n, p)).astype(float) if grid else rng.normal(size=(n, p))
    B = A[rng.integers(0, n, n)]
    assert linked_share(A, B, ties=ties) == pytest.approx(oracles.dld(A, B, ties))


def test_identical_tables_lose_nothing_and_hide_nobody(census):
    figures = measures.evaluate(census, census)
    for name, value in figures.items():
        if name in ("dld", "interval_disclosure"):
            assert value == pytest.approx(1.0, abs=0.01), name
        else:
            assert value == pytest.approx(0.0, abs=1e-6), name


@settings(max_examples=40, deadline=None)
@given(n=st.integers(3, 30), p=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_shares_are_shares(n, p, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2, n, p))
    figures = measures.evaluate(X, Y)
    for name in ("dld", "interval_disclosure", "propensity"):
        assert 0 <= figures[name] <= 1 + 1e-9, name
    assert all(value >= 0 for value in figures.values())


def test_interval_disclosure_by_hand():
    x = np.arange(10.0)[:, None]
    y = np.where(x < 5, x, x + 100)
    assert measures.interval_disclosure(x, y, width=0.1, kind="deviation") == 0.5
    assert measures.interval_disclosure(x, x, width=0.0, kind="deviation") == 1.0


def test_moments_by_hand():
    X = np.array([[0.0, 0.0], [2.0, 2.0]])
    changed = measures.moments(X, np.ones((2, 2)))
    assert changed["mean"] == 0
    assert changed["variance"] == 1
    assert changed["covariance"] == 1


def test_constant_columns_do_not_break_the_measures():
    X = np.column_stack([np.arange(6.0), np.full(6, 2.0)])
    figures = measures.evaluate(X, X)
    assert np.isfinite(list(figures.values())).all()


def test_different_shapes_are_refused():
    with pytest.raises(InputError, match="same shape"):
        measures.il1(np.ones((3, 2)), np.ones((2, 2)))
    with pytest.raises(InputError, match="share a numeric column"):
        measures.il1(pl.DataFrame({"a": [1]}), pl.DataFrame({"b": [1]}))


@pytest.mark.parametrize("ties", ["share", "first"])
@pytest.mark.parametrize("columns", [3, 30])
def test_linkage_by_scanning_is_linkage_by_a_tree(monkeypatch, ties, columns):
    """Whole numbers make many ties, one-hot columns more."""
    rng = np.random.default_rng(columns)
    A = np.hstack([rng.integers(0, 3, (400, columns)), np.eye(9)[rng.integers(0, 9, 400)]]).astype(float)
    labels = np.arange(400) // 4
    B = group_means(A, labels)[labels]
    found = []
    for few in (0, 1000):
        monkeypatch.setattr(_risk, "FEW_FOR_ALL", few)
        found += [_risk.linked_share(A, B, ties=ties), _risk.linked_share(A, B, ties=ties, labels=labels)]
    assert found[0] == pytest.approx(found[1], abs=0)
    assert found[0] == pytest.approx(found[2], abs=1e-12)
    assert found[0] > 0


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 40),
    p=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    grid=st.booleans(),
    blocks=st.booleans(),
    labelled=st.booleans(),
)
def test_nearest_is_own_equals_the_whole_matrix(n, p, seed, grid, blocks, labelled):
    """Against all distances, with blocks that only share rows among themselves."""
    rng = np.random.default_rng(seed)
    A = rng.integers(0, 3, size=(n, p)).astype(float) if grid else rng.normal(size=(n, p))
    labels = rng.integers(0, max(1, n // 3), n)
    labels = np.unique(labels, return_inverse=True)[1]
    B = group_means(A, labels)[labels]
    of = np.unique(rng.integers(0, 3, n), return_inverse=True)[1] if blocks else np.zeros(n, np.int64)
    rows = np.sort(rng.permutation(n)[: rng.integers(1, n + 1)])
    told = []
    ties, firsts = nearest_is_own(
        A, B, rows, blocks=of if blocks else None, labels=labels if labelled else None,
        progress=lambda done, whole: told.append(done / whole),
    )  # fmt: skip
    distance = np.sqrt(((B[:, None] - A[None]) ** 2).sum(axis=2))
    distance[of[:, None] != of[None]] = np.inf
    for row, count, first in zip(rows, ties, firsts, strict=True):
        near = np.flatnonzero(distance[row] <= distance[row].min() * (1 + 1e-9) + 1e-300)
        assert count == (near.size if row in near else 0)
        assert first == (near[0] if row in near else -1)
    assert told[0] == 0
    assert all(0 <= share < 1 for share in told)


def test_evaluate_can_leave_the_linkage_to_others():
    X = np.arange(12.0).reshape(6, 2)
    assert set(evaluate(X, X)) - set(cell_measures(X, X)) == {"dld"}
