"""The plan: how a table of any size is encoded and divided into parts. It is made from a survey of all batches.

The functions here, `route` (which sends the rows of a batch to parts) and `solve_part` are pure functions, and all
executors use the same ones. A table in memory is one part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import Encoder, Standardiser
from shoal.errors import InputError
from shoal.masking import recode
from shoal.microaggregation import Microaggregator
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.households import Households
from shoal.publish.stages.roles import Roles
from shoal.publish.stages.routing import Router, parts_of_stratum, strata_keys
from shoal.publish.stages.survey import ColumnSurvey, Moments, Survey
from shoal.schema import Column


@dataclass(frozen=True)
class Original:
    """Coordinates in which loss is counted: those of the cells before ends were coded and levels recoded.

    Attributes
    ----------
    templates : tuple of TypedColumn
        For each quasi-identifier the column whose cells are the original ones.
    encoder : Encoder
    covers : tuple of array or None
        For a recoded column the share of each original level in each level it was recoded to.
    """

    templates: tuple[TypedColumn, ...]
    encoder: Encoder
    covers: tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class PublishPlan:
    """All decisions before records are grouped. The same plan gives the same groups on every executor.

    Attributes
    ----------
    request : ProtectionRequest
    roles : Roles
    templates : tuple of TypedColumn
        The quasi-identifiers without rows: facts, levels, type.
    encoder : Encoder
    original : Original or None
        The coordinates in which the loss is measured, if they are not those of `encoder`.
    method : Microaggregator
    sensitive : mapping of str to polars.DataFrame
        The whole table's values of each sensitive column and their rows, where models are asked for.
    routers : mapping of stratum to (first part, Router)
        For strata that are cut into several parts.
    homes : mapping of stratum to part
        For strata that lie in one part, alone or with others.
    joins : mapping of stratum to stratum
        Strata below k and the stratum they become part of.
    n_parts, n_rows : int
    dropped : int
        Rows left out for a missing cell.
    households : Households or None
        What a pass has found about the households, where there are any.
    small : mapping of stratum to int
        What the strata in `joins` held before.
    missing : mapping of str to int
        Missing cells of the quasi-identifiers that have some.
    """

    request: ProtectionRequest
    roles: Roles
    templates: tuple[TypedColumn, ...]
    encoder: Encoder
    original: Original | None
    method: Microaggregator
    sensitive: Mapping[str, pl.DataFrame]
    routers: Mapping[tuple[Any, ...], tuple[int, Router]]
    homes: Mapping[tuple[Any, ...], int]
    joins: Mapping[tuple[Any, ...], tuple[Any, ...]]
    n_parts: int
    n_rows: int
    dropped: int
    households: Households | None = None
    small: Mapping[tuple[Any, ...], int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What a group has k of: records or households."""
        return "record" if self.roles.household is None else "household"

    @property
    def round_integers(self) -> bool:
        """Whether means of integer columns are rounded."""
        return self.request.integers == "round"

    def typed(self, table: pl.DataFrame) -> list[TypedColumn]:
        """The quasi-identifiers of some decoded rows."""
        return [_read(table, each) for each in self.templates]

    def notes(self) -> list[str]:
        """What was decided about rows and strata, one sentence each."""
        merged = [
            f"Stratum {_key_text(small)!r} has {self.small[small]} {self.unit}{'s' if self.small[small] != 1 else ''}, fewer than k: "
            f"its rows joined the nearest stratum, "
            f"{_key_text(large)!r}, and are published with that value."
            for small, large in self.joins.items()
        ]
        gone = [f"Rows with missing cells that were dropped: {self.dropped:,}."] if self.dropped else []
        homes = (
            [] if self.households is None else self.households.notes([each.name for each in self.templates])
        )
        return [*gone, *self._filled(), *merged, *homes]

    def _filled(self) -> list[str]:
        """What was done with missing cells."""
        words = {
            "impute": "Missing cells filled in from the records nearest to theirs, and averaged with them",
            "category": "Missing cells that take the value of their group where another member has one",
        }
        said = []
        for policy, sentence in words.items():
            names = [each.name for each in self.templates if each.facts.on_missing == policy]
            counts = ", ".join(f"{name} {self.missing[name]:,}" for name in names if name in self.missing)
            said += [f"{sentence}: {counts}."] if counts else []
        return said


