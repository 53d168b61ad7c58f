"""Plan, route, solve: how a table of any size is cut into parts, and how a part is protected.

Three pure functions over tables with their schema, and no engine inside: `make_plan` (from a survey of all
batches), `route` (a batch's rows to parts) and `solve_part`. The local pool and Spark run the same three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from sklearn.base import clone

from shoal.engine.aggregate import aggregate_column, medoids_of
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder, Standardiser
from shoal.engine.missing import impute
from shoal.engine.roles import row_codes
from shoal.errors import InputError
from shoal.measures._risk import linked_share
from shoal.microaggregation import Microaggregator, mend
from shoal.scale.survey import ROW, Survey, kept_rows
from shoal.schema import Column, Schema

# Within a part, methods of more than linear time work on blocks of this many records.
BLOCK_ROWS = 2_000
# Rounds of exchanges across the borders of these blocks.
MENDING = 5
# Records of a part for which linkage is measured.
MEASURED = 500


@dataclass(frozen=True)
class Roles:
    """What every column is, settled before the first pass."""

    schema: Schema
    quasi: tuple[Column, ...]
    strata: tuple[str, ...]
    weight: str | None
    identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    untouched: tuple[str, ...]

    @property
    def needed(self) -> list[str]:
        """Columns that decide about groups and their values."""
        return [
            *(fact.name for fact in self.quasi),
            *self.strata,
            *([self.weight] if self.weight else []),
        ]


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
        node = np.zeros(Z.shape[0], np.int64)
        for level in range(self.n_leaves.bit_length() - 1):
            base = (1 << level) - 1
            along = np.einsum("ij,ij->i", Z, self.axes[base + node])
            node = 2 * node + (along > self.cuts[base + node])
        return node

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


@dataclass(frozen=True)
class Plan:
    """All that is decided before records are grouped. The same plan gives the same groups anywhere.

    Attributes
    ----------
    roles : Roles
    templates : tuple of TypedColumn
        The quasi-identifiers without rows: facts, levels, type.
    encoder : Encoder
    method : Microaggregator
    routers : mapping of stratum to (first part, Router)
        For strata that are cut into several parts.
    homes : mapping of stratum to part
        For strata that lie in one part, alone or with others.
    joins : mapping of stratum to stratum
        Strata below k and the stratum they become part of.
    n_parts, n_rows : int
    round_integers : bool
    share_of_time : float
        Time limit of the method for one record.
    """

    roles: Roles
    templates: tuple[TypedColumn, ...]
    encoder: Encoder
    method: Microaggregator
    routers: Mapping[tuple[Any, ...], tuple[int, Router]]
    homes: Mapping[tuple[Any, ...], int]
    joins: Mapping[tuple[Any, ...], tuple[Any, ...]]
    n_parts: int
    n_rows: int
    round_integers: bool
    share_of_time: float | None = None

    def typed(self, table: pl.DataFrame) -> list[TypedColumn]:
        """The quasi-identifiers of some rows."""
        return [
            replace(read_column(table[each.name], each.facts, each.levels), dtype=each.dtype)
            for each in self.templates
        ]


@dataclass(frozen=True)
class Solved:
    """The groups of a part.

    Attributes
    ----------
    labels : array of int64
        Group 0..c-1 of each row.
    values : array of float64, (c, n_columns)
        The published value of each group and quasi-identifier, as number or code.
    gone : array of bool, (c, n_columns)
        Where it is missing.
    loss, total : float
        Squared distances to the published values and to the middle, summed.
    linked : float
        Share of the part's records whose nearest record in the part is their own; NaN if not measured.
    """

    labels: np.ndarray
    values: np.ndarray
    gone: np.ndarray
    loss: float
    total: float
    linked: float


def make_plan(
    found: Survey,
    roles: Roles,
    method: Microaggregator,
    part_rows: int,
    *,
    centres: Mapping[tuple[Any, ...], np.ndarray] | None = None,
    round_integers: bool = False,
    share_of_time: float | None = None,
) -> Plan:
    """Decide encoding and parts from a survey.

    Parameters
    ----------
    part_rows : int
        Records a part should have at most, about.
    centres : mapping of stratum to coordinates, optional
        Mean coordinates of the strata; needed where some stratum has fewer than k records.
    """
    k = method.k
    if found.n_kept < k:
        raise InputError(
            f"A group needs k = {k} records, so the table must have at least that many. Got {found.n_kept}."
        )
    templates = templates_of(found, roles)
    encoder = encoder_of(found, templates)
    sizes = dict(found.strata) or {(): found.n_kept}
    joins = _joins(sizes, centres, k)
    for small, large in joins.items():
        sizes[large] += sizes.pop(small)
    plan = Plan(
        roles, templates, encoder, method, {}, {}, joins, 0, found.n_kept, round_integers, share_of_time
    )
    routers, homes, n_parts = _parts(plan, found.sample, sizes, part_rows)
    return replace(plan, routers=routers, homes=homes, n_parts=n_parts)


def small_strata(found: Survey, k: int) -> list[tuple[Any, ...]]:
    """Strata with fewer than k records."""
    return [key for key, count in found.strata.items() if count < k]


def templates_of(found: Survey, roles: Roles) -> tuple[TypedColumn, ...]:
    """The quasi-identifiers without rows; refuses columns of missing cells."""
    templates, refused = [], []
    for fact, column in zip(roles.quasi, found.columns, strict=True):
        if not column.levels and column.moments.count == 0:
            raise InputError(
                f"Column {fact.name!r} must hold values to be aggregated. All its cells are missing."
            )
        if column.missing and fact.policy == "error":
            refused.append(f"{fact.name!r} ({column.missing})")
        levels = None
        if column.levels:
            levels = pl.Series(sorted(column.levels) if fact.levels is None else list(column.levels))
            dtype = column.dtype if column.dtype not in (pl.Categorical, pl.Enum) else pl.String
            levels = levels.cast(dtype)
        templates.append(TypedColumn(fact, np.empty(0), np.empty(0, bool), levels, column.dtype))
    if refused:
        raise InputError(
            f"Missing cells need a policy (impute, category or drop). Got missing cells in {', '.join(refused[:8])}."
        )
    return tuple(templates)


def encoder_of(found: Survey, templates: tuple[TypedColumn, ...]) -> Encoder:
    """The encoder of the whole table, from exact moments and counts of levels."""
    standardisers: list[Standardiser | None] = []
    shares: list[np.ndarray | None] = []
    for template, column in zip(templates, found.columns, strict=True):
        if template.is_coded:
            levels = [] if template.levels is None else template.levels.to_list()
            counts = np.array([column.levels[level] for level in levels], dtype=float)
            shares.append(counts / max(1, counts.sum()))
            standardisers.append(None)
            continue
        moments = column.moments
        if template.levels is not None:
            counts = np.array([column.levels[level] for level in template.levels.to_list()], dtype=float)
            codes = np.arange(counts.size, dtype=float)
            mean = float(counts @ codes / counts.sum())
            moments = replace(
                moments, count=int(counts.sum()), mean=mean, squares=float(counts @ (codes - mean) ** 2),
                low=float(codes[counts > 0][0]), high=float(codes[counts > 0][-1]),
            )  # fmt: skip
        unit = max(abs(moments.low), abs(moments.high)) or 1.0
        deviation = np.sqrt(moments.squares / moments.count) / unit if moments.low < moments.high else 1.0
        shares.append(None)
        standardisers.append(
            Standardiser(np.array([unit]), np.array([moments.mean / unit]), np.array([deviation or 1.0]))
        )
    return Encoder(tuple(standardisers), tuple(shares), tuple(each.facts.weight for each in templates))


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
    if codes is None:
        codes = np.zeros(kept.height, np.int64)
    if not codes.size:
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


def joined_strata(batch: pl.DataFrame, plan: Plan) -> dict[str, pl.Series]:
    """The strata columns as published: those of the stratum that a small one became part of."""
    if not plan.joins:
        return {}
    keys = [plan.joins.get(key, key) for key in strata_keys(batch, plan)]
    return {
        name: pl.Series(name, [key[j] for key in keys], dtype=batch.schema[name])
        for j, name in enumerate(plan.roles.strata)
    }


def solve_part(table: pl.DataFrame, plan: Plan, *, measure: bool = True) -> Solved:
    """Group and aggregate the records of a part.

    The records are taken in the order of their row numbers, so that the groups do not depend on the order
    in which they arrive.

    Parameters
    ----------
    table : polars.DataFrame
        The part's rows, with the columns the plan needs and their row number `__row__`.
    plan : Plan
    measure : bool, default True
        Whether linkage is measured.
    """
    order = np.argsort(table[ROW].to_numpy(), kind="stable")
    table = table[order]
    filled = impute(plan.typed(table))
    Z = plan.encoder.transform(filled)
    labels = _groups(Z, table.with_columns(**joined_strata(table, plan)), plan)
    weights = np.ones(table.height)
    if plan.roles.weight is not None:
        weights = table[plan.roles.weight].cast(pl.Float64).to_numpy().copy()
        weights[np.bincount(labels, weights)[labels] == 0] = 1.0
    asked = any(each.facts.aggregate == "medoid" for each in filled)
    medoids = medoids_of(Z, labels) if asked else np.empty(0, np.int64)
    pairs = [aggregate_column(column, labels, weights, medoids) for column in filled]
    values, gone = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    published = [
        replace(column, values=values[labels, j], missing=gone[labels, j]) for j, column in enumerate(filled)
    ]
    Y = plan.encoder.transform(published)
    back = np.empty_like(labels)
    back[order] = labels
    return Solved(
        back,
        values,
        gone,
        float(((Z - Y) ** 2).sum()),
        float((Z**2).sum()),
        linked_share(Z, Y, max_records=MEASURED) if measure else np.nan,
    )


def replaced(batch: pl.DataFrame, plan: Plan, values: np.ndarray, gone: np.ndarray) -> pl.DataFrame:
    """A batch as published: its rows' group values in place of the quasi-identifiers, identifiers gone."""
    new = [
        each.native(values[:, j], gone[:, j], round_integers=plan.round_integers)
        for j, each in enumerate(plan.templates)
    ]
    return batch.with_columns(*new, **joined_strata(batch, plan)).drop(plan.roles.identifiers)


