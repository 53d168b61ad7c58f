"""Groups of records: everyone is published as the mean of a group of at least k."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from shoal.errors import ParameterError
from shoal.microaggregation import Microaggregator, resolve_method
from shoal.publish.executors import Draft, Rows
from shoal.publish.recoding import refuse_for_groups
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages.households import household_sums, households_of
from shoal.publish.stages.measure import Tally
from shoal.publish.stages.plan import PublishPlan, draft_plan, finished_plan, small_strata
from shoal.publish.stages.release import original_cells
from shoal.publish.stages.roles import Roles
from shoal.publish.stages.routing import centres_of, stratum_sums
from shoal.publish.stages.survey import survey_batch, surveyed
from shoal.publish.treatments import Made, PublishRun

# Rows of the sample from which large tables are cut into parts.
SAMPLE_ROWS = 60_000


@dataclass(frozen=True)
class GroupTreatment:
    """Microaggregation by one method."""

    method: Microaggregator

    @classmethod
    def of(cls, request: ProtectionRequest) -> Self:
        """By the request's method; refuses what groups cannot have."""
        return cls(settle_method(request))

    def make(self, run: PublishRun) -> Made:
        """Look through the table, form the groups, aggregate them and count what would be published."""
        run.tell("looking through the table", 0, 0)
        plan = plan_rows(run.rows, run.roles, run.request, self.method)
        run.rows.solve(plan)
        run.tell("checking", 0, 0)
        draft = run.rows.draft(plan, run.key)
        tally = draft.tally
        refuse_interrupted(tally, run.request)
        params = plan.method.get_params(deep=False)
        return Made(
            plan,
            draft.classes,
            draft.verdicts,
            lambda: run.rows.measured(plan, tally.figures()),
            np.concatenate(tally.sizes),
            original_cells(tally.selection()[0], run.roles),
            tally.published(),
            run.roles.quasi_names,
            (*plan.notes(), *_notes(draft)),
            parameters={name: value for name, value in params.items() if name not in ("k", "progress")},
            work=tally.work,
            parts=plan.n_parts,
        )


def settle_method(request: ProtectionRequest) -> Microaggregator:
    """The method as asked for; refuses what it cannot take."""
    refuse_fields(request, refuse_for_groups(), "in groups")
    method = resolve_method(
        request.method, request.k, request.random_state, time_limit=request.time_limit, effort=request.effort,
        max_proposals=request.max_proposals, search_plan=request.search_plan,
    )  # fmt: skip
    if request.keep_best and not method.keeps_best:
        raise ParameterError(
            f"The method {method.name!r} takes no 'keep_best' (--keep-best): interrupted, it has nothing to give out."
        )
    return method


def refuse_interrupted(tally: Tally, request: ProtectionRequest) -> None:
    """Raise where the search was interrupted, unless its best so far was asked for."""
    if tally.interrupted and not request.keep_best:
        raise KeyboardInterrupt


def plan_rows(rows: Rows, roles: Roles, request: ProtectionRequest, method: Microaggregator) -> PublishPlan:
    """Look through the table and decide how it is encoded and cut; further passes for households and small strata."""
    n_rows = rows.settle(roles)
    known = rows.recalled(roles)
    if known is not None:
        return known
    share = min(1.0, SAMPLE_ROWS / max(1, n_rows))
    found = surveyed(rows.fold(lambda batch: survey_batch(batch, roles, share)))
    draft = draft_plan(found, roles, request, method)
    if roles.household is not None:
        homes = households_of(rows.fold(lambda batch: household_sums(batch, draft)), draft)
        draft = replace(draft, households=homes)
    centres = None
    if small_strata(draft, found):
        centres = centres_of(rows.fold(lambda batch: stratum_sums(batch, draft)))
    return finished_plan(draft, found, rows.part_rows(roles), centres)


def _notes(draft: Draft) -> list[str]:
    """What to know about the groups as a whole."""
    said, tally = [], draft.tally
    if tally.merged:
        said.append(f"{tally.merged:,} groups were given up to protect the sensitive columns.")
    if tally.interrupted:
        said.append("The search was interrupted: this is the best partition it had found.")
    if tally.false_cells:
        said.append(
            f"{tally.false_cells:,} cells of categories have another value than the record's own: the most frequent one "
            "of its group."
        )
    return said
