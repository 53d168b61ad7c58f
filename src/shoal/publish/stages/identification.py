"""The risk that a record is found by its quasi-identifiers, before protection and after: for the custodian."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from shoal import risk
from shoal.publish.stages.roles import Decided
from shoal.publish.stages.survey import weights_of

# Sets of columns times records that the search for special uniques may look at.
SUDA_CELLS = 4_000_000
SUDA_SIZE = 3


def identification(before: pl.DataFrame, after: pl.DataFrame, plan: Decided) -> dict[str, Any]:
    """Figures of re-identification on the original and on the published table, and what brings the risk."""
    roles = plan.roles
    fraction = None
    if roles.weight:
        weights = weights_of(before, roles.weight)
        fraction = min(1.0, weights.size / float(weights.sum()))
    size = _suda_size(len(roles.known), before.height)
    homes = [] if roles.household is None else [before[roles.household]]
    return {
        "before": _figures(before, plan, size, fraction),
        "after": _figures(after.with_columns(homes), plan, size, fraction),
        "source": "weights" if roles.weight else "sample",
        "suda_size": size,
        "per_column": risk.column_risks(before, roles.known),
    }


def _figures(table: pl.DataFrame, plan: Decided, suda_size: int, fraction: float | None) -> dict[str, Any]:
    roles = plan.roles
    found = risk.measure(table, roles.known, weights=roles.weight, households=roles.household)
    figures = {name: value for name, value in found.to_dict().items() if name != "source"}
    if roles.household is not None:
        homes = risk.composition(table, roles.known, roles.household)
        figures |= {f"households_below_{size}": count for size, count in homes.below.items()}
    if suda_size:
        special = risk.suda(table, roles.known, max_size=suda_size, sampling_fraction=fraction)
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
