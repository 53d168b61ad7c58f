"""The kernels for large tables give the labels of the plain ones, whatever the table looks like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engine.encode import standardise
from shoal.engine.kernels.tree_growth import grow_tree
from shoal.engine.kernels.trees import farthest, nearest, take, tighten
from shoal.microaggregation import CBFS, MDAV, VMDAV, MDAVGeneric
from shoal.microaggregation.fixed_size import tree as fast
from shoal.microaggregation.fixed_size.plain import plain_cbfs, plain_mdav, plain_mdav_generic, plain_v_mdav
from shoal.microaggregation.fixed_size.scan import scan_rounds


def table(kind: str, n: int, p: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(n, p))
    return {
        "normal": lambda: normal,
        "grid": lambda: rng.integers(0, 4, size=(n, p)).astype(float),
        "standardised grid": lambda: standardise(rng.integers(0, 5, size=(n, p)).astype(float)),
        "duplicated": lambda: normal[rng.integers(0, max(1, n // 5), n)],
        "clustered": lambda: 0.01 * normal + 5 * rng.normal(size=(6, p))[rng.integers(0, 6, n)],
        "skewed": lambda: standardise(np.exp(2 * normal)),
        "correlated": lambda: normal @ (np.ones((p, p)) + 0.1 * np.eye(p)),
        "mirrored": lambda: np.concatenate([normal[: n // 2], -normal[: n - n // 2]]),
        "far away": lambda: normal + 1e7,
        "constant": lambda: np.full((n, p), 0.1),
        "one line": lambda: np.outer(np.arange(n) % 17, np.ones(p)) / 3,
        "ones and zeros": lambda: (normal > 0).astype(float),
    }[kind]()


KINDS = [
    "normal", "grid", "standardised grid", "duplicated", "clustered", "skewed", "correlated", "mirrored",
    "far away", "constant", "one line", "ones and zeros",
]  # fmt: skip


def same_labels(X: np.ndarray, k: int) -> None:
    X = np.ascontiguousarray(X)
    plain = {
        fast.MDAV: plain_mdav(X, k),
        fast.MDAV_GENERIC: plain_mdav_generic(X, k),
        fast.CBFS: plain_cbfs(X, k, False),
    }
    for method, labels in plain.items():
        for least in (0, 150):
            np.testing.assert_array_equal(fast._shrink(X, k, method, least), labels)
        np.testing.assert_array_equal(fast._with_leftovers(X, scan_rounds(X, k, method)), labels)
    np.testing.assert_array_equal(fast._shrink(X, k, fast.CBFS_CENTROID), plain_cbfs(X, k, True))
    for gamma in (0.2, 1.1):
        np.testing.assert_array_equal(fast._extend(X, k, gamma), plain_v_mdav(X, k, gamma))


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(2, 300),
    p=st.integers(1, 12),
    k=st.integers(2, 8),
    seed=st.integers(0, 10**6),
)
def test_labels_equal_those_of_the_plain_kernels(kind, n, p, k, seed):
    same_labels(table(kind, n, p, seed), min(k, n))


@pytest.mark.parametrize("kind", KINDS)
def test_labels_stay_equal_when_trees_are_built_anew(kind):
    same_labels(table(kind, 4_000, 4, 1), 3)


def test_labels_equal_in_many_columns():
    same_labels(table("normal", 1_000, 30, 2), 5)


@pytest.mark.parametrize(
    "method", [MDAV(k=3), MDAVGeneric(k=3), CBFS(k=3), CBFS(k=3, grow="centroid"), VMDAV(k=3, gamma=1.1)]
)
def test_estimators_choose_by_size(method, monkeypatch):
    X = table("clustered", 600, 3, 3)
    plain = method.fit(X).labels_
    monkeypatch.setattr(fast, "SMALL", 100)
    monkeypatch.setattr(fast, "SCANNED", 10)
    np.testing.assert_array_equal(method.fit(X).labels_, plain)


@pytest.mark.parametrize(
    ("unit", "offset"), [(1e-170, 0.0), (1e-120, 0.0), (1e90, 0.0), (1.0, 1e7), (1e-7, 1.0)]
)
def test_half_the_digits_skip_no_record_in_any_unit(unit, offset):
    X = np.random.default_rng(3).normal(size=(900, 3))
    X[0] *= 1e4  # a record so far away that half the digits hardly tell the others apart
    X = X * unit + offset
    np.testing.assert_array_equal(fast._shrink(X, 3, fast.MDAV), plain_mdav(X, 3))


def test_huge_values_take_the_plain_kernel():
    assert not fast._bounded(np.full((10_000, 2), 1e200))
    assert fast._bounded(np.zeros((10_000, 2)))


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 400),
    p=st.integers(1, 6),
    gone=st.floats(0, 0.9),
    seed=st.integers(0, 10**6),
)
def test_tree_finds_what_a_scan_finds(kind, n, p, gone, seed):
    rng = np.random.default_rng(seed)
    X = np.ascontiguousarray(table(kind, n, p, seed))
    tree = grow_tree(X, np.arange(n))
    removed = rng.permutation(n)[: int(gone * n)]
    for i in removed:
        take(tree, i)
    if seed % 2:
        tighten(tree)
    left = np.setdiff1d(np.arange(n), removed)
    point = X[rng.integers(n)] if seed % 3 else rng.normal(size=p)
    distance = np.zeros(left.size)
    for a in range(p):
        distance += (X[left, a] - point[a]) ** 2
    size = min(3, left.size)
    found, found_d = np.empty(size, np.int64), np.empty(size)
    assert nearest(tree, point, size, found, found_d) == size
    order = np.lexsort((left, distance))[:size]
    np.testing.assert_array_equal(found, left[order])
    np.testing.assert_array_equal(found_d, distance[order])
    assert farthest(tree, point) == (left[np.argmax(distance)], distance.max())
