"""The optimum of one column: CPU seconds against k, beside the linear library where it is installed.

python -m benchmarks univariate
"""

from __future__ import annotations

import importlib.util
import time
from functools import partial

import numpy as np

from benchmarks._record import Pieces, Row
from shoal.microaggregation import Univariate, UnivariateMedian

RIVAL = "microagg1d"


def pieces(full: bool) -> Pieces:
    """Ours and the library, with the same values."""
    n = 1_000_000 if full else 100_000
    return {"ours": partial(ours, n), "library": partial(library, n)}


def values(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


def ours(n: int) -> list[Row]:
    """Both costs, by k."""
    x, rows = values(n), []
    for cost, method in (("squares", Univariate), ("distances", UnivariateMedian)):
        for k in (3, 5, 16, 17, 100, 1_000):
            method(k=k).fit(x[: 3 * k, None])  # compiles
            rows.append(_row("shoal", cost, x, k, lambda m=method, k=k: m(k=k).partition(x[:, None])))
    return rows


def library(n: int) -> list[Row]:
    """The same by the library, where it is installed."""
    if importlib.util.find_spec(RIVAL) is None:
        print(f"{RIVAL}: left out, since it is not installed (pip install {RIVAL})")
        return []
    from microagg1d import univariate_microaggregation

    x, rows = values(n), []
    for cost, name in (("squares", "sse"), ("distances", "sae")):
        for k in (3, 5, 100, 1_000):
            univariate_microaggregation(x[: 3 * k], k=k, cost=name)  # compiles
            rows.append(
                _row(RIVAL, cost, x, k, lambda k=k, name=name: univariate_microaggregation(x, k=k, cost=name))
            )
    return rows


def _row(method: str, cost: str, x: np.ndarray, k: int, call) -> Row:
    begun = time.process_time()
    call()
    seconds = time.process_time() - begun
    print(f"{method:12} {cost:10} n={x.size} k={k:<5} {seconds:8.3f} CPU s", flush=True)
    return {"method": method, "cost": cost, "n": x.size, "k": k, "cpu_seconds": round(seconds, 4)}
