"""Annealing: its moves, its promises, and the figures it has to beat."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from shoal.engine.encode import standardise, sum_of_squares
from shoal.engine.kernels import exchange
from shoal.engine.kernels.distance import squared_distance
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import MDAV, Anneal, PathExchange, refine
from shoal.microaggregation import _anneal_kernels as kernels
from shoal.microaggregation._regions import Block
from shoal.microaggregation._search import Search
from shoal.microaggregation._work import Shape, Work


def partitions(records: tuple[int, ...], k: int):
    """Every partition of some records into groups of k..2k-1."""
    if not records:
        yield []
        return
    first, rest = records[0], records[1:]
    for size in range(k, 2 * k):
        for others in itertools.combinations(rest, size - 1):
            left = tuple(i for i in rest if i not in others)
            for more in partitions(left, k):
                yield [(first, *others), *more]


def optimum(Z: np.ndarray, k: int) -> float:
    cost = lambda group: ((Z[list(group)] - Z[list(group)].mean(axis=0)) ** 2).sum()  # noqa: E731
    return min(sum(cost(group) for group in each) for each in partitions(tuple(range(len(Z))), k))


class State:
    """The kernels' state of some labels, rebuilt from scratch."""

    def __init__(self, Z, labels, k):
        self.Z, self.k, self.labels = Z, k, labels.copy()
        self.block = Block.of(Z, k)
        n, p = self.block.X.shape
        most = n // k
        self.sizes, self.place = np.zeros(most, np.int32), np.empty(n, np.int32)
        self.members = np.empty((most, 2 * k - 1), np.int32)
        self.centres = np.empty((most, p), np.float32)
        self.share = np.array([0.0, *(1 / np.arange(1, 2 * k + 1))], np.float32)
        self.c = exchange.build_groups(
            self.block.X, self.labels, self.sizes, self.members, self.place, self.centres
        )

    def group_state(self):
        return self.sizes, self.members, self.place, self.centres, self.share

    def check(self):
        """The state is that of the labels."""
        assert self.labels.max() + 1 == self.c
        np.testing.assert_array_equal(self.sizes[: self.c], np.bincount(self.labels))
        for i, g in enumerate(self.labels):
            assert self.members[g, self.place[i]] == i
        for g in range(self.c):
            mean = self.block.X[self.labels == g].mean(axis=0)
            np.testing.assert_allclose(self.centres[g], mean, atol=2e-5)

    def sse(self):
        return sum_of_squares(self.Z, self.labels)


def random_state(seed, n=40, p=5, k=3):
    rng = np.random.default_rng(seed)
    Z = standardise(rng.normal(size=(n, p)) ** 3)
    c = n // (k + 1)
    labels = rng.permutation(np.arange(n) % c)
    return State(Z, labels, k), rng


@pytest.mark.parametrize("seed", range(5))
def test_cost_of_a_swap_is_the_change_of_the_sum_of_squares(seed):
    state, rng = random_state(seed)
    X = state.block.X
    for _ in range(20):
        i, m = rng.integers(0, len(X), 2)
        A, B = state.labels[i], state.labels[m]
        if A == B:
            continue
        va, vb = state.share[state.sizes[A]], state.share[state.sizes[B]]
        before = state.sse()
        cost = exchange.swap_cost(X, state.centres, i, m, A, B, np.float32(va + vb))
        exchange.swap(X, state.labels, state.members, state.place, state.centres, va, vb, i, m)
        assert state.sse() - before == pytest.approx(cost, abs=1e-4)
        state.check()


@pytest.mark.parametrize("seed", range(5))
def test_a_record_that_leaves_and_joins_leaves_a_true_state(seed):
    state, rng = random_state(seed)
    X = state.block.X
    for _ in range(20):
        i, B = rng.integers(0, len(X)), rng.integers(0, state.c)
        A = state.labels[i]
        a, b = state.sizes[A], state.sizes[B]
        if A == B or a <= state.k or b >= 2 * state.k - 1:
            continue
        before = state.sse()
        cost = b / (b + 1) * squared_distance(X, i, state.centres, B)
        cost -= a / (a - 1) * squared_distance(X, i, state.centres, A)
        exchange.leave(X, *state.group_state(), i, A)
        exchange.join(X, *state.group_state(), i, B)
        state.labels[i] = B
        assert state.sse() - before == pytest.approx(cost, abs=1e-4)
        state.check()


