"""A table made ready for groups, and the figures of any partition of it: for those who compare methods."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.engine.columns import TypedColumn
from shoal.measures import linked_share, sought_records
from shoal.microaggregation import SearchWork
from shoal.publish.executors.memory import Memory
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.encode import Encoded, encode_part
from shoal.publish.stages.measure import MEASURED_RECORDS, Figures, number_figures
from shoal.publish.stages.partition import PartGroups, form_groups
from shoal.publish.stages.plan import PublishPlan, original_columns
from shoal.publish.stages.release import original_cells
from shoal.publish.stages.roles import settle_roles
from shoal.publish.stages.solve import aggregated, sums_of
from shoal.publish.stages.survey import kept_rows
from shoal.publish.treatments.groups import plan_rows, settle_method


@dataclass(frozen=True)
class Prepared:
    """A table decoded, its roles settled, its columns encoded: all stages before the groups.

    Attributes
    ----------
    plan : PublishPlan
    part : Encoded
        All rows.
    notes : tuple of str
    frame, labelled
        The table as it came.
    """

    plan: PublishPlan
    part: Encoded
    notes: tuple[str, ...]
    frame: Any
    labelled: Collection[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are aggregated."""
        return tuple(self.plan.roles.quasi_names)

    def groups(self, method: str, k: int, **options: Any) -> PartGroups:
        """The groups that a method forms for some k, inside the strata and with households whole."""
        asked = replace(self.plan.request, method=method, k=k, **options)
        # Which strata are too small depends on k.
        ready = prepare(self.frame, asked, self.labelled) if self.plan.roles.strata else self
        return form_groups(ready.part, replace(ready.plan, request=asked, method=settle_method(asked)))

    def measured(self, groups: PartGroups) -> tuple[Figures, SearchWork | None]:
        """The figures of some groups as `protect` counts them, and the work of a search that was one run."""
        values, gone = aggregated(self.part, groups, self.plan)
        sums = sums_of(self.part, groups, values, gone, self.plan, MEASURED_RECORDS)
        labels, total = groups.labels, float(sums.total.sum())
        after = [
            replace(column, values=values[labels, j], missing=gone[labels, j])
            for j, column in enumerate(self.part.filled)
        ]
        loss = 100.0 * float(sums.loss.sum()) / total if total > 0 else 0.0
        return replace(self.figures(after, labels, sums.linked), information_loss=loss), sums.work

    def figures(self, after: list[TypedColumn], labels: np.ndarray, linked: float | None = None) -> Figures:
        """Loss and linkage of columns as they would be published; linkage is measured unless it is given."""
        Z = self.part.Z
        Y = self.plan.encoder.transform(after)
        total, sizes = float((Z**2).sum()), np.bincount(labels)
        rows = slice(None, None, max(1, -(-Z.shape[0] // MEASURED_RECORDS)))
        own = original_columns(self.part.table[rows], self.plan)
        new = [replace(each, values=each.values[rows], missing=each.missing[rows]) for each in after]
        cells = number_figures(own, new)
        return Figures(
            indicators_kept=self._kept(after),
            n_records=Z.shape[0],
            n_groups=int(sizes.size),
            smallest_group=int(sizes.min()),
            largest_group=int(sizes.max()),
            information_loss=100.0 * float(((Z - Y) ** 2).sum()) / total if total > 0 else 0.0,
            dld=linked_share(Z, Y, max_records=MEASURED_RECORDS) if linked is None else linked,
            linked_records=sought_records(Z.shape[0], MEASURED_RECORDS),
            measured_records=min(Z.shape[0], MEASURED_RECORDS),
            **cells,
        )

    def _kept(self, after: list[TypedColumn]) -> float | None:
        """The share of the schema's indicators that columns as they would be published keep; None without any."""
        roles = self.plan.roles
        if not roles.schema.indicators:
            return None
        from shoal.utility import fitness

        table = original_cells(self.part.table, roles)
        new = [column.native(column.values, column.missing, round_integers=False) for column in after]
        plain = replace(
            roles.schema, columns={n: replace(c, missing_codes=()) for n, c in roles.schema.columns.items()}
        )
        return fitness(table, table.with_columns(new), plain, weights=roles.weight).kept


def prepare(frame: Any, request: ProtectionRequest, labelled: Collection[str] = ()) -> Prepared:
    """Run all stages before the groups on a table in memory."""
    memory = Memory(frame, labelled)
    memory.refuse(request)
    with memory.open(request, lambda _stage, _done, _of: None) as rows:
        roles = settle_roles(rows.head(), request, labelled)
        plan = plan_rows(rows, roles, request, settle_method(request))
        part = encode_part(kept_rows(rows.table, roles.quasi), plan)
    return Prepared(plan, part, (*roles.notes, *plan.notes()), frame, labelled)
