"""Correlation models against plain n x n versions on small tables."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.cluster import DBSCAN
from sklearn.mixture import GaussianMixture

from shoal import datasets
from shoal.dp.correlation import (
    BoundaryWarning,
    DBSCANModel,
    GaussianMixtureModel,
    Pearson,
    SelectedMixture,
    Spearman,
)
from shoal.dp.correlation._dbscan import connected
from shoal.dp.correlation._largest import Profiles
from shoal.dp.correlation._mixture import choose_mixture, fit_mixture
from shoal.dp.correlation._prepare import Preparation
from shoal.dp.heuristic import exact_and_sensitivity
from shoal.dp.sql.query import Aggregate
from shoal.errors import ParameterError


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    centre = np.repeat(rng.normal(size=(6, 5)) * 3, 50, axis=0)
    X = centre + rng.normal(size=(300, 5))
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d", "e"])
    return frame.with_columns(
        pl.Series("code", rng.integers(0, 4, 300), dtype=pl.Int32),
        pl.Series("side", np.repeat([0, 1, 1, 0, 1, 0], 50), dtype=pl.Int32),
    )


@pytest.fixture(scope="module")
def queries() -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights of COUNT, SUM, AVG, MAX and answers of several sizes."""
    rng = np.random.default_rng(4)
    out = []
    for m in (1, 2, 17, 120, 300):
        answer = np.sort(rng.choice(300, m, replace=False))
        x = rng.normal(size=m) * 1e4
        out += [(np.ones(m), answer), (np.abs(x), answer), (np.abs(x - x.mean()) / max(m - 1, 1), answer)]
        gap = np.zeros(m)
        gap[rng.integers(m)] = 7.5
        out.append((gap, answer))
    return [*out, (np.zeros(5), np.arange(5))]


def plain(degrees: np.ndarray, weights: np.ndarray, answer: np.ndarray) -> float:
    full = np.abs(degrees)
    np.fill_diagonal(full, 1.0)
    return float((full[np.ix_(answer, answer)] @ weights).max())


def similarity(X: np.ndarray, rank: bool) -> np.ndarray:
    return np.corrcoef(stats.rankdata(X, axis=1) if rank else X)


@pytest.mark.parametrize("preprocessing", ["raw", "min-max", "z-score"])
@pytest.mark.parametrize(("model", "rank"), [(Pearson, False), (Spearman, True)])
def test_similarity_equals_the_whole_matrix(table, queries, model, rank, preprocessing) -> None:
    fitted = model(preprocessing=preprocessing).fit(table)
    R = similarity(fitted.preparation_.apply(table), rank)
    for weights, answer in queries:
        assert fitted.row_influence(weights, answer) == pytest.approx(plain(R, weights, answer), rel=1e-9)


def test_pearson_threshold_equals_the_whole_matrix(table, queries) -> None:
    fitted = Pearson(0.37).fit(table)
    R = similarity(fitted.preparation_.apply(table), rank=False)
    R = np.where(np.abs(R) >= 0.37, R, 0.0)
    for weights, answer in queries:
        assert fitted.row_influence(weights, answer) == pytest.approx(plain(R, weights, answer), rel=1e-9)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.6, 1.0])
