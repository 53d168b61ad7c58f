"""Methods against k on one table: what each loses, what it leaves to be linked, which to take."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from shoal.comparison._preference import SEARCHED, Preference
from shoal.comparison._result import Cell, Comparison, request_for
from shoal.engine.columns import TypedColumn
from shoal.errors import ParameterError
from shoal.generalization import Suppress
from shoal.masking import MASKS as PERTURBING
from shoal.masking import mask
from shoal.microaggregation import Microaggregator, methods, resolve_method
from shoal.params import AnyOf, Interval, Unset, check_params
from shoal.publish.executors import Progress
from shoal.publish.prepared import Prepared, prepare
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.measure import Figures
from shoal.publish.stages.partition import PartGroups
from shoal.report.figures import MapPoint, pareto_front
from shoal.schema import Schema

SUPPRESSION = "suppression"
MASKS = (*PERTURBING, SUPPRESSION)
# A spread over the families, each fast enough for a first look.
DEFAULT_METHODS = ("mdav", "cbfs", "mdav-mhm", "fdm", "gsms-t2", "k-ward", "kckw", "anneal")


def compare(
    frame: Any,
    k: Sequence[int] = (3, 5, 10),
    *,
    methods: Sequence[str] | None = None,
    fixed_k: int | None = None,
    risk_limit: float | None = None,
    aim: tuple[float, float] | None = None,
    schema: Schema | str | Path | None = None,
    columns: str | Sequence[str] | None = None,
    leave: str | Sequence[str] | None = None,
    sensitive: str | Sequence[str] | None = None,
    strata: str | Sequence[str] | None = None,
    weights: str | None = None,
    households: str | None = None,
    on_missing: str | None = None,
    time_limit: float = 5.0,
    search: bool = False,
    random_state: int = 0,
    n_jobs: int = 2,
    labelled: Collection[str] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Run several methods for several k on one table, and recommend one of them.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    k : list of int, default (3, 5, 10)
    methods : list of str, optional
        Names from `shoal.methods()`; a spread over the families if left open. Masks, such as "noise:0.2", are points of
        reference and never recommended.
    fixed_k : int, optional
        Recommend the least loss at this k. If left open it is 5, the default of `protect`, where 5 was compared, else
        the largest k.
    risk_limit : float, optional
        Recommend the least loss among all cells in which at most this share of the records is linked, instead.
    aim : (float, float), optional
        Loss in per cent and share of records linked that are wished for: recommend what comes nearest, instead. With
        `search` the search is led there, and its partition may be what is recommended.
    schema, columns, leave, sensitive, strata, weights, households, on_missing, labelled
        As in `shoal.protect`.
    time_limit : float, default 5
        Seconds for each cell of a method that searches until told to stop.
    search : bool, default False
        Fill the front between the cells by a multi-objective search over group moves (extra `search`).
    random_state : int, default 0
    n_jobs : int, default 2
        Methods run at the same time.
    progress : callable, optional

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import compare
    >>> table = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12, 30, 31, 32], "y": [1.0, 1, 2, 5, 5, 6, 1, 2, 1]})
    >>> result = compare(table, k=[2, 3], methods=["mdav", "md"])
    >>> len(result.cells), result.recommended.k in (2, 3)
    (4, True)
    >>> compare(table, k=[2, 3], methods=["mdav"], fixed_k=2).command()
    'shoal protect FILE -k 2 -o protected.csv --method mdav --seed 0'
    """
    request = ProtectionRequest.of(
        method="mdav", schema=schema, columns=columns or (), leave=leave or (), sensitive=sensitive or (),
        strata=strata or (), weights=weights, households=households, on_missing=on_missing, random_state=random_state,
    )  # fmt: skip
    return compared(
        frame, k, request, methods=methods, fixed_k=fixed_k, risk_limit=risk_limit, aim=aim, time_limit=time_limit,
        search=search, n_jobs=n_jobs, labelled=labelled, progress=progress,
    )  # fmt: skip


