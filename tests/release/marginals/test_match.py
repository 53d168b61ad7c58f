"""Drawn rows are brought to the model's tables, and never further from them."""

from itertools import combinations

import numpy as np
import pytest

from shoal.release.marginals import _match
from shoal.release.marginals._match import gaps_of, match
from shoal.release.marginals._mixture import Mixture, draw

SIZES = (2, 3, 4, 5)


@pytest.fixture
def mixture():
    rng = np.random.default_rng(3)
    shares = np.concatenate([rng.dirichlet(np.ones(size) / 2, 40) for size in SIZES], axis=1)
    return Mixture(shares.astype(np.float32), (0, *np.cumsum(SIZES).tolist()), 0.0, 0.0, 0)


def squares(codes, mixture, way):
    """The same gaps, plainly."""
    found = 0.0
    for key in combinations(range(len(SIZES)), way):
        counts = np.zeros([SIZES[at] for at in key])
        np.add.at(counts, tuple(codes[:, at] for at in key), 1)
        found += float(((counts - len(codes) * mixture.marginal(key)) ** 2).sum())
    return found


@pytest.mark.parametrize("most", [0, _match.MOST_CELLS])
@pytest.mark.parametrize("rows", [1, 2, 7, 500])
def test_matched_rows_are_nearer_to_the_model(mixture, most, rows, monkeypatch):
    monkeypatch.setattr(_match, "MOST_CELLS", most)
    ways = (1, 2, 3) if most else (1, 2)
    rng = np.random.default_rng(rows)
    drawn = draw(mixture, rows, rng)
    found = match(drawn, mixture, rng)
    before, after = (
        sum((_match.SINGLE if way == 1 else 1) * squares(each, mixture, way) for way in ways)
        for each in (drawn, found)
    )
    assert found.shape == drawn.shape
    assert after <= before + 1e-3
    assert all(set(found[:, at]) <= set(drawn[:, at]) for at in range(len(SIZES)))
    if rows == 500:
        assert after < before / 3
        assert squares(found, mixture, 1) < squares(drawn, mixture, 1) / 5


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("most", [0, _match.MOST_CELLS])
def test_gaps_follow_every_change(mixture, most, swap, monkeypatch):
    monkeypatch.setattr(_match, "MOST_CELLS", most)
    codes = draw(mixture, 60, np.random.default_rng(1))
    drawn, gaps = codes.copy(), gaps_of(codes, mixture)
    _match._pass(
        codes, gaps.starts, gaps.single, gaps.pairs, gaps.triples, gaps.where, 0, len(codes), swap, 5, 1.0
    )
    anew = gaps_of(codes, mixture)
    assert (codes != drawn).any()
    for name in ("single", "triples"):
        np.testing.assert_allclose(getattr(gaps, name), getattr(anew, name), atol=1e-3)
    for here, there in combinations(range(len(SIZES)), 2):
        block = np.ix_(*(range(gaps.starts[at], gaps.starts[at + 1]) for at in (here, there)))
        np.testing.assert_allclose(gaps.pairs[block], anew.pairs[block], atol=1e-3)
        np.testing.assert_allclose(gaps.pairs.T[block], anew.pairs[block], atol=1e-3)
    if swap:
        np.testing.assert_array_equal(np.sort(codes, axis=0), np.sort(drawn, axis=0))


def test_much_work_is_cut(mixture, monkeypatch):
    monkeypatch.setattr(_match, "WORK", 40)
    drawn = draw(mixture, 500, np.random.default_rng(2))
    assert gaps_of(drawn, mixture).triples.size == 0
    found = match(drawn, mixture, np.random.default_rng(0))
    assert 0 < (found != drawn).any(axis=1).sum() <= 2 * 3 * 2 * (40 // 16 + 1)


def test_single_columns_may_be_given(mixture):
    wanted = [np.arange(1.0, size + 1) / (size * (size + 1) / 2) for size in SIZES]
    found = match(
        draw(mixture, 600, np.random.default_rng(2)),
        mixture,
        np.random.default_rng(0),
        np.concatenate(wanted),
    )
    for at, each in enumerate(wanted):
        shares = np.bincount(found[:, at], minlength=SIZES[at]) / 600
        assert np.abs(shares - each).sum() < np.abs(shares - mixture.marginal((at,))).sum()