def test_threshold_is_not_flipped_by_rounding(threshold) -> None:
    """Spearman takes few values, many exactly on the threshold: fractions decide, single precision would not."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.permutation(5) for _ in range(200)]).astype(float)
    frame = pl.DataFrame(X, schema=list("abcde"))
    fitted = Spearman(threshold, preprocessing="raw").fit(frame)
    r = (2 * stats.rankdata(X, axis=1) - 6).astype(int)
    dots = r @ r.T  # every squared length is 40
    exact = np.array(
        [
            [abs(d) / 40 if Fraction(abs(d), 40) >= Fraction(str(threshold)) else 0.0 for d in row]
            for row in dots
        ]
    )
    answer = np.arange(200)
    expected = plain(exact, np.ones(200), answer)
    assert fitted.row_influence(np.ones(200), answer) == pytest.approx(expected, rel=1e-12)
    on_it = np.isclose(np.abs(dots) / 40, threshold)
    assert on_it.sum() > 100


def test_threshold_in_single_precision_would_flip() -> None:
    """The trap that the margin avoids: some pairs on the threshold fall below it in single precision."""
    X = np.random.default_rng(0).integers(0, 5, (400, 7)).astype(float)
    p = Profiles.of(X, ranks=True)
    dots, squares = np.abs(p.values @ p.values.T), np.multiply.outer(p.square, p.square)
    single = np.abs(p.unit @ p.unit.T)
    on_it = 4 * dots**2 == squares  # whole numbers: exactly one half
    assert 0 < (single[on_it] < np.float32(0.5)).sum() < on_it.sum(), "the trap is not set"
    fitted = Spearman(0.5, preprocessing="raw").fit(pl.DataFrame(X, schema=list("abcdefg")))
    exact = np.where((4 * dots**2 >= squares) & (squares > 0), dots / np.sqrt(np.maximum(squares, 1)), 0.0)
    answer, ones = np.arange(400), np.ones(400)
    assert fitted.row_influence(ones, answer) == pytest.approx(plain(exact, ones, answer), rel=1e-12)


def test_threshold_on_adult_is_decided_in_double_precision() -> None:
    if datasets.DATASETS["adult"].path is None:
        pytest.skip("the table Adult is not at hand")
    frame = datasets.load_adult().drop("income")
    coded = [pl.col(n).rank("dense").cast(pl.Int32) for n in frame.columns if frame[n].dtype == pl.String]
    frame = frame.with_columns(coded)[:1500]
    answer = np.arange(1500)
    for threshold in (0.5, 0.7):
        fitted = Spearman(threshold).fit(frame)
        p = Profiles.of(fitted.preparation_.apply(frame), ranks=True)
        dot = p.values.astype(np.int64) @ p.values.astype(np.int64).T
        squares = np.multiply.outer(p.square, p.square)
        R = np.where(
            dot.astype(float) ** 2 >= (1 - 1e-12) * threshold**2 * squares, dot / np.sqrt(squares), 0.0
        )
        found = fitted.row_influence(np.ones(1500), answer)
        assert found == pytest.approx(plain(R, np.ones(1500), answer), rel=1e-9)


def test_constant_records_go_with_nobody() -> None:
    frame = pl.DataFrame({"a": [1.0, 1.0, 2.0], "b": [1.0, 1.0, 3.0], "c": [1.0, 1.0, 4.0]})
    for model in (Pearson, Spearman):
        fitted = model(preprocessing="raw").fit(frame)
        assert fitted.row_influence(np.array([1.0, 5.0, 2.0]), np.arange(3)) == pytest.approx(5.0)


@pytest.mark.parametrize("eps", [0.02, 0.15, 0.3, 5.0])
def test_connected_parts_are_dbscan_of_two_points(table, eps) -> None:
    X = Preparation.learn(table, "min-max").apply(table)
    ours, theirs = connected(X, eps, block=32), DBSCAN(eps=eps, min_samples=2).fit(X).labels_
    assert np.array_equal(ours < 0, theirs < 0)
    inside = ours >= 0
    pairs = set(zip(ours[inside].tolist(), theirs[inside].tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})


def test_pairs_exactly_at_the_radius_are_joined() -> None:
    X = np.arange(6)[:, None] * 0.25 + 1000.0
    assert connected(X, 0.25).tolist() == [0] * 6
    assert connected(X, 0.2499).tolist() == [-1] * 6


@pytest.mark.parametrize("eps", [0.02, 0.2, 0.5])
def test_dbscan_equals_the_whole_matrix(table, queries, eps) -> None:
    fitted = DBSCANModel(eps).fit(table)
    R = similarity(fitted.preparation_.apply(table), rank=True)
    labels = fitted.labels_
    R = np.where((labels[:, None] == labels[None, :]) & (labels[:, None] >= 0), R, 0.0)
    for weights, answer in queries:
        assert fitted.row_influence(weights, answer) == pytest.approx(plain(R, weights, answer), rel=1e-9)


def test_dbscan_of_more_points_is_scikit_learns(table) -> None:
    fitted = DBSCANModel(0.3, 5).fit(table)
    assert np.array_equal(
        fitted.labels_, DBSCAN(eps=0.3, min_samples=5).fit(fitted.preparation_.apply(table)).labels_
    )


@pytest.mark.parametrize("components", [1, 3, 8])
def test_mixture_times_spearman_equals_the_whole_matrix(table, queries, components) -> None:
    fitted = GaussianMixtureModel(components).fit(table)
    M = fitted.memberships_
    R = similarity(fitted.preparation_.apply(table), rank=True) * (M @ M.T)
    for weights, answer in queries:
        assert fitted.row_influence(weights, answer) == pytest.approx(plain(R, weights, answer), rel=1e-9)


def test_selected_mixture_equals_the_whole_matrix(table, queries) -> None:
    fitted = SelectedMixture("side", 3, n_components=4).fit(table)
    assert len(fitted.preparation_.columns) == 3
    assert "side" not in fitted.preparation_.columns
    M = fitted.memberships_
    for weights, answer in queries:
        found = float(np.max(fitted.row_influence(weights, answer)))
        assert found == pytest.approx(plain(M @ M.T, weights, answer), rel=1e-9)


@pytest.mark.parametrize("kind", ["count", "sum", "avg", "min", "max"])
def test_sensitivity_is_the_definition(table, kind) -> None:
    """CS_f by deleting each record in turn."""
    fitted = Spearman().fit(table)
    R = similarity(fitted.preparation_.apply(table), rank=True)
    rows = np.arange(40, 90)
    x = table["b"].to_numpy()[rows]
    f = {"count": len, "sum": np.sum, "avg": np.mean, "min": np.min, "max": np.max}[kind]
    change = np.array([abs(f(x) - f(np.delete(x, j))) for j in range(len(x))])
    value, sensitivity = exact_and_sensitivity(Aggregate(kind, "b"), table, rows, fitted)
    assert value == pytest.approx(f(x))
    assert sensitivity == pytest.approx(plain(R, change, rows), rel=1e-9)


@pytest.mark.parametrize("diagonal", [False, True])
def test_em_agrees_with_scikit_learn(table, diagonal) -> None:
    X = Preparation.learn(table, "z-score", list("abcde")).apply(table)
    ours = fit_mixture(X, 6, diagonal=diagonal, tol=1e-6, rounds=300)
    theirs = GaussianMixture(
        6, covariance_type="diag" if diagonal else "full", random_state=0, tol=1e-6, max_iter=300
    ).fit(X)
    assert ours.n_parameters == theirs._n_parameters()
    assert ours.bic(X) <= theirs.bic(X) + 0.01 * abs(theirs.bic(X))
    start = fit_mixture(X, 6, diagonal=diagonal, rounds=1)
    assert ours.log_likelihood(X) > start.log_likelihood(X)
    assert np.allclose(ours.memberships(X).sum(axis=1), 1.0)


def test_bic_finds_the_number_of_groups() -> None:
    X, _ = datasets.make_clusters(3000, 3, 8, spread=0.05, random_state=1)
    fit, scores = choose_mixture(X, [1, 2, 4, 8, 16, 32], sample=1500)
    assert 7 <= fit.n_components <= 9
    assert min(scores, key=lambda count: scores[count]) == fit.n_components


def test_a_boundary_is_warned_of() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (800, 3)).astype(float)
    with pytest.warns(BoundaryWarning, match="the most that were tried"):
        choose_mixture(X, [1, 4, 16], sample=800)


def test_models_repeat_themselves(table) -> None:
    for make in (
        lambda: GaussianMixtureModel((1, 2, 4, 8)),
        lambda: SelectedMixture("side", 3, n_components=3),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundaryWarning)
            one, two = make().fit(table), make().fit(table)
        assert np.array_equal(one.memberships_, two.memberships_)


def test_missing_cells_and_codes_are_prepared_as_recorded() -> None:
    frame = pl.DataFrame(
        {"x": [0.0, None, 10.0], "code": pl.Series([0, 1, None], dtype=pl.Int32), "t": ["a", "b", "c"]}
    )
    made = Preparation.learn(frame, "min-max")
    assert made.columns == ("x", "code")
    assert made.apply(frame).tolist() == [[0.0, 0.0], [0.5, 1.0], [1.0, 0.5]]
    assert Preparation.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    "make",
    [
        lambda: Spearman(1.5),
        lambda: Spearman(float("nan")),
        lambda: Pearson(preprocessing="log"),
        lambda: DBSCANModel(0.0),
        lambda: DBSCANModel(1.0, 0),
        lambda: GaussianMixtureModel(0),
        lambda: GaussianMixtureModel(()),
        lambda: GaussianMixtureModel(2, covariance="round"),
        lambda: SelectedMixture("side", 0),
        lambda: SelectedMixture("nobody", 2).fit(pl.DataFrame({"a": [1.0]})),
        lambda: Spearman(columns=["t"]).fit(pl.DataFrame({"t": ["x"]})),
        lambda: Spearman().row_influence(np.ones(1), np.zeros(1, dtype=int)),
    ],
)
def test_bad_settings_are_one_sentence(make) -> None:
    with pytest.raises(ParameterError, match="Got|needs|must"):
        make()
