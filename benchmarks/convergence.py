"""Information loss against seconds: the annealing while it runs, and the rivals where they end."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from shoal import datasets
from shoal.microaggregation import Anneal, methods

RIVALS = ("mdav", "imhm", "gsms-t2", "derivative-free", "kckw")
TABLES = ("census", "tarragona", "eia")
RESULT = Path(__file__).parents[1] / "docs" / "benchmarks" / "il-against-seconds.json"


def run(full: bool) -> None:
    """Each table at k = 3; 10 s of annealing, 60 s if full. The points go to the docs, where they are drawn."""
    points = [
        point
        for table in TABLES
        if datasets.DATASETS[table].path is not None
        for point in measure(table, 3, 60.0 if full else 10.0)
    ]
    if not points:
        print("information loss against seconds: skipped, the benchmark tables are not at hand")
        return
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(points, indent=0) + "\n", encoding="utf-8")
    print(f"points written to {RESULT}")


def measure(table: str, k: int, seconds: float) -> list[dict[str, object]]:
    """Records of table, method, k, seconds and information loss."""
    X = (datasets.load_eia() if table == "eia" else datasets.load(table)).to_numpy().astype(np.float64)
    points: list[dict[str, object]] = []

    def point(method: str, at: float, loss: float) -> None:
        points.append(
            {"table": table, "method": method, "k": k, "seconds": round(at, 4), "il": round(loss, 5)}
        )

    for name in RIVALS:
        rival = methods()[name](k=k)
        rival.fit(np.random.default_rng(0).normal(size=(40, X.shape[1])))  # compiles
        started = time.perf_counter()
        rival.fit(X)
        point(name, time.perf_counter() - started, rival.information_loss_)
        print(f"{table:10} k={k} {name:16} {points[-1]['il']:8} in {points[-1]['seconds']} s", flush=True)
    Anneal(k=k, max_proposals=2_000).fit(X[:50])  # compiles
    Anneal(
        k=k, time_limit=seconds, random_state=10, progress=lambda at, _, loss: point("anneal", at, loss)
    ).fit(X)
    print(f"{table:10} k={k} {'anneal':16} {points[-1]['il']:8} in {points[-1]['seconds']} s", flush=True)
    return points
