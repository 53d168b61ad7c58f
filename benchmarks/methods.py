"""Information loss against seconds: every method where it ends, the annealing while it runs.

python -m benchmarks methods
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

import shoal
from benchmarks._record import Pieces, Row
from shoal import datasets
from shoal.microaggregation import Anneal

K = 3
# What the papers compare with; on the larger table the others would take long.
RIVALS = ("mdav", "imhm", "gsms-t2", "derivative-free", "kckw")
# Not multivariate, or a minute a cell.
LEFT_OUT = ("anneal", "univariate", "univariate-median", "brkga")


def pieces(full: bool) -> Pieces:
    """A piece for each table: the work of 10 s of annealing on two quiet cores, of 60 s if full."""
    tables = [name for name in ("census", "tarragona", "eia") if datasets.DATASETS[name].path is not None]
    return {table: partial(of_table, table, 60.0 if full else 10.0) for table in tables}


def of_table(table: str, limit: float) -> list[Row]:
    """Records of table, method, k, seconds and il."""
    X = (datasets.load_eia() if table == "eia" else datasets.load(table)).to_numpy().astype(np.float64)
    names = RIVALS if table == "eia" else [name for name in shoal.methods() if name not in LEFT_OUT]
    found = [(name, *_end(shoal.methods()[name](k=K), X)) for name in names]
    found += [("anneal", *each) for each in _curve(X, limit)]
    for name, seconds, loss in (*found[: len(names)], found[-1]):
        print(f"{table:10} {name:16} k={K} {loss:9.4f} % {seconds:9.3f} s", flush=True)
    return [
        {"table": table, "method": name, "k": K, "seconds": round(seconds, 4), "il": round(loss, 5)}
        for name, seconds, loss in found
    ]


def _end(method, X) -> tuple[float, float]:
    method.fit(X[:60])  # compiles
    start = time.perf_counter()
    method.fit(X)
    return time.perf_counter() - start, method.information_loss_


def _curve(X, limit: float) -> list[tuple[float, float]]:
    """Where the annealing stood, a dozen times for each ten-fold of time."""
    Anneal(k=K, max_proposals=2_000).fit(X[:60])  # compiles
    told: list[tuple[float, float]] = []

    def listen(stage: str, seconds: float, _: float) -> None:
        told.append((seconds, float(stage.split(": ")[1].split(" %", maxsplit=1)[0])))

    Anneal(k=K, time_limit=limit, random_state=10, progress=listen).fit(X)
    kept, after = [], 0.0
    for seconds, loss in told[:-1]:
        if seconds >= after:
            kept.append((seconds, loss))
            after = seconds * 10 ** (1 / 12)
    return [*kept, told[-1]]