@pytest.mark.parametrize("bar", [np.inf, -1e9, 0.0])
@pytest.mark.parametrize("seed", range(4))
def test_groups_are_founded_and_dissolved_within_the_bar(seed, bar):
    state, rng = random_state(seed, n=43)
    block, k = state.block, state.k
    picked, targets = np.empty(k, np.int64), np.empty(k, np.int64)
    moved = 0
    for _ in range(30):
        i = int(rng.integers(0, len(block.X)))
        before, c = state.sse(), state.c
        where = (block.X, block.near, block.reach, state.labels, *state.group_state())
        if state.sizes[state.labels[i]] > k:
            state.c = kernels._found(*where, picked, k, c, i, np.float32(bar))
        else:
            r = np.uint64(rng.integers(1, 2**60))
            state.c = kernels._dissolve(*where, picked, targets, k, c, state.labels[i], np.float32(bar), r)
        moved += state.c != c
        assert state.sse() - before <= max(0.0, bar) + 1e-4
        assert state.c != c or state.sse() == pytest.approx(before)
        assert np.bincount(state.labels).min() >= k
        assert np.bincount(state.labels).max() <= 2 * k - 1
        state.check()
    assert (moved > 0) == (bar == np.inf) or bar == 0.0


@pytest.mark.parametrize(("n", "k"), [(6, 3), (7, 3), (8, 2), (9, 2), (9, 3), (8, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_small_tables_reach_the_optimum(n, k, seed):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    found = Anneal(k=k, max_proposals=100_000, random_state=seed).fit(X)
    assert found.sse_ == pytest.approx(optimum(standardise(X), k))


def wide(n=700, p=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) ** 3


def test_same_result_for_any_number_of_threads():
    X = wide()
    runs = [Anneal(k=4, max_proposals=3_000_000, random_state=5, n_threads=t).fit(X) for t in (1, 2, 3)]
    for each in runs[1:]:
        np.testing.assert_array_equal(each.labels_, runs[0].labels_)
        assert each.work_ == runs[0].work_


def test_large_tables_are_the_same_for_any_number_of_threads():
    X = wide(n=6_200)
    runs = [Anneal(k=5, max_proposals=700_000, random_state=5, n_threads=t).fit(X) for t in (1, 2)]
    np.testing.assert_array_equal(runs[0].labels_, runs[1].labels_)
    assert runs[0].information_loss_ < 0.95 * runs[0].start_loss_


@pytest.mark.parametrize(("n", "seconds"), [(700, 0.3), (700, 0.9), (6_500, 0.5)])
def test_a_run_against_the_clock_can_be_repeated(n, seconds):
    X = wide(n)
    assert_repeated(X, Anneal(k=4, time_limit=seconds, random_state=1).fit(X))


def assert_repeated(X, first):
    """A run is repeated by its proposals and its plan, whatever the threads."""
    proposals, plan = first.work_
    again = Anneal(
        k=first.k, max_proposals=proposals, search_plan=plan, random_state=first.seed_, n_threads=1
    )
    np.testing.assert_array_equal(again.fit(X).labels_, first.labels_)
    assert again.work_ == first.work_


def test_regions_solved_against_the_clock_can_be_repeated():
    X = np.random.default_rng(4).normal(size=(300, 4))
    first = Anneal(k=2, time_limit=1.0, random_state=2).fit(X)
    if first.search_plan_ < 50:  # too little time for it on a machine busy with other work
        first = Anneal(k=2, time_limit=15.0, random_state=2).fit(X)
    assert first.search_plan_ >= 50  # the plan says that regions are solved
    assert_repeated(X, first)


def test_a_clock_that_ends_while_records_are_priced_can_be_repeated(monkeypatch):
    X = np.random.default_rng(4).normal(size=(150, 4))
    priced, asked = Search.price, itertools.count()

    def late(self, effort):
        monkeypatch.setattr(Work, "stopped", lambda _: next(asked) >= 3)  # after some of the pricing is done
        priced(self, effort)
        monkeypatch.setattr(Work, "over", lambda _: True)

    monkeypatch.setattr(Search, "price", late)
    first = Anneal(k=2, time_limit=8.0, random_state=2).fit(X)
    monkeypatch.undo()
    assert first.search_plan_ >= 50
    assert_repeated(X, first)


def test_solving_regions_gains():
    X = np.random.default_rng(4).normal(size=(200, 4))
    exact = Anneal(k=3, max_proposals=25_000_000, random_state=2).fit(X)
    assert exact.search_plan_ >= 50
    proposals, plan = exact.work_
    without = Anneal(k=3, max_proposals=proposals, search_plan=plan - 50, random_state=2).fit(X)
    assert exact.information_loss_ < without.information_loss_


@pytest.mark.parametrize("last", [0, 17, 63, 99])
def test_the_plan_does_not_depend_on_the_last_digits_of_the_proposals(last):
    X = wide(60)
    plans = {
        Anneal(k=4, max_proposals=100_000 + more, random_state=0).fit(X).search_plan_ for more in (0, last)
    }
    assert len(plans) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"search_plan": 7}, "together with 'max_proposals'"),
        ({"search_plan": 100, "max_proposals": 5}, "'search_plan' of Anneal must be an int in"),
        ({"effort": 2, "time_limit": 1.0}, "stand instead of the default"),
        ({"effort": 2, "max_proposals": 9}, "stand instead of the default"),
        ({"effort": float("inf")}, "'effort' of Anneal must be"),
    ],
)
def test_contradictions_about_the_work_are_refused(given, said):
    with pytest.raises(ParameterError, match=said):
        Anneal(k=3, **given).fit(wide(30))


