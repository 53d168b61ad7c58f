"""A simulated cluster: seconds for a billion rows by the number of workers, from the measured cost of each step.

    python -m benchmarks cluster

Nothing is run on a cluster here. Measured are the CPU microseconds that each step takes for a record (docs/scale.md);
supposed are the network, the disks, and how unlike the workers are. Parts are dealt out as a cluster does it: each
free worker takes the next one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

SURVEY, ROUTE, SOLVE, WRITE = 0.3e-6, 0.7e-6, 5.2e-6, 1.3e-6
"""CPU seconds for a record of ten columns at k = 5 with MDAV and exchanges, measured at ten million records."""


@dataclass(frozen=True)
class Cluster:
    """What the simulation supposes.

    Attributes
    ----------
    workers : int
        Of one core each.
    rows_per_part : int
        78,125: ten million rows make 128 parts.
    sample : int
        Rows of the sample whose medians cut the parts; the fewer for a part, the more unlike the sizes.
    row_bytes, network, disk : float
        Bytes of a row, and bytes a second of each worker's network and disk.
    unlike : float
        Spread of the workers' speeds, of log-normal shape.
    lost : int
        Workers lost halfway through solving, with the part that each was at.
    start : float
        Seconds before the first row.
    overhead : float
        What the steps beside solving take, in what ours take: 1 for processes of ours, 11 for Spark, whose JVM reads,
        sends, sorts and writes the rows (ten million took 173 s on local[2]).
    """

    workers: int = 100
    rows_per_part: int = 78_125
    sample: int = 60_000
    row_bytes: float = 100.0
    network: float = 125e6
    disk: float = 200e6
    unlike: float = 0.15
    lost: int = 0
    start: float = 16.0
    overhead: float = 1.0


def simulate(rows: int, cluster: Cluster, seed: int = 0) -> dict[str, float]:
    """Seconds of each step, rows a second, and the largest part."""
    rng = np.random.default_rng(seed)
    parts = max(1, rows // cluster.rows_per_part)
    sizes = rng.gamma(max(1.0, cluster.sample / parts), size=parts)
    sizes *= rows / sizes.sum()
    speed = np.exp(cluster.unlike * rng.normal(size=cluster.workers))
    each = rows / cluster.workers
    slowest = float(1.0 / speed.min())
    read = each * cluster.row_bytes / cluster.disk
    survey = max(each * SURVEY * slowest * cluster.overhead, read)
    # A row leaves its worker unless its part is there: all but one in so many cross the network once.
    crossing = each * cluster.row_bytes * (1.0 - 1.0 / cluster.workers) / cluster.network
    route = max(each * ROUTE * slowest * cluster.overhead, read, crossing)
    solve = deal(sizes * SOLVE, speed, cluster.lost)
    write = max(each * WRITE * slowest * cluster.overhead, read, crossing)
    total = cluster.start + survey + route + solve + write
    return {
        "rows": rows, "workers": cluster.workers, "lost": cluster.lost, "survey": survey, "route": route, "solve": solve,
        "write": write, "seconds": total, "rows_per_second": rows / total, "largest_part": float(sizes.max()),
    }  # fmt: skip


def deal(costs: np.ndarray, speed: np.ndarray, lost: int = 0) -> float:
    """When the last part is done: each free worker takes the next; lost ones give theirs back halfway."""
    waiting = list(costs[::-1])
    free = [(0.0, worker) for worker in range(speed.size)]
    heapq.heapify(free)
    halfway = 0.5 * costs.sum() / speed.sum()
    gone = set(range(min(lost, speed.size - 1)))
    done = 0.0
    while waiting:
        now, worker = heapq.heappop(free)
        cost = waiting.pop()
        end = now + cost / speed[worker]
        if worker in gone and end > halfway:
            waiting.append(cost)  # done again by another, from the same rows and the same plan
            continue
        done = max(done, end)
        heapq.heappush(free, (end, worker))
    return done


def run(full: bool) -> list[dict]:
    """By workers, with ten lost, and by Spark; the last two were measured too. Means of five draws."""
    rows = []
    for billion, cluster in (
        *((10**9, Cluster(workers=workers)) for workers in (2, 10, 30, 100, 300, 1_000)),
        (10**9, Cluster(lost=10)),
        *((10**9, Cluster(workers=workers, overhead=11.0)) for workers in (30, 100, 300)),
        (10**7, Cluster(workers=2, start=2.0)),
        (10**7, Cluster(workers=2, overhead=11.0)),
    ):
        draws = [simulate(billion, cluster, seed) for seed in range(5)]
        mean = {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}
        mean["overhead"] = cluster.overhead
        print(
            f"{mean['rows']:>13,.0f} rows {mean['workers']:5.0f} workers {mean['lost']:3.0f} lost, overhead "
            f"{cluster.overhead:2.0f}: survey {mean['survey']:6.0f} route {mean['route']:6.0f} solve "
            f"{mean['solve']:6.0f} write {mean['write']:6.0f} in all {mean['seconds']:6.0f} s, "
            f"{mean['rows_per_second'] / 1e6:6.2f} M rows/s, largest part {mean['largest_part']:,.0f}",
            flush=True,
        )
        rows.append(mean)
    return rows
