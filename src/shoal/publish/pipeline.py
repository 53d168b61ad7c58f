"""The pipeline: it turns a table of individuals into a table in which each person looks like several others.

Read `protect` from top to bottom. It has one line for each stage, and the stages are the same for every treatment and for
every place where rows are kept. A table is given out only if its check holds and its status allows it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace

from shoal.publish.executors import Executor, Progress, Rows
from shoal.publish.request import ProtectionRequest
from shoal.publish.result import Protection
from shoal.publish.stages.check import Exposure, exposure_of, refuse_broken
from shoal.publish.stages.identification import NOT_MEASURED
from shoal.publish.stages.measure import Figures
from shoal.publish.stages.release import hidden
from shoal.publish.stages.roles import settle_roles, settle_rules
from shoal.publish.status import Status, refuse_red, status_of
from shoal.publish.treatments import Made, PublishRun, treatment_of


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
        Where the rows are kept.
    progress : callable, optional
        Called with the name of a stage, how much of it is done, and how much there is.
    before_giving : callable, optional
        Called after all checks, just before the table is given out; for what must be recorded first.

    Returns
    -------
    Protection

    Raises
    ------
    GuaranteeError
        If a privacy model that was asked for does not hold on the table that would be published, or if its status is
        red and the risk was not accepted.
    """
    tell = progress or (lambda _stage, _done, _of: None)
    started = time.perf_counter()
    treatment = treatment_of(request)
    executor.refuse(request)
    key = None if request.identifiers == "drop" else request.key or secrets.token_bytes(32)
    with executor.open(request, tell) as rows:
        tell("reading the schema", 0, 0)
        head = rows.head()
        roles = settle_roles(head, request, rows.labelled)
        edits = settle_rules(roles, head)
        made = treatment.make(PublishRun(request, rows, roles, edits, key, tell))
        exposure = exposure_of(made.classes, made.decided)
        status, told = settle_status(rows, made, exposure)
        tell("measuring", 0, 0)
        figures = replace(
            rows.costs(made.measured()),
            at_risk=exposure.at_risk,
            attribute_disclosure=dict(exposure.attributes),
        )
        if before_giving is not None:
            before_giving()
        given = rows.give(made.decided)
    return Protection(
        frame=given.frame, labels=given.labels, verdicts=made.verdicts,
        figures=replace(figures, seconds=time.perf_counter() - started), status=status.colour, reasons=status.reasons,
        request=request, roles=roles, notes=(*rows.notes, *told, *roles.notes, *made.notes, *notes_of(made, figures)),
        sizes=made.sizes, original=made.original, published=made.published, work=made.work, parts=made.parts,
        parameters=dict(made.parameters or {}),
    )  # fmt: skip


def settle_status(rows: Rows, made: Made, exposure: Exposure) -> tuple[Status, tuple[str, ...]]:
    """The status of the table that would be published, and notes on it; raises if the table must not be given out."""
    request = made.decided.request
    refuse_broken(made.verdicts)
    status = status_of(made.verdicts, exposure, request.k, request.limits)
    if made.red:
        status = Status("red", (*made.red, *status.reasons))
    status, told = rows.with_earlier(status, made.decided)
    refuse_red(status, accepted=request.accept_risk)
    return status, told


def notes_of(made: Made, figures: Figures) -> list[str]:
    """Notes on a result: its rules, the columns that were not treated, and the columns that are gone."""
    roles, request, said = made.decided.roles, made.decided.request, []
    if request.time_limit is not None:
        said.append("The clock may have ended the search, so another machine may find another result.")
    said += [each.sentence for each in figures.rules or ()]
    left = [name for name in (*roles.sensitive, *roles.left) if name not in made.treated]
    if left:
        said.append(f"Not protected, published as they are: {', '.join(left)}.")
    if roles.weight:
        said.append(
            f"Weights {roles.weight!r} are published as the mean of their group, so that totals hold."
        )
    if hidden(roles):
        what = "dropped" if request.identifiers == "drop" else "replaced by keyed hashes"
        said.append(f"Identifiers {what}: {', '.join(hidden(roles))}.")
    return said if figures.identification is not None else [*said, NOT_MEASURED]