def original_columns(table: pl.DataFrame, plan: PublishPlan) -> list[TypedColumn]:
    """The original cells of the quasi-identifiers, in which loss is counted."""
    return [_read(table, each) for each in (plan.original.templates if plan.original else plan.templates)]


def draft_plan(
    found: Survey, roles: Roles, request: ProtectionRequest, method: Microaggregator
) -> PublishPlan:
    """A plan without parts, enough to encode records and find the centres of strata."""
    if found.n_kept < method.k:
        raise InputError(
            f"A group needs k = {method.k} records, so the table must have at least that many. Got {found.n_kept}."
        )
    here = found.columns[: len(roles.quasi)]
    templates = tuple(_template(fact, column) for fact, column in zip(roles.quasi, here, strict=True))
    _refuse_missing(templates, here)
    return PublishPlan(
        request=request,
        roles=roles,
        templates=templates,
        encoder=_encoder(templates, here),
        original=_original(found, roles, templates),
        method=method,
        sensitive=dict(zip(roles.modelled, found.sensitive, strict=True)),
        routers={},
        homes={(): 0},
        joins={},
        n_parts=1,
        n_rows=found.n_kept,
        dropped=found.n_rows - found.n_kept,
        missing={
            each.name: column.missing for each, column in zip(templates, here, strict=True) if column.missing
        },
    )


def finished_plan(
    draft: PublishPlan,
    found: Survey,
    part_rows: int | None,
    centres: Mapping[tuple[Any, ...], np.ndarray] | None = None,
) -> PublishPlan:
    """Join strata below k to others, and cut the table into parts.

    Parameters
    ----------
    part_rows : int or None
        Records a part should have at most, about; None keeps the table whole.
    centres : mapping of stratum to coordinates, optional
        Mean coordinates of the strata; needed where some stratum has fewer than k records.
    """
    rows = dict(found.strata) or {(): found.n_kept}
    joins = _joins(units(draft, found), centres, draft)
    for small, large in joins.items():
        rows[large] += rows.pop(small)
    counts = units(draft, found)
    plan = replace(draft, joins=joins, small={key: counts[key] for key in joins})
    if part_rows is None or found.n_kept <= part_rows:
        return replace(plan, homes=dict.fromkeys(rows, 0), n_parts=1)
    routers, homes, n_parts = _parts(plan, found.sample, rows, part_rows)
    plan = replace(plan, routers=routers, homes=homes, n_parts=n_parts)
    if plan.households is None:
        return plan
    return replace(plan, households=plan.households.routed(partial(parts_of_stratum, plan), n_parts))


def units(plan: PublishPlan, found: Survey) -> dict[tuple[Any, ...], int]:
    """What groups are made of, in each stratum: records, or households where there are any."""
    if plan.households is not None:
        return plan.households.per_stratum
    return dict(found.strata) or {(): found.n_kept}


def small_strata(plan: PublishPlan, found: Survey) -> bool:
    """Whether a stratum is too small for a group; raises a sentence where that is to be refused."""
    k, counts = plan.method.k, units(plan, found)
    little = sorted((key for key, count in counts.items() if count < k), key=str)
    if not little or not plan.roles.strata:
        return False
    if plan.request.small_strata == "refuse":
        raise InputError(
            f"Each stratum must have at least k = {k} {plan.unit}s. Stratum {_key_text(little[0])!r} has "
            f"{counts[little[0]]}."
        )
    return True


def _key_text(key: tuple[Any, ...]) -> str:
    return ", ".join(str(value) for value in key)


def _read(table: pl.DataFrame, template: TypedColumn) -> TypedColumn:
    read = read_column(table[template.name], template.facts, template.levels)
    return replace(read, dtype=template.dtype)


def _template(fact: Column, column: ColumnSurvey) -> TypedColumn:
    """A column without rows; refuses one of missing cells alone."""
    if not column.levels and column.moments.count == 0:
        raise InputError(f"Column {fact.name!r} must hold values to be protected. All its cells are missing.")
    levels = None
    if column.levels:
        levels = pl.Series(sorted(column.levels) if fact.levels is None else list(column.levels))
        levels = levels.cast(column.dtype if column.dtype not in (pl.Categorical, pl.Enum) else pl.String)
    return TypedColumn(fact, np.empty(0), np.empty(0, bool), levels, column.dtype)


