"""Errors of private answers beside other libraries, currencies, strategies and sources.

`python -m benchmarks answers`; with BENCH=full also a hundred million rows of Parquet. docs/theory/truncation.md shows the
figures over persons.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks._answers_rivals import diffprivlib_answers, opendp_answers, opendp_pairs
from shoal.dp import Session
from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise, distances, histograms
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.shown import figures
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.meaning.reading import read_query
from shoal.dp.mechanisms.currency import Currency
from shoal.dp.mechanisms.selection import exponential
from shoal.dp.unit import AddRemoveRecord, AddRemoveUnit, Protected
from shoal.schema import Column, Schema

SCHEMA = Schema(
    {
        "who": Column("who", kind="category"),
        "x": Column("x", bounds=(0, 100)),
        "y": Column("y", bounds=(0, 100)),
        "g": Column("g", kind="category", levels=("a", "b", "c", "d", "e")),
    },
    id="answers",
)
DRAWS = 200


def table(people: int = 2000, rows: int = 5) -> pl.DataFrame:
    """Persons with a few rows each."""
    rng = np.random.default_rng(3)
    n = people * rows
    who = np.repeat(np.arange(people), rows).astype(str)
    return pl.DataFrame(
        {"who": who, "x": rng.beta(2, 5, n) * 100, "y": 0.0, "g": rng.choice(list("abcde"), n)}
    )


def answers(frame: pl.DataFrame, sql: str, unit: Protected, epsilon: float, draws: int = DRAWS) -> list[Any]:
    """Values of many draws."""
    plan = make_plan(read_query(sql, SCHEMA), SCHEMA, unit, round(epsilon * 1e6))
    rows = protect_rows(load(frame, SCHEMA), frame, SCHEMA, unit)
    noisy = add_noise(plan, compute(rows, plan), draws)
    return [figures(plan, tuple(each[i : i + 1] for each in noisy)).value for i in range(draws)]


def by_group(frame: pl.DataFrame, rows: int, epsilon: float = 1.0) -> float:
    """Mean absolute error of a group's count."""
    true = dict(frame.group_by("g").len().iter_rows())
    given = answers(frame, "SELECT g, COUNT(*) AS n FROM t GROUP BY g", AddRemoveUnit("who", rows), epsilon)
    return float(np.mean([abs(row["n"] - true[row["g"]]) for each in given for row in each]))


def of_rank(frame: pl.DataFrame, unit: Protected, epsilon: float = 1.0) -> float:
    """Mean distance of the median's rank from the middle, in rows."""
    x = np.sort(frame["x"].to_numpy())
    found = np.array(answers(frame, "SELECT MEDIAN(x) FROM t", unit, epsilon))
    return float(np.mean(np.abs(np.searchsorted(x, found) - len(x) / 2)))


def median_beside_exponential(n: int, epsilon: float, draws: int = 4000) -> tuple[float, float]:
    """Mean rank error of the median of records: ours, and by the exponential mechanism over the same grid."""
    frame = table(n, 1)
    plan = make_plan(
        read_query("SELECT MEDIAN(x) FROM t", SCHEMA), SCHEMA, AddRemoveRecord(), round(epsilon * 1e6)
    )
    release, totals = plan.releases[0], compute(load(frame, SCHEMA), plan)
    apart = distances(release, histograms(release, totals[0], None)[0])
    grid = release.grid.low + release.grid.step * np.arange(release.grid.size)
    x = np.sort(frame["x"].to_numpy())
    off = np.abs(np.searchsorted(x, grid) - n / 2)
    ours = off[add_noise(plan, totals, draws)[0][:, 0]].mean()
    return float(ours), float(off[exponential(apart, release.rate(), None, draws)].mean())


