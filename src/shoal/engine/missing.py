"""Missing cells filled from the nearest complete records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoal.engine.columns import TypedColumn
from shoal.engine.encode import Encoder

NEIGHBOURS = 5


def impute(columns: Sequence[TypedColumn]) -> list[TypedColumn]:
    """Fill the cells of columns with policy `impute` from the nearest records that are complete.

    Records with the same pattern of missing cells are treated together: neighbours are looked up in the
    columns they do have. A number becomes its neighbours' mean, a level their mode.
    """
    wanted = [
        j for j, column in enumerate(columns) if column.facts.on_missing == "impute" and column.missing.any()
    ]
    if not wanted:
        return list(columns)
    missing = np.stack([column.missing for column in columns], axis=1)
    complete = np.flatnonzero(~missing.any(axis=1))
    encoder = Encoder.fit(columns)
    Z = encoder.transform(columns)
    owner = np.repeat(np.arange(len(columns)), encoder.widths())
    filled = [column.values.copy() for column in columns]
    patterns, members = np.unique(missing, axis=0, return_inverse=True)
    for index, pattern in enumerate(patterns):
        gaps = [j for j in wanted if pattern[j]]
        if not gaps:
            continue
        rows = np.flatnonzero(members.reshape(-1) == index)
        known = ~pattern[owner]
        donors = _donors(Z[complete][:, known], Z[rows][:, known]) if complete.size and known.any() else None
        for j in gaps:
            filled[j][rows] = _fill(columns[j], None if donors is None else complete[donors])
    return [
        replace(column, values=filled[j], missing=np.zeros_like(column.missing)) if j in wanted else column
        for j, column in enumerate(columns)
    ]


def _donors(known: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Positions of the nearest complete records, one row per asking record."""
    from scipy.spatial import cKDTree  # takes a while

    return cKDTree(known).query(asked, k=list(range(1, min(NEIGHBOURS, known.shape[0]) + 1)))[1]


def _fill(column: TypedColumn, donors: np.ndarray | None) -> np.ndarray | float:
    """What the neighbours say; without any, what the whole column says."""
    values = column.values[~column.missing][None, :] if donors is None else column.values[donors]
    if values.size == 0:
        return 0.0
    if column.facts.kind in ("number", "date"):
        return values.mean(axis=1) if donors is not None else float(values.mean())
    if column.facts.kind == "ordered":
        middle = np.sort(values, axis=1)[:, (values.shape[1] - 1) // 2]
        return middle if donors is not None else float(middle[0])
    modes = np.array([np.bincount(row.astype(np.int64)).argmax() for row in np.unique(values, axis=0)])
    if donors is None:
        return float(modes[0])
    back = np.unique(values, axis=0, return_inverse=True)[1]
    return modes[back.reshape(-1)].astype(np.float64)
