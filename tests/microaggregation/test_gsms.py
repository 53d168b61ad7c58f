"""The greedy family against its definition and the published figures."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from shoal.engine.encode import standardise, sum_of_squares
from shoal.microaggregation import GSMS, GSMST2
from shoal.microaggregation._gsms import _dissolve, _gsms, _look_all

PRINTED_GSMS = {"tarragona": {3: 16.610, 5: 21.950, 10: 33.230}, "census": {3: 5.560, 5: 8.670, 10: 13.550}}
PRINTED_T2 = {"tarragona": {3: 16.36}, "census": {3: 5.54, 5: 8.56, 10: 13.36}, "eia": {3: 0.41}}


def cases(printed):
    return [(name, k, value) for name, row in printed.items() for k, value in row.items()]


@pytest.mark.parametrize(("name", "k", "printed"), cases(PRINTED_GSMS))
def test_gsms_gives_the_printed_loss(name, k, printed, request):
    loss = GSMS(k=k).fit(request.getfixturevalue(name)).information_loss_
    assert loss == pytest.approx(printed, rel=0.002)


@pytest.mark.parametrize(("name", "k", "printed"), cases(PRINTED_T2))
def test_one_pass_of_t2_gives_the_printed_loss(name, k, printed, request):
    loss = GSMST2(k=k, passes=1).fit(request.getfixturevalue(name)).information_loss_
    assert loss == pytest.approx(printed, rel=0.005)


@pytest.mark.parametrize("name", ["tarragona", "census"])
@pytest.mark.parametrize("k", [3, 5, 10])
def test_the_second_pass_only_lowers_the_loss(name, k, request):
    table = request.getfixturevalue(name)
    plain, one, many = GSMS(k=k).fit(table), GSMST2(k=k, passes=1).fit(table), GSMST2(k=k).fit(table)
    assert many.sse_ <= one.sse_ <= plain.sse_


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 40),
    k=st.integers(2, 6),
    p=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    length=st.integers(0, 8),
)
def test_the_kernel_equals_the_definition(n, k, p, seed, length):
    X = np.random.default_rng(seed).normal(size=(n, p))
    k = min(k, n)
    # Short lists make the kernel look again and again.
    near = _look_all(X, min(n - 1, k - 1 + length))
    labels = _gsms(X, k, *near)
    assert groups(labels) == groups(oracles.gsms(X, k))


def groups(labels):
    # As a set: with 2k records left a group and its rest have the same score, and either may come first.
    return {tuple(np.flatnonzero(labels == g)) for g in range(labels.max() + 1)}


def test_the_kernels_equal_their_own_python(blobs):
    Z = standardise(blobs)
    near, filled = _look_all(Z, 10)
    labels = _gsms(Z, 3, near.copy(), filled.copy())
    np.testing.assert_array_equal(labels, _gsms.py_func(Z, 3, near, filled))
    np.testing.assert_array_equal(_dissolve(Z, labels, 3, -1), _dissolve.py_func(Z, labels, 3, -1))


def test_a_group_is_dissolved_only_where_the_sse_falls():
    # Three tight groups of three, and three strays, each beside one of them.
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    X = np.concatenate([centres.repeat(3, axis=0), centres + 1.0])
    labels = np.append(np.repeat([0, 1, 2], 3), [3, 3, 3])
    after = _dissolve(X, labels, 3, -1)
    np.testing.assert_array_equal(after, np.append(np.repeat([0, 1, 2], 3), [0, 1, 2]))
    # At k = 2 groups of three are full.
    np.testing.assert_array_equal(_dissolve(X, labels, 2, -1), labels)
    assert sum_of_squares(X, after) < sum_of_squares(X, labels)


def test_far_from_the_origin_the_same_groups(blobs):
    blobs = np.round(blobs * 1024) / 1024  # exact after the shift
    for method in (GSMS(k=4), GSMST2(k=4)):
        np.testing.assert_array_equal(method.partition(blobs), method.partition(blobs + 1e8))


def test_gsms_takes_seconds_on_eia(eia):
    GSMS(k=3).fit(eia.head(50))  # compile
    before = time.process_time()
    GSMS(k=3).fit(eia)
    assert time.process_time() - before < 60
