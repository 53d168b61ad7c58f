"""Information loss of the annealing against the goals: five seeds that the search was not tuned on.

    python -m benchmarks anneal                      the work of 10 s, k = 3
    BENCH=full python -m benchmarks anneal           of 10 and 60 s, all k
    python -m benchmarks anneal:60-census-10         one cell
    BENCH=full python -m benchmarks 'anneal:10-*-101'  all cells with the default work, one seed

The work is counted, the default's for 10 s and six times that for 60 s of two quiet cores, so that a busy machine finds
the same.
"""

from __future__ import annotations

import os
import time
from functools import partial

import numpy as np

from benchmarks._record import Pieces, Row
from shoal import datasets
from shoal.microaggregation import Anneal

SEEDS = range(101, 106)

GOALS = {
    (10, "tarragona"): {3: 14.50, 4: 17.13, 5: 20.19, 10: 30.15, 25: 43.3},
    (10, "census"): {3: 4.70, 4: 6.08, 5: 7.32, 10: 11.40, 25: 18.1},
    (10, "eia"): {3: 0.350, 5: 0.731, 10: 1.94},
    (60, "tarragona"): {3: 14.47, 4: 17.10, 5: 20.16, 10: 30.12, 25: 43.2},
    (60, "census"): {3: 4.676, 4: 6.04, 5: 7.26, 10: 11.36, 25: 18.0},
    (60, "eia"): {3: 0.349, 5: 0.730, 10: 1.933},
}


def pieces(full: bool) -> Pieces:
    """A piece for each amount of work, table, k and seed: SECONDS-TABLE-K-SEED.

    Seed by seed, so that a run that is broken off leaves whole rows.
    """
    return {
        f"{seconds}-{table}-{k}-{seed}": partial(cell, seconds, table, k, seed, goal)
        for seed in SEEDS
        for (seconds, table), goals in GOALS.items()
        if datasets.DATASETS[table].path is not None and (full or seconds == 10)
        for k, goal in goals.items()
        if full or k == 3
    }


def cell(seconds: int, table: str, k: int, seed: int, goal: float) -> list[Row]:
    """One search."""
    X = (datasets.load_eia() if table == "eia" else datasets.load(table)).to_numpy().astype(np.float64)
    Anneal(k=k, max_proposals=10_000).fit(X)  # compiles
    started = time.process_time()
    fitted = Anneal(k=k, effort=seconds / 10, random_state=seed).fit(X)
    cpu = time.process_time() - started
    print(
        f"{table:10} k={k:<3} {seconds:3} s of two cores, seed {seed}: {fitted.information_loss_:.4f} (goal {goal})  "
        f"{cpu:.1f} CPU s  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    return [
        {
            "table": table, "k": k, "seconds": seconds, "seed": seed, "il": round(fitted.information_loss_, 5),
            "goal": goal, "start": round(fitted.start_loss_, 4), "proposals": fitted.n_proposals_, "cpu_seconds": round(cpu, 1),
        }
    ]  # fmt: skip
