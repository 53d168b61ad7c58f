"""The risk that a record is found by its quasi-identifiers, before protection and after: for the custodian."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from shoal import risk
from shoal.engine.roles import Prepared

# Sets of columns times records that the search for special uniques may look at.
SUDA_CELLS = 4_000_000
SUDA_SIZE = 3


def identification(job: Prepared, published: pl.DataFrame) -> dict[str, Any]:
    """Figures of re-identification on the original and on the published table, and what brings the risk."""
    quasi = [*(column.name for column in job.quasi), *job.strata]
    weights = job.weight_name
    fraction = min(1.0, job.weights.size / float(job.weights.sum())) if weights else None
    size = _suda_size(len(quasi), job.table.height)
    return {
        "before": _figures(job.table, quasi, weights, job.household, size, fraction),
        "after": _figures(published, quasi, weights, job.household, size, fraction),
        "source": "weights" if weights else "sample",
        "suda_size": size,
        "per_column": risk.column_risks(job.table, quasi),
    }


def _figures(
    table: pl.DataFrame,
    quasi: list[str],
    weights: str | None,
    household: str | None,
    suda_size: int,
    fraction: float | None,
) -> dict[str, Any]:
    found = risk.measure(table, quasi, weights=weights, households=household)
    figures = {name: value for name, value in found.to_dict().items() if name != "source"}
    if suda_size:
        special = risk.suda(table, quasi, max_size=suda_size, sampling_fraction=fraction)
        figures["special_uniques"] = int((special.n_minimal > 0).sum())
        if special.dis_scores is not None:
            figures["dis_suda_largest"] = float(special.dis_scores.max())
    return figures


def _suda_size(columns: int, records: int) -> int:
    """The largest sets of columns to look at, up to three; 0 where even single columns are too many."""
    sets, size = 0, 0
    while size < min(SUDA_SIZE, columns):
        sets += math.comb(columns, size + 1)
        if sets > risk.MOST_SUBSETS or sets * records > SUDA_CELLS:
            break
        size += 1
    return size
