"""Bounds are never above the optimum, and meet it where the integer programme says so."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from shoal.bounds import Bound, forecast, information_loss_bound, partition_loss
from shoal.bounds._incumbent import incumbent
from shoal.engine.encode import standardise, sum_of_squares
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import MDAV
from shoal.relaxation.ascent import Ascent
from shoal.relaxation.cheap import cheap_duals
from shoal.relaxation.master import Master
from shoal.relaxation.surroundings import Surroundings

TOLERANCE = 1e-7


@pytest.fixture
def short_start(monkeypatch):
    """The partition to begin with gets a fifth of a second: the programmes find what it lacks."""
    monkeypatch.setattr(
        "shoal.bounds._incumbent.incumbent", lambda Z, k, seconds: incumbent(Z, k, min(seconds or 0.2, 0.2))
    )


def optimum(X: np.ndarray, k: int) -> float:
    """Least information loss over all partitions, by trying them."""
    Z = standardise(X)
    total = (Z * Z).sum()
    if total == 0:
        return 0.0

    @cache
    def cost(group: tuple[int, ...]) -> float:
        rows = Z[list(group)]
        return ((rows - rows.mean(axis=0)) ** 2).sum()

    def least(left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        best = math.inf
        first, rest = left[0], left[1:]
        for code in range(1 << len(rest)):
            chosen = [i for b, i in enumerate(rest) if code >> b & 1]
            if not k - 1 <= len(chosen) <= 2 * k - 2:
                continue
            remaining = tuple(i for b, i in enumerate(rest) if not code >> b & 1)
            if 0 < len(remaining) < k:
                continue
            best = min(best, cost((first, *chosen)) + least_cached(remaining))
        return best

    least_cached = cache(least)
    return 100.0 * least_cached(tuple(range(len(Z)))) / total


tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(4, 9), st.integers(1, 3)),
    elements=st.integers(-6, 6).map(float) | st.floats(-100, 100, width=32),
)


@settings(max_examples=30, deadline=None)
@given(tables, st.integers(2, 4))
def test_cheap_is_below_strong_is_below_optimum(X, k):
    best = optimum(X, k)
    cheap = information_loss_bound(X, k, "cheap")
    with (
        pytest.MonkeyPatch.context() as patched
    ):  # a start that takes no work: the programmes must find the rest
        patched.setattr("shoal.bounds._incumbent.incumbent", lambda Z, k, seconds: incumbent(Z, k, 0))
        strong = information_loss_bound(X, k, 300)  # ends when it is proven; the first one compiles
    assert cheap.proven
    assert strong.proven
    assert cheap.bound <= strong.bound + TOLERANCE
    assert strong.bound <= best + TOLERANCE
    assert strong.optimal
    assert strong.information_loss == pytest.approx(best, rel=1e-6, abs=TOLERANCE)
    assert strong.bound == pytest.approx(best, rel=1e-5, abs=1e-4)
    assert np.bincount(strong.labels).min() >= k


def test_the_programme_with_cuts_is_that_of_scipy():
    rng = np.random.default_rng(5)
    groups = np.sort(np.array([rng.choice(9, 3, replace=False) for _ in range(30)]), axis=1)
    groups = np.column_stack([groups, np.full((30, 2), -1)])
    costs = rng.uniform(1, 2, size=30)
    cuts = np.array([[0, 1, 2, -1, -1], [0, 2, 4, 6, 8], [3, 4, 5, -1, -1]])
    low, high = np.zeros(9), np.full(9, 0.8)

    def plain(groups, costs, cuts):
        A = [[int(i in row) for row in groups] for i in range(9)]
        A = np.hstack([np.array(A), np.eye(9), -np.eye(9)])
        H = np.array([[len({*row} & {*cut} - {-1}) // 2 for row in groups] + [0] * 18 for cut in cuts])
        sides = [(cut >= 0).sum() // 2 for cut in cuts]
        above = {"A_ub": H, "b_ub": sides} if len(cuts) else {}
        return optimize.linprog(np.concatenate([costs, high, -low]), A_eq=A, b_eq=np.ones(9), **above).fun

    master = Master(9, 5)
    master.add_groups(groups[:20], costs[:20])
    assert master.solve(low, high).value == pytest.approx(plain(groups[:20], costs[:20], cuts[:0]))
    master.add_cuts(cuts)
    master.add_groups(groups[20:], costs[20:])
    assert master.solve(low, high).value == pytest.approx(plain(groups, costs, cuts))
    kept, bars = np.arange(30) % 3 > 0, np.array([True, False, True])
    master.keep(kept, bars)
    assert master.solve(low, high).value == pytest.approx(plain(groups[kept], costs[kept], cuts[bars]))


@pytest.mark.usefixtures("short_start")
@pytest.mark.parametrize("k", [2, 3, 4])
def test_middling_table_is_solved_for_each_k(k, blobs):
    found = information_loss_bound(blobs, k, 60)
    assert found.optimal
    assert found.gap < 1e-4
    assert partition_loss(blobs, found.labels, k) == pytest.approx(found.information_loss)
    assert information_loss_bound(blobs, k, "cheap").bound < found.bound


@pytest.mark.usefixtures("short_start")
def test_result_does_not_depend_on_threads(blobs, monkeypatch):
    several = information_loss_bound(blobs[:42], 3, 60)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    one = information_loss_bound(blobs[:42], 3, 60)
    assert one.bound == pytest.approx(several.bound, rel=1e-6)
    assert one.information_loss == pytest.approx(several.information_loss, rel=1e-9)


@pytest.mark.usefixtures("short_start")
def test_duplicates_cost_nothing():
    X = np.repeat(np.random.default_rng(0).normal(size=(8, 2)), 3, axis=0)
    found = information_loss_bound(X, 3, 20)
    assert found.bound == 0.0
    assert found.information_loss == pytest.approx(0.0, abs=1e-9)


@pytest.mark.usefixtures("short_start")
def test_constant_columns_do_not_matter(blobs):
    padded = np.column_stack([blobs[:30], np.full(30, 7.0)])
    plain = information_loss_bound(blobs[:30], 3, 20).bound
    assert information_loss_bound(padded, 3, 20).bound == pytest.approx(plain, rel=1e-9)


def test_constant_table_loses_nothing():
    found = information_loss_bound(np.ones((10, 2)), 3)
    assert (found.bound, found.information_loss, found.gap, found.optimal) == (0.0, 0.0, 0.0, True)
    assert np.bincount(found.labels).min() >= 3


@pytest.mark.parametrize("n", [3, 4, 5])
def test_fewer_than_two_groups_of_k_leave_no_choice(n):
    X = np.random.default_rng(n).normal(size=(n, 2))
    found = information_loss_bound(X, 3)
    assert found.optimal
    assert found.bound == pytest.approx(100.0)
    assert found.information_loss == pytest.approx(100.0)


def test_strong_bound_with_little_time_is_still_below(census):
    X = census.to_numpy()[:200]
    quick = information_loss_bound(X, 4, 0.01)
    assert quick.proven
    assert quick.bound <= information_loss_bound(X, 4, 2).bound + TOLERANCE


@pytest.mark.usefixtures("short_start")
def test_part_of_census_is_solved(census):
    found = information_loss_bound(census.head(120), 3, 60)
    assert found.optimal
    assert found.method == "integer"
    Z = standardise(census.head(120).to_numpy().astype(float))
    assert 100 * sum_of_squares(Z, found.labels) / (Z * Z).sum() == pytest.approx(found.information_loss)
    assert np.bincount(found.labels).min() >= 3


@pytest.mark.parametrize(
    ("name", "least", "best"), [("census", 4.66, 4.66794), ("tarragona", 14.42, 14.4675)]
)
def test_published_tables_are_bounded_within_half_a_per_cent(name, least, best, request):
    table = request.getfixturevalue(name)
    found = information_loss_bound(table, 3, 8)
    if found.bound < least:  # on a machine busy with other work
        found = information_loss_bound(table, 3, 60)
    assert least <= found.bound <= best


def test_cheap_bound_of_many_records():
    X = np.random.default_rng(1).normal(size=(200_001, 2))
    found = information_loss_bound(X, 5)
    assert found.method == forecast(200_001, 2, 5).method == "cheap"
    assert "200000" in found.note
    assert 0 < found.bound < 100
    assert found.information_loss is None
    assert found.gap is None


def test_dual_ascent_bounds_tables_beyond_the_linear_programme():
    rng = np.random.default_rng(2)
    X = 5 * rng.normal(size=(30, 3))[rng.integers(0, 30, 5_001)] + rng.normal(size=(5_001, 3))
    labels = MDAV(k=3).fit(X).labels_
    assert forecast(5_001, 3, 3).method == "ascent"
    found = information_loss_bound(X, 3, labels=labels)
    cheap = information_loss_bound(X, 3, "cheap")
    assert found.method == "ascent"
    assert 1.1 * cheap.bound < found.bound < found.information_loss
    assert found.proven


@settings(max_examples=25, deadline=None)
@given(tables, st.integers(2, 4))
def test_dual_ascent_is_below_the_optimum(X, k):
    Z = standardise(X)
    duals = cheap_duals(Z, k) if len(Z) >= 2 * k - 1 else np.zeros(len(Z))
    ascent = Ascent(Surroundings.of(Z, k, 8 * k), duals, None, lambda: 99.0)
    ascent.run(math.inf, lambda stage, value: None)
    total = (Z * Z).sum()
    assert ascent.value <= (optimum(X, k) / 100 + 1e-9) * total


@pytest.mark.usefixtures("short_start")
@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_units_of_scaled_columns_do_not_matter(unit, blobs):
    plain = information_loss_bound(blobs[:30], 3, 20, scaled=True)
    scaled = information_loss_bound(blobs[:30] * unit, 3, 20, scaled=True)
    assert scaled.bound == pytest.approx(plain.bound, rel=1e-6)


def test_a_forecast_is_one_sentence():
    assert str(forecast(800, 13, 3)).startswith(
        "A bound by a linear programme, perhaps a proof of the optimum, takes"
    )
    assert "minutes" in str(forecast(100_000, 10, 5))
    assert forecast(100_000, 10, 5, 30).seconds == 30
    assert forecast(100_000, 10, 30).method == "cheap"
    with pytest.raises(ParameterError, match="'effort' of forecast"):
        forecast(100, 2, 3, "great")


INTERRUPTED = """
import json, os, signal, sys, threading
import numpy as np
from shoal.bounds import information_loss_bound

