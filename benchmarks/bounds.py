"""Certificates: how far from optimal a partition can be at most, against CPU seconds.

python -m benchmarks bounds
BENCH=full python -m benchmarks bounds:100000-5
"""

from __future__ import annotations

import resource
import time
from functools import partial

import numpy as np

from benchmarks._record import Pieces, Row
from shoal import datasets
from shoal.bounds import forecast, information_loss_bound
from shoal.microaggregation import Anneal


def clusters(n: int) -> np.ndarray:
    """Forty Gaussian clusters in ten columns."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(40, 10)) * 3
    return centres[rng.integers(0, 40, n)] + rng.normal(size=(n, 10)) @ np.diag(np.linspace(0.2, 2, 10))


def pieces(full: bool) -> Pieces:
    """A piece for each size and k, RECORDS-K, and of real tables, TABLE-K: against the partition of the default search."""
    sizes = (6_000, *([20_000, 100_000] if full else []))
    found: Pieces = {f"{n}-{k}": partial(cell, clusters(n), k, "clusters") for n in sizes for k in (3, 5)}
    for table, k in (("eia", 5), ("tarragona", 10)) if full else ():
        if datasets.DATASETS[table].path is not None:
            X = datasets.load_eia() if table == "eia" else datasets.load(table)
            found[f"{table}-{k}"] = partial(cell, X.to_numpy().astype(np.float64), k, table)
    return found


def cell(X: np.ndarray, k: int, table: str) -> list[Row]:
    """Loss, bound, gap in per cent, CPU seconds beside the forecast, and the most memory in use."""
    n = X.shape[0]
    information_loss_bound(clusters(6_000), 3, 0.1, labels=np.arange(6_000) // 3)  # compiles
    labels = Anneal(k=k, random_state=0).fit(X).labels_
    begun = time.process_time()
    found = information_loss_bound(X, k, labels=labels)
    seconds = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{table} n={n:<7} k={k} loss {found.information_loss:.4f} % bound {found.bound:.4f} % gap {found.gap:.2f} % "
        f"{seconds:8.1f} CPU s, {memory:.0f} MB; told before: {forecast(n, X.shape[1], k)}",
        flush=True,
    )
    return [
        {
            "table": table, "n": n, "k": k, "il": found.information_loss, "bound": found.bound, "gap": found.gap,
            "method": found.method, "cpu_seconds": round(seconds, 1), "memory_mb": round(memory),
        }
    ]  # fmt: skip
