"""Intervals hold what they say with the probability they say, whatever the table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.dp.answering.exact import compute
from shoal.dp.answering.figures import cautions
from shoal.dp.answering.intervals import difference_radius, share_interval
from shoal.dp.answering.noise import add_noise
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.shown import figures, notes
from shoal.dp.correlation import Grid
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.meaning.check import check
from shoal.dp.mechanisms.discrete_gaussian import Gaussian
from shoal.dp.mechanisms.discrete_laplace import Laplace
from shoal.dp.session import Session
from shoal.dp.sql.parse import parse
from shoal.dp.unit import resolve
from shoal.schema import Cells, Column, Schema, Unit

DRAWS = 400
LEAST = int(stats.binom.ppf(1e-5, DRAWS, 0.95))  # fewer hits speak against 95 %
SCHEMA = Schema(
    {
        "x": Column("x", bounds=(0, 100)),
        "coarse": Column("coarse", bounds=(0, 100), step=7),
        "sign": Column("sign", bounds=(-30, 50), step=10),
        "g": Column("g", kind="category", levels=("a", "b")),
        "who": Column("who", kind="category"),
    },
    cells=Cells(("x", "sign"), (20, 20), 12),
)


def table(n=400, seed=0, people=40):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "x": rng.beta(2, 5, n) * 100,
            "coarse": rng.uniform(0, 100, n),
            "sign": rng.normal(10, 12, n).clip(-30, 50),
            "g": rng.choice(["a", "b"], n),
            "who": rng.integers(0, people, n).astype(str),
        }
    )


def drawn(sql, frame, epsilon=1.0, mode="dp", schema=SCHEMA, **options):
    """Figures and notes of many draws on one table, with their plan."""
    model = Grid.of_schema(schema) if mode == "correlated" else None
    query = parse(sql)
    check(query, schema)
    unit = resolve(mode, schema, model=model, **options)
    plan = make_plan(query, schema, unit, round(epsilon * 1_000_000))
    exact = compute(protect_rows(load(frame, schema), frame, schema, unit, model), plan)
    noisy = add_noise(plan, exact, DRAWS)
    single = [tuple(each[i : i + 1] for each in noisy) for i in range(DRAWS)]
    laid = [figures(plan, each) for each in single]
    said = [notes(plan, each) + cautions(plan, each) for each in single]
    return plan, [(each.value, each.interval) for each in laid], said, noisy


def covered(answers, true, name=None):
    return sum(
        low <= true <= high
        for _, interval in answers
        for low, high in [interval if name is None else interval[name]]
    )


FIGURES = {
    "COUNT(*)": lambda f, c: f.height,
    "SUM": lambda f, c: f[c].sum(),
    "AVG": lambda f, c: f[c].mean(),
    "VAR_POP": lambda f, c: f[c].var(ddof=0),
}


@pytest.mark.parametrize("column", ["x", "coarse", "sign"])
@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(("n", "epsilon"), [(400, 1.0), (400, 0.05), (3, 1.0)])
def test_intervals_of_records_hold_the_figure_asked_for(figure, column, n, epsilon):
    frame = table(n)
    sql = f"SELECT {figure if '*' in figure else f'{figure}({column})'} FROM t"
    answers = drawn(sql, frame, epsilon)[1]
    assert covered(answers, FIGURES[figure](frame, column)) >= LEAST


def test_a_step_is_no_quantum_of_sums():
    """4,000 rows just below half a step: their sum is theirs, not zero."""
    schema = Schema({"v": Column("v", bounds=(-100, 100), step=10)})
    frame = pl.DataFrame({"v": [1.0] * 4000})
    for sql, true in (("SELECT SUM(v) FROM t", 4000), ("SELECT AVG(v) FROM t", 1.0)):
        assert covered(drawn(sql, frame, schema=schema)[1], true) >= LEAST


@pytest.mark.parametrize("figure", ["MIN", "MAX"])
def test_extremes_off_the_grid_are_held(figure):
    frame = table(400).with_columns(pl.col("coarse").clip(17.3, 80.4))
    true = frame["coarse"].min() if figure == "MIN" else frame["coarse"].max()
    assert covered(drawn(f"SELECT {figure}(coarse) FROM t", frame)[1], true) >= LEAST


def test_a_quantile_keeps_to_the_ranks_stated():
    frame = table(400)
    plan, answers, said, _ = drawn("SELECT QUANTILE(x, 0.25) FROM t", frame, 0.2)
    ranks = int(next(note for note in said[0] if "rank" in note).split("within ")[1].split(" ")[0])
    x = np.sort(frame["x"].to_numpy())
    half = plan.releases[0].grid.step / 2
    near = [
        np.searchsorted(x, value - half) - ranks <= 100 <= np.searchsorted(x, value + half, "right") + ranks
        for value, _ in answers
    ]
    assert sum(near) >= LEAST
    assert all(interval == (0.0, 100.0) for _, interval in answers)


@pytest.mark.parametrize("figure", ["COUNT(*)", "SUM(x)", "AVG(x)", "VAR_POP(x)"])
def test_a_person_within_the_declared_rows_is_held(figure):
    """Nobody has more rows than declared, so that nothing is cut and the full figure is held."""
    frame = table(120, people=40).with_columns(who=(pl.int_range(120) // 3).cast(pl.String))
    schema = Schema(SCHEMA.columns, unit=Unit("who", 3))
    answers = drawn(f"SELECT {figure} FROM t", frame, schema=schema)[1]
    kind = figure.split("(")[0]
    true = frame.height if kind == "COUNT" else FIGURES[kind](frame, "x")
    assert covered(answers, true) >= LEAST


SPREADS = {
    "all alike": lambda rng, n: np.full(n, 20),
    "few": lambda rng, n: np.full(n, 2),
    "all at the most": lambda rng, n: np.full(n, 60),
    "one with many": lambda rng, n: np.array([60] + [1] * (n - 1)),
    "of all sizes": lambda rng, n: rng.integers(1, 61, n),
}


@pytest.mark.parametrize("figure", ["COUNT(*)", "SUM(x)", "SUM(sign)", "AVG(x)", "VAR_POP(x)"])
@pytest.mark.parametrize("spread", sorted(SPREADS))
def test_intervals_with_few_persons_hold_the_full_figure(figure, spread):
    """Thirty persons at epsilon 1: a limit near one row is drawn, and the interval allows for what it cuts off."""
    rng = np.random.default_rng(5)
    rows = SPREADS[spread](rng, 30)
    who = np.repeat(np.arange(30), rows)
    frame = table(len(who), seed=3).with_columns(who=pl.Series(who).cast(pl.String))
    schema = Schema(SCHEMA.columns, unit=Unit("who", 60))
    answers = drawn(f"SELECT {figure} FROM t", frame, schema=schema)[1]
    kind, column = figure.rstrip(")").split("(")
    true = frame.height if kind == "COUNT" else FIGURES[kind](frame, column)
    assert covered(answers, true) >= LEAST


@pytest.mark.parametrize("figure", ["COUNT(*)", "AVG(x)"])
def test_group_by_over_few_persons_holds_each_full_group(figure):
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(30), rng.integers(1, 61, 30))
    frame = table(len(who), seed=4).with_columns(who=pl.Series(who).cast(pl.String))
    schema = Schema(SCHEMA.columns, unit=Unit("who", 60))
    answers = drawn(f"SELECT g, {figure} AS f FROM t GROUP BY g", frame, schema=schema)[1]
    for at, level in enumerate("ab"):
        rows = frame.filter(pl.col("g") == level)
        true = rows.height if "*" in figure else rows["x"].mean()
        assert sum(row[at]["f"][0] <= true <= row[at]["f"][1] for _, row in answers) >= LEAST


def test_over_cells_a_count_is_bounded_from_below_only():
    """Nobody declares how many rows a cell has, so that no upper end can be true."""
    frame = table(2000)
    _, answers, said, _ = drawn("SELECT COUNT(*) FROM t", frame, mode="correlated", tau=12)
    assert all(high is None for _, (_, high) in answers)
    assert sum(low <= frame.height for _, (low, _) in answers) >= LEAST
    assert all("not known" in " ".join(each) for each in said)


def test_an_average_over_cells_holds_the_average_it_names():
    """The false interval of old: two heaps, one of them cut. Now both sides are cut alike and it is said."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "x": np.concatenate([np.full(300, 99.9), rng.uniform(0, 100, 400)]),
            "coarse": 1.0,
            "sign": rng.uniform(-30, 50, 700),
            "g": "a",
            "who": "p",
        }
    )
    plan, answers, said, noisy = drawn("SELECT AVG(x) FROM t", frame, mode="correlated", tau=12)
    release = plan.releases[0]
    unit = resolve("correlated", SCHEMA, model=Grid.of_schema(SCHEMA), tau=12)
    loaded = protect_rows(load(frame, SCHEMA), frame, SCHEMA, unit, Grid.of_schema(SCHEMA))
    exact = compute(loaded, plan)[0]
    hits = 0
    narrow = [figures(plan, (noisy[0][i : i + 1],)).cut for i in range(DRAWS)]
    for (low, high), place in zip(narrow, noisy[0][:, 0], strict=True):
        hits += low <= _root(exact, release, release.steps.limits[place]) <= high
    assert hits >= LEAST
    assert all("the narrow interval is of that average only" in " ".join(each) for each in said)
    assert all(ends == (0.0, 100.0) for _, ends in answers)
    widths = np.array([high - low for low, high in narrow])
    assert np.median(widths) < 100