def _refuse_missing(templates: tuple[TypedColumn, ...], columns: tuple[ColumnSurvey, ...]) -> None:
    refused = [
        f"{template.name!r} ({column.missing})"
        for template, column in zip(templates, columns, strict=True)
        if column.missing and template.facts.on_missing == "error"
    ]
    if refused:
        raise InputError(
            "Missing cells need a policy (impute, category or drop; for all columns by 'on_missing', or by column "
            f"in the schema). Got missing cells in {', '.join(refused[:8])}."
        )


def _encoder(templates: tuple[TypedColumn, ...], columns: tuple[ColumnSurvey, ...]) -> Encoder:
    """The encoder of the whole table, from exact moments and counts of levels."""
    standardisers: list[Standardiser | None] = []
    shares: list[np.ndarray | None] = []
    for template, column in zip(templates, columns, strict=True):
        moments = column.moments
        if template.levels is not None:
            counts = np.array([column.levels[level] for level in template.levels.to_list()], dtype=float)
            if template.is_coded:
                shares.append(counts / max(1.0, counts.sum()))
                standardisers.append(None)
                continue
            moments = Moments.of(np.repeat(np.arange(counts.size, dtype=float), counts.astype(np.int64)))
        shares.append(None)
        spread = np.sqrt(moments.squares / moments.count) if moments.low < moments.high else 1.0
        standardisers.append(
            Standardiser(np.array([moments.unit]), np.array([moments.mean]), np.array([spread or 1.0]))
        )
    return Encoder(tuple(standardisers), tuple(shares), tuple(each.facts.importance for each in templates))


def _original(found: Survey, roles: Roles, templates: tuple[TypedColumn, ...]) -> Original | None:
    if not roles.raw:
        return None
    raw = dict(zip(roles.changed, zip(roles.raw, found.columns[len(templates) :], strict=True), strict=True))
    own, columns = [], []
    covers: list[np.ndarray | None] = []
    for template, column in zip(templates, found.columns, strict=False):
        if template.name not in raw:
            own.append(template)
            columns.append(column)
            covers.append(None)
            continue
        fact, before = raw[template.name]
        own.append(_template(fact, before))
        columns.append(before)
        declared = roles.schema.columns[template.name]
        covers.append(_cover(declared, own[-1], before, template) if declared.recode else None)
    return Original(tuple(own), _encoder(tuple(own), tuple(columns)), tuple(covers))


def _cover(
    declared: Column, before: TypedColumn, found: ColumnSurvey, after: TypedColumn
) -> np.ndarray | None:
    """For each level after recoding, the shares of the original levels it stands for."""
    if before.levels is None or after.levels is None:
        return None
    became = recode(before.levels.cast(pl.String), declared.hierarchy, declared.recode).to_list()
    place = {level: at for at, level in enumerate(after.levels.cast(pl.String).to_list())}
    cover = np.zeros((len(place), len(became)))
    for at, level in enumerate(before.levels.to_list()):
        cover[place[became[at]], at] = max(found.levels[level], 1e-9)
    return cover / cover.sum(axis=1, keepdims=True)


def _joins(
    sizes: Mapping[tuple[Any, ...], int],
    centres: Mapping[tuple[Any, ...], np.ndarray] | None,
    plan: PublishPlan,
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Each stratum below k and the nearest stratum that has k."""
    k = plan.method.k
    large = [key for key, count in sizes.items() if count >= k]
    small = sorted((key for key, count in sizes.items() if count < k), key=str)
    if not small:
        return {}
    if not large:
        raise InputError(
            f"A group needs k = {k} {plan.unit}s, so there must be at least that many"
            f"{' in a stratum' if plan.roles.strata else ''}. Got {max(sizes.values())}."
        )
    middle = centres or {}
    return {
        key: min(large, key=lambda other: (float(((middle[other] - middle[key]) ** 2).sum()), str(other)))
        for key in small
    }


def _parts(
    plan: PublishPlan, sample: pl.DataFrame, sizes: Mapping[tuple[Any, ...], int], part_rows: int
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
