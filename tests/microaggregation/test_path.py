"""The path family against plain versions and the published figures."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import oracles
from shoal.engine.encode import standardise, sum_of_squares
from shoal.errors import InputError, ParameterError
from shoal.microaggregation import (
    CBFS,
    CBFSMHM,
    FDM,
    IMHM,
    MD,
    MDAV,
    MDAVMHM,
    MDMHM,
    NPNMHM,
    MicTSP,
    PathExchange,
    Univariate,
)
from shoal.microaggregation._imhm import assign
from shoal.microaggregation._orders import along_groups, chained, diameter_end, nearest_next
from shoal.microaggregation._path import _best_start, _shortest_path, cut, cut_cycle
from shoal.microaggregation._path_exchange import _exchange
from shoal.microaggregation._tour import tour_length, travelling_tours

PRINTED_NPN = {"tarragona": {3: 17.395, 5: 27.021, 10: 40.183}, "census": {3: 6.350, 5: 11.344, 10: 18.734}}
PRINTED_IMHM = {
    "tarragona": {3: 16.931, 4: 19.515, 5: 21.186, 10: 30.784, 25: 43.452, 50: 56.431, 100: 68.194},
    "census": {3: 5.367, 4: 6.858, 5: 8.417, 10: 12.228, 25: 18.613, 50: 25.080, 100: 32.678},
}
# Measured once with the readings the docstrings name; the papers print only ranks for these methods.
MEASURED_MHM = {
    "tarragona": {MDAVMHM: (16.9323, 22.4615, 33.1705), CBFSMHM: (16.9658, 22.7589, 33.2147)},
    "census": {MDAVMHM: (5.6467, 9.0681, 14.1229), CBFSMHM: (5.6193, 8.8552, 13.9963)},
}


def tables(name, row):
    return [(name, k, value) for k, value in row.items()]


small = {
    "n": st.integers(4, 13),
    "k": st.integers(2, 4),
    "p": st.integers(1, 3),
    "seed": st.integers(0, 10**6),
    "grid": st.booleans(),
}


def draw(n, p, seed, grid):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, size=(n, p)).astype(float) if grid else rng.normal(size=(n, p))


def groups(labels):
    return {tuple(np.flatnonzero(labels == g)) for g in range(labels.max() + 1)}


@settings(max_examples=80, deadline=None)
@given(**small)
def test_cut_is_the_best_of_all_cuts(n, k, p, seed, grid):
    X = draw(n, p, seed, grid)
    order = np.random.default_rng(seed + 1).permutation(n)
    labels = cut(X, order, k)
    assert np.bincount(labels).min() >= k
    assert np.bincount(labels).max() <= 2 * k - 1
    assert (np.diff(labels[order]) >= 0).all()
    assert sum_of_squares(X, labels) == pytest.approx(oracles.best_runs(X[order], k), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(**small)
def test_cut_of_a_cycle_is_the_best_from_any_start(n, k, p, seed, grid):
    X = draw(n, p, seed, grid)
    order = np.random.default_rng(seed + 1).permutation(n)
    labels = cut_cycle(X, order, k)
    assert np.bincount(labels).min() >= k
    assert sum_of_squares(X, labels) == pytest.approx(oracles.best_cyclic_runs(X[order], k), abs=1e-9)


@pytest.mark.parametrize("shift", [1e8, -1e8])
def test_cut_does_not_cancel_far_from_the_origin(shift, blobs):
    blobs = np.round(blobs * 1024) / 1024  # exact after the shift, so that only the arithmetic could differ
    order = nearest_next(blobs, 0)
    for k in (2, 3, 5):
        np.testing.assert_array_equal(cut(blobs, order, k), cut(blobs + shift, order, k))
        assert groups(cut_cycle(blobs, order, k)) == groups(cut_cycle(blobs + shift, order, k))


@pytest.mark.parametrize(
    "method", [Univariate, NPNMHM, MDMHM, MDAVMHM, CBFSMHM, MicTSP, FDM, IMHM, PathExchange]
)
def test_methods_do_not_cancel_far_from_the_origin(method, blobs):
    blobs = np.round(blobs * 1024) / 1024
    near, far = method(k=3).fit(blobs), method(k=3).fit(blobs + 1e8)
    assert far.sse_ > 0
    assert far.sse_ == pytest.approx(near.sse_, rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 25), p=st.integers(1, 3), seed=st.integers(0, 10**6), grid=st.booleans())
def test_walks_equal_the_plain_version(n, p, seed, grid):
    X = draw(n, p, seed, grid)
    start = seed % n
    assert nearest_next(X, start).tolist() == oracles.nearest_next(X, start)
    end = diameter_end(X)
    reach = ((X - X[end]) ** 2).sum(axis=1).max()
    assert reach == pytest.approx(oracles.diameter(X, np.arange(n)))


def test_kernels_equal_their_own_python(blobs):
    Z = standardise(blobs)
    order = nearest_next(Z, 3)
    np.testing.assert_array_equal(order, nearest_next.py_func(Z, 3))
    np.testing.assert_array_equal(_shortest_path(Z[order], 3), _shortest_path.py_func(Z[order], 3))
    assert _best_start(Z[order], 3) == _best_start.py_func(Z[order], 3)


def test_orders_keep_groups_together(blobs):
    Z = standardise(blobs)
    labels = MDAV(k=4).fit(blobs).labels_
    chain = np.random.default_rng(0).permutation(labels.max() + 1)
    for order in (chained(Z, labels), along_groups(Z, labels, chain)):
        assert sorted(order) == list(range(len(Z)))
        assert np.count_nonzero(np.diff(labels[order])) == labels.max()
    np.testing.assert_array_equal(labels[along_groups(Z, labels, chain)][::4], chain)


def test_a_chained_group_is_entered_at_its_near_end():
    Z = np.array([[0.0], [1.0], [2.0], [5.0], [4.0], [6.0], [9.0], [8.0], [7.5]])
    assert chained(Z, np.repeat([0, 1, 2], 3)).tolist() == [0, 1, 2, 4, 3, 5, 8, 7, 6]


@pytest.mark.parametrize(("method", "base"), [(MDMHM, MD), (MDAVMHM, MDAV), (CBFSMHM, CBFS)])
@pytest.mark.parametrize("k", [3, 5, 10])
def test_mhm_never_loses_more_than_its_base(method, base, k, census):
    assert method(k=k).fit(census).sse_ <= base(k=k).fit(census).sse_ * (1 + 1e-12)


@pytest.mark.parametrize(("name", "k", "printed"), [t for n, r in PRINTED_NPN.items() for t in tables(n, r)])
def test_npn_is_near_the_printed_loss(name, k, printed, request):
    table = request.getfixturevalue(name)
    assert NPNMHM(k=k, start="diameter").fit(table).information_loss_ == pytest.approx(printed, rel=0.012)
    assert NPNMHM(k=k).fit(table).information_loss_ == pytest.approx(printed, rel=0.081)


@pytest.mark.parametrize(
    ("name", "losses"), [("tarragona", (17.526, 28.167, 38.718)), ("census", (6.211, 11.054, 20.227))]
)
def test_npn_from_the_centroid_gives_the_stated_loss(name, losses, request):
    table = request.getfixturevalue(name)
    found = [NPNMHM(k=k).fit(table).information_loss_ for k in (3, 5, 10)]
    assert found == pytest.approx(losses, abs=0.001)


@pytest.mark.parametrize("name", ["tarragona", "census"])
def test_mhm_of_groups_gives_the_stated_loss(name, request):
    table = request.getfixturevalue(name)
    for method, losses in MEASURED_MHM[name].items():
        found = [method(k=k).fit(table).information_loss_ for k in (3, 5, 10)]
        assert found == pytest.approx(losses, abs=0.001)


@pytest.mark.parametrize(
    ("name", "k", "within"),
    [("tarragona", 3, 0.0005), ("tarragona", 25, 0.005), ("census", 3, 0.005), ("census", 10, 0.005)],
)
def test_imhm_is_near_the_printed_loss(name, k, within, request):
    loss = IMHM(k=k).fit(request.getfixturevalue(name)).information_loss_
    assert loss == pytest.approx(PRINTED_IMHM[name][k], rel=within)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(1, 5), st.integers(0, 10**6), st.booleans())
def test_assignment_is_the_cheapest(k, c, seed, tied):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(c * k, c * (2 * k - 1) + 1))
    Z = rng.normal(size=(n, 2))
    Z = np.round(Z) if tied else Z
    centres = rng.normal(size=(c, 2))
    labels = assign(Z, centres, np.arange(n) % c, k)
    sizes = np.bincount(labels, minlength=c)
    assert sizes.min() >= k
    assert sizes.max() < 2 * k
    # The same by a matching of records to places: k of each centre must be filled, k-1 may be.
    gaps = ((Z[:, None] - centres) ** 2).sum(axis=2)
    places = np.concatenate([np.repeat(gaps - 1e4, k, axis=1), np.repeat(gaps, k - 1, axis=1)], axis=1)
    cheapest = places[linear_sum_assignment(places)].sum() + 1e4 * c * k
    assert gaps[np.arange(n), labels].sum() == pytest.approx(cheapest, abs=1e-6)


@pytest.mark.parametrize(("name", "k"), [("tarragona", 3), ("tarragona", 10), ("census", 5)])
def test_path_exchange_loses_less_than_is_printed_for_imhm(name, k, request):
    loss = PathExchange(k=k, starts=2).fit(request.getfixturevalue(name)).information_loss_
    assert loss < PRINTED_IMHM[name][k]


def test_path_exchange_is_a_local_optimum_and_starts_help(census):
    Z = standardise(census.to_numpy())
    fitted = PathExchange(k=5).fit(census)
    everyone = np.argsort(((Z[:, None] - Z[None]) ** 2).sum(axis=2), axis=1, kind="stable")[:, :22]
    assert sum_of_squares(Z, _exchange(Z, fitted.labels_, everyone, 5)) == pytest.approx(
        fitted.sse_, rel=1e-3
    )
    assert fitted.sse_ <= PathExchange(k=5, starts=1).fit(census).sse_


def brute_force_exchange(Z, labels, k):
    """The best SSE one move or swap away."""
    best = sum_of_squares(Z, labels)
    sizes = np.bincount(labels)
    for i in range(len(Z)):
        for other in range(len(sizes)):
            if sizes[labels[i]] > k and sizes[other] < 2 * k - 1:
                best = min(best, sum_of_squares(Z, np.where(np.arange(len(Z)) == i, other, labels)))
        for j in range(i):
            swapped = labels.copy()
            swapped[[i, j]] = labels[[j, i]]
            best = min(best, sum_of_squares(Z, swapped))
    return best


@settings(max_examples=25, deadline=None)
@given(n=st.integers(6, 16), k=st.integers(2, 3), seed=st.integers(0, 10**6))
def test_exchange_ends_where_no_move_or_swap_pays(n, k, seed):
    Z = draw(n, 2, seed, False)
    labels = cut(Z, np.random.default_rng(seed).permutation(n), k)
    everyone = np.tile(np.arange(n), (n, 1))
    settled = _exchange(Z, labels, everyone, k)
    assert np.bincount(settled).min() >= k
    assert np.bincount(settled).max() <= 2 * k - 1
    assert sum_of_squares(Z, settled) <= sum_of_squares(Z, labels) + 1e-12
    assert brute_force_exchange(Z, settled, k) == pytest.approx(sum_of_squares(Z, settled), abs=1e-8)


def best_tour(Z):
    from itertools import permutations

    return min(tour_length(Z, np.array((0, *rest))) for rest in permutations(range(1, len(Z))))


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 8), seed=st.integers(0, 10**6), grid=st.booleans())
def test_small_tours_are_shortest(n, seed, grid):
    Z = draw(n, 2, seed, grid)
    (tour,) = travelling_tours(Z, kicks=200)
    assert sorted(tour) == list(range(n))
    # Below eight places nothing is kicked, and a local optimum may be a little longer.
    assert tour_length(Z, tour) <= best_tour(Z) * (1.0 if n == 8 and not grid else 1.15) + 1e-9


def test_tours_visit_everyone_once_and_kicks_shorten_them():
    Z = np.random.default_rng(0).normal(size=(3000, 2))
    (plain,), (kicked,) = travelling_tours(Z), travelling_tours(Z, kicks=30_000)
    assert sorted(kicked) == list(range(3000))
    assert tour_length(Z, kicked) < 0.985 * tour_length(Z, plain)


def test_tours_repeat_for_a_seed_and_visit_equal_records_together():
    rng = np.random.default_rng(1)
    Z = rng.integers(0, 5, size=(300, 2)).astype(float)
    first, again = travelling_tours(Z, [4, 4], kicks=500)
    np.testing.assert_array_equal(first, again)
    assert tour_length(Z, first) == pytest.approx(25.0, abs=1.5)  # 25 places on a grid of step one


def test_own_tours_are_about_as_short_as_those_of_fast_tsp(census):
    pytest.importorskip("fast_tsp", reason="the extra 'search' is not installed")
    Z = standardise(census.to_numpy())
    rival = MicTSP(k=3, tour="fast-tsp", seconds=1.0).fit(census)
    ours = MicTSP(k=3).fit(census)
    assert sorted(rival.tour_) == list(range(len(Z)))
    assert tour_length(Z, ours.tour_) <= 1.01 * tour_length(Z, rival.tour_)


def test_fast_tsp_has_a_limit(monkeypatch):
    pytest.importorskip("fast_tsp", reason="the extra 'search' is not installed")
    monkeypatch.setattr("shoal.microaggregation._tour.FAST_TSP_LIMIT", 10)
    with pytest.raises(InputError, match="at most 10 records"):
        MicTSP(k=3, tour="fast-tsp").fit(np.random.default_rng(0).normal(size=(12, 2)))


@pytest.mark.parametrize(("name", "below"), [("tarragona", (15.2, 21.5, 33.5)), ("census", (5.2, 8.8, 15.3))])
def test_mictsp_loses_less_than_mdav_at_small_k(name, below, request):
    table = request.getfixturevalue(name)
    losses = [MicTSP(k=k).fit(table).information_loss_ for k in (3, 5, 10)]
    assert all(loss < bound for loss, bound in zip(losses, below, strict=True))
    assert losses[0] < MDAV(k=3).fit(table).information_loss_


def test_fdm_gives_every_k_from_one_tour(census, monkeypatch):
    import shoal.microaggregation._mictsp as module

    calls = []
    real = module.travelling_tours
    monkeypatch.setattr(
        module, "travelling_tours", lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs)
    )
    fitted = FDM.all(census, [3, 5, 10], kicks=100)
    assert list(fitted) == [3, 5, 10]
    assert len(calls) == 1
    for k, each in fitted.items():
        np.testing.assert_array_equal(each.labels_, FDM(k=k, kicks=100).fit(census).labels_)
    assert len(calls) == 4
    Z = standardise(census.to_numpy())
    shared = dict(FDM(kicks=100).partition_all(Z, [3, 5, 10]))
    assert len(calls) == 5
    for k, labels in shared.items():
        np.testing.assert_array_equal(labels, fitted[k].labels_)


def test_fdm_refitted_on_other_records_travels_anew(blobs):
    each = FDM.all(blobs, [2, 3])[3]
    other = blobs[::-1] * np.array([1.0, -2.0, 0.5]) + blobs**2
    np.testing.assert_array_equal(each.fit(other).labels_, FDM(k=3).fit(other).labels_)


def test_fdm_wants_at_least_one_k(blobs):
    with pytest.raises(ParameterError, match="at least one k"):
        FDM.all(blobs, [])


def test_univariate_is_optimal():
    x = np.random.default_rng(3).exponential(size=(11, 1))
    fitted = Univariate(k=3).fit(x)
    Z = standardise(x)
    assert fitted.sse_ == pytest.approx(oracles.best_runs(np.sort(Z, axis=0), 3))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), offset=st.sampled_from([1e8, -1e8, 1e15, 0.0]), n=st.integers(6, 30))
def test_the_optimum_is_found_far_from_zero(seed, offset, n):
    deviation = 1e-6 if abs(offset) < 1e10 else 10.0
    x = offset + deviation * np.random.default_rng(seed).normal(size=n)
    labels = Univariate(k=3).fit(x[:, None]).labels_
    exact = [Fraction(float(each)) for each in np.sort(x)]

    def cost(group):
        mean = sum(group) / len(group)
        return sum((each - mean) ** 2 for each in group)

    best = {0: Fraction(0)}
    for end in range(1, n + 1):
        options = [
            best[start] + cost(exact[start:end]) for start in range(max(0, end - 5), end - 2) if start in best
        ]
        if options:
            best[end] = min(options)
    found = sum(
        cost([Fraction(float(each)) for each in x[labels == group]]) for group in range(labels.max() + 1)
    )
    assert float(found) <= float(best[n]) * (1 + 1e-9)
