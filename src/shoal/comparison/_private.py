"""Microaggregation, generalisation and private tables on one map: what two-way tables lose, what an intruder links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.errors import ParameterError, ShoalError
from shoal.publish import protect
from shoal.schema import Schema, Steps
from shoal.typing import Json, Keywords

if TYPE_CHECKING:
    from shoal.release import MarginalAxis

TARGETS = 400
MICROAGGREGATION, GENERALISATION, PRIVATE = "microaggregation", "generalisation", "private tables"

FAMILIES: dict[str, Keywords] = {
    MICROAGGREGATION: {"method": "mdav"},
    GENERALISATION: {"method": "generalize", "recoding": "global"},
}


@dataclass(frozen=True)
class TablePoint:
    """One way of publishing a table, at one strength.

    Attributes
    ----------
    family : {"microaggregation", "generalisation", "private tables"}
    strength : float
        k, or epsilon.
    lost : float
        Mean total variation of all two-way tables on the schema's bins, 0 to 1. A generalised cell counts evenly as all
        values that it stands for.
    linked : float
        Share of people whose own row an intruder finds as the nearest one, ties shared. Rows of a private table are
        nobody's: a guess among them.

    Examples
    --------
    >>> from shoal.comparison import TablePoint
    >>> point = TablePoint("microaggregation", 5, lost=0.08, linked=0.12)
    >>> f"{point.family}, k = {point.strength}: {point.linked:.0%} linked"
    'microaggregation, k = 5: 12% linked'
    """

    family: str
    strength: float
    lost: float
    linked: float

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return dict(vars(self))


@dataclass(frozen=True)
class TableMap:
    """Ways of publishing one table, on one map; for the owner only.

    Attributes
    ----------
    points : tuple of TablePoint
    columns : tuple of str
    notes : tuple of str
        Families that could not be tried, and why.

    Examples
    --------
    >>> from shoal.comparison import TableMap, TablePoint
    >>> points = (TablePoint("generalisation", 5, 0.2, 0.1), TablePoint("private tables", 1.0, 0.3, 0.01))
    >>> found = TableMap(points, ("age", "income"), ())
    >>> min(found.points, key=lambda point: point.linked).family
    'private tables'
    """

    points: tuple[TablePoint, ...]
    columns: tuple[str, ...]
    notes: tuple[str, ...]


def table_map(
    frame: Any,
    schema: Schema | str | Path,
    k: Sequence[int] = (5, 10, 50),
    epsilons: Sequence[float] = (0.1, 1.0, 10.0),
    *,
    delta: float | None = None,
    seed: int = 0,
) -> TableMap:
    """Publish one table by microaggregation, generalisation and noisy marginals, and measure all in the same way.

    Trial releases are charged to nobody: nothing of this may be shown to others.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema or path
        Declares bounds or levels of every quasi-identifying and sensitive column.
    k : sequence of int
    epsilons : sequence of float
    delta : float, optional
        As in `release_marginals`.
    seed : int, default 0
        Of the people looked for.

    Returns
    -------
    TableMap

    Examples
    --------
    >>> from shoal.comparison import table_map
    >>> from shoal.datasets import load_survey, load_survey_schema
    >>> found = table_map(load_survey(), load_survey_schema(), k=[10], epsilons=[1.0])
    >>> sorted({each.family for each in found.points})
    ['generalisation', 'microaggregation', 'private tables']
    """
    from shoal.release import coded_rows, release_marginals  # needs the extra of private answers

    schema = Schema.of(schema)
    if not epsilons:
        raise ParameterError("'epsilons' must have at least one number. Got none.")
    own = replace(schema, budget=None, per_analyst=None)
    points: list[TablePoint] = []
    notes: list[str] = []
    axes: tuple[MarginalAxis, ...] = ()
    true = np.empty((0, 0), dtype=np.int64)
    for each in epsilons:
        out = release_marginals(frame, own, each, delta=delta, workload="tables", budget=each)
        axes = out.model.axes
        true = coded_rows(frame, axes)
        lost = _lost(true, _tables(coded_rows(out.frame, axes), axes), axes)
        points.append(TablePoint(PRIVATE, float(each), lost, 1 / max(1, len(true))))
    names = [each.name for each in axes]
    targets = np.random.default_rng(seed).permutation(len(true))[:TARGETS]
    for size in k:
        for family, how in FAMILIES.items():
            try:
                made = protect(frame, k=size, schema=_open(schema, names), **how)
            except ShoalError as error:
                notes.append(f"{family}, k = {size}: {error}")
                continue
            points.append(_published(family, size, made.frame, true, axes, targets))
    return TableMap(tuple(points), tuple(names), tuple(dict.fromkeys(notes)))


def _open(schema: Schema, names: Sequence[str]) -> Schema:
    """All released columns protected alike, missing cells filled in, no steps or rules."""
    columns = {
        name: replace(column, role="quasi" if name in names else "identifier", on_missing="impute")
        for name, column in schema.columns.items()
    }
    return replace(
        schema,
        columns=columns,
        steps=Steps(),
        rules=(),
        indicators=(),
        links=(),
        budget=None,
        per_analyst=None,
    )


def _published(
    family: str, k: int, made: Any, true: np.ndarray, axes: Sequence[MarginalAxis], targets: np.ndarray
) -> TablePoint:
    from shoal.release import coded_rows

    frame = made if isinstance(made, pl.DataFrame) else pl.from_pandas(made)
    if family == MICROAGGREGATION:
        codes = coded_rows(frame, axes)
        lost, labels = _lost(true, _tables(codes, axes), axes), codes
        close = [_closeness(each) for each in axes]
    else:
        labels = np.column_stack(
            [frame[each.name].cast(pl.String).rank("dense").fill_null(0).to_numpy() for each in axes]
        )
        spread = [_spread(labels[:, at], true[:, at], each.size) for at, each in enumerate(axes)]
        lost = _lost(true, _spread_tables(labels, spread), axes)
        close = [(each > 0).astype(np.float64) for each in spread]
    return TablePoint(family, float(k), lost, _linked(true, labels, close, targets))


def _closeness(axis: MarginalAxis) -> np.ndarray:
    """How near two positions are: by their distance where they have an order, else equal or not."""
    if not axis.ordered or axis.size < 2:
        return np.eye(axis.size)
    place = np.arange(axis.size)
    return np.asarray(1 - np.abs(place[:, None] - place[None, :]) / (axis.size - 1))


def _spread(labels: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """What each published label stands for: evenly all positions that are found under it."""
    found = np.zeros((int(labels.max()) + 1, size))
    found[labels.astype(int), codes] = 1
    return found / np.maximum(1, found.sum(axis=1, keepdims=True))


def _tables(codes: np.ndarray, axes: Sequence[MarginalAxis]) -> dict[tuple[int, int], np.ndarray]:
    sizes = [each.size for each in axes]
    return {
        (a, b): np.bincount(codes[:, a] * sizes[b] + codes[:, b], minlength=sizes[a] * sizes[b])
        / max(1, len(codes))
        for a, b in combinations(range(len(sizes)), 2)
    }


def _spread_tables(labels: np.ndarray, spread: Sequence[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    made, n = {}, max(1, len(labels))
    for a, b in combinations(range(len(spread)), 2):
        counts = np.zeros((len(spread[a]), len(spread[b])))
        np.add.at(counts, (labels[:, a].astype(int), labels[:, b].astype(int)), 1)
        made[a, b] = (spread[a].T @ counts @ spread[b]).ravel() / n
    return made


def _lost(true: np.ndarray, tables: dict[tuple[int, int], np.ndarray], axes: Sequence[MarginalAxis]) -> float:
    own = _tables(true, axes)
    return float(np.mean([0.5 * np.abs(own[key] - tables[key]).sum() for key in own])) if own else 0.0


def _linked(true: np.ndarray, labels: np.ndarray, close: Sequence[np.ndarray], targets: np.ndarray) -> float:
    """Share of people whose own row is nearest to their values, ties shared."""
    right = 0.0
    for person in targets:
        near = np.zeros(len(labels))
        for at, each in enumerate(close):
            near += each[labels[:, at].astype(int), true[person, at]]
        best = near >= near.max() - 1e-9
        right += best[person] / best.sum()
    return float(right / max(1, len(targets)))
