"""Which part a row belongs to: a tree within each large stratum, cut at medians along principal axes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal import privacy
from shoal.engine.compile import kernel
from shoal.engine.roles import row_codes
from shoal.errors import InputError
from shoal.publish.stages.distances import distances_of
from shoal.publish.stages.survey import ROWS, kept_rows

if TYPE_CHECKING:
    from shoal.publish.stages.plan import PublishPlan

AT = "__at__"
PART, COLUMN, VALUE = "__part__", "__column__", "__value__"


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


def route(batch: pl.DataFrame, plan: PublishPlan) -> np.ndarray:
    """The part of each row of a decoded batch; -1 for rows that are dropped for a missing cell."""
    parts = np.full(batch.height, -1, np.int64)
    kept = kept_rows(batch.with_columns(pl.Series(AT, np.arange(batch.height))), plan.roles.quasi)
    rows = kept[AT].to_numpy()
    if plan.n_parts == 1:
        parts[rows] = 0
        return parts
    if plan.households is not None:
        parts[rows] = plan.households.parts_of(kept, plan.roles.household or "")
        return parts
    Z = plan.encoder.transform(plan.typed(kept)) if plan.routers else None
    codes = row_codes(kept, list(plan.roles.strata))
    if not rows.size:
        return parts
    if codes is None:
        codes = np.zeros(rows.size, np.int64)
    first = np.unique(codes, return_index=True)[1]
    for code, key in enumerate(strata_keys(kept[first], plan)):
        inside = np.flatnonzero(codes == code)
        parts[rows[inside]] = parts_of_stratum(plan, key, None if Z is None else Z[inside])
    return parts


def parts_of_stratum(plan: PublishPlan, key: tuple[Any, ...], Z: np.ndarray | None) -> np.ndarray | int:
    """The parts of records of one stratum by their coordinates."""
    key = plan.joins.get(key, key)
    if key in plan.homes:
        return plan.homes[key]
    if key not in plan.routers or Z is None:
        raise InputError(f"The table changed while it was read: stratum {key!r} is new.")
    start, router = plan.routers[key]
    return start + router.leaf(Z)


def merged_parts(sizes: np.ndarray, plan: PublishPlan, spread: pl.DataFrame | None = None) -> np.ndarray:
    """For each part, the part with which it is solved: itself, or a neighbour if it cannot be solved alone.

    A part needs enough records, or households, for a group. If closeness was asked for, its sensitive values must be
    distributed as in the whole table; otherwise no partition of it could be close.
    """
    into = np.arange(sizes.size)
    if plan.households is not None and plan.households.per_part is not None:
        sizes = plan.households.per_part

    def enough(leaves: list[int]) -> bool:
        return int(sizes[leaves].sum()) >= plan.method.k and is_close(leaves, plan, spread)

    for start, router in plan.routers.values():
        runs: list[list[int]] = [[]]
        for leaf in range(start, start + router.n_leaves):
            # Leaves in heap order are neighbours: collect until they are enough.
            runs[-1].append(leaf)
            if enough(runs[-1]):
                runs.append([])
        runs = runs if runs[-1] else runs[:-1]
        while len(runs) > 1 and not enough(runs[-1]):
            last = runs.pop()
            runs[-1] += last
        for run in runs:
            into[run] = run[0]
    return into


def spread_of(batch: pl.DataFrame, parts: np.ndarray, plan: PublishPlan) -> list[pl.DataFrame]:
    """For each sensitive column of a batch the rows of each part and value, where closeness was asked for."""
    if plan.request.t is None or plan.n_parts == 1:
        return []
    routed = batch.select(plan.roles.modelled).with_columns(pl.Series(PART, parts)).filter(pl.col(PART) >= 0)
    return [
        routed.group_by(PART, pl.col(name).cast(pl.String).alias(VALUE))
        .len(ROWS)
        .with_columns(pl.lit(name).alias(COLUMN))
        for name in plan.roles.modelled
    ]


def added_spread(found: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The rows of each part, column and value, over all batches."""
    return pl.concat(list(found)).group_by(PART, COLUMN, VALUE).agg(pl.col(ROWS).sum())


def is_close(leaves: list[int], plan: PublishPlan, spread: pl.DataFrame | None) -> bool:
    """Whether the sensitive values of some parts together are spread as in the whole table, up to t."""
    if spread is None or plan.request.t is None:
        return True
    inside = spread.filter(pl.col(PART).is_in(leaves))
    distances, levels = distances_of(plan.roles)
    for name, whole in plan.sensitive.items():
        mine = inside.filter(pl.col(COLUMN) == name).group_by(VALUE).agg(pl.col(ROWS).sum())
        counts = whole.with_columns(pl.nth(0).cast(pl.String).alias(VALUE)).join(
            mine, on=VALUE, how="left", nulls_equal=True, maintain_order="left"
        )
        rows = counts[f"{ROWS}_right"].fill_null(0).to_numpy()
        if rows.sum() == 0:
            return False
        far = privacy.spread_distance(
            whole[:, 0], whole[:, 1].to_numpy(), rows, distances.get(name, "auto"), levels.get(name)
        )
        if far > plan.request.t:
            return False
    return True


def stratum_sums(batch: pl.DataFrame, plan: PublishPlan) -> dict[tuple[Any, ...], tuple[int, np.ndarray]]:
    """Records and summed coordinates of each stratum in a decoded batch."""
    batch = kept_rows(batch, plan.roles.quasi)
    codes = row_codes(batch, list(plan.roles.strata))
    if codes is None or not codes.size:
        return {}
    Z = plan.encoder.transform(plan.typed(batch))
    first = np.unique(codes, return_index=True)[1]
    keys = strata_keys(batch[first], plan)
    counts = np.bincount(codes)
    sums = np.stack([np.bincount(codes, Z[:, j]) for j in range(Z.shape[1])], axis=1)
    return {key: (int(counts[code]), sums[code]) for code, key in enumerate(keys)}


def centres_of(
    found: Iterable[dict[tuple[Any, ...], tuple[int, np.ndarray]]],
) -> dict[tuple[Any, ...], np.ndarray]:
    """The mean coordinates of each stratum, from the sums of all batches."""
    totals: dict[tuple[Any, ...], tuple[int, np.ndarray]] = {}
    for batch in found:
        for key, (count, sums) in batch.items():
            before = totals.get(key, (0, 0.0))
            totals[key] = (before[0] + count, before[1] + sums)
    return {key: sums / count for key, (count, sums) in totals.items()}


def strata_keys(batch: pl.DataFrame, plan: PublishPlan) -> list[tuple[Any, ...]]:
    """The stratum of each row, as it came."""
    return batch.select(plan.roles.strata).rows() if plan.roles.strata else [()] * batch.height


def joined_strata(batch: pl.DataFrame, plan: PublishPlan) -> dict[str, pl.Series]:
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