def test_effort_is_the_default_times_some():
    X = wide(24)
    half, usual, twice = (Anneal(k=4, effort=effort, random_state=3).fit(X) for effort in (0.5, None, 2))
    assert half.n_proposals_ < 0.8 * usual.n_proposals_ < 0.8 * twice.n_proposals_
    parts = [Anneal(k=4, effort=3).for_part(n, 1_000, 3) for n in (300, 700)]
    assert sum(part.max_proposals for part in parts) == pytest.approx(
        3 * Shape(1_000, 4, 3).usual_proposals(), rel=0.01
    )


def test_the_clock_is_kept():
    X = wide(3_000)
    Anneal(k=5, time_limit=0.1, random_state=0).fit(X)  # compiles
    started = time.perf_counter()
    fitted = Anneal(k=5, time_limit=1.0, random_state=0).fit(X)
    assert time.perf_counter() - started < 30.0  # generous: the machine may be busy
    assert fitted.information_loss_ <= fitted.start_loss_ * (1 + 1e-9)


def test_no_time_gives_the_start_after_exchanges():
    X = wide()
    fitted = Anneal(k=4, time_limit=0, random_state=0).fit(X)
    start, Z = MDAV(k=4).fit(X), standardise(X)
    assert fitted.start_loss_ == pytest.approx(start.information_loss_)
    exchanged = 100 * sum_of_squares(Z, refine(Z, start.labels_, 6)) / np.sum(Z * Z)
    assert fitted.information_loss_ == pytest.approx(exchanged)
    assert fitted.n_proposals_ == 0


@pytest.mark.parametrize(("n", "k"), [(50, 5), (120, 10)])
def test_five_hundred_columns_are_not_lost_to_path_and_exchange(n, k):
    """All records are about equally far apart, so that what suits ten columns is far too hot."""
    X = np.random.default_rng(n + k).normal(size=(n, 500))
    found = Anneal(k=k, max_proposals=1_500_000, random_state=1).fit(X)
    assert found.information_loss_ < 0.999 * PathExchange(k=k).fit(X).information_loss_