def _groups(Z: np.ndarray, table: pl.DataFrame, plan: Plan) -> np.ndarray:
    """Labels of a part: the method within strata and blocks, then exchanges across the blocks' borders."""
    strata = row_codes(table, list(plan.roles.strata))
    if strata is None:
        strata = np.zeros(Z.shape[0], np.int64)
    labels, following = np.empty(Z.shape[0], np.int64), 0
    whole = plan.method.takes("max_proposals")  # a search cuts large tables into blocks by itself
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        blocks = [rows] if whole else _blocks(Z, rows, max(BLOCK_ROWS, 10 * plan.method.k))
        start = following
        for block in blocks:
            method = clone(plan.method)
            if plan.share_of_time is not None:
                method.set_params(time_limit=plan.share_of_time * block.size)
            found = method.partition(Z[block])
            labels[block] = following + found
            following += int(found.max()) + 1
        if len(blocks) > 1:
            labels[rows] = start + mend(Z[rows], labels[rows] - start, MENDING)
    return labels


def _blocks(Z: np.ndarray, rows: np.ndarray, most: int) -> list[np.ndarray]:
    """Halves along the axis of largest spread until none has more than `most` records."""
    if rows.size <= most:
        return [rows]
    part = Z[rows]
    part -= part.mean(axis=0)
    axis = np.linalg.eigh(part.T @ part)[1][:, -1]
    order = np.argpartition(part @ axis, rows.size // 2)
    return [
        *_blocks(Z, np.sort(rows[order[: rows.size // 2]]), most),
        *_blocks(Z, np.sort(rows[order[rows.size // 2 :]]), most),
    ]


def _joins(
    sizes: Mapping[tuple[Any, ...], int], centres: Mapping[tuple[Any, ...], np.ndarray] | None, k: int
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Each stratum below k and the nearest stratum that has k."""
    large = [key for key, count in sizes.items() if count >= k]
    small = [key for key, count in sizes.items() if count < k]
    if not small:
        return {}
    if not large:
        raise InputError(
            f"A stratum must have at least k = {k} records. The largest has {max(sizes.values())}."
        )
    middle = centres or {}
    return {
        key: min(large, key=lambda other: (float(((middle[other] - middle[key]) ** 2).sum()), str(other)))
        for key in small
    }


def _parts(
    plan: Plan, sample: pl.DataFrame, sizes: Mapping[tuple[Any, ...], int], part_rows: int
) -> tuple[dict[tuple[Any, ...], tuple[int, Router]], dict[tuple[Any, ...], int], int]:
    """Trees for the strata above `part_rows`, shared parts for the rest."""
    routers: dict[tuple[Any, ...], tuple[int, Router]] = {}
    homes: dict[tuple[Any, ...], int] = {}
    n_parts, room = 0, 0
    shared = -1
    Z = plan.encoder.transform(plan.typed(sample))
    number = {key: at for at, key in enumerate(sizes)}
    keys = np.array([number[plan.joins.get(key, key)] for key in strata_keys(sample, plan)], np.int64)
    for key in sorted(sizes, key=str):
        count = sizes[key]
        if count <= part_rows:
            if shared < 0 or room < count:
                shared, room, n_parts = n_parts, part_rows, n_parts + 1
            homes[key] = shared
            room -= count
            continue
        depth = int(np.ceil(np.log2(count / part_rows)))
        inside = np.flatnonzero(keys == number[key])
        depth = max(1, min(depth, int(np.log2(max(2, inside.size / 32)))))
        routers[key] = (n_parts, Router.fit(Z[inside], depth))
        n_parts += 1 << depth
    return routers, homes, n_parts
