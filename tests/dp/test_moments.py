"""Covariances and correlations: one row moves their sums by what is paid for, and their intervals hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shoal.dp import Ledger, Session
from shoal.dp.answering.exact import compute
from shoal.dp.answering.intervals import combination_radius
from shoal.dp.answering.noise import add_noise, cut_sums
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.shown import figures
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.mechanisms.currency import EPSILON, Currency
from shoal.dp.mechanisms.discrete_gaussian import Gaussian
from shoal.dp.mechanisms.discrete_laplace import Laplace
from shoal.dp.sql.parse import parse
from shoal.dp.unit import resolve
from shoal.schema import Cells, Column, Schema, Unit

DRAWS = 300
LEAST = int(stats.binom.ppf(1e-5, DRAWS, 0.95))  # fewer hits speak against 95 %
COLUMNS = {
    "x": Column("x", bounds=(0, 100)),
    "y": Column("y", bounds=(-10, 30)),
    "who": Column("who", kind="category"),
    "g": Column("g", kind="category", levels=("a", "b")),
}
SCHEMA = Schema(COLUMNS, cells=Cells(("x", "y"), (20, 20), 12))
PAIRS = ("COVAR_POP", "COVAR_SAMP", "CORR")


def table(n=400, rho=0.6, seed=0, people=40):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    who = rng.integers(0, people, n).astype(str)
    y = 8 + 5 * (rho * a + np.sqrt(1 - rho**2) * b)
    g = rng.choice(["a", "b"], n)
    return pl.DataFrame({"x": (45 + 15 * a).clip(0, 100), "y": y.clip(-10, 30), "who": who, "g": g})


def plain(frame, figure):
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    if figure == "CORR":
        return np.corrcoef(x, y)[0, 1]
    return np.cov(x, y, ddof=figure == "COVAR_SAMP")[0, 1]


def drawn(sql, frame, epsilon=1.0, schema=SCHEMA, currency=EPSILON, draws=DRAWS):
    unit = resolve("dp", schema)
    plan = make_plan(parse(sql), schema, unit, round(epsilon * 1_000_000), None, currency)
    exact = compute(protect_rows(load(frame, schema), frame, schema, unit, None), plan)
    noisy = add_noise(plan, exact, draws)
    return plan, [figures(plan, tuple(each[i : i + 1] for each in noisy)) for i in range(draws)]


def hits(laid, true):
    return sum(each.interval[0] <= true <= each.interval[1] for each in laid)


number = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True, width=64))


@given(st.lists(st.tuples(number, number), max_size=12), number, number, st.floats(1e-3, 1e15))
@settings(max_examples=60, deadline=None)
def test_one_row_moves_the_sums_by_no_more_than_their_sizes(rows, first, other, width):
    facts = Schema({"v": Column("v", bounds=(-width, width)), "w": Column("w", bounds=(0, 1))})
    for sql in ("SELECT COVAR_POP(v, w) FROM t", "SELECT CORR(v, w) FROM t"):
        plan = make_plan(parse(sql), facts, resolve("dp", facts), 1_000_000)
        release = plan.releases[0]
        sums = []
        for each in ([*rows, (first, other)], rows):
            frame = pl.DataFrame(each, schema={"v": pl.Float64, "w": pl.Float64}, orient="row")
            sums.append(cut_sums(release, compute(load(frame, facts), plan)[0], None))
        moved = [int(each) for each in sums[0] - sums[1]]
        assert sum(map(abs, moved)) <= release.sensitivity
        assert sum(each**2 for each in moved) <= release.square


def test_the_sizes_are_those_of_the_worst_row():
    """Over every pair of whole numbers that two columns can be: the bound holds, and is no larger than need be."""
    facts = Schema({"v": Column("v", bounds=(0, 1)), "w": Column("w", bounds=(0, 1))})
    for sql, most in (("COVAR_POP", 1 << 15), ("CORR", 12288)):
        plan = make_plan(parse(f"SELECT {sql}(v, w) FROM t"), facts, resolve("dp", facts), 1_000_000)
        release = plan.releases[0]
        v = np.arange(most + 1, dtype=np.int64)
        large = sum(np.abs(a + b * v + c * v * v) for a, b, c in release.pair.polynomials)
        v = np.unique([*np.linspace(0, most, 512).round().astype(np.int64), *np.argsort(large)[-8:]])
        tables = [a + b * v + c * v * v for a, b, c in release.pair.polynomials]
        products = np.array([np.multiply.outer(one, two) for one in tables for two in tables])
        if release.pair.divisor > 1:
            products = (products + release.pair.divisor // 2) // release.pair.divisor
        sizes = np.abs(products).sum(axis=0)
        assert release.sensitivity * (1 - 1e-4) < sizes.max() <= release.sensitivity
        assert max(map(int, (products.astype(object) ** 2).sum(axis=0).ravel())) <= release.square


@pytest.mark.parametrize("figure", ["AVG", "VAR_POP", "VAR_SAMP"])
def test_the_sizes_of_one_column_are_those_of_the_worst_row(figure):
    facts = Schema({"v": Column("v", bounds=(0, 1))})
    plan = make_plan(parse(f"SELECT {figure}(v) FROM t"), facts, resolve("dp", facts), 1_000_000)
    release = plan.releases[0]
    most = release.fixed.most
    rows = range(most + 1) if most < 10**5 else (0, 1, most // 3, most - 1, most)
    moved = [[a + b * v + c * v * v for a, b, c in release.terms] for v in rows]
    assert max(sum(map(abs, each)) for each in moved) == release.sensitivity
    assert max(sum(term**2 for term in each) for each in moved) <= release.square


@pytest.mark.parametrize("figure", PAIRS)
@pytest.mark.parametrize(("n", "epsilon"), [(400, 1.0), (5000, 1.0), (400, 0.05), (3, 1.0)])
@pytest.mark.parametrize("rho", [0.0, 0.6, 0.99])
def test_intervals_of_records_hold_the_figure(figure, n, epsilon, rho):
    frame = table(n, rho)
    laid = drawn(f"SELECT {figure}(x, y) FROM t", frame, epsilon)[1]
    assert hits(laid, plain(frame, figure)) >= LEAST


@pytest.mark.parametrize("figure", PAIRS)
def test_intervals_in_zcdp_hold_the_figure_and_are_no_wider_than_need_be(figure):
    frame = table(20_000)
    laid = drawn(f"SELECT {figure}(x, y) FROM t", frame, 0.05, currency=Currency("zcdp", 1e-6))[1]
    true = plain(frame, figure)
    error = np.sqrt(np.mean([(each.value - true) ** 2 for each in laid]))
    assert hits(laid, true) >= LEAST
    assert np.mean([np.diff(each.interval) for each in laid]) < 1.5 * 2 * 1.96 * error


@pytest.mark.parametrize("rows", [3, 60])
@pytest.mark.parametrize("figure", PAIRS)
def test_intervals_over_persons_hold_the_full_figure(figure, rows):
    """Of 60 declared rows a limit is drawn; what it cuts off is allowed for."""
    frame = table(3 * 200).with_columns(who=(pl.int_range(600) // 3).cast(pl.String))
    schema = Schema(COLUMNS, unit=Unit("who", rows))
    assert (
        hits(drawn(f"SELECT {figure}(x, y) FROM t", frame, schema=schema)[1], plain(frame, figure)) >= LEAST
    )


def test_a_plain_answer_is_near_the_plain_figure():
    frame = table(20_000)
    for figure in PAIRS:
        value = Session(frame, SCHEMA, "dp", 1e6).ask(f"SELECT {figure}(x, y) FROM t", 1e5).value
        assert value == pytest.approx(plain(frame, figure), rel=1e-3)


def test_only_rows_with_both_count():
    frame = pl.DataFrame({"x": [1.0, 99.0, None, 50.0], "y": [0.0, None, 5.0, 10.0]})
    schema = Schema({name: COLUMNS[name] for name in ("x", "y")})
    found = Session(frame, schema, "dp", 1e6).ask("SELECT COVAR_POP(x, y), CORR(x, y) FROM t", 1e6)
    assert found.value["covar_x_y"] == pytest.approx(np.cov([1, 50], [0, 10], bias=True)[0, 1], rel=1e-3)
    assert found.value["corr_x_y"] == pytest.approx(1, abs=1e-3)


def test_a_constant_column_has_no_correlation_and_says_nothing_of_it():
    frame = table(400).with_columns(y=pl.lit(5.0))
    for each in drawn("SELECT CORR(x, y) FROM t", frame, 1.0)[1]:
        assert each.value is None or -1 <= each.value <= 1
        assert each.interval[0] <= 0 <= each.interval[1]


def test_groups_and_expressions_have_pairs_of_their_own():
    frame = table(4000)
    answer = Session(frame, SCHEMA, "dp", 1e6).ask(
        "SELECT g, CORR(x * 2, ABS(y)) AS c FROM t GROUP BY g ORDER BY g", 1e5
    )
    for row in answer.value:
        part = frame.filter(pl.col("g") == row["g"])
        assert row["c"] == pytest.approx(np.corrcoef(part["x"], part["y"].abs())[0, 1], abs=1e-3)


def test_a_joint_set_of_sums_is_better_than_variances_one_by_one():
    """What was done before: Var(x + y) and Var(x - y) with half of epsilon each, three variances for a correlation."""
    frame, rng = table(5000), np.random.default_rng(1)
    x, y = frame["x"].to_numpy() / 100, (frame["y"].to_numpy() + 10) / 40
    laplace = rng.laplace(size=(4000, 3, 3)) / len(x)

    def noisy(values, share, place):
        """A variance from the three sums of a column brought to [0, 1]."""
        u = values
        sums = [(4 * u * u - u) / 3, (4 * u * u - 7 * u + 3) / 3, 8 * (u - u * u) / 3]
        f = np.array([each.mean() for each in sums]) + laplace[:, place] * 25 / 24 / share
        n = f.sum(axis=1)
        return (f[:, 0] + f[:, 2] / 8) / n - ((f[:, 0] + f[:, 2] / 2) / n) ** 2

    before = noisy((x + y) / 2, 1 / 2, 0) - noisy((x - y + 1) / 2, 1 / 2, 1)
    error = np.std(before) * 100 * 40
    now = [each.value for each in drawn("SELECT COVAR_POP(x, y) FROM t", frame)[1]]
    assert np.std(now) < 0.6 * error
    vx, vy, vs = noisy(x, 1 / 3, 0), noisy(y, 1 / 3, 1), 4 * noisy((x + y) / 2, 1 / 3, 2)
    before = np.std((vs - vx - vy) / 2 / np.sqrt(vx * vy))
    now = [each.value for each in drawn("SELECT CORR(x, y) FROM t", frame)[1]]
    assert np.std(now) < 0.5 * before


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda each: max(each) > 1e-3))
@settings(max_examples=40, deadline=None)
def test_a_combination_of_noises_stays_within_its_radius(sizes):
    sizes = np.array(sizes)
    rng = np.random.default_rng(3)
    for noise, drawn in (
        (Laplace(Fraction(1000)), rng.laplace(scale=1000, size=(20_000, len(sizes)))),
        (Gaussian(1000.0), rng.normal(scale=1000, size=(20_000, len(sizes)))),
    ):
        outside = np.mean(np.abs(drawn @ sizes) > combination_radius(sizes, noise, 0.95))
        assert 0.03 < outside < 0.058


def test_notes_name_the_column_they_are_about():
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    columns = {
        name: Column(name, kind="number", bounds=bounds) for name, bounds in (("x", (0, 5)), ("y", (0, 9)))
    }
    with Session(frame, Schema(columns), budget=1.0, ledger=Ledger()) as session:
        said = session.ask("SELECT CORR(x, y) AS r FROM t", 1.0).notes
    assert any("values of x beyond [0, 5]" in each for each in said)
    assert any("values of y beyond [0, 9]" in each for each in said)