def _root(exact, release, limit):
    """Where the cut pulls of all units balance, by bisection."""
    n, s = exact.moments[:, 0].astype(float), exact.moments[:, 1].astype(float)
    low, high = 0.0, float(release.fixed.most)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(s - middle * n, -limit, limit).sum() > 0 else (low, middle)
    return low * float(release.fixed.quantum)


def test_a_group_by_holds_each_group():
    frame = table(400)
    answers = drawn("SELECT g, COUNT(*), AVG(x) FROM t GROUP BY g", frame)[1]
    for at, level in enumerate("ab"):
        rows = frame.filter(pl.col("g") == level)
        for name, true in (("count", rows.height), ("avg_x", rows["x"].mean())):
            hits = sum(row[at][name][0] <= true <= row[at][name][1] for _, row in answers)
            assert hits >= LEAST


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5])
def test_the_radius_of_a_weighted_difference_is_exact(p):
    rng = np.random.default_rng(2)
    z = (1 - p) * rng.laplace(0, 1000, 400_000) - p * rng.laplace(0, 1000, 400_000)
    inside = (np.abs(z) <= difference_radius(p, Laplace(Fraction(1000)))).mean()
    assert inside == pytest.approx(0.95, abs=0.003)
    z = (1 - p) * rng.normal(0, 1000, 400_000) - p * rng.normal(0, 1000, 400_000)
    inside = (np.abs(z) <= difference_radius(p, Gaussian(1000.0))).mean()
    assert inside == pytest.approx(0.95, abs=0.003)


