"""The search on small tables with large groups: its state, its promises, and what it gains."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engine.encode import standardise, sum_of_squares
from shoal.microaggregation import MDAV, Anneal, PathExchange
from shoal.microaggregation import _cooling as cooling
from shoal.microaggregation import _pairs as pairs
from shoal.microaggregation._anneal_kernels import LOGS
from shoal.microaggregation._copies import see_past_copies
from shoal.microaggregation._global import GlobalSearch
from shoal.microaggregation._pair_kernels import squared_distances, sweep_pairs
from shoal.microaggregation._pairs import PairSearch
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._work import Shape, Work

SKEWED = np.exp(1.2 * np.random.default_rng(3).normal(size=(300, 5)))
EVEN = np.random.default_rng(4).normal(size=(300, 9))


def searched(X, k, sweeps, seed=0, threads=2, search=PairSearch):
    Z = standardise(X)
    with ThreadPoolExecutor(threads) as workers:
        work, rng = Work(None, 2 * sweeps * len(Z)), np.random.default_rng(seed)
        found = search(SearchTask(Z, k, MDAV(k=k).partition(Z), work, workers, rng, lambda _: None))
        found.run()
    return Z, found


def check(search, k):
    """Sums, pairs, members and sizes are those of the labels."""
    D = search.table.D.astype(np.float64)
    for groups in (*search.states, search.best):
        labels = groups.labels
        sizes = np.bincount(labels, minlength=groups.sizes.size)
        np.testing.assert_array_equal(groups.sizes, sizes)
        assert set(sizes[sizes > 0]) <= set(range(k, 2 * k))
        for g in np.flatnonzero(sizes):
            inside = np.flatnonzero(labels == g)
            assert sorted(groups.members[g, : sizes[g]]) == inside.tolist()
            np.testing.assert_array_equal(groups.members[g, groups.place[inside]], inside)
            np.testing.assert_allclose(groups.sums[g], D[inside].sum(axis=0), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(groups.pairs[g], D[np.ix_(inside, inside)].sum() / 2, rtol=1e-5)


def test_squared_distances_are_those_of_all_pairs():
    X = np.zeros((40, 8), np.float32)
    X[:, :5] = np.random.default_rng(0).normal(size=(40, 5))
    expected = ((X[:, None, :].astype(np.float64) - X[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(squared_distances(X), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("X", [SKEWED, EVEN, np.round(EVEN)], ids=["skewed", "even", "many alike"])
@pytest.mark.parametrize("k", [10, 17])
def test_the_state_is_that_of_the_labels(X, k):
    Z, search = searched(X, k, 60)
    check(search, k)
    assert search.sse == pytest.approx(sum_of_squares(Z, search.labels), rel=1e-5)
    assert search.sse < search.begun


def test_the_sums_stay_true_while_groups_are_founded_and_dissolved():
    """Before they are made afresh: every proposal founds or dissolves, at a temperature at which many are accepted."""
    _, search = searched(SKEWED, 10, 5)
    groups, seen = search.states[0], set()
    for seed in range(40):
        sweep_pairs(search.table, groups, 10, 3.0, 3.0, 1, 1024, 1024, 1.5, seed + 1, LOGS)
        seen.add(int((groups.sizes > 0).sum()))
    check(search, 10)
    assert len(seen) > 2


@pytest.mark.parametrize("X", [SKEWED, np.round(EVEN)], ids=["skewed", "many alike"])
def test_the_result_does_not_depend_on_threads(X):
    assert Shape(300, 12, X.shape[1]).by_pairs
    one, two = (
        Anneal(k=12, max_proposals=600_000, random_state=5, n_threads=threads).fit(X) for threads in (1, 2)
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)


def test_not_behind_the_search_of_large_tables_with_as_many_sweeps():
    lost = {}
    for search in (PairSearch, GlobalSearch):
        lost[search] = np.mean([searched(EVEN, 10, 400, seed, search=search)[1].sse for seed in range(3)])
    assert lost[PairSearch] <= 1.01 * lost[GlobalSearch]


def test_few_large_groups_are_found_by_any_seed():
    """Of seven groups of a skewed table a search that reheats regions found other ones by each seed."""
    X = np.exp(1.5 * np.random.default_rng(1).normal(size=(150, 4)))
    lost = [Anneal(k=20, effort=0.3, random_state=seed).fit(X).information_loss_ for seed in range(2)]
    assert max(lost) <= 63.90558  # below IMHM with exchanges, 63.9081


def test_laps_and_rounds_keep_the_best(monkeypatch):
    """Never worse than the annealing they begin with; sizes are kept."""
    monkeypatch.setattr(cooling, "SHORTEST", 50)
    monkeypatch.setattr(cooling, "ROUND", 1e9)
    _, once = searched(EVEN, 12, 1_000)
    check(once, 12)
    monkeypatch.setattr(cooling, "ROUND", 250 / 25**2)  # four rounds of so many groups
    offered = []
    monkeypatch.setattr(
        PairSearch, "_offer", lambda self, groups: offered.append(self._lost(groups)) or _offer(self, groups)
    )
    _, rounds = searched(EVEN, 12, 1_000)
    check(rounds, 12)
    assert len(offered) >= 4
    assert rounds.sse <= min(offered) * (1 + 1e-9)


_offer = cooling.CoolingSearch._offer


@pytest.mark.parametrize(
    "X",
    [
        np.ones((200, 3)),
        np.repeat(np.arange(20.0), 10)[:, None] * np.ones(2),
        1e300 * np.random.default_rng(0).uniform(-1, 1, size=(200, 3)),
        np.vstack([np.random.default_rng(0).normal(size=(199, 3)), [1e6, 1e6, 1e6]]),
    ],
    ids=["constant", "ten of each", "huge", "far outlier"],
)
def test_odd_tables(X):
    found = Anneal(k=10, max_proposals=200_000, random_state=0).fit(X)
    assert set(np.bincount(found.labels_)) <= set(range(10, 20))
    assert found.information_loss_ <= MDAV(k=10).fit(X).information_loss_ * (1 + 1e-9)


def test_a_clock_is_used_to_its_end_and_its_run_is_repeated(monkeypatch):
    """Also where the annealing that was planned takes a part of the time only: the clock here goes by the proposals."""
    monkeypatch.setattr(Work, "elapsed", lambda self: self.proposals / 4e7)
    first = Anneal(k=20, time_limit=0.4, random_state=3).fit(EVEN)
    assert first.n_proposals_ == pytest.approx(16e6, rel=0.1)
    monkeypatch.undo()
    proposals, plan = first.work_
    again = Anneal(k=20, max_proposals=proposals, search_plan=plan, random_state=3, n_threads=1).fit(EVEN)
    np.testing.assert_array_equal(again.labels_, first.labels_)


@pytest.mark.parametrize("X", [SKEWED, EVEN], ids=["skewed", "even"])
def test_the_work_of_a_proposal_is_known_from_what_it_compares_and_moves(X):
    """What a short annealing forecasts is what the long one does, on tables that differ much in it."""
    _, search = searched(X, 10, 1)
    forecast, done = search._seconds_per_proposal(), []
    assert forecast == search._seconds_per_proposal()
    groups = search._build(search.first[search.order])
    for heats in (search.heats, (cooling.WARM, search.heats[1])):
        edges = np.geomspace(*heats, 40) / 10**0.5
        moved, compared = np.sum(
            [
                sweep_pairs(search.table, groups, 10, hot, cold, 20, 32, 16, 1.5, 7, LOGS)
                for hot, cold in itertools.pairwise(edges)
            ],
            axis=0,
        )
        base, each, row = pairs.NANOSECONDS
        done.append(base + (each * compared + row * len(X) * moved) / (39 * 20 * len(X)))
    assert 1e9 * forecast == pytest.approx(np.mean(done), rel=0.1)


def test_proposals_of_a_skewed_table_are_dearer():
    rng = np.random.default_rng(3)
    sizes = np.exp(2 * rng.normal(size=(300, 1)) + 0.5 * rng.normal(size=(300, 9)))  # of firms, say
    dear, cheap = (searched(X, 10, 1)[1]._seconds_per_proposal() for X in (sizes, EVEN))
    assert dear > 1.5 * cheap


def test_the_default_is_repeated_by_its_proposals():
    X = EVEN[:60]
    first = Anneal(k=10, effort=0.2, random_state=3).fit(X)
    again = Anneal(k=10, max_proposals=first.n_proposals_, random_state=3, n_threads=1).fit(X)
    np.testing.assert_array_equal(again.labels_, first.labels_)
    assert again.work_ == first.work_


@pytest.mark.parametrize(("seed", "k"), [(5, 10), (6, 10), (7, 25)])
@pytest.mark.parametrize("random_state", [0, 3])
def test_records_alike_are_not_lost_to_a_path(seed, k, random_state):
    """Most records of a rounded table have more copies than a list has room for."""
    X = np.round(np.random.default_rng(seed).normal(size=(200, 2)))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    annealed = Anneal(k=k, max_proposals=10_000_000, random_state=random_state).fit(X).labels_
    path = PathExchange(k=k).fit(X).labels_
    assert sum_of_squares(Z, annealed) <= sum_of_squares(Z, path) + 1e-9


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_lists_past_copies_hold_other_values(seed, m, different):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, different, (40, 2)).astype(np.float32)
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1, kind="stable")[:, :m].astype(np.int32)
    lists = see_past_copies(X, near)
    assert lists.shape == near.shape
    assert all(len(set(row)) == m and i not in row for i, row in enumerate(lists.tolist()))
    values = np.unique(X, axis=0, return_inverse=True)[1].reshape(-1)
    copies = min(4, max(1, m // 2))
    least = min(8, len(set(values.tolist())), m // copies)
    assert all(len(set(values[row].tolist())) >= least for row in lists)