def test_directions_are_counted_and_not_columns():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 200))
    assert Block.of(few, 5).cool == Block.of(few[:, :3], 5).cool == 1.0
    assert Block.of(rng.normal(size=(300, 200)), 5).cool < 0.5
    assert Block.of(np.repeat(rng.normal(size=(10, 200)), 30, axis=0), 5).cool == 1.0  # copies tell nothing


def test_stops_when_nothing_improves():
    X = np.random.default_rng(0).normal(size=(12, 2))
    fitted = Anneal(k=3, max_proposals=10**10, random_state=0).fit(X)
    assert fitted.sse_ == pytest.approx(optimum(standardise(X), 3))
    assert fitted.n_proposals_ < 10**9


def test_the_default_is_work_not_time():
    X = wide(24)
    runs = [Anneal(k=4, random_state=3, n_threads=threads).fit(X) for threads in (1, 2)]
    np.testing.assert_array_equal(runs[0].labels_, runs[1].labels_)
    assert_repeated(X, runs[0])


def test_the_usual_work_grows_with_the_table_but_less_than_in_proportion():
    for sizes in ((10, 100, 1_000, 6_000), (7_000, 20_000, 100_000, 1_000_000)):
        work = [Shape(n, 5, 10).usual_proposals() for n in sizes]
        assert work == sorted(work)
        per_record = [w / n for w, n in zip(work, sizes, strict=True)]
        assert per_record[-3:] == sorted(per_record[-3:], reverse=True)


def test_parts_share_the_work_of_the_whole():
    whole = Shape(1_000, 4, 3).usual_proposals()
    parts = [Anneal(k=4).for_part(n, 1_000, 3) for n in (300, 700)]
    assert sum(part.max_proposals for part in parts) == pytest.approx(whole, rel=0.01)
    assert all(part.search_plan is None for part in parts)  # each finds its own
    assert [Anneal(time_limit=8.0).for_part(n, 1_000, 3).time_limit for n in (250, 750)] == [2.0, 6.0]
    assert MDAV(k=4).for_part(250, 1_000, 3).k == 4


def test_the_forecast_follows_the_pace():
    work = Work(None, 1_000)
    assert work.seconds_left() == np.inf
    work.started -= 10.0
    work.proposals = 250
    assert work.seconds_left() == pytest.approx(30.0, rel=0.01)
    timed = Work(12.0, None)
    timed.started -= 5.0
    assert timed.seconds_left() == pytest.approx(7.0, abs=0.5)


def test_seeds_differ_and_are_kept():
    X = wide()
    one, two = (Anneal(k=4, max_proposals=500_000, random_state=s).fit(X) for s in (0, 1))
    assert not np.array_equal(one.labels_, two.labels_)
    drawn = Anneal(k=4, max_proposals=500_000).fit(X)
    again = Anneal(k=4, max_proposals=500_000, random_state=drawn.seed_).fit(X)
    np.testing.assert_array_equal(drawn.labels_, again.labels_)


INTERRUPTED = """
import json, os, signal, threading
import numpy as np
from shoal.microaggregation import Anneal

X = np.random.default_rng(0).normal(size=(700, 4)) ** 3
Anneal(k=4, max_proposals=300_000, random_state=0).fit(X)  # compiles
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
fitted = Anneal(k=4, time_limit=50, random_state=0).fit(X)
print(json.dumps([fitted.interrupted_, fitted.information_loss_, fitted.start_loss_]))
"""


def test_ctrl_c_gives_the_best_so_far():
    # In a process of its own: a command run by another test listens for the signal and would end this one.
    started = time.perf_counter()
    child = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(child, capture_output=True, text=True, timeout=180, check=True)
    assert time.perf_counter() - started < 180
    interrupted, loss, start = json.loads(done.stdout)
    assert interrupted
    assert loss <= start * (1 + 1e-9)


