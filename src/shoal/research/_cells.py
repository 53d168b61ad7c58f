"""Cells of a paper's table: measured two at a time, and those already measured taken from a file."""

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
from shoal.research._rows import Row

Progress = Callable[[str], None]
LOADERS: dict[str, Callable[[], Any]] = {
    "tarragona": datasets.load_tarragona,
    "census": datasets.load_census,
    "eia": datasets.load_eia,
}


@dataclass(frozen=True)
class Cell:
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
    """

    data: str
    method: Microaggregator
    published: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    figure: str = "il1"

    @property
    def key(self) -> str:
        """What the result depends on, as text."""
        params = {name: _plain(value) for name, value in sorted(self.method.get_params().items())}
        return json.dumps([self.data, self.method.name, params, self.seeds, self.figure, dict(self.extra)])


class Resumed:
    """Rows measured so far, in a file of one JSON object a line; a run that was stopped goes on from there."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        if path is None or not path.exists():
            return
        try:
            for line in path.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                self.rows[found["key"]] = Row(**found["row"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is no file of measured cells.") from error

    def keep(self, key: str, row: Row) -> None:
        """Add a measured row."""
        self.rows[key] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "row": vars(row)}) + "\n")


def run_cells(
    cells: Iterable[Cell], progress: Progress | None = None, resumed: Resumed | None = None
) -> tuple[Row, ...]:
    """Measure the cells, two at a time, in their order."""
    cells, known = list(cells), resumed or Resumed(None)
    with ThreadPoolExecutor(max_workers=2) as pool:
        runs = [None if cell.key in known.rows else pool.submit(_measure, cell) for cell in cells]
        rows = []
        for position, (cell, run) in enumerate(zip(cells, runs, strict=True)):
            if run is None:
                rows.append(known.rows[cell.key])
                continue
            rows.append(run.result())
            known.keep(cell.key, rows[-1])
            if progress is not None:
                progress(
                    f"{position + 1} of {len(cells)}: {cell.data}, {cell.method.name}, k = {cell.method.k}"
                )
    return tuple(rows)


def configured(name: str, k: int) -> Microaggregator:
    """A method as it is run for a table of all methods; what it may do is counted in work, never in seconds."""
    method = methods()[name]
    options: dict[str, Any] = {"random_state": 0} if method.takes("random_state") else {}
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


def _measure(cell: Cell) -> Row:
    X, method, extra = matrix(cell.data), cell.method, dict(cell.extra)
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
    if cell.figure == "il2":
        masked, medoids = method.transform(X), X[medoids_of(standardise(X), method.labels_)][method.labels_]
        extra |= {
            "dld": measures.dld(X, masked),
            "il2_of_medoids": measures.il2(X, medoids),
            "dld_of_medoids": measures.dld(X, medoids),
            "information_loss": method.information_loss_,
        }
        losses = [measures.il2(X, masked)]
    spread = float(np.std(losses, ddof=1)) if len(losses) > 1 else None
    return Row(
        cell.data, method.name, method.k, cell.published, float(np.mean(losses)), seconds, kept, spread, extra
    )


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