X = np.load(sys.argv[1])
information_loss_bound(X[:100], 10, 1)  # compiles
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
found = information_loss_bound(X, 10, 60)
print(json.dumps([found.note, found.proven, found.bound]))
"""


def test_interrupted_search_gives_what_is_proven(census, tmp_path):
    # In a process of its own: a command run by another test listens for the signal and would end this one.
    np.save(tmp_path / "census.npy", np.asarray(census, dtype=np.float64))
    child = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "census.npy")]
    done = subprocess.run(child, capture_output=True, text=True, timeout=180, check=True)
    note, proven, bound = json.loads(done.stdout)
    assert "Interrupted" in note
    assert proven
    assert 7.3 < bound < 11.358


def test_partition_given_is_the_one_to_beat(blobs):
    labels = np.arange(60) // 3
    assert information_loss_bound(blobs, 3, "cheap", labels=labels).information_loss == pytest.approx(
        partition_loss(blobs, labels, 3)
    )


def test_gap_is_the_share_that_could_be_saved():
    bound = Bound(bound=4.0, proven=True, method="cheap")
    assert bound.gap_of(5.0) == pytest.approx(20.0)
    assert bound.gap_of(4.0) == 0.0
    assert bound.gap_of(0.0) == 0.0


@pytest.mark.parametrize(
    ("X", "k", "effort", "error", "words"),
    [
        (np.ones((4, 2)), 1, "cheap", ParameterError, "'k' of information_loss_bound"),
        (np.ones((4, 2)), 2, "great", ParameterError, "'effort' of information_loss_bound"),
        (np.ones((4, 2)), 2, -1.0, ParameterError, "'effort' of information_loss_bound"),
        (np.ones((4, 2)), 5, "cheap", InputError, "at least that many. Got 4"),
        (np.ones(4), 2, "cheap", InputError, "records by columns"),
        (np.array([["a", "b"]]), 2, "cheap", InputError, "table of numbers"),
        (np.array([[1.0], [np.nan], [2.0]]), 2, "cheap", InputError, "missing"),
    ],
)
def test_bad_input_is_one_sentence(X, k, effort, error, words):
    with pytest.raises(error, match=words):
        information_loss_bound(X, k, effort)


def test_labels_must_fit():
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(InputError, match="one label per record"):
        partition_loss(X, [0, 0, 1], 2)
    with pytest.raises(InputError, match="at least k = 2"):
        partition_loss(X, [0, 0, 0, 1, 1, 2], 2)
