"""The search on large tables: its state, its promises, and that no other method of ours is ahead of it."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shoal.engine.encode import standardise, sum_of_squares
from shoal.engine.kernels.exchange import shift_cost, swap_cost
from shoal.microaggregation import MDAV, Anneal, mend
from shoal.microaggregation import _anneal as estimator
from shoal.microaggregation import _global as module
from shoal.microaggregation._global import GlobalSearch, start_in_blocks
from shoal.microaggregation._work import ONE_BLOCK, Work, part_of, seconds_per_proposal, usual_proposals


@pytest.fixture
def small_jobs(monkeypatch):
    """Large tables begin at 100 records, and jobs hold 300."""
    monkeypatch.setattr(estimator, "ONE_BLOCK", 100)
    monkeypatch.setattr(module, "JOB", 300)
    monkeypatch.setattr(module, "LEAF", 128)
    monkeypatch.setattr(module, "BLOCK", 200)


def clusters(n, seed=7):
    g = np.random.default_rng(seed)
    centres = g.normal(size=(40, 10)) * 3
    return centres[g.integers(0, 40, n)] + g.normal(size=(n, 10)) @ np.diag(np.linspace(0.2, 2, 10))


def searched(Z, k, sweeps, seed=0, threads=2):
    with ThreadPoolExecutor(threads) as workers:
        labels = start_in_blocks(Z, k, workers)
        work = Work(None, -(-sweeps * len(Z) // 100) * 100)
        search = GlobalSearch(Z, k, labels, work, workers, np.random.default_rng(seed), lambda _: None)
        search.run()
    return labels, search


def check(search, k):
    """The state is that of the labels, and sizes are kept."""
    groups, X = search.groups, search.table.X
    sizes = np.bincount(groups.labels, minlength=groups.sizes.size)
    np.testing.assert_array_equal(groups.sizes, sizes)
    assert set(np.unique(sizes)) <= {0, *range(k, 2 * k)}
    for i, g in enumerate(groups.labels):
        assert groups.members[g, groups.place[i]] == i
    for g in np.flatnonzero(sizes):
        np.testing.assert_allclose(groups.centres[g], X[groups.labels == g].mean(axis=0), atol=1e-4)


@pytest.mark.parametrize("k", [2, 3, 5, 12])
@pytest.mark.parametrize("sweeps", [1, 4, 40])
def test_the_state_stays_true_and_jobs_keep_apart(k, sweeps, small_jobs):
    Z = standardise(np.random.default_rng(k).normal(size=(1_003, 5)) ** 3)
    first, search = searched(Z, k, sweeps)
    check(search, k)
    assert search.work.proposals <= search.work.max_proposals
    if sweeps == 40:
        assert sum_of_squares(Z, search.labels) < 0.99 * sum_of_squares(Z, first)


def test_all_exchanges_with_a_group_cost_what_one_does():
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(9, 16)).astype(np.float32), rng.normal(size=(2, 16)).astype(np.float32)
    step, w = 2 * (centres[1] - centres[0]), np.float32(0.3)
    for m in range(1, 9):
        assert shift_cost(X, 0, m, step, w) == pytest.approx(swap_cost(X, centres, 0, m, 0, 1, w), rel=1e-3)


def test_threads_do_not_matter_and_seeds_do(small_jobs):
    X = clusters(2_000)
    runs = [Anneal(k=4, max_proposals=60_000, random_state=5, n_threads=t).fit(X) for t in (1, 2, 3)]
    for other in runs[1:]:
        np.testing.assert_array_equal(other.labels_, runs[0].labels_)
    assert runs[0].n_proposals_ == 60_000
    again = Anneal(k=4, max_proposals=60_000, random_state=6).fit(X)
    assert not np.array_equal(again.labels_, runs[0].labels_)


@pytest.mark.parametrize("seconds", [0.3, 1.5])
def test_a_run_by_the_clock_is_repeated_by_its_proposals(seconds, small_jobs):
    X = clusters(3_000)
    first = Anneal(k=5, time_limit=seconds, random_state=1).fit(X)
    again = Anneal(k=5, max_proposals=first.n_proposals_, random_state=1, n_threads=1).fit(X)
    np.testing.assert_array_equal(again.labels_, first.labels_)
    assert again.n_proposals_ == first.n_proposals_


@pytest.mark.parametrize("n", [7_000, 20_000, 50_000])
def test_not_behind_the_other_methods_at_any_size(n):
    """A tenth of the usual work and less is enough to be ahead of exact MDAV and of blocks with exchanges."""
    X = clusters(n)
    Z = standardise(X)
    proposals = 30 * n
    assert proposals < 0.1 * usual_proposals(n, 5, 10)
    fitted = Anneal(k=5, max_proposals=proposals, random_state=0).fit(X)
    mdav = MDAV(k=5).fit(X)
    mended = 100 * sum_of_squares(Z, mend(Z, mdav.labels_, 6)) / np.sum(Z * Z)
    assert fitted.information_loss_ < 0.96 * min(mdav.information_loss_, mended, fitted.start_loss_)
    assert np.bincount(fitted.labels_).min() >= 5


@pytest.mark.parametrize(
    "make",
    [
        lambda g: np.repeat(g.normal(size=(120, 3)), 25, axis=0),  # duplicates only
        lambda g: np.round(g.normal(size=(3_000, 2))),  # heavy ties
        lambda g: np.vstack([g.normal(size=(2_999, 4)), np.full((1, 4), 1e12)]),  # one far away
        lambda g: np.hstack([g.normal(size=(3_000, 1)), np.ones((3_000, 3))]),  # constant columns
        lambda g: np.ones((3_000, 2)),  # all alike
        lambda g: 1e300 * g.uniform(-1, 1, size=(3_000, 2)),  # squares overflow in the units of the data
        lambda g: g.normal(size=(1_500, 130)),  # many columns
        lambda g: g.integers(0, 2, size=(3_000, 1)).astype(float),
    ],
)
def test_odd_tables(make, small_jobs):
    X = make(np.random.default_rng(0))
    fitted = Anneal(k=4, max_proposals=len(X) * 30, random_state=0).fit(X)
    assert np.bincount(fitted.labels_).min() >= 4
    assert np.bincount(fitted.labels_).max() <= 7
    assert fitted.information_loss_ <= fitted.start_loss_ * (1 + 1e-9)


@pytest.mark.parametrize(("n", "k"), [(101, 51), (101, 50), (119, 60), (200, 25)])
def test_large_groups_and_few(n, k, small_jobs):
    fitted = Anneal(k=k, max_proposals=20_000, random_state=0).fit(clusters(n))
    assert np.bincount(fitted.labels_).min() >= k


def test_progress_is_told_with_what_an_interrupt_would_give(small_jobs):
    told = []

    def listen(stage, done, of):
        told.append((stage, done, of))
        if len(told) == 3:
            raise KeyboardInterrupt

    fitted = Anneal(k=4, max_proposals=10**9, random_state=0, progress=listen).fit(clusters(2_000))
    assert fitted.interrupted_
    losses = [float(found[1]) for stage, _, _ in told if (found := re.search(r"([0-9.]+) % lost", stage))]
    assert fitted.information_loss_ <= losses[-1] * (1 + 1e-4)
    assert all(0 <= done <= of for _, done, of in told)


def test_parts_take_their_part_of_the_time_whatever_kind_of_search_they_get():
    of, k, p = 100_000, 5, 10
    whole = usual_proposals(of, k, p)
    for n in (1_000, 50_000):
        seconds = part_of(whole, n, of, k, p) * seconds_per_proposal(n, k, p)
        assert seconds == pytest.approx(whole * seconds_per_proposal(of, k, p) * n / of, rel=0.01)
    assert ONE_BLOCK > 1_000
