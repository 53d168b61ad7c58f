"""Certificates: how far from optimal a partition can be at most, against CPU seconds.

python -m benchmarks bounds
"""

from __future__ import annotations

import time

import numpy as np

from shoal.bounds import information_loss_bound
from shoal.microaggregation import Anneal


def clusters(n: int) -> np.ndarray:
    """Forty Gaussian clusters in ten columns."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(40, 10)) * 3
    return centres[rng.integers(0, 40, n)] + rng.normal(size=(n, 10)) @ np.diag(np.linspace(0.2, 2, 10))


def run(full: bool) -> list[dict]:
    """Records of n, k, loss, bound, gap in per cent and CPU seconds."""
    rows = []
    information_loss_bound(clusters(6_000), 3, labels=np.arange(6_000) // 3)  # compiles
    for n in (6_000, *([20_000, 100_000] if full else [])):
        X = clusters(n)
        for k in (3, 5):
            labels = Anneal(k=k, random_state=0).fit(X).labels_
            begun = time.process_time()
            found = information_loss_bound(X, k, labels=labels)
            seconds = time.process_time() - begun
            print(
                f"n={n:<7} k={k} loss {found.information_loss:.4f} % bound {found.bound:.4f} % gap {found.gap:.2f} % "
                f"{seconds:8.1f} CPU s",
                flush=True,
            )
            rows.append(
                {
                    "n": n, "k": k, "il": found.information_loss, "bound": found.bound, "gap": found.gap,
                    "method": found.method, "cpu_seconds": round(seconds, 1),
                }
            )  # fmt: skip
    return rows
