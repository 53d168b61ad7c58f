"""Groups: formed inside the strata, households kept whole, then refined until the sensitive columns are safe.

`form_groups` calls a method of the registry, which puts records into groups. Methods that change single cells
(`generalize`, `suppress`) are treatments of their own, in `shoal.publish.treatments`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shoal import privacy
from shoal.engine.encode import group_means
from shoal.engine.kernels.axes import blocks_of
from shoal.errors import InputError
from shoal.microaggregation import GivenPartition, Microaggregator, refine, split_strata
from shoal.publish.stages.distances import distances_of
from shoal.publish.stages.encode import Encoded
from shoal.publish.stages.households import hold_together, within_households
from shoal.publish.stages.members import profiles
from shoal.publish.stages.plan import PublishPlan

# Within a part, methods of more than linear time work on blocks of this many records.
BLOCK_ROWS = 2_000
# Rounds of exchanges across the borders of these blocks.
REFINING = 6

Progress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class PartGroups:
    """The groups of a part.

    Attributes
    ----------
    labels : array of int64
        Group 0..c-1 of each row.
    outer : array of int64 or None
        With households: the set of households 0..b-1 of each row. Groups are inside these sets.
    methods : tuple of Microaggregator
        The method as it ran in each stratum.
    merged : int
        Groups that were merged to protect the sensitive columns.
    """

    labels: np.ndarray
    outer: np.ndarray | None
    methods: tuple[Microaggregator, ...]
    merged: int = 0

    @property
    def interrupted(self) -> bool:
        """Whether a search was interrupted."""
        return any(getattr(each, "interrupted_", False) for each in self.methods)


def form_groups(part: Encoded, plan: PublishPlan, progress: Progress | None = None) -> PartGroups:
    """A group for each row. No group crosses a stratum; with households, each has rows of at least k households."""
    labels = np.empty(part.Z.shape[0], np.int64)
    methods: list[Microaggregator] = []
    following = 0
    # Means of households hold no category; otherwise a search lowers what modes lose, as they are published.
    categories = [] if part.households is not None else plan.encoder.modes(part.filled)
    strata = _strata(part, plan)
    for stratum in range(int(strata.max()) + 1):
        rows = np.flatnonzero(strata == stratum)
        Z, of_row = part.Z[rows] if following or rows.size < labels.size else part.Z, None
        if part.households is not None:
            homes, of_row = np.unique(part.households[rows], return_inverse=True)
            of_row = of_row.reshape(-1)
            if np.isin(part.households[part.strata != stratum], homes).any():
                raise InputError("A household must lie in one stratum. One has records in two.")
            if homes.size < plan.method.k:
                raise InputError(
                    f"A group needs k = {plan.method.k} households, so there must be at least that many. "
                    f"Got {homes.size}."
                )
            own = None if plan.households is None else np.repeat(plan.households.own, part.widths)
            Z = group_means(Z, of_row) if own is None else profiles(Z, of_row, own)
        found = _in_blocks(Z, rows.size, plan, categories, methods, progress)
        labels[rows] = following + (found if of_row is None else found[of_row])
        following += int(found.max()) + 1
    if part.households is None or plan.households is None:
        return PartGroups(labels, None, tuple(methods))
    inside = within_households(part, labels, plan.households.own, plan.method.k)
    return PartGroups(inside, labels, tuple(methods))


def _strata(part: Encoded, plan: PublishPlan) -> np.ndarray:
    """Who may share a group: records of one stratum, with the same zeros if a rule says that zeros stay."""
    names = plan.roles.zeros
    zeros = [(column.values == 0) & ~column.missing for column in part.filled if column.name in names]
    # Households hold records of several patterns; groups that are given are taken as they are.
    if not zeros or part.households is not None or isinstance(plan.method, GivenPartition):
        return part.strata
    return split_strata(part.Z, part.strata, np.stack(zeros, axis=1), plan.method.k)


def reach_models(part: Encoded, groups: PartGroups, plan: PublishPlan) -> PartGroups:
    """Merge groups and swap records until the sensitive columns are l-diverse and t-close to the whole table."""
    if not plan.roles.modelled:
        return groups
    before = int(groups.labels.max()) + 1
    distances, levels = distances_of(plan.roles)
    # Households stay together, so their records are not swapped.
    labels = privacy.reach(
        groups.labels,
        part.Z,
        part.table.select(plan.roles.modelled),
        l=plan.request.l,
        t=plan.request.t,
        distance=distances,
        levels=levels,
        swap=groups.outer is None,
        strata=part.strata,
        population=plan.sensitive if plan.n_parts > 1 else None,
    )
    outer = None if groups.outer is None else hold_together(labels, groups.outer)
    return replace(groups, labels=labels, outer=outer, merged=before - int(labels.max()) - 1)


def _in_blocks(
    Z: np.ndarray,
    n_rows: int,
    plan: PublishPlan,
    categories: list[tuple[int, int]],
    methods: list[Microaggregator],
    progress: Progress | None,
) -> np.ndarray:
    """Run the method on all records. In a large table, run it within blocks, then exchange records across their borders."""
    most = max(BLOCK_ROWS, 10 * plan.method.k)
    # A table that is one part is solved whole, wherever it lies; a search cuts large tables into blocks by itself.
    if plan.n_parts == 1 or plan.method.takes("max_proposals"):
        most = Z.shape[0]
    blocks = [np.sort(rows) for rows in blocks_of(Z, most)] if most < Z.shape[0] else [np.arange(Z.shape[0])]
    labels, following = np.empty(Z.shape[0], np.int64), 0
    for rows in blocks:
        share = max(1, round(n_rows * rows.size / Z.shape[0]))
        method = plan.method.for_part(share, plan.n_rows, Z.shape[1], categories)
        if progress is not None and method.takes("progress"):
            method.set_params(progress=progress)
        # numpy copies whole rows only where it need not check each number.
        found = method.partition(np.take(Z, rows, axis=0, mode="clip"), categories)
        methods.append(method)
        labels[rows] = following + found
        following += int(found.max()) + 1
    return refine(Z, labels, REFINING) if len(blocks) > 1 else labels