def compared(
    frame: Any,
    k: Sequence[int],
    request: ProtectionRequest,
    *,
    methods: Sequence[str] | None = None,
    fixed_k: int | None = None,
    risk_limit: float | None = None,
    aim: tuple[float, float] | None = None,
    time_limit: float = 5.0,
    search: bool = False,
    n_jobs: int = 2,
    labelled: Collection[str] = (),
    progress: Progress | None = None,
) -> Comparison:
    """The comparison for a request whose method and k are left open; the other arguments are those of `compare`.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import comparison
    >>> from shoal.publish import ProtectionRequest
    >>> table = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12], "y": [1.0, 1, 2, 5, 5, 6]})
    >>> found = comparison.compared(table, [3], ProtectionRequest(columns=["x"]), methods=["mdav"])
    >>> found.columns, found.recommended.n_groups
    (('x',), 2)
    """
    tell = progress or (lambda _stage, _done, _of: None)
    ks, names = _asked(k, methods, time_limit, n_jobs)
    rule = Preference.of(ks, fixed_k, risk_limit, aim)
    random_state = request.random_state or 0
    request = replace(request, k=ks[0], method="mdav")
    tell("preparing the columns", 0, 0)
    ready = prepare(frame, request, labelled)
    cells: list[Cell] = []
    for done, name in enumerate(names):
        tell("making the methods ready", done, len(names))
        _warm(name, ks[0], ready.part.Z)
    with ThreadPoolExecutor(max_workers=n_jobs) as pool:
        runs = {name: pool.submit(_run, ready, name, ks, time_limit, random_state) for name in names}
        for done, (name, run) in enumerate(runs.items()):
            tell(f"comparing: {name}", done, len(runs))
            cells += run.result()
    if search:
        roles = ready.plan.roles
        if roles.strata or roles.household is not None:
            raise ParameterError(
                "The search of compare forms groups over the whole table: no strata or households."
            )
        from shoal.comparison._search import fill_front

        tell("searching between the points", 0, 0)
        cells += [
            cell_of(ready, SEARCHED, size, PartGroups(labels, None, ()), 0.0)
            for size, labels in fill_front(ready, cells, random_state, rule.aim)
        ]
    on_front = pareto_front(
        [MapPoint(cell.method, cell.k, cell.information_loss, cell.dld) for cell in cells]
    )
    cells = [replace(cell, on_front=best) for cell, best in zip(cells, on_front, strict=True)]
    chosen, reason = rule.choose(cells)
    again = _again(request, ks, names, rule, time_limit)
    wanted = request_for(chosen, request, time_limit)
    return Comparison(tuple(cells), chosen, reason, ready.notes, ready.columns, wanted, again=again)


def _again(
    request: ProtectionRequest, ks: list[int], names: list[str], rule: Preference, time_limit: float
) -> tuple[str, ...]:
    """The options that ask for the same comparison with its search."""
    words = ["-k", ",".join(map(str, ks)), "--methods", ",".join(names), "--search"]
    if rule.aim is not None:
        words += ["--aim", f"{rule.aim[0]:g},{rule.aim[1]:g}"]
    if any(name in methods() and resolved(name).takes("time_limit") for name in names):
        words += ["--time-limit", f"{time_limit:g}"]
    for flag, value in (
        ("columns", request.columns),
        ("leave", request.leave),
        ("sensitive", request.sensitive),
    ):
        words += [f"--{flag}", ",".join(value)] if value else []
    if request.schema_file is not None:
        words += ["--schema", str(request.schema_file)]
    if request.on_missing is not None:
        words += ["--on-missing", str(request.on_missing)]
    return (*words, "--seed", str(request.random_state or 0))


def resolved(name: str) -> type[Microaggregator]:
    """A method by its name."""
    return methods()[name]


def cell_of(ready: Prepared, method: str, k: int, groups: PartGroups, seconds: float) -> Cell:
    """The figures of one partition."""
    figures, work = ready.measured(groups)
    return replace(_cell(figures, method, k, groups.labels, seconds), work=work)


def _cell(figures: Figures, method: str, k: int, labels: np.ndarray, seconds: float) -> Cell:
    return Cell(
        method,
        k,
        figures.information_loss,
        figures.dld or 0.0,
        figures.il2,
        figures.interval_disclosure,
        figures.propensity,
        figures.n_groups,
        figures.smallest_group,
        seconds,
        labels,
        indicators_kept=figures.indicators_kept,
    )


