"""What is done to a table: groups of records, truthful coarsening of its keys, or several steps.

A treatment refuses options that it cannot use, and makes what would be published. The pipeline does everything else:
it opens the table, decides the roles, checks the result, sets the status and gives the table out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import polars as pl

from shoal.errors import InputError, ParameterError
from shoal.privacy import Verdict
from shoal.publish.executors import Progress, Rows
from shoal.publish.recoding import CHANGING
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.measure import Figures
from shoal.publish.stages.roles import DecidedRoles, Roles
from shoal.rules import Edit

if TYPE_CHECKING:
    from shoal.microaggregation import SearchWork


@dataclass(frozen=True)
class PublishRun:
    """A table that is open for one run, and what every column of it is.

    Attributes
    ----------
    request : ProtectionRequest
    rows : Rows
    roles : Roles
    edits : tuple of Edit
        The schema's rules.
    key : bytes or None
        Key of the hashes, if identifiers are hashed.
    tell : callable
        Called with the progress.
    """

    request: ProtectionRequest
    rows: Rows
    roles: Roles
    edits: tuple[Edit, ...]
    key: bytes | None
    tell: Progress

    def columns(self, names: Collection[str]) -> pl.DataFrame:
        """Whole columns, decoded, with numbered rows. Rows that are dropped for a missing cell are counted in a note."""
        if self.request.count == "household" and self.roles.household is None:
            raise InputError(
                "Counting households needs their column: name it (--households), or give it that role in a schema. None "
                "has it."
            )
        n_rows = self.rows.settle(self.roles)
        table = self.rows.columns(self.roles, names)
        if table.height < n_rows:
            said = f"Rows with missing cells that were dropped: {n_rows - table.height:,}."
            self.rows.notes = (*self.rows.notes, said)
        return table


@dataclass(frozen=True)
class Made:
    """What a treatment has made of a table. The rows keep it until it is given out.

    Attributes
    ----------
    decided : DecidedRoles
        The request and the roles that the checks use.
    classes : polars.DataFrame
        The classes of all rows, as `stages.check.class_rows` counts them.
    verdicts : tuple of Verdict
    measured : callable
        Computes the figures; called only if the result may be given out.
    sizes : array of int64
        Records of each group.
    original, published : polars.DataFrame
        An even selection of rows before and after.
    treated : collection of str
        The columns that were changed.
    notes : tuple of str
        Notes on the result as a whole.
    red : tuple of str
        Reasons for a red status that do not depend on the classes.
    parameters : mapping
    work : SearchWork or None
    parts : int
    """

    decided: DecidedRoles
    classes: pl.DataFrame
    verdicts: tuple[Verdict, ...]
    measured: Callable[[], Figures]
    sizes: np.ndarray
    original: pl.DataFrame
    published: pl.DataFrame
    treated: Collection[str]
    notes: tuple[str, ...]
    red: tuple[str, ...] = ()
    parameters: Mapping[str, object] | None = None
    work: SearchWork | None = None
    parts: int = 1


class Treatment(Protocol):
    """A way to protect a table."""

    def make(self, run: PublishRun) -> Made:
        """Make what would be published; nothing is given out yet."""


def treatment_of(request: ProtectionRequest) -> Treatment:
    """The treatment that a request asks for; raises a sentence if its options do not fit."""
    declared = request.steps or (request.schema is not None and request.schema.steps)
    if request.steps and request.method_name != "steps":
        raise ParameterError(
            f"A run is one method or several steps. Got the method {request.method_name!r} and steps."
        )
    if request.method_name == "steps":
        if not declared:
            raise ParameterError("The method 'steps' needs steps, in the request or in the schema. Got none.")
        from shoal.publish.treatments.steps import StepTreatment

        return StepTreatment.of(request)
    if request.method_name in CHANGING:
        from shoal.publish.treatments.truthful import TruthfulTreatment

        return TruthfulTreatment.of(request)
    from shoal.publish.treatments.groups import GroupTreatment

    return GroupTreatment.of(request)
