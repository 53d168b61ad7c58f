"""Information loss on large tables with the default work, against the goals, blocks with exchanges, MDAV and a rival.

    python -m benchmarks large            20,000 and 100,000 records
    BENCH=full python -m benchmarks large   also a million, and Adult with all its columns

The tables are 40 Gaussian clusters in ten columns, k = 5. CPU seconds are those of all threads: they depend little on
what else the machine does, and with as many cores as threads the wall takes about their share.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from benchmarks._record import Pieces, Row
from shoal import datasets
from shoal.engine.columns import read_column
from shoal.engine.encode import Encoder, standardise, sum_of_squares
from shoal.engine.kernels.axes import blocks_of
from shoal.microaggregation import MDAV, Anneal, refine
from shoal.microaggregation._mixed import Mixed
from shoal.schema import Column

K = 5
GOALS = {20_000: 3.16, 100_000: 2.22, 1_000_000: 1.37}


def clusters(n: int) -> np.ndarray:
    g = np.random.default_rng(7)
    centres = g.normal(size=(40, 10)) * 3
    return centres[g.integers(0, 40, n)] + g.normal(size=(n, 10)) @ np.diag(np.linspace(0.2, 2, 10))


def pieces(full: bool) -> Pieces:
    """A piece for each size, the rival, and Adult."""
    sizes = (20_000, 100_000, *([1_000_000] if full else []))
    found: Pieces = {str(n): partial(of_size, n) for n in sizes} | {"rival": rival}
    if datasets.DATASETS["adult"].path is not None and full:
        found["adult"] = adult
    return found


def of_size(n: int) -> list[Row]:
    """The search, blocks with exchanges, and MDAV where it does not take long."""
    Anneal(k=K, max_proposals=70_000).fit(clusters(7_000))  # compiles
    Z = standardise(clusters(n))
    rows = [_measured(Z, "anneal", lambda Z: Anneal(k=K, random_state=10).partition(Z)) | {"goal": GOALS[n]}]
    rows.append(_measured(Z, "blocks and exchanges", _blocks))
    if n <= 100_000:
        rows.append(_measured(Z, "mdav", lambda Z: MDAV(k=K).partition(Z)))
    return rows


def _measured(Z: np.ndarray, name: str, method: Callable[[np.ndarray], np.ndarray]) -> Row:
    cpu, wall = time.process_time(), time.perf_counter()
    labels = method(Z)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    loss = 100 * sum_of_squares(Z, labels) / float(np.vdot(Z, Z))
    return _told(Z.shape[0], name, loss, cpu, wall)


def _told(n: int, name: str, loss: float, cpu: float, wall: float) -> Row:
    """Printed and kept: records, method, % lost, CPU seconds, microseconds a record, wall seconds, load."""
    load = os.getloadavg()[0]
    print(
        f"{n:9,} {name:<24} {loss:8.4f} {cpu:8.1f} {1e6 * cpu / n:9.1f} {wall:7.1f} {load:5.1f}", flush=True
    )
    return {"n": n, "method": name, "il": loss, "cpu_seconds": cpu, "seconds": wall, "load": load}


def _blocks(Z: np.ndarray) -> np.ndarray:
    """MDAV within blocks of 2,000 records, then exchanges: what tables in parts get from methods without a search."""
    labels, following = np.empty(Z.shape[0], np.int64), 0
    for rows in blocks_of(Z, 2_000):
        found = MDAV(k=K).partition(Z[rows])
        labels[rows] = following + found
        following += int(found.max()) + 1
    return refine(Z, labels, 6)


def rival(n: int = 2_000) -> list[Row]:
    """k-means with a smallest cluster size, where that package is installed; its time grows fast."""
    if not importlib.util.find_spec("k_means_constrained"):
        print("k-means-constrained: left out, since it is not installed")
        return []
    from k_means_constrained import KMeansConstrained

    Z = standardise(clusters(n))

    def constrained(Z: np.ndarray) -> np.ndarray:
        fit = KMeansConstrained(n // K, size_min=K, size_max=2 * K - 1, n_init=1, random_state=0).fit(Z)
        return np.unique(fit.labels_, return_inverse=True)[1]

    small = [_measured(Z, "k-means-constrained", constrained)]
    return [*small, _measured(Z, "anneal", lambda Z: Anneal(k=K, random_state=10).partition(Z))]


def adult() -> list[Row]:
    """Adult with all its columns: what is lost as published, by means of numbers and modes of categories."""
    table = pl.DataFrame(datasets.load("adult"))
    columns = [
        read_column(each, Column(each.name, kind="number" if each.dtype.is_numeric() else "category"))
        for each in table
    ]
    encoder = Encoder.fit(columns)
    Z, categories = encoder.transform(columns), encoder.modes(columns)
    mixed, total = Mixed.of(Z, categories), float(np.vdot(Z, Z))
    rows = []
    for name, method in (
        ("anneal, Adult", lambda: Anneal(k=K, random_state=10).partition(Z, categories)),
        ("blocks and exchanges, Adult", lambda: _blocks(Z)),
        ("mdav, Adult", lambda: MDAV(k=K).partition(Z)),
    ):
        cpu, wall = time.process_time(), time.perf_counter()
        labels = method()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        rows.append(_told(Z.shape[0], name, 100 * mixed.loss(labels) / total, cpu, wall))
    return rows