@pytest.mark.parametrize("budget", [{"time_limit": 60}, {"max_proposals": 10**10}, {}])
def test_progress_is_told_and_may_interrupt(budget):
    X = wide()
    told = []

    def listen(stage, done, of):
        told.append((stage, done, of))
        if len(told) == 4:
            raise KeyboardInterrupt

    fitted = Anneal(k=4, **budget, random_state=0, progress=listen).fit(X)
    assert fitted.interrupted_
    losses = [float(re.search(r"([0-9.]+) % lost", stage)[1]) for stage, _, _ in told]
    assert losses == sorted(losses, reverse=True)
    assert fitted.information_loss_ <= losses[-1] * (1 + 1e-4)
    dones = [done for _, done, _ in told]
    assert dones == sorted(dones)
    assert all(0 <= done <= of for _, done, of in told)
    assert dones[-1] > 0


def test_starts_from_any_method_or_labels_and_never_ends_worse():
    X = wide()
    good = Anneal(k=4, max_proposals=4_000_000, random_state=0).fit(X)
    warm = Anneal(k=4, max_proposals=100_000, start=good.labels_, random_state=1).fit(X)
    assert warm.start_loss_ == pytest.approx(good.information_loss_)
    assert warm.information_loss_ <= good.information_loss_ * (1 + 1e-9)
    named = Anneal(k=4, max_proposals=100_000, start="cbfs", random_state=1).fit(X)
    assert named.information_loss_ < named.start_loss_
    uneven = Anneal(k=4, max_proposals=100_000, start=np.zeros(len(X), int), random_state=1).fit(X)
    assert np.bincount(uneven.labels_).min() >= 4


@pytest.mark.parametrize("start", ["nobody", "anneal"])
def test_unknown_starts_are_refused(start):
    with pytest.raises(ParameterError, match="'start' of Anneal must be"):
        Anneal(k=3, start=start).fit(wide(30))


@pytest.mark.parametrize("start", [np.zeros(7, int), np.zeros((30, 2), int), np.zeros(30)])
def test_labels_that_do_not_fit_are_refused(start):
    with pytest.raises(InputError, match="must hold 30 group numbers"):
        Anneal(k=3, start=start).fit(wide(30))


@pytest.mark.parametrize("k", [25, 60])
def test_large_groups(k):
    X = wide(400)
    fitted = Anneal(k=k, max_proposals=2_000_000, random_state=0).fit(X)
    assert np.bincount(fitted.labels_).min() >= k
    assert np.bincount(fitted.labels_).max() <= 2 * k - 1
    assert fitted.information_loss_ < 0.97 * MDAV(k=k).fit(X).information_loss_


def test_skewed_tables_of_some_thousands_are_reheated_by_regions(monkeypatch):
    """With large groups too: annealed as a whole they lost more than path and exchange on such a table."""
    rng = np.random.default_rng(5)
    X = np.exp(rng.normal(size=(2_200, 1)) + 0.7 * rng.normal(size=(2_200, 8)))
    by_regions = Anneal(k=10, effort=0.05, random_state=0).fit(X)
    monkeypatch.setattr(Block, "even", True)
    as_a_whole = Anneal(k=10, effort=0.05, random_state=0).fit(X)
    assert by_regions.information_loss_ < 0.995 * as_a_whole.information_loss_


def test_duplicates_cost_nothing():
    X = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 4, axis=0)
    assert Anneal(k=4, max_proposals=3_000_000, random_state=0).fit(X).information_loss_ == pytest.approx(0)


# Figures: with far less effort than the defaults, below the best of the source papers.


@pytest.mark.parametrize(("k", "published"), [(3, 5.367), (5, 8.417), (10, 12.228)])
def test_census_below_every_published_figure(k, published, census):
    fitted = Anneal(k=k, max_proposals=8_000_000, random_state=0).fit(census)
    assert fitted.information_loss_ < 0.96 * published


@pytest.mark.parametrize(("k", "published"), [(3, 15.44), (5, 20.93), (10, 30.784)])
def test_tarragona_below_every_published_figure(k, published, tarragona):
    fitted = Anneal(k=k, max_proposals=8_000_000, random_state=0).fit(tarragona)
    assert fitted.information_loss_ < 0.99 * published


def test_eia_below_every_published_figure(eia):
    fitted = Anneal(k=3, max_proposals=12_000_000, random_state=0).fit(eia)
    assert fitted.information_loss_ < 0.41