def rmse(found: Any, true: float) -> float:
    """Root of the mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(found, dtype=np.float64) - true) ** 2)))


def beside_rivals(epsilon: float = 0.1, n: int = 2000, draws: int = 1000) -> list[dict[str, Any]]:
    """Ours and others' errors at one epsilon, each figure alone, a record as the unit."""
    frame = table(n, 1)
    x = frame["x"].to_numpy()
    true = {"COUNT": len(x), "SUM": x.sum(), "AVG": x.mean(), "VAR_POP": x.var(), "MEDIAN": np.median(x)}
    rows = []
    for figure, exact in true.items():
        sql = f"SELECT {figure}({'*' if figure == 'COUNT' else 'x'}) FROM t"
        ours = rmse(answers(frame, sql, AddRemoveRecord(), epsilon, draws), float(exact))
        for rival, made in (("OpenDP", opendp_answers()), ("diffprivlib", diffprivlib_answers())):
            if figure in made:
                theirs = rmse([made[figure](x, epsilon) for _ in range(draws)], float(exact))
                rows.append(
                    _row(
                        f"{figure}, {n:,} rows, epsilon {epsilon:g}: RMSE of {draws} draws",
                        ours,
                        rival,
                        theirs,
                    )
                )
    return rows


def pairs_beside_rivals(epsilon: float = 1.0, n: int = 2000, draws: int = 1000) -> list[dict[str, Any]]:
    """Errors of a covariance and a correlation of .71, beside sums of OpenDP that share epsilon equally."""
    rng = np.random.default_rng(4)
    frame = table(n, 1).with_columns(y=pl.col("x") / 2 + pl.Series(rng.beta(2, 5, n) * 50))
    x, y = (frame[name].to_numpy() for name in "xy")
    true = {"COVAR_POP": np.cov(x, y, bias=True)[0, 1], "CORR": np.corrcoef(x, y)[0, 1]}
    rows = []
    for figure, exact in true.items():
        found = answers(frame, f"SELECT {figure}(x, y) FROM t", AddRemoveRecord(), epsilon, draws)
        theirs = rmse([opendp_pairs()[figure](x, y, epsilon) for _ in range(draws)], float(exact))
        name = f"{figure}, {n:,} rows, epsilon {epsilon:g}: RMSE of {draws} draws"
        rows.append(_row(name, rmse(found, float(exact)), "OpenDP", theirs))
    return rows


