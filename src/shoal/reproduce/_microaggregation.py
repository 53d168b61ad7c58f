"""The microaggregation papers' tables, run again."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from shoal import datasets, measures
from shoal.microaggregation import Microaggregator, methods
from shoal.reproduce._published import (
    DERIVATIVE_FREE,
    DERIVATIVE_FREE_SECONDS,
    IL2_MAXIMA,
    KS,
    SPLIT_RANKS,
    TABLE1,
    TABLE2,
)
from shoal.reproduce._rows import Reproduction, Row, ranks

Progress = Callable[[str], None]
LOADERS: dict[str, Callable[[], Any]] = {
    "tarragona": datasets.load_tarragona,
    "census": datasets.load_census,
    "eia": datasets.load_eia,
}
SEEDS = 5
# Methods whose cells are random and cheap enough for a mean over seeds.
AVERAGED = ("kc", "kckw", "k-means", "h-means")
# Seconds for each cell of the searching method.
ANNEAL_SECONDS = 5.0


def table1(*, full: bool = False, progress: Progress | None = None) -> Reproduction:
    """IL1 of the BRKGA paper's table 1, all seven k, and every other registered method beside it."""
    start = time.perf_counter()
    cells = []
    for data in ("tarragona", "census"):
        for name in methods():
            for position, k in enumerate(KS):
                printed = TABLE1[data].get(name, (None,) * len(KS))[position]
                if name == "brkga":
                    search = "all" if full else "pattern"
                    as_printed = methods()[name](k=k, constraint="none", search=search)
                    cells.append((data, as_printed, printed, {"reading": "as printed, k not kept"}))
                    cells.append(
                        (data, methods()[name](k=k, search=search), None, {"reading": "groups of k..2k-1"})
                    )
                else:
                    cells.append((data, _configured(name, k), printed, {}))
    rows = _run(cells, progress)
    notes = (
        "BRKGA as printed cannot have kept its own size constraint: at k >= 25 its loss lies below the best "
        "partitions into groups of k..2k-1 known. With groups of k..2k-1 it loses what the second reading shows.",
        "No reading of BRKGA tried gives the printed row: Eq. 5 as objective loses far more from k = 5 on, for it "
        "favours tiny groups; the total distance as objective loses far less at small k (0.7 to 2.2 at k = 3 on "
        "Tarragona, over the printed interval of c).",
        "IMHM loses less here than printed. The printed 16.931 on Tarragona at k = 3 is the loss of MDAV-MHM, so the "
        "exchange brought nothing there; ours goes on until no exchange between neighbouring groups helps.",
        "Where a definition leaves room the reading is in the method's docstring.",
    )
    return Reproduction(
        "table1", "Information loss (BRKGA paper, table 1)", rows, notes, time.perf_counter() - start
    )


def table2(*, full: bool = False, progress: Progress | None = None) -> Reproduction:
    """IL2 and DLD of the BRKGA paper's table 2, in both readings of its constraint."""
    start = time.perf_counter()
    cells = []
    for data, printed in TABLE2.items():
        for position, k in enumerate(KS):
            for constraint in ("none", "repair"):
                extra = {
                    "reading": "as printed, k not kept" if constraint == "none" else "groups of k..2k-1",
                    "dld_published": printed["dld"][position],
                }
                method = methods()["brkga"](k=k, constraint=constraint, search="all" if full else "pattern")
                cells.append((data, method, printed["il2"][position], extra))
    rows = _run(cells, progress, figure="il2")
    maxima = []
    for data, published in IL2_MAXIMA.items():
        X = LOADERS[data]().to_numpy().astype(float)
        whole = measures.il2(X, np.tile(X.mean(axis=0), (len(X), 1)))
        maxima.append(f"{data} {whole:.2f} against {published} printed")
    notes = (
        f"IL2 of one single group by the stated formula: {'; '.join(maxima)}. No reading tried gives the printed maxima.",
        "IL2 in per cent; DLD as a share, ties shared.",
    )
    return Reproduction(
        "table2", "IL2 and DLD (BRKGA paper, table 2)", rows, notes, time.perf_counter() - start
    )


