"""Which part a row belongs to: a median tree along principal axes within each large stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.engine.compile import kernel
from shoal.engine.roles import row_codes
from shoal.errors import InputError
from shoal.scale.survey import kept_rows

if TYPE_CHECKING:
    from shoal.scale.plan import Plan


@dataclass(frozen=True)
class Router:
    """A median tree along principal axes: heap order, 2^depth leaves."""

    axes: np.ndarray
    cuts: np.ndarray

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.cuts.size + 1

    def leaf(self, Z: np.ndarray) -> np.ndarray:
        """The leaf of each row."""
        return _leaves(Z, self.axes, self.cuts)

    @classmethod
    def fit(cls, Z: np.ndarray, depth: int) -> Router:
        """Learn axes and medians from a sample."""
        d = Z.shape[1]
        axes, cuts = np.zeros(((1 << depth) - 1, d)), np.zeros((1 << depth) - 1)
        members = [np.arange(Z.shape[0])]
        for node in range((1 << depth) - 1):
            rows = members[node]
            part = Z[rows] - Z[rows].mean(axis=0) if rows.size else np.zeros((1, d))
            axis = np.linalg.eigh(part.T @ part)[1][:, -1]
            axes[node] = axis if axis[np.argmax(np.abs(axis))] > 0 else -axis
            along = Z[rows] @ axes[node]
            cuts[node] = np.median(along) if rows.size else 0.0
            members += [rows[along <= cuts[node]], rows[along > cuts[node]]]
        return cls(axes, cuts)


def route(batch: pl.DataFrame, plan: Plan) -> np.ndarray:
    """The part of each row of a batch; -1 for rows that are dropped for a missing cell."""
    parts = np.full(batch.height, -1, np.int64)
    numbered = batch.with_columns(pl.Series("__at__", np.arange(batch.height)))
    kept = kept_rows(numbered, plan.roles.quasi)
    rows = kept["__at__"].to_numpy()
    if plan.n_parts == 1:
        parts[rows] = 0
        return parts
    Z = plan.encoder.transform(plan.typed(kept)) if plan.routers else None
    codes = row_codes(kept, list(plan.roles.strata))
    if codes is None and Z is not None:
        start, router = plan.routers[()]
        parts[rows] = start + router.leaf(Z)
        return parts
    if codes is None or not codes.size:
        return parts
    first = np.unique(codes, return_index=True)[1]
    keys = strata_keys(kept[first], plan)
    for code, found in enumerate(keys):
        key = plan.joins.get(found, found)
        inside = np.flatnonzero(codes == code)
        if key in plan.homes:
            parts[rows[inside]] = plan.homes[key]
        elif key in plan.routers and Z is not None:
            start, router = plan.routers[key]
            parts[rows[inside]] = start + router.leaf(Z[inside])
        else:
            raise InputError(f"The table changed while it was read: stratum {key!r} is new.")
    return parts


def merged_parts(sizes: np.ndarray, plan: Plan) -> np.ndarray:
    """For each part the part it is solved with: itself, or a neighbour where it has fewer than k records."""
    k = plan.method.k
    into = np.arange(sizes.size)
    for start, router in plan.routers.values():
        leaves = range(start, start + router.n_leaves)
        current, count = start, 0
        for leaf in leaves:
            # Leaves in heap order are neighbours: collect until there are k records.
            if count >= k:
                current, count = leaf, 0
            into[leaf] = current
            count += int(sizes[leaf])
        if count < k:
            into[[leaf for leaf in leaves if into[leaf] == current]] = into[max(start, current - 1)]
    return into


def stratum_sums(batch: pl.DataFrame, plan: Plan) -> dict[tuple[Any, ...], tuple[int, np.ndarray]]:
    """Records and summed coordinates of each stratum in a batch."""
    batch = kept_rows(batch, plan.roles.quasi)
    Z = plan.encoder.transform(plan.typed(batch))
    codes = row_codes(batch, list(plan.roles.strata))
    if codes is None or not codes.size:
        return {}
    keys = strata_keys(batch, plan)
    first = np.unique(codes, return_index=True)[1]
    counts = np.bincount(codes)
    sums = np.stack([np.bincount(codes, Z[:, j]) for j in range(Z.shape[1])], axis=1)
    return {keys[row]: (int(counts[code]), sums[code]) for code, row in enumerate(first)}


def strata_keys(batch: pl.DataFrame, plan: Plan) -> list[tuple[Any, ...]]:
    """The stratum of each row, as it came."""
    return batch.select(plan.roles.strata).rows() if plan.roles.strata else [()] * batch.height


def joined_strata(batch: pl.DataFrame, plan: Plan) -> dict[str, pl.Series]:
    """The strata columns as published: those of the stratum that a small one became part of."""
    if not plan.joins:
        return {}
    keys = [plan.joins.get(key, key) for key in strata_keys(batch, plan)]
    return {
        name: pl.Series(name, [key[j] for key in keys], dtype=batch.schema[name])
        for j, name in enumerate(plan.roles.strata)
    }


# Kernels


@kernel()
def _leaves(Z, axes, cuts):
    """Walk each row down the tree, whose nodes lie in heap order."""
    out = np.empty(Z.shape[0], np.int64)
    for i in range(Z.shape[0]):
        node = 0
        while node < cuts.size:
            along = 0.0
            for a in range(Z.shape[1]):
                along += Z[i, a] * axes[node, a]
            node = 2 * node + (2 if along > cuts[node] else 1)
        out[i] = node - cuts.size
    return out
