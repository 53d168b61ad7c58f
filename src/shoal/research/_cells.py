"""Cells of a paper's tables: runs measured two at a time, and those already measured taken from a file.

A run is a method on a table. Two tables of a paper may ask different figures of one run: it is then made once.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shoal import datasets, measures
from shoal.engine.aggregate import medoids_of
from shoal.engine.encode import standardise
from shoal.errors import InputError
from shoal.microaggregation import Microaggregator, methods
from shoal.research._rows import PaperRow
from shoal.typing import Json, Keywords

Progress = Callable[[str], None]
LOADERS: dict[str, Callable[[], Any]] = {
    "tarragona": datasets.load_tarragona,
    "census": datasets.load_census,
    "eia": datasets.load_eia,
}


@dataclass(frozen=True)
class PaperCell:
    """A method on a table, and what is printed for it.

    Attributes
    ----------
    data : str
    method : Microaggregator
    published : float or None
    extra : mapping
        Further facts for the row.
    seeds : int
        Runs with seeds 0, 1, ... whose mean is the figure; 1 leaves the method's own seed.
    figure : {"il1", "il2"}
        What of the run stands beside the printed figure.
    masked : bool
        Whether IL2 and DLD of what is published are measured too, as a table of them asks.
    """

    data: str
    method: Microaggregator
    published: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    figure: str = "il1"
    masked: bool = False

    @property
    def key(self) -> str:
        """What the run depends on, as text; not what is printed for it."""
        params = {name: _plain(value) for name, value in sorted(self.method.get_params().items())}
        return json.dumps([self.data, self.method.name, params, self.seeds, self.masked])

    def row(self, run: MethodRun) -> PaperRow:
        """What was measured beside what is printed."""
        ours = run.found["il2"] if self.figure == "il2" else run.loss
        place = self.data, self.method.name, self.method.k, self.published
        found = {name: value for name, value in run.found.items() if name != self.figure}
        if self.figure == "il2":
            found["information_loss"] = run.loss
        return PaperRow(*place, ours, run.seconds, run.kept, run.spread, {**self.extra, **found})


@dataclass(frozen=True)
class MethodRun:
    """What a method did on a table.

    Attributes
    ----------
    loss : float
        Information loss; the mean where there were several seeds.
    seconds : float
        Of one seed.
    kept : bool
        Whether every group had k..2k-1 records (or at least k, where the method promises no more).
    spread : float or None
        Standard deviation over seeds.
    found : dict
        Further figures.
    """

    loss: float
    seconds: float
    kept: bool
    spread: float | None = None
    found: Json = field(default_factory=dict)


class Resumed:
    """Runs measured so far, in a file of one JSON object a line; what was stopped goes on from there."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.runs: dict[str, MethodRun] = {}
        if path is None or not path.exists():
            return
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                self.runs[found["key"]] = MethodRun(**found["run"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no file of measured cells.") from error

    def keep(self, key: str, run: MethodRun) -> None:
        """Add a measured run."""
        self.runs[key] = run
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "run": vars(run)}) + "\n")


def run_cells(
    cells: Iterable[PaperCell], progress: Progress | None = None, resumed: Resumed | None = None
) -> tuple[PaperRow, ...]:
    """Measure the cells, two at a time, in their order."""
    known = resumed or Resumed(None)
    keyed = [(cell.key, cell) for cell in cells]  # a run with several seeds changes its method's
    waiting = {key: cell for key, cell in keyed if key not in known.runs}
    with ThreadPoolExecutor(max_workers=2) as pool:
        running = {key: pool.submit(_measure, cell) for key, cell in waiting.items()}
        for done, (key, run) in enumerate(running.items(), 1):
            known.keep(key, run.result())
            if progress is not None:
                cell = waiting[key]
                progress(f"{done} of {len(running)}: {cell.data}, {cell.method.name}, k = {cell.method.k}")
    return tuple(cell.row(known.runs[key]) for key, cell in keyed)


def configured(name: str, k: int) -> Microaggregator:
    """A method as it is run for a table of all methods; what it may do is counted in work, never in seconds."""
    method = methods()[name]
    options: Keywords = {"random_state": 0} if method.takes("random_state") else {}
    if name in ("md", "md-mhm"):
        options["grow"] = "record"
    if method.takes("n_init"):
        options["n_init"] = 1  # published figures are of single runs
    return method(k=k, **options)


@functools.cache
def matrix(data: str) -> np.ndarray:
    """A benchmark table's numbers."""
    return LOADERS[data]().to_numpy().astype(np.float64)


@functools.cache
def _compiled(name: str) -> None:
    """Compile a method's kernels on a few records, so that no cell's seconds include it."""
    little = {"max_proposals": 10_000} if methods()[name].takes("max_proposals") else {}
    configured(name, 2).set_params(**little).fit(np.random.default_rng(0).normal(size=(24, 3)))


def _measure(cell: PaperCell) -> MethodRun:
    X, method = matrix(cell.data), cell.method
    extra: Json = {}
    losses, objectives, kept = [], [], True
    _compiled(method.name)
    start = time.perf_counter()
    for seed in range(cell.seeds):
        if cell.seeds > 1:
            method.set_params(random_state=seed)
        method.fit(X)
        sizes = np.bincount(method.labels_)
        upper = 2 * method.k - 1 if method.get_params().get("split", True) else X.shape[0]
        kept &= bool(sizes.min() >= method.k and sizes.max() <= upper)
        losses.append(method.information_loss_)
        if hasattr(method, "objective_"):
            objectives.append(method.objective_)
    seconds = (time.perf_counter() - start) / cell.seeds
    if cell.seeds > 1:
        extra["median"] = float(np.median(losses))
    if objectives:
        extra["equation_5"] = float(np.mean(objectives))
    if hasattr(method, "start_loss_"):
        extra["imp"] = 100.0 * (1.0 - method.information_loss_ / method.start_loss_)
    if cell.masked:
        masked, medoids = method.transform(X), X[medoids_of(standardise(X), method.labels_)][method.labels_]
        extra |= {
            "il2": measures.il2(X, masked),
            "dld": measures.dld(X, masked),
            "il2_of_medoids": measures.il2(X, medoids),
            "dld_of_medoids": measures.dld(X, medoids),
        }
    spread = float(np.std(losses, ddof=1)) if len(losses) > 1 else None
    return MethodRun(float(np.mean(losses)), seconds, kept, spread, extra)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
