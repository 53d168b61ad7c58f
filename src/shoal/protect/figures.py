"""Figures of loss and risk, computed from the original: for the custodian only."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal import bounds
from shoal.engine.columns import TypedColumn
from shoal.engine.encode import sum_of_squares
from shoal.measures import evaluate
from shoal.measures._risk import linked_share
from shoal.protect.ground import Ground

# Above this many records, linkage is measured on an even selection of them.
MEASURED_RECORDS = 20_000


def measure(ground: Ground, after: list[TypedColumn], labels: np.ndarray) -> dict[str, Any]:
    """Loss and risk of columns as they will be published, beside the original ones."""
    filled, Z = ground.filled, ground.Z
    Y = ground.encoder.transform(after)
    gone, total = (Z - Y) ** 2, float((Z**2).sum())
    widths = ground.encoder.widths()
    per_column = {
        column.name: 100.0
        * float(gone[:, end - width : end].sum())
        / max(float((Z[:, end - width : end] ** 2).sum()), 1e-300)
        for column, end, width in zip(filled, np.cumsum(widths), widths, strict=True)
    }
    numbers = [j for j, column in enumerate(filled) if column.facts.kind == "number"]
    figures: dict[str, Any] = {"measured_records": min(MEASURED_RECORDS, Z.shape[0])}
    if numbers:
        rows = (
            slice(None)
            if Z.shape[0] <= MEASURED_RECORDS
            else slice(None, None, -(-Z.shape[0] // MEASURED_RECORDS))
        )
        X, X_after = (np.stack([each[j].values for j in numbers], axis=1) for each in (filled, after))
        figures |= evaluate(X[rows], X_after[rows], linkage=False)
    sizes = np.bincount(labels)
    return figures | {
        "n_records": int(Z.shape[0]),
        "n_groups": int(sizes.size),
        "smallest_group": int(sizes.min()),
        "largest_group": int(sizes.max()),
        "information_loss": 100.0 * float(gone.sum()) / total if total > 0 else 0.0,
        "dld": linked_share(Z, Y, max_records=MEASURED_RECORDS),
        "loss_per_column": per_column,
    }


def certificate(Z: np.ndarray, k: int, labels: np.ndarray, effort: str | float) -> dict[str, Any]:
    """How much of the loss could be saved at most; strata and households only forbid partitions, so it holds."""
    found = bounds.information_loss_bound(Z, k, effort, labels=labels, scaled=True)
    loss = 100.0 * sum_of_squares(Z, labels) / max(float(((Z - Z.mean(axis=0)) ** 2).sum()), 1e-300)
    return {
        "bound": found.bound,
        "gap": found.gap_of(loss),
        "proven": found.proven,
        "method": found.method,
        "seconds": found.seconds,
        "note": found.note,
    }
