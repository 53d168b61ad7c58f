"""Information loss on large tables with the default work, against the goals, blocks with exchanges, MDAV and a rival.

    python -m benchmarks large            20,000 and 100,000 records
    BENCH=full python -m benchmarks large   also one and ten million, the work of a minute, a million of mixed columns, Adult

The tables are 40 Gaussian clusters in ten columns, k = 5. CPU seconds are those of all threads: they depend little on
what else the machine does, and with as many cores as threads the wall takes about their share.
"""

from __future__ import annotations

import importlib
import os
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from benchmarks._record import Pieces, Row
from shoal import datasets
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder, standardise, sum_of_squares
from shoal.engine.kernels.axes import blocks_of
from shoal.microaggregation import MDAV, Anneal, refine
from shoal.microaggregation._mixed import Mixed
from shoal.microaggregation._work import Shape
from shoal.schema import Column

K = 5
GOALS = {20_000: 3.16, 100_000: 2.22, 1_000_000: 1.37, 10_000_000: 0.93}
MINUTE = {20_000: 3.15, 100_000: 2.20, 1_000_000: 1.355}


def clusters(n: int) -> np.ndarray:
    g = np.random.default_rng(7)
    centres = g.normal(size=(40, 10)) * 3
    return centres[g.integers(0, 40, n)] + g.normal(size=(n, 10)) @ np.diag(np.linspace(0.2, 2, 10))


def pieces(full: bool) -> Pieces:
    """A piece for each size, the rival, and Adult."""
    sizes = (20_000, 100_000, *([1_000_000, 10_000_000] if full else []))
    found: Pieces = {str(n): partial(of_size, n) for n in sizes} | {"rival": rival}
    if full:
        found |= {f"minute-{n}": partial(of_a_minute, n) for n in MINUTE}
    if datasets.DATASETS["adult"].path is not None and full:
        found["adult"] = adult
    found["mixed"] = partial(mixed, 1_000_000 if full else 20_000)
    return found


def of_size(n: int) -> list[Row]:
    """The search, blocks with exchanges, and MDAV where it does not take long."""
    Anneal(k=K, max_proposals=70_000).fit(clusters(7_000))  # compiles
    Z = standardise(clusters(n))
    rows = [_measured(Z, "anneal", lambda Z: Anneal(k=K, random_state=10).partition(Z)) | {"goal": GOALS[n]}]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{n:9,} most memory so far, the table included: {memory:,.0f} MB", flush=True)
    rows[0] |= {"memory_mb": round(memory)}
    rows.append(_measured(Z, "blocks and exchanges", _blocks))
    if n <= 100_000:
        rows.append(_measured(Z, "mdav", lambda Z: MDAV(k=K).partition(Z)))
    return rows


def of_a_minute(n: int) -> list[Row]:
    """The work of a minute on two cores, counted."""
    Anneal(k=K, max_proposals=70_000).fit(clusters(7_000))  # compiles
    Z = standardise(clusters(n))
    effort = 120 / Shape(n, K, Z.shape[1]).seconds()
    named = f"anneal, {effort:.1f} times the default"
    row = _measured(Z, named, lambda Z: Anneal(k=K, effort=effort, random_state=10).partition(Z))
    return [row | {"goal": MINUTE[n]}]


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
    """k-means with a smallest cluster size, where that package is installed; its time grows fast.

    It loads ortools, with a HiGHS of its own beside which no certificate can be made: run it in a process by itself.
    """
    try:
        KMeansConstrained = importlib.import_module("k_means_constrained").KMeansConstrained
    except ImportError as error:
        print(
            f"k-means-constrained: left out, since it cannot be loaded ({error}; pip install k-means-constrained)"
        )
        return []

    Z = standardise(clusters(n))

    def constrained(Z: np.ndarray) -> np.ndarray:
        fit = KMeansConstrained(n // K, size_min=K, size_max=2 * K - 1, n_init=1, random_state=0).fit(Z)
        return np.unique(fit.labels_, return_inverse=True)[1]

    small = [_measured(Z, "k-means-constrained", constrained)]
    return [*small, _measured(Z, "anneal", lambda Z: Anneal(k=K, random_state=10).partition(Z))]


def adult() -> list[Row]:
    """Adult with all its columns."""
    table = pl.DataFrame(datasets.load("adult"))
    columns = [
        read_column(each, Column(each.name, kind="number" if each.dtype.is_numeric() else "category"))
        for each in table
    ]
    return _mixed(columns, "Adult")


def mixed(n: int) -> list[Row]:
    """Five numbers and four categories that go with them."""
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=(n, 5)) @ rng.normal(size=(5, 5))
    table = pl.DataFrame({f"x{j}": column for j, column in enumerate(numbers.T)})
    for at, levels in enumerate((2, 4, 8, 12)):
        scores = numbers[:, at] + rng.normal(size=n)
        edges = np.quantile(scores, np.linspace(0, 1, levels + 1)[1:-1])
        table = table.with_columns(pl.Series(f"c{at}", np.searchsorted(edges, scores)).cast(pl.String))
    columns = [
        read_column(each, Column(each.name, kind="number" if each.name[0] == "x" else "category"))
        for each in table
    ]
    return _mixed(columns, "mixed")


def _mixed(columns: list[TypedColumn], table: str) -> list[Row]:
    """What is lost as published, by means of numbers and modes of categories."""
    encoder = Encoder.fit(columns)
    Z, categories = encoder.transform(columns), encoder.modes(columns)
    coordinates, total = Mixed.of(Z, categories), float(np.vdot(Z, Z))
    Anneal(k=K, max_proposals=7_000).partition(Z[:7_000], categories)  # compiles
    rows = []
    for name, method in (
        ("anneal", lambda: Anneal(k=K, random_state=10).partition(Z, categories)),
        ("blocks and exchanges", lambda: _blocks(Z)),
        ("mdav", lambda: MDAV(k=K).partition(Z)),
    ):
        if name == "mdav" and Z.shape[0] > 100_000:
            continue
        cpu, wall = time.process_time(), time.perf_counter()
        labels = method()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        loss = 100 * coordinates.loss(labels) / total
        rows.append(_told(Z.shape[0], f"{name}, {table}", loss, cpu, wall))
    return rows
