"""Checks of k, l and t on a million records of eight columns, beside plain pandas groupby in the same run.

The tables: few classes (coarse quasi-identifiers) and many (most records unique), and a numeric sensitive
column with as many values as records. Each figure is the median of runs that take turns with pandas.

    python -m benchmarks.privacy [n_records]
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pandas as pd

from shoal import privacy

QUASI = ["age", "sex", "region", "job", "education", "status", "children"]


def table(n: int, many: bool, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    jobs = np.array([f"occupation {i}" for i in range(16 if many else 4)])
    return pd.DataFrame(
        {
            "age": rng.normal(45, 15, n).round().astype(int) // (1 if many else 20),
            "sex": rng.choice(["male", "female"], n),
            "region": rng.integers(0, 40 if many else 8, n),
            "job": jobs[np.minimum(rng.geometric(0.3, n) - 1, jobs.size - 1)],
            "education": rng.integers(0, 8 if many else 3, n),
            "status": rng.integers(0, 5 if many else 2, n),
            "children": rng.poisson(1.2, n) // (1 if many else 3),
            "disease": np.array([f"disease {i}" for i in range(12)])[rng.integers(0, 12, n)],
            "income": rng.lognormal(10, 0.5, n),
        }
    )


def pandas_k(frame: pd.DataFrame) -> int:
    return int(frame.groupby(QUASI, dropna=False, observed=True).size().min())


def pandas_l(frame: pd.DataFrame) -> int:
    return int(frame.groupby(QUASI, dropna=False, observed=True)["disease"].nunique().min())


def pandas_t(frame: pd.DataFrame) -> float:
    """Equal distance the way one writes it with groupby: counts per class and value, then shares."""
    counts = frame.groupby([*QUASI, "disease"], dropna=False, observed=True).size()
    sizes = counts.groupby(level=QUASI, dropna=False).transform("sum")
    shares = frame["disease"].value_counts(normalize=True)
    surplus = counts / sizes - shares.reindex(counts.index.get_level_values("disease")).to_numpy()
    return float(surplus.clip(lower=0).groupby(level=QUASI, dropna=False).sum().max())


def pandas_t_ordered(frame: pd.DataFrame) -> float:
    """Ordered distance over n values: classes one after the other; a groupby has no shorter way."""
    n = len(frame)
    ranks = frame["income"].rank().to_numpy().astype(int) - 1
    worst = 0.0
    for rows in frame.groupby(QUASI, dropna=False, observed=True).indices.values():
        mine = np.sort(ranks[rows])
        place = np.searchsorted(mine, np.arange(n), side="right") / mine.size
        worst = max(worst, float(np.abs(place - np.arange(1, n + 1) / n).sum() / (n - 1)))
    return worst


def timed(ours, theirs, rounds: int = 5) -> tuple[float, float, object, object]:
    first, second = ours(), theirs()
    mine, rival = [], []
    for _ in range(rounds):
        for call, kept in ((ours, mine), (theirs, rival)):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    return statistics.median(mine), statistics.median(rival), first, second


def compare(frame: pd.DataFrame) -> None:
    n_classes = privacy.k_anonymity(frame, QUASI).n_classes
    print(f"{len(frame):,} records, 7 quasi-identifiers and 1 sensitive column, {n_classes:,} classes")
    for name, ours, theirs in (
        ("k", lambda: privacy.k_anonymity(frame, QUASI).value, lambda: pandas_k(frame)),
        ("l", lambda: privacy.l_diversity(frame, QUASI, "disease").value, lambda: pandas_l(frame)),
        ("t", lambda: privacy.t_closeness(frame, QUASI, "disease").value, lambda: pandas_t(frame)),
        (
            "k, l, t",
            lambda: [v.value for v in privacy.check(frame, QUASI, "disease") if "entropy" not in v.model],
            lambda: [pandas_k(frame), pandas_l(frame), pandas_t(frame)],
        ),
    ):
        mine, rival, a, b = timed(ours, theirs)
        assert np.allclose(a, b), (name, a, b)
        print(f"  {name:8} shoal {mine:7.3f} s   pandas {rival:7.3f} s   {rival / mine:5.1f} times as fast")


def run(full: bool) -> None:
    n = 1_000_000 if full else 200_000
    privacy.check(table(2000, True), QUASI, ["disease", "income"], k=2, l=2, t=0.5)  # compiles
    privacy.check(table(2000, False), QUASI, "disease", k=2, l=2, t=0.5)
    for many in (False, True):
        compare(table(n, many))
    small = table(max(n // 50, 1000), False)
    mine, rival, a, b = timed(
        lambda: privacy.t_closeness(small, QUASI, "income").value, lambda: pandas_t_ordered(small), rounds=1
    )
    assert np.isclose(a, b), (a, b)
    print(f"{len(small):,} records, ordered distance over {len(small):,} values")
    print(f"  t        shoal {mine:7.3f} s   pandas {rival:7.3f} s   {rival / mine:5.1f} times as fast")
