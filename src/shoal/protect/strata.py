"""Strata: groups never cross them, and one with fewer than k rows is never published as it is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from shoal.engine.roles import row_codes
from shoal.errors import InputError
from shoal.microaggregation import join_small_strata
from shoal.protect.ground import Ground


@dataclass(frozen=True)
class Strata:
    """Codes 0..s-1 of the rows' strata, the columns that changed because small strata joined others, and notes."""

    codes: np.ndarray
    published: dict[str, pl.Series] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def settle_strata(ground: Ground, k: int, small: str) -> Strata:
    """The strata in which groups are formed; one with fewer than k rows joins the nearest, or is refused."""
    job, Z = ground.job, ground.Z
    codes = row_codes(job.table, job.strata)
    if codes is None:
        return Strata(np.zeros(Z.shape[0], np.int64))
    sizes = np.bincount(codes)
    if sizes.min() >= k:
        return Strata(codes)
    first = np.unique(codes, return_index=True)[1]
    shown = [", ".join(str(value) for value in job.table[job.strata].row(int(row))) for row in first]
    little = np.flatnonzero(sizes < k)
    if small == "refuse":
        raise InputError(
            f"Each stratum must have at least k = {k} rows. Stratum {shown[little[0]]!r} has {sizes[little[0]]}."
        )
    joins = join_small_strata(Z, codes, k)
    notes = tuple(
        f"Stratum {shown[each]!r} has {sizes[each]} rows, fewer than k: they joined the nearest stratum, "
        f"{shown[joins[each]]!r}, and are published with that value."
        for each in little
    )
    joined = joins[codes]
    changed = {name: job.table[name].gather(pl.Series(first[joined])) for name in job.strata}
    return Strata(np.unique(joined, return_inverse=True)[1].reshape(-1), changed, notes)
