"""Information loss of the annealing against the goals, and its speed.

    python -m benchmarks.anneal [--seconds 10] [--seeds 3] [--tables census,tarragona,eia] [--k 3,5,10]

The load of the machine is printed beside each figure: a run against the clock on a busy machine makes fewer
proposals. `--proposals` takes a number of them instead of seconds.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from shoal import datasets
from shoal.microaggregation import Anneal

GOALS = {
    (10, "tarragona"): {3: 14.50, 4: 17.13, 5: 20.19, 10: 30.15, 25: 43.3},
    (10, "census"): {3: 4.70, 4: 6.08, 5: 7.32, 10: 11.40, 25: 18.1},
    (10, "eia"): {3: 0.350, 5: 0.731, 10: 1.94},
    (60, "tarragona"): {3: 14.47, 4: 17.10, 5: 20.16, 10: 30.12, 25: 43.2},
    (60, "census"): {3: 4.676, 4: 6.04, 5: 7.26, 10: 11.36, 25: 18.0},
    (60, "eia"): {3: 0.349, 5: 0.730, 10: 1.933},
}


def table(name):
    return datasets.load_eia() if name == "eia" else datasets.load(name)


def measure(X, k, seeds, **budget):
    losses, rates, fitted = [], [], None
    for seed in seeds:
        cpu, wall = time.process_time(), time.perf_counter()
        fitted = Anneal(k=k, random_state=seed, **budget).fit(X)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        losses.append(fitted.information_loss_)
        rates.append(fitted.n_proposals_ / cpu / 1e6)
    load = os.getloadavg()[0]
    return (
        np.array(losses),
        f"start {fitted.start_loss_:.4f}  {np.mean(rates):.1f} M proposals/CPU s  {wall:.1f} s  load {load:.1f}",
    )


def run(full: bool) -> None:
    """The goals at 10 s, k = 3 and one seed; all k, three seeds and both limits if full."""
    for seconds in (10, 60) if full else (10,):
        main(
            [
                "--seconds",
                str(seconds),
                "--seeds",
                "3" if full else "1",
                "--k",
                "3,4,5,10,25" if full else "3",
            ]
        )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--proposals", type=float)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=10, help="the search was tuned on 0 and 1")
    parser.add_argument("--tables", default="census,tarragona,eia")
    parser.add_argument("--k", default="3,4,5,10,25")
    options = parser.parse_args(words)
    budget = {"time_limit": options.seconds}
    if options.proposals:
        budget = {"max_proposals": int(options.proposals)}
    Anneal(k=2, max_proposals=2_000).fit(np.random.default_rng(0).normal(size=(30, 2)))  # compiles
    at_hand = [name for name in options.tables.split(",") if datasets.DATASETS[name].path is not None]
    tables = {name: table(name) for name in at_hand}
    for name, X in tables.items():
        for k in map(int, options.k.split(",")):
            losses, notes = measure(
                X, k, range(options.first_seed, options.first_seed + options.seeds), **budget
            )
            goal = GOALS.get((int(options.seconds), name), {}).get(k)
            verdict = (
                "" if goal is None else f"goal {goal}  {'reached' if losses.mean() <= goal else 'missed'}"
            )
            print(
                f"{name:10} k={k:<3} {losses.mean():.4f} +- {losses.std():.4f}  {verdict}  {notes}",
                flush=True,
            )


if __name__ == "__main__":
    main()
