"""Marginals as tables that people read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from shoal.dp.meaning.check import levels
from shoal.release.marginals._axes import MarginalAxis
from shoal.release.marginals._model import BoughtModel


def labels(axis: MarginalAxis) -> list[str]:
    """Names of the positions: levels, or the ends of bins."""
    if axis.edges:
        low, high = axis.ends()
        names = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
    else:
        names = [str(each) for each in (axis.column.levels or levels(axis.column) or ())]
    return names + ["missing"] * axis.missing


def marginal_frame(model: BoughtModel, columns: Sequence[str]) -> pl.DataFrame:
    """Every combination of positions of some columns, its count and the deviation of its noise."""
    key = model.key(columns)
    table = model.table(key)
    places = np.indices(table.shape).reshape(len(key), -1)
    named = {
        model.names[at]: [labels(model.axes[at])[place] for place in places[axis]]
        for axis, at in enumerate(key)
    }
    return pl.DataFrame(named).with_columns(
        pl.Series("count", table.ravel()), pl.lit(model.deviation(key), pl.Float64).alias("deviation")
    )