def split(*, full: bool = False, progress: Progress | None = None) -> Reproduction:
    """Losses and ranks of the split-recombine paper at k = 3 (means of 5 runs for the random methods)."""
    start = time.perf_counter()
    rows = []
    for data, printed in SPLIT_RANKS.items():
        seeds = 4 * SEEDS if full else SEEDS
        cells = [
            (data, _configured(name, 3), None, {"seeds": seeds} if name in AVERAGED else {})
            for name in printed
        ]
        found = _run(cells, progress)
        ours = dict(zip([row.method for row in found], ranks([row.ours for row in found]), strict=True))
        rows += [
            Row(
                **{
                    **vars(row),
                    "extra": {"rank_published": printed[row.method], "rank_ours": ours[row.method]}
                    | row.extra,
                }
            )
            for row in found
        ]
    notes = (
        "The paper gives losses as pictures only, so ranks are compared; methods that it did not run on a table are left out there.",
        "c and the number of rounds of KC and KCKW are not printed: 20 rounds from c = floor(n/k) centres for KC, floor(2n/k) for KCKW.",
        "KCKW runs once for each seed, as in the paper; by default the method keeps the best of ten starts, which "
        f"loses {_best_of_ten('tarragona'):.2f} on Tarragona and {_best_of_ten('census'):.2f} on Census.",
        "On Tarragona three quarters of the loss lie in the ten groups with the outliers. Which of these become "
        "centres is chance, so single runs of KCKW vary (spread) and some end far off: mean and median differ.",
    )
    return Reproduction(
        "split", "Ranks at k = 3 (split-recombine paper)", tuple(rows), notes, time.perf_counter() - start
    )


def derivative_free(*, full: bool = False, progress: Progress | None = None) -> Reproduction:
    """Tables 1 to 3 of the derivative-free paper; `full` adds its first experiment on synthetic sets."""
    start = time.perf_counter()
    cells = []
    for k, by_data in DERIVATIVE_FREE.items():
        for data, by_start in by_data.items():
            for first, losses in by_start.items():
                for position, gamma0 in enumerate((10, 20, 30)):
                    method = methods()["derivative-free"](k=k, gamma0=gamma0, start=first, split=False)
                    extra = {
                        "start": first,
                        "gamma0": gamma0,
                        "seconds_published": DERIVATIVE_FREE_SECONDS[k][data][first][position],
                    }
                    cells.append((data, method, losses[position], extra))
    rows = _run(cells, progress)
    notes = [
        "Without the final split of groups above 2k-1, as in the paper; sizes kept means at least k here.",
        "The paper's GSMS-T2 starts on Tarragona (27.69 at k = 5, 39.03 at k = 10, worked back from its "
        "improvements) lie above plain GSMS, which a second pass that only keeps falls cannot do.",
        "The paper does not say from which partition another number of groups is begun. Here it is the best so far, "
        "its groups of largest loss split or its cheapest dissolved, which finds something where the paper's search "
        "stays at its start (k = 3), and now and then less (Tarragona, k = 5, from MDAV).",
    ]
    if full:
        notes += _first_experiment(progress)
    title = "Derivative-free search (tables 1 to 3)"
    return Reproduction("derivative-free", title, rows, tuple(notes), time.perf_counter() - start)


def _best_of_ten(data: str) -> float:
    """Loss of KCKW as it is by default, k = 3."""
    return float(methods()["kckw"](k=3).fit(LOADERS[data]().to_numpy().astype(float)).information_loss_)


