"""The fixed-size family against plain versions and the published figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from shoal.engine.encode import standardise
from shoal.microaggregation import CBFS, MD, MDAV, VMDAV
from shoal.microaggregation._fixed_size import _cbfs, _md, _mdav

PUBLISHED_MDAV = {
    "tarragona": {3: 16.9326, 4: 19.5460, 5: 22.4619, 10: 33.1929, 25: 46.9751, 50: 58.53},
    "census": {3: 5.6922, 4: 7.4947, 5: 9.0884, 10: 14.1559, 25: 21.4025, 50: 28.996},
    "eia": {3: 0.4829, 4: 0.6713, 5: 1.6667, 10: 3.8397},
}
PRINTED_CBFS = {"tarragona": {3: 16.974, 5: 22.827, 10: 33.218}, "census": {3: 5.680, 5: 8.905, 10: 13.896}}


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, row in PUBLISHED_MDAV.items() for k in row])
def test_mdav_gives_the_published_loss(name, k, request):
    loss = MDAV(k=k).fit(request.getfixturevalue(name)).information_loss_
    published = PUBLISHED_MDAV[name][k]
    assert loss == pytest.approx(published, abs=0.005 if k == 50 else 0.0001)


@pytest.mark.parametrize(("name", "k"), [(name, k) for name, row in PRINTED_CBFS.items() for k in row])
def test_cbfs_is_within_a_hundredth_of_the_printed_loss(name, k, request):
    loss = CBFS(k=k).fit(request.getfixturevalue(name)).information_loss_
    assert loss == pytest.approx(PRINTED_CBFS[name][k], rel=0.01)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 40),
    k=st.integers(2, 6),
    p=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    grid=st.booleans(),
)
def test_kernels_equal_the_plain_versions(n, k, p, seed, grid):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, p)).astype(float) if grid else rng.normal(size=(n, p))
    k = min(k, n)
    np.testing.assert_array_equal(_mdav(X, k), oracles.mdav(X, k))
    np.testing.assert_array_equal(_cbfs(X, k, False), oracles.cbfs(X, k))


def test_kernels_equal_their_own_python(blobs):
    Z = standardise(blobs)
    np.testing.assert_array_equal(_mdav(Z, 4), _mdav.py_func(Z, 4))
    np.testing.assert_array_equal(_md(Z, 4, True), _md.py_func(Z, 4, True))


def test_md_starts_with_the_diameter(blobs):
    Z = standardise(blobs)
    labels = _md(Z, 3, False)
    ends = [
        max(((Z[i] - Z[j]) ** 2).sum() for j in np.flatnonzero(labels == 1))
        for i in np.flatnonzero(labels == 0)
    ]
    assert max(ends) == pytest.approx(oracles.diameter(Z, np.arange(len(Z))))


def test_v_mdav_without_reach_makes_groups_of_k(blobs):
    assert set(np.bincount(VMDAV(k=4, gamma=0.0).fit(blobs).labels_)) == {4}


def test_v_mdav_keeps_natural_groups_together():
    X = np.concatenate([np.random.default_rng(0).normal(centre, 0.01, size=(4, 2)) for centre in (0, 5, 10)])
    assert sorted(np.bincount(VMDAV(k=3, gamma=1.1).fit(X).labels_)) == [4, 4, 4]
    assert MDAV(k=3).fit(X).sse_ > VMDAV(k=3, gamma=1.1).fit(X).sse_


def test_cbfs_towards_the_centroid_loses_less_at_small_k(census):
    assert CBFS(k=3, grow="centroid").fit(census).information_loss_ < CBFS(k=3).fit(census).information_loss_


def test_md_is_between_its_rivals(tarragona):
    assert MD(k=3).fit(tarragona).information_loss_ == pytest.approx(15.6038, abs=1e-3)


def test_md_around_records_gives_the_published_loss(tarragona):
    assert MD(k=3, grow="record").fit(tarragona).information_loss_ == pytest.approx(16.983, abs=1e-3)
