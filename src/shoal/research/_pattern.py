"""The derivative-free paper's experiments, run again."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from shoal import datasets
from shoal.engine.encode import standardise, sum_of_squares
from shoal.microaggregation import DerivativeFree, methods
from shoal.microaggregation.means import improve, strategy_one
from shoal.research._cells import PaperCell, Progress, Resumed, matrix, run_cells
from shoal.research._published import (
    DERIVATIVE_FREE,
    DERIVATIVE_FREE_IMPROVED,
    DERIVATIVE_FREE_SECONDS,
)
from shoal.research._rows import PaperClaim, PaperRow, ReproducedTable

STEPS = (10, 20, 30)
READINGS = {"random": "from random partitions", "incumbent": "from the best so far"}
# The synthetic sets of the first experiment: sizes, columns and clusters, 6 x 6 x 6 = 216.
SETS = tuple(product((100, 150, 200, 300, 400, 500), (2, 3, 4, 5, 8, 10), (5, 10, 20, 30, 40, 50)))
SIZES = (3, 5, 10)


def derivative_free(
    *, full: bool = False, progress: Progress | None = None, resume: Path | None = None
) -> ReproducedTable:
    """Tables 1 to 3 of the derivative-free paper, its findings i to iv, and its first experiment."""
    start = time.perf_counter()
    cells = []
    for k, by_data in DERIVATIVE_FREE.items():
        for data, by_start in by_data.items():
            for first, losses in by_start.items():
                labels = methods()[first](k=k).fit(matrix(data)).labels_
                for position, gamma0 in enumerate(STEPS):
                    for restart, reading in READINGS.items():
                        if data == "eia" and restart == "random" and not full:
                            continue  # minutes for each cell
                        method = DerivativeFree(
                            k=k, gamma0=gamma0, start=labels, restart=restart, split=False
                        )
                        extra = {
                            "reading": reading,
                            "start": first,
                            "gamma0": gamma0,
                            "imp_published": DERIVATIVE_FREE_IMPROVED[k][data][first][position],
                            "seconds_published": DERIVATIVE_FREE_SECONDS[k][data][first][position],
                        }
                        cells.append(PaperCell(data, method, losses[position], extra))
    rows = run_cells(cells, progress, Resumed(resume))
    notes = (
        "Without the final split of groups above 2k-1, as in the paper; sizes kept means at least k here.",
        "The paper's GSMS-T2 starts on Tarragona (27.69 at k = 5, 39.03 at k = 10, worked back from its "
        "improvements) lie above plain GSMS, which a second pass that only keeps falls cannot do.",
        "The paper does not say from which partition another number of groups is begun. Its first experiment has "
        "random ones, and its printed zeros come out with them; from the best so far (ours) nearly every cell improves. "
        "On EIA random partitions take minutes for each cell: `--full`.",
    )
    claims = (
        *(claim for restart in READINGS for claim in _findings(rows, READINGS[restart])),
        *first_experiment(full, progress),
    )
    title = "Derivative-free search (tables 1 to 3)"
    return ReproducedTable("derivative-free", title, rows, notes, time.perf_counter() - start, claims)


def _findings(rows: tuple[PaperRow, ...], reading: str) -> list[PaperClaim]:
    """Findings i to iv of the paper, by one reading."""
    rows = tuple(row for row in rows if row.extra["reading"] == reading)
    spreads = []
    for k, data, first in dict.fromkeys((row.k, row.data, row.extra["start"]) for row in rows):
        found = [row.ours for row in rows if (row.k, row.data, row.extra["start"]) == (k, data, first)]
        spreads.append(100.0 * (max(found) - min(found)) / min(found))
    seconds = [float(np.mean([row.seconds for row in rows if row.k == k])) for k in DERIVATIVE_FREE]
    gains = [row.extra["imp"] for row in rows if row.extra["imp"] > 0.005]
    best = []
    for k, by_data in DERIVATIVE_FREE.items():
        for data, by_start in by_data.items():
            printed = min(min(losses) for losses in by_start.values())
            ours = [row.ours for row in rows if (row.k, row.data) == (k, data)]
            if ours:
                best.append((data, k, printed, min(ours)))
    reached = [each for each in best if round(each[3], 2) <= each[2]]
    return [
        PaperClaim(
            "i. the first step matters little",
            reading,
            bool(np.median(spreads) < 2.0),
            f"least to most over the three steps: median {np.median(spreads):.1f} %, at most {max(spreads):.1f} %",
        ),
        PaperClaim(
            "ii. the time falls with k",
            reading,
            seconds == sorted(seconds, reverse=True),
            ", ".join(f"k = {k}: {each:.1f} s" for k, each in zip(DERIVATIVE_FREE, seconds, strict=True)),
        ),
        PaperClaim(
            "iii. 25 of 54 cells improve on their start, by 1 to 45 %",
            reading,
            len(gains) >= 25,
            f"{len(gains)} of {len(rows)}"
            + (f", by {min(gains):.1f} to {max(gains):.1f} %" if gains else ""),
        ),
        PaperClaim(
            "iv. its best losses (three of them records then)",
            reading,
            len(reached) == len(best),
            f"{len(reached)} of {len(best)} reached; not: "
            + ", ".join(
                f"{data} k = {k} ({ours:.2f} against {printed:.2f})"
                for data, k, printed, ours in best
                if (data, k, printed, ours) not in reached
            ),
        ),
    ]


@dataclass
class _Tally:
    """How often the second of two losses is less, equal, more."""

    less: int = 0
    equal: int = 0
    more: int = 0

    def add(self, one: float, two: float) -> None:
        if abs(two - one) <= 1e-9 * one:
            self.equal += 1
        elif two < one:
            self.less += 1
        else:
            self.more += 1

    @property
    def share(self) -> float:
        return 100.0 * self.less / max(1, self.less + self.equal + self.more)


def first_experiment(full: bool = False, progress: Progress | None = None) -> list[PaperClaim]:
    """Strategies I and II, and HM+KM against KM+HM, from the same random partitions of synthetic sets.

    `full` is as the paper did it: 216 sets and every number of groups that Proposition 1 allows.
    """
    strategies = {"k-means": _Tally(), "h-means": _Tally()}
    orders = _Tally()
    sets = SETS if full else SETS[::19]
    for position, (n, columns, clusters) in enumerate(sets):
        if progress is not None:
            progress(f"strategies on synthetic set {position + 1} of {len(sets)}")
        X, _ = datasets.make_clusters(n, columns, clusters, spread=0.4, random_state=position)
        Z = standardise(X)
        rng = np.random.default_rng(position)
        for k, c in _problems(n, full):
            begun = rng.permutation(n) % c
            for name, tally in strategies.items():
                one = sum_of_squares(Z, strategy_one(Z, begun, c, k, name == "h-means"))
                tally.add(one, sum_of_squares(Z, improve(Z, begun, c, k, (name,))))
            both = [
                sum_of_squares(Z, improve(Z, begun, c, k, order))
                for order in (("k-means", "h-means"), ("h-means", "k-means"))
            ]
            orders.add(*both)
    total = orders.less + orders.equal + orders.more
    data = f"{len(sets)} synthetic sets, {total} problems"
    return [
        *(
            PaperClaim(
                f"strategy II is better almost always ({name})",
                data,
                tally.share > 95,
                f"{tally.share:.0f} %",
            )
            for name, tally in strategies.items()
        ),
        PaperClaim(
            "HM+KM is better than KM+HM in about 60 % (strategy II, the same starts)",
            data,
            50 <= orders.share <= 70,
            f"{orders.share:.0f} %, equal in {100 * orders.equal / total:.0f} %",
        ),
    ]


def _problems(n: int, full: bool) -> Iterator[tuple[int, int]]:
    """Each k with the numbers of groups that are tried."""
    for k in SIZES:
        low, high = max(1, n // (2 * k - 1)), n // k
        numbers: Iterable[int] = range(low, high + 1) if full else sorted({low, (low + high) // 2, high})
        for c in numbers:
            yield k, c
