"""Every method on the benchmark tables: information loss against CPU seconds, so that a busy machine counts less.

python -m benchmarks methods
"""

from __future__ import annotations

import time

import shoal
from shoal import datasets
from shoal.microaggregation import Anneal

# Proposals of the annealing, from a moment to some seconds.
PROPOSALS = (1_000, 300_000, 3_000_000, 30_000_000)


def run(full: bool) -> list[dict]:
    """Records of table, method, k, seconds and il; BRKGA, which takes a minute a cell, if full."""
    records = []
    for table in ("tarragona", "census") if full else ("tarragona",):
        if datasets.DATASETS[table].path is None:
            print(f"{table}: not at hand (see `shoal datasets`)")
            continue
        X = datasets.load(table).to_numpy()
        for k in (3, 5, 10) if full else (3,):
            fits = [
                (name, method(k=k))
                for name, method in shoal.methods().items()
                if name not in ("univariate", "anneal") and (full or name != "brkga")
            ]
            fits += [("anneal", Anneal(k=k, max_proposals=count, random_state=0)) for count in PROPOSALS]
            records += [_measure(X, table, name, k, method) for name, method in fits]
    return records


def _measure(X, table, name, k, method) -> dict:
    method.fit(X[:60])  # compiles
    start = time.process_time()
    method.fit(X)
    seconds = time.process_time() - start
    print(f"{table:10} {name:16} k={k:<3} {method.information_loss_:9.4f} % {seconds:9.3f} CPU s", flush=True)
    return {"table": table, "method": name, "k": k, "seconds": seconds, "il": method.information_loss_}
