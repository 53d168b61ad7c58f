"""A table held in memory: one batch, one part."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import polars as pl

from shoal import bounds
from shoal.engine.frame import Frame
from shoal.engine.pseudonyms import pseudonyms
from shoal.publish.earlier import with_earlier
from shoal.publish.executors import Draft, GivenOut, Progress, ReplacedDraft, Replacement
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages import check
from shoal.publish.stages.encode import encode_part
from shoal.publish.stages.identification import identification
from shoal.publish.stages.measure import MEASURED_RECORDS, Figures, Tally, certificate
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.release import hidden, new_columns, original_cells, shuffled
from shoal.publish.stages.roles import DecidedRoles, Roles
from shoal.publish.stages.solve import MEASURING, Solved, solve_part
from shoal.publish.stages.survey import ROW, kept_rows
from shoal.publish.status import Status

T = TypeVar("T")
_CANNOT = {
    "engine": "a table in memory has no engine",
    "memory": "it is in memory already",
    "resume": "nothing of it waits on disk",
    "n_jobs": "its kernels use all cores by themselves",
}


@dataclass(frozen=True)
class Memory:
    """Runs the stages over a frame.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    labelled : collection of str, optional
        Columns whose numbers are codes with labels (SPSS, Stata, SAS): categories where no schema says otherwise.
    """

    frame: Any
    labelled: Collection[str] = ()
    name: str = "memory"

    def refuse(self, request: ProtectionRequest) -> None:
        """Raise a sentence that names the first field which concerns files alone."""
        refuse_fields(request, _CANNOT, "in memory")

    @contextlib.contextmanager
    def open(self, request: ProtectionRequest, tell: Progress) -> Iterator[MemoryRows]:
        """Open the frame."""
        del request
        yield MemoryRows(Frame(self.frame), self.labelled, tell)


class MemoryRows:
    """The rows of a frame, for one run."""

    def __init__(self, given: Frame, labelled: Collection[str], tell: Progress) -> None:
        self.labelled, self.tell = labelled, tell
        self.given, said = given.numbered()
        self.notes: tuple[str, ...] = (said,) if said else ()
        self.table = self.given.to_polars()
        self.solved: Solved | None = None
        self.labels = np.empty(0, np.int64)
        self.published = pl.DataFrame()
        self.new: dict[str, pl.Series] = {}

    def head(self) -> pl.DataFrame:
        """All rows."""
        return self.table

    def settle(self, roles: Roles) -> int:
        """Decode the table."""
        numbered = self.table.with_columns(pl.Series(ROW, np.arange(self.table.height)))
        self.table = roles.decoder(numbered)
        return self.table.height

    def recalled(self, roles: Roles) -> PublishPlan | None:
        """Nothing is kept of a run in memory."""
        del roles
        return None

    def fold(self, look: Callable[[pl.DataFrame], T]) -> Iterator[T]:
        """What a function makes of the table."""
        yield look(self.table)

    def part_rows(self, roles: Roles) -> int | None:
        """The table is one part."""
        del roles
        return None

    def solve(self, plan: PublishPlan) -> None:
        """Form and aggregate the groups."""
        self.table = kept_rows(self.table, plan.roles.quasi)
        doing = f"forming groups of at least {plan.method.k} with {plan.method.name}"
        self.tell(doing, 0, 0)
        self.solved = solve_part(
            self.table, plan, measured=MEASURED_RECORDS,
            progress=lambda stage, done, of: self.tell(
                stage if stage == MEASURING else f"{doing}: {stage}", done, of
            ),
        )  # fmt: skip

    def draft(self, plan: PublishPlan, key: bytes | None) -> Draft:
        """The published table, its classes and figures."""
        assert self.solved is not None
        self.labels = labels = self.solved.labels
        values, gone = self.solved.values[labels], self.solved.gone[labels]
        self.new = new_columns(self.table, plan, values, gone, key)
        made = self.table.with_columns(self.new.values())
        self.published = made.select(name for name in plan.roles.names if name not in hidden(plan.roles))
        homes = None if plan.roles.household is None else self.table[plan.roles.household]
        classes = check.class_rows(made, plan, homes)
        tally = Tally(plan)
        tally.add(np.bincount(labels), self.solved.sums)
        chosen = tally.chosen(0)
        tally.keep(self.table[chosen], self.published[chosen])
        tally.show(self.published, 0)
        return Draft(classes, check.verdicts_of(self.published, classes, plan), tally)

    def columns(self, roles: Roles, names: Collection[str]) -> pl.DataFrame:
        """All columns."""
        del names
        self.table = kept_rows(self.table, roles.quasi)
        return self.table

    def replaced(self, decided: DecidedRoles, replacement: Replacement, key: bytes | None) -> ReplacedDraft:
        """The published table, its classes, and a selection of its rows."""
        roles, self.labels = decided.roles, replacement.labels
        closed = hidden(roles)
        recoded = roles.decoder.written(self.table)
        self.new = {name: self.table[name] for name in recoded if name not in closed} | dict(replacement.new)
        if key is not None:
            self.new |= {name: pseudonyms(self.table[name], key) for name in closed}
        made = self.table.with_columns(self.new.values())
        self.published = made.select(name for name in roles.names if name not in closed)
        step = max(1, -(-made.height // MEASURED_RECORDS))
        classes = check.class_rows(made, decided, replacement.households)
        return ReplacedDraft(classes, original_cells(self.table, roles)[::step], self.published[::step])

    def with_earlier(self, status: Status, decided: DecidedRoles) -> tuple[Status, tuple[str, ...]]:
        """The status with what an earlier release adds, and what to say."""
        return with_earlier(status, decided.request, decided.roles, self.published, self.table[ROW])

    def costs(self, figures: Figures) -> Figures:
        """Nothing is counted in memory: the process may hold much else."""
        return figures

    def measured(self, plan: PublishPlan, figures: Figures) -> Figures:
        """Re-identification before and after, and the certificate where it was asked for."""
        assert self.solved is not None
        self.tell("measuring the risk of being found", 1, 2)
        found, proof = identification(self.table, self.published, plan), None
        if plan.request.certify is not False:
            Z = encode_part(self.table, plan).Z
            effort = "default" if plan.request.certify is True else plan.request.certify
            self.tell(f"certifying. {bounds.forecast(Z.shape[0], Z.shape[1], plan.request.k, effort)}", 0, 0)
            proof = certificate(Z, plan.request.k, self.solved.labels, plan.request.certify)
        return replace(figures, identification=found, certificate=proof)

    def give(self, decided: DecidedRoles) -> GivenOut:
        """The same kind of frame as came in."""
        frame = self.given.taken(self.table[ROW].to_numpy())
        frame = frame.without(hidden(decided.roles) if decided.request.identifiers == "drop" else [])
        made, labels = Frame(frame.replaced(self.new)).bare(), self.labels
        if decided.request.order == "shuffle":
            order = shuffled(Frame(made).to_polars())
            made, labels = Frame(made).in_order(order), labels[order]
        return GivenOut(made, labels)