def _run(ready: Prepared, name: str, ks: list[int], time_limit: float, random_state: int) -> list[Cell]:
    """One method for all k; where one preparation serves all k, it is made once."""
    base, _, strength = name.partition(":")
    if base in MASKS:
        return _masked(ready, name, base, float(strength) if strength else None, ks, random_state)
    limit = time_limit if resolved(name).takes("time_limit") else None
    roles, cells = ready.plan.roles, []
    if limit is None and not roles.strata and not roles.zeros and roles.household is None:
        estimator = resolve_method(name, ks[0], random_state)
        start = time.perf_counter()
        for size, labels in estimator.partition_all(ready.part.Z, ks):
            groups = PartGroups(labels, None, ())
            cells.append(cell_of(ready, name, size, groups, time.perf_counter() - start))
            start = time.perf_counter()
        return cells
    for size in ks:
        start = time.perf_counter()
        groups = ready.groups(name, size, time_limit=limit)
        cells.append(cell_of(ready, name, size, groups, time.perf_counter() - start))
    return cells


def _warm(name: str, k: int, Z: np.ndarray) -> None:
    """Run a method on a few records, so that compiling is not counted as its time, nor as another's beside it."""
    if name.partition(":")[0] in MASKS or Z.shape[0] < k:
        return
    limit = 0.1 if resolved(name).takes("time_limit") else None
    next(iter(resolve_method(name, k, 0, time_limit=limit).partition_all(Z[: 4 * k], [k])))


def _masked(
    ready: Prepared, name: str, base: str, strength: float | None, ks: list[int], random_state: int
) -> list[Cell]:
    """A point of reference: masking without groups; its classes are what they are."""
    cells = []
    for k in ks if base == SUPPRESSION else ks[:1]:
        start = time.perf_counter()
        after = (
            _suppressed(ready, k)
            if base == SUPPRESSION
            else mask(base, ready.part.filled, strength, random_state)
        )
        cells_of_row = np.stack([np.where(column.missing, np.inf, column.values) for column in after], axis=1)
        labels = np.unique(cells_of_row, axis=0, return_inverse=True)[1].reshape(-1)
        reached = int(np.bincount(labels).min())
        cells.append(_cell(ready.figures(after, labels), name, reached, labels, time.perf_counter() - start))
    return cells


def _suppressed(ready: Prepared, k: int) -> list[TypedColumn]:
    """The columns with single cells made missing until every combination occurs k times."""
    columns = ready.part.filled
    cells = np.stack([np.where(column.missing, np.inf, column.values) for column in columns], axis=1)
    gone = Suppress(k=k, certify=False).fit(cells).mask_
    return [replace(column, missing=column.missing | gone[:, j]) for j, column in enumerate(columns)]


def _asked(
    k: Sequence[int], names: Sequence[str] | None, time_limit: float, n_jobs: int
) -> tuple[list[int], list[str]]:
    if not isinstance(k, (list, tuple)) or not k:
        raise ParameterError(f"'k' of compare must be a list of ints. Got {k!r}.")
    for each in k:
        check_params("compare", {"k": Interval(Integral, 2)}, {"k": each})
    check_params(
        "compare",
        {"time_limit": AnyOf((Unset(), Interval(Real, 0))), "n_jobs": Interval(Integral, 1)},
        {"time_limit": time_limit, "n_jobs": n_jobs},
    )
    known = methods()
    chosen = list(names) if names is not None else [name for name in DEFAULT_METHODS if name in known]
    unknown = [name for name in chosen if name not in known and not _is_mask(name)]
    if unknown or not chosen:
        raise ParameterError(
            f"'methods' of compare must be among {', '.join([*known, *MASKS])}. Got {unknown or chosen!r}."
        )
    if all(_is_mask(name) for name in chosen):
        raise ParameterError(
            f"'methods' of compare must name at least one that protect takes; masks are points of reference. Got {chosen!r}."
        )
    return sorted(set(k)), list(dict.fromkeys(chosen))


def _is_mask(name: str) -> bool:
    base, _, strength = name.partition(":")
    return base in MASKS and (not strength or strength.replace(".", "", 1).isdigit())
