"""Plan: how a table of any size is encoded and cut into parts, decided from a survey of all batches.

`make_plan` here, `route` (a batch's rows to parts) and `solve_part` are pure functions over tables with
their schema, and no engine inside: the local pool and Spark run the same three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder, Standardiser
from shoal.errors import InputError
from shoal.microaggregation import Microaggregator
from shoal.scale.roles import Roles
from shoal.scale.routing import Router, strata_keys
from shoal.scale.survey import Survey


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


def refuse_small(found: Survey, little: list[tuple[Any, ...]], k: int) -> InputError:
    """The sentence on the first stratum below k."""
    shown = ", ".join(str(value) for value in little[0])
    return InputError(
        f"Each stratum must have at least k = {k} rows. Stratum {shown!r} has {found.strata[little[0]]}."
    )


def draft_plan(found: Survey, roles: Roles, method: Any) -> Plan:
    """A plan without parts, enough to encode records and find the centres of strata."""
    templates = templates_of(found, roles)
    encoder = encoder_of(found, templates)
    return Plan(roles, templates, encoder, method, {}, {}, {}, 0, found.n_kept, round_integers=False)


def templates_of(found: Survey, roles: Roles) -> tuple[TypedColumn, ...]:
    """The quasi-identifiers without rows; refuses columns of missing cells."""
    templates, refused = [], []
    for fact, column in zip(roles.quasi, found.columns, strict=True):
        if not column.levels and column.moments.count == 0:
            raise InputError(
                f"Column {fact.name!r} must hold values to be aggregated. All its cells are missing."
            )
        if column.missing and fact.on_missing == "error":
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
    return Encoder(tuple(standardisers), tuple(shares), tuple(each.facts.importance for each in templates))


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