def test_a_share_without_rows_is_anything():
    assert share_interval(-3.0, 5.0, Laplace(Fraction(10))) == (0.0, 1.0)
    low, high = share_interval(5_000.0, 5_000.0, Laplace(Fraction(10)))
    assert high - low == pytest.approx(2 * 20.6 / 10_000, rel=0.15)
    assert low < 0.5 < high


def test_notes_say_what_an_interval_covers():
    said = drawn("SELECT SUM(x), COUNT(*) FROM t", table(30))[2][0]
    assert any("values beyond [0, 100]" in each for each in said)
    schema = Schema(SCHEMA.columns, unit=Unit("who", 60))
    said = drawn("SELECT COUNT(*) FROM t", table(30), schema=schema)[2][0]
    assert any("cut" in each and "narrow interval" in each for each in said)


@given(
    above=st.floats(-50, 1e6),
    below=st.floats(-50, 1e6),
    scale=st.floats(0.5, 1000),
    confidence=st.sampled_from([0.9, 0.95, 0.999]),
)
def test_the_interval_of_a_share_ends_where_the_radius_says(above, below, scale, confidence):
    for noise in (Laplace(Fraction(scale)), Gaussian(scale)):
        low, high = share_interval(above, below, noise, confidence)
        total = above + below
        tiny = 1e-9 * max(1.0, abs(above), abs(below), scale)
        # Where no share at all goes with the noisy sums, the interval is the nearest end, 0 or 1.
        if tiny < low < 1 - tiny:
            assert abs(above - low * total - difference_radius(low, noise, confidence)) <= 10 * tiny
        if tiny < high < 1 - tiny:
            assert abs(high * total - above - difference_radius(high, noise, confidence)) <= 10 * tiny


@pytest.mark.parametrize("sql", ["VAR_POP(x)", "AVG(x)"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("mode", ["correlated", "dp"])
def test_where_units_are_cut_the_same_rows_are_taken_above_and_below(sql, grouped, mode):
    """Every cell, or person, has the same rows, so that an average or variance of equal parts of them is that of all."""
    columns = {
        "x": Column("x", bounds=(0, 1)),
        "z": Column("z", bounds=(0, 400)),
        "level": Column("level", kind="category", levels=("a", "b")),
    }
    schema = Schema(columns, id="alike", cells=Cells(("z",), 400, 2), unit=Unit("who", 2))
    rows = [(z, f"{z}", float(at < 3), "ab"[half]) for z in range(400) for half in (0, 1) for at in range(10)]
    table = pl.DataFrame(rows, schema=["z", "who", "x", "level"], orient="row")
    with Session(table, schema, mode, 1e6) as session:
        if grouped:
            found = session.ask(f"SELECT level, {sql} AS figure FROM t GROUP BY level", 1e5).value
            given_back = [row["figure"] for row in found]
        else:
            given_back = [session.ask(f"SELECT {sql} FROM t", 1e5).value]
    assert given_back == pytest.approx([0.21 if sql.startswith("VAR") else 0.3] * len(given_back), abs=0.02)