def _first_experiment(progress: Progress | None) -> list[str]:
    """Strategies I and II, and the two orders of the heuristics, on synthetic mixtures."""
    wins = {"k-means": 0, "h-means": 0}
    first_h, ties, total = 0, 0, 0
    for seed in range(24):
        n, clusters = (200, 500)[seed % 2], (10, 25, 50)[seed % 3]
        X, _ = datasets.make_clusters(
            n, 2 + seed % 4, clusters, spread=(0.2, 0.6)[seed // 12], random_state=seed
        )
        if progress is not None:
            progress(f"strategies on synthetic set {seed + 1} of 24")
        for k in (3, 5, 10):
            total += 1
            for name in wins:
                one, two = (
                    methods()[name](k=k, strategy=each, split=False, random_state=seed).fit(X).sse_
                    for each in ("I", "II")
                )
                wins[name] += two < one
            h = methods()["h-means"](k=k, split=False, random_state=seed).fit(X)
            m = methods()["k-means"](k=k, split=False, random_state=seed).fit(X)
            h_then_k = methods()["derivative-free"](k=k, gamma0=1, start=h.labels_, split=False).fit(X).sse_
            k_then_h = methods()["derivative-free"](k=k, gamma0=1, start=m.labels_, split=False).fit(X).sse_
            ties += h_then_k == k_then_h
            first_h += h_then_k < k_then_h
    return [
        f"First experiment in kind, {total} synthetic problems: strategy II is better in {100 * wins['k-means'] / total:.0f} % "
        f"of the cases for k-means and {100 * wins['h-means'] / total:.0f} % for h-means (the paper: almost all).",
        f"Begun with h-means rather than k-means the search ends better in {100 * first_h / total:.0f} % of the cases, "
        f"equal in {100 * ties / total:.0f} % (the paper: h-means first is best in about 60 %).",
    ]


def _configured(name: str, k: int) -> Microaggregator:
    method = methods()[name]
    options: dict[str, Any] = {"random_state": 0} if method.takes("random_state") else {}
    if method.takes("time_limit"):
        options["time_limit"] = ANNEAL_SECONDS
    if name in ("md", "md-mhm"):
        options["grow"] = "record"
    if method.takes("n_init"):
        options["n_init"] = 1  # published figures are of single runs
    return method(k=k, **options)


@functools.cache
def _compiled(name: str) -> None:
    """Compile a method's kernels on a few records, so that no cell's seconds include it."""
    _configured(name, 2).set_params(
        **({"time_limit": 1.0} if methods()[name].takes("time_limit") else {})
    ).fit(np.random.default_rng(0).normal(size=(24, 3)))


def _run(
    cells: Iterable[tuple[str, Microaggregator, float | None, dict[str, Any]]],
    progress: Progress | None,
    figure: str = "il1",
) -> tuple[Row, ...]:
    """Measure the cells, two at a time."""
    frames = {
        name: load().to_numpy().astype(np.float64)
        for name, load in LOADERS.items()
        if datasets.DATASETS[name].path
    }
    cells = list(cells)
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [pool.submit(_cell, frames, *cell, figure) for cell in cells]
        rows = []
        for position, run in enumerate(runs):
            rows.append(run.result())
            if progress is not None:
                progress(
                    f"{position + 1} of {len(cells)}: {rows[-1].data}, {rows[-1].method}, k = {rows[-1].k}"
                )
    return tuple(rows)


def _cell(
    frames: dict[str, np.ndarray],
    data: str,
    method: Microaggregator,
    published: float | None,
    extra: dict[str, Any],
    figure: str,
) -> Row:
    extra = dict(extra)
    X = frames[data] if data in frames else LOADERS[data]().to_numpy()
    seeds = range(extra.pop("seeds", SEEDS) if method.name in AVERAGED else 1)
    losses, kept = [], True
    _compiled(method.name)
    start = time.perf_counter()
    for seed in seeds:
        if len(seeds) > 1:
            method.set_params(random_state=seed)
        method.fit(X)
        sizes = np.bincount(method.labels_)
        upper = 2 * method.k - 1 if method.get_params().get("split", True) else X.shape[0]
        kept &= bool(sizes.min() >= method.k and sizes.max() <= upper)
        losses.append(method.information_loss_)
    seconds = (time.perf_counter() - start) / len(seeds)
    if len(seeds) > 1:
        extra["median"] = float(np.median(losses))
    if figure == "il2":
        masked = method.transform(X)
        extra |= {"dld": measures.dld(X, masked), "information_loss": method.information_loss_}
        losses = [measures.il2(X, masked)]
    spread = float(np.std(losses, ddof=1)) if len(losses) > 1 else None
    return Row(data, method.name, method.k, published, float(np.mean(losses)), seconds, kept, spread, extra)
