"""The pipeline: a table of individuals becomes a table in which everyone is in a group.

Read `protect` from top to bottom: a line for each stage, the same wherever the rows live. Nothing is given out unless
the check of what would be published holds and its status allows it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from shoal.errors import ParameterError
from shoal.microaggregation import Microaggregator, resolve_method
from shoal.publish.executors import Draft, Executor, Progress, Rows
from shoal.publish.recoding import CHANGING, refuse_for_groups
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.result import Protection
from shoal.publish.stages.check import exposure_of, refuse_broken
from shoal.publish.stages.households import household_sums, households_of
from shoal.publish.stages.identification import NOT_MEASURED
from shoal.publish.stages.plan import PublishPlan, draft_plan, finished_plan, small_strata
from shoal.publish.stages.roles import Roles, settle_roles, settle_rules
from shoal.publish.stages.routing import centres_of, stratum_sums
from shoal.publish.stages.survey import survey_batch, surveyed
from shoal.publish.status import Status, refuse_red, status_of

# Rows of the sample from which large tables are cut into parts.
SAMPLE_ROWS = 60_000


def protect(
    request: ProtectionRequest,
    executor: Executor,
    progress: Progress | None = None,
    before_giving: Callable[[], None] | None = None,
) -> Protection:
    """Protect the table that an executor holds.

    Parameters
    ----------
    request : ProtectionRequest
    executor : Executor
        Where the rows live.
    progress : callable, optional
        Called with a stage, how much of it is done, and of how much.
    before_giving : callable, optional
        Called when everything holds, before the table is given out: what must be noted first.

    Returns
    -------
    Protection

    Raises
    ------
    GuaranteeError
        Where a model that was asked for does not hold on what would be published, or its status is red and the risk
        was not accepted.
    """
    tell = progress or (lambda _stage, _done, _of: None)
    refuse_two_ways(request)
    if request.method_name == "steps":
        from shoal.publish.steps import run_steps

        return run_steps(request, executor, tell, before_giving)
    if request.method_name in CHANGING:
        from shoal.publish.change import change

        return change(request, executor, tell, before_giving)
    started = time.perf_counter()
    method = settle_method(request)
    executor.refuse(request)
    key = None if request.identifiers == "drop" else request.key or secrets.token_bytes(32)
    with executor.open(request, tell) as rows:
        tell("reading the schema", 0, 0)
        head = rows.head()
        roles = settle_roles(head, request, rows.labelled)
        settle_rules(roles, head)
        tell("looking through the table", 0, 0)
        plan = plan_rows(rows, roles, request, method)
        rows.solve(plan)
        tell("checking", 0, 0)
        draft = rows.draft(plan, key)
        status, told = settle_status(rows, draft, plan)
        tell("measuring", 0, 0)
        figures = rows.measured(plan, draft.tally.figures())
        exposure = exposure_of(draft.classes, plan)
        if before_giving is not None:
            before_giving()
        given = rows.give(plan)
    figures = replace(
        figures, at_risk=exposure.at_risk, attribute_disclosure=dict(exposure.attributes),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    said = (*rows.notes, *told)
    notes = said if figures.identification is not None else (*said, NOT_MEASURED)
    return Protection.of(plan, draft, status, figures, given, notes)


def refuse_two_ways(request: ProtectionRequest) -> None:
    """Raise a sentence where both a method and steps are asked for, or steps of which there are none."""
    if request.steps and request.method_name != "steps":
        raise ParameterError(
            f"A run is one method or several steps. Got the method {request.method_name!r} and steps."
        )
    declared = request.steps or (request.schema is not None and request.schema.steps)
    if request.method_name == "steps" and not declared:
        raise ParameterError("The method 'steps' needs steps, in the request or in the schema. Got none.")


def settle_method(request: ProtectionRequest) -> Microaggregator:
    """The method as asked for; refuses what it cannot take."""
    refuse_fields(request, refuse_for_groups(), "in groups")
    return resolve_method(
        request.method, request.k, request.random_state, time_limit=request.time_limit, effort=request.effort,
        max_proposals=request.max_proposals, search_plan=request.search_plan,
    )  # fmt: skip


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


def settle_status(rows: Rows, draft: Draft, plan: PublishPlan) -> tuple[Status, tuple[str, ...]]:
    """The status of what would be published and notes on it; raises where it must not be given out."""
    request = plan.request
    if draft.tally.interrupted and not request.keep_best:
        raise KeyboardInterrupt
    refuse_broken(draft.verdicts)
    status = status_of(draft.verdicts, exposure_of(draft.classes, plan), request.k, request.limits)
    status, told = rows.with_earlier(status, plan)
    refuse_red(status, accepted=request.accept_risk)
    return status, told