def many_counts() -> list[dict[str, Any]]:
    """Deviation of each of many counts at a total of (1, 1e-6), in both currencies, beside the Gaussian's that a rho buys."""
    rows, frame = [], table(1000, 1)
    for number in (100, 1000):
        pure = Fraction(1_000_000 // number, 1_000_000)
        rho = Currency("zcdp", 1e-6).millionths(1.0)
        with Session(frame, replace(SCHEMA, currency="zcdp", delta=1e-6), budget=1.0) as s:
            plan = s._plan(s._question("SELECT COUNT(*) FROM t"), rho // number)
            scale = float(plan.releases[0].noise().scale)
        best = math.sqrt(number / (2 * rho / 1e6))
        name = f"{number:,} counts at (1, 1e-6): deviation of each"
        rows.append(_row(f"{name}, zcdp", scale, "the Gaussian of the same rho", best))
        laplace = math.sqrt(2) / float(pure)
        rows.append(_row(f"{name}, zcdp", scale, "pure epsilon 1 in our ledger", laplace))
    return rows


def workloads() -> list[dict[str, Any]]:
    """Root mean squared deviation of queries answered together and one by one."""
    rows, frame = [], table(2000, 1)
    ranges = [f"SELECT COUNT(*) FROM t WHERE x >= {least}" for least in range(0, 100, 2)]
    tables = ["SELECT g, COUNT(*) FROM t GROUP BY g", "SELECT COUNT(*) FROM t", *ranges[:10]]
    for name, queries in (("50 ranges", ranges), ("a table, a total and 10 ranges", tables)):
        for currency, amount in (("pure", {"epsilon": 1.0}), ("zcdp", {"rho": 0.02})):
            facts = replace(SCHEMA, currency=currency, delta=1e-6 if currency == "zcdp" else None)
            facts = facts.with_columns(x={"step": 1.0})
            with Session(frame, facts, budget=5.0) as s:
                found = s.workload(queries, **amount)
            together = math.sqrt(np.mean([each.deviation**2 for each in found.answers]))
            alone = math.sqrt(np.mean([each.alone**2 for each in found.answers]))
            rows.append(
                _row(f"{name}, {currency}, by {found.strategy}: deviation", together, "one by one", alone)
            )
    return rows


def sources(n: int) -> list[dict[str, Any]]:
    """CPU seconds of one COUNT and one AVG with a condition from each kind of source, all with the same exact numbers."""
    frame = pl.DataFrame({"who": np.arange(n) % 1000, "x": np.arange(n) % 101, "y": 0.0, "g": ["a"] * n})
    frame = frame.with_columns(pl.col("who").cast(pl.String), pl.col("x").cast(pl.Float64))
    rows, seen = [], set()
    with tempfile.TemporaryDirectory() as name:
        parquet, database = Path(name) / "t.parquet", Path(name) / "t.duckdb"
        frame.write_parquet(parquet)
        places: dict[str, Any] = {"in memory": frame, "Parquet": parquet}
        with contextlib.suppress(ImportError):
            import duckdb

            with duckdb.connect(str(database)) as opened:
                opened.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{parquet}')")
            places["DuckDB"] = f"duckdb:///{database}?table=t"
        for place, data in places.items():
            with Session(data, SCHEMA, budget=100.0) as s:
                plan = s._plan(s._question("SELECT COUNT(*), AVG(x) FROM t WHERE x >= 40"), 1_000_000)
                start = time.process_time()
                exact = s._rows.exact(plan)
                spent = time.process_time() - start
            seen.add(str([each.moments.tolist() for each in exact]))
            rows.append({"what": f"COUNT and AVG of {n:,} rows, CPU seconds, {place}", "ours": spent})
    assert len(seen) == 1, "the exact numbers differ between sources"
    return rows


def large(n: int = 100_000_000, piece: int = 10_000_000) -> list[dict[str, Any]]:
    """CPU seconds of a count over a folder of Parquet files with so many rows."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "t"
        folder.mkdir()
        for part in range(n // piece):
            x = rng.integers(0, 101, piece).astype(np.int8)
            codes = pl.Series("g", rng.integers(0, 5, piece, dtype=np.uint8).astype(np.uint32))
            levels = codes.replace_strict(list(range(5)), list("abcde"), return_dtype=pl.Enum(list("abcde")))
            pl.DataFrame({"x": x, "g": levels.cast(pl.String)}).write_parquet(folder / f"{part}.parquet")
        facts = Schema({name: SCHEMA.columns[name] for name in ("x", "g")}, id="answers")
        with Session(folder, facts, budget=100.0) as s:
            found = []
            for sql in ("SELECT COUNT(*) FROM t WHERE x >= 40", "SELECT g, COUNT(*) FROM t GROUP BY g"):
                wall, start = time.perf_counter(), time.process_time()
                s.ask(sql, epsilon=1.0)
                spent, waited = time.process_time() - start, time.perf_counter() - wall
                found.append(
                    {
                        "what": f"{n:,} rows of Parquet: {sql}, CPU seconds",
                        "ours": spent,
                        "wall_seconds": waited,
                    }
                )
    return found


def _row(what: str, ours: float, rival: str, theirs: float) -> dict[str, Any]:
    print(f"{what}: {ours:.4g}, {rival} {theirs:.4g} ({theirs / ours:.2f}x)")
    return {"what": what, "ours": ours, "beside": rival, "theirs": theirs, "theirs_over_ours": theirs / ours}


def run(full: bool) -> list[dict[str, Any]]:
    """All figures; the hundred million rows with BENCH=full."""
    rows, frame = [], table()
    for declared in (5, 31, 60, 500):
        ranks, groups = of_rank(frame, AddRemoveUnit("who", declared)), by_group(frame, declared)
        rows.append(
            {"what": f"persons of 5 rows, {declared} declared: mean error of COUNT by group", "ours": groups}
        )
        rows.append({"what": f"persons of 5 rows, {declared} declared: rank error of MEDIAN", "ours": ranks})
    for n, epsilon in ((1000, 0.05), (10_000, 0.05), (1000, 1.0)):
        ours, theirs = median_beside_exponential(n, epsilon)
        rows.append(
            _row(f"MEDIAN of {n:,}, epsilon {epsilon:g}: rank error", ours, "exponential mechanism", theirs)
        )
    rows += (
        beside_rivals()
        + pairs_beside_rivals()
        + many_counts()
        + workloads()
        + sources(2_000_000 if full else 200_000)
    )
    return rows + (large() if full else [])
