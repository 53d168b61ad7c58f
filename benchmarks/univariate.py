"""The optimum of one column: CPU seconds against k, beside the linear library where it is installed.

python -m benchmarks univariate
"""

from __future__ import annotations

import importlib.util
import time

import numpy as np

from shoal.microaggregation import Univariate, UnivariateMedian

RIVAL = "microagg1d"


def run(full: bool) -> list[dict]:
    """Records of method, cost, n, k and CPU seconds."""
    x = np.random.default_rng(0).normal(size=1_000_000 if full else 100_000)
    rows = []
    for cost, method in (("squares", Univariate), ("distances", UnivariateMedian)):
        for k in (3, 5, 16, 17, 100, 1_000):
            method(k=k).fit(x[: 3 * k, None])  # compiles
            rows.append(_row("shoal", cost, x, k, lambda m=method, k=k: m(k=k).partition(x[:, None])))
    if importlib.util.find_spec(RIVAL) is None:
        print(f"{RIVAL}: left out, since it is not installed (pip install {RIVAL})")
        return rows
    from microagg1d import univariate_microaggregation

    for cost, name in (("squares", "sse"), ("distances", "sae")):
        for k in (3, 5, 100, 1_000):
            univariate_microaggregation(x[: 3 * k], k=k, cost=name)  # compiles
            rows.append(
                _row(RIVAL, cost, x, k, lambda k=k, name=name: univariate_microaggregation(x, k=k, cost=name))
            )
    return rows


def _row(method: str, cost: str, x: np.ndarray, k: int, call) -> dict:
    begun = time.process_time()
    call()
    seconds = time.process_time() - begun
    print(f"{method:12} {cost:10} n={x.size} k={k:<5} {seconds:8.3f} CPU s", flush=True)
    return {"method": method, "cost": cost, "n": x.size, "k": k, "cpu_seconds": round(seconds, 4)}
