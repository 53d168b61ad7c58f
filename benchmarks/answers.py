"""Errors of answers over persons by group and by rank, and of the median beside the exponential mechanism.

`python -m benchmarks answers` prints them; docs/theory/truncation.md shows a run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from shoal.dp.answering.exact import compute
from shoal.dp.answering.noise import add_noise, distances, histograms
from shoal.dp.answering.plan import make_plan
from shoal.dp.answering.shown import figures
from shoal.dp.loading.load import load, protect_rows
from shoal.dp.meaning.reading import read_query
from shoal.dp.mechanisms.selection import exponential
from shoal.dp.unit import AddRemoveRecord, AddRemoveUnit, Protected
from shoal.schema import Column, Schema

SCHEMA = Schema(
    {
        "who": Column("who", kind="category"),
        "x": Column("x", bounds=(0, 100)),
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
    return pl.DataFrame({"who": who, "x": rng.beta(2, 5, n) * 100, "g": rng.choice(list("abcde"), n)})


def answers(frame: pl.DataFrame, sql: str, unit: Protected, epsilon: float) -> list[Any]:
    """Values of many draws."""
    plan = make_plan(read_query(sql, SCHEMA), SCHEMA, unit, round(epsilon * 1e6))
    rows = protect_rows(load(frame, SCHEMA), frame, SCHEMA, unit)
    noisy = add_noise(plan, compute(rows, plan), DRAWS)
    return [figures(plan, tuple(each[i : i + 1] for each in noisy)).value for i in range(DRAWS)]


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


def run(full: bool) -> None:
    """Print all figures."""
    frame = table()
    for rows in (5, 31, 60, 500):
        ranks = of_rank(frame, AddRemoveUnit("who", rows))
        print(f"declared rows {rows}: COUNT by group {by_group(frame, rows):.1f}, MEDIAN {ranks:.1f} ranks")
    for n, epsilon in ((1000, 0.05), (10_000, 0.05), (1000, 1.0)):
        ours, theirs = median_beside_exponential(n, epsilon)
        print(
            f"median of {n} at epsilon {epsilon}: {ours:.2f} ranks, exponential mechanism {theirs:.2f} "
            f"({theirs / ours:.2f}x)"
        )
