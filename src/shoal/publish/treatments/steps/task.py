"""One step with all it needs to know, and what it has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from shoal.publish.request import ProtectionRequest
from shoal.schema import Column, Step


@dataclass(frozen=True)
class Treated:
    """What a step has made.

    Attributes
    ----------
    columns : mapping of str to polars.Series
        The new cells.
    losses : mapping of str to float
        Share of each column that is lost, from 0 to 1.
    facts : mapping
        Figures of the step's own, for its line in the report.
    exposed : int or None
        Of suppression under another reading: persons who agree with fewer than k released records.
    notes : tuple of str
    crossed : int
        Records grouped across the classes that the step should stay within: fewer than k are in theirs.
    """

    columns: Mapping[str, pl.Series]
    losses: Mapping[str, float]
    facts: Mapping[str, Any] = field(default_factory=dict)
    exposed: int | None = 0
    notes: tuple[str, ...] = ()
    crossed: int = 0


@dataclass(frozen=True)
class StepTask:
    """One step with all it needs to know.

    Attributes
    ----------
    step : Step
    k : int
    within : tuple of str
        Columns whose published values classes and groups do not cross.
    table : polars.DataFrame
        The rows as the steps before left them; one for each household where the step is at that level.
    facts : mapping of str to Column
    zeros : frozenset of str
        Columns whose zeros stay zeros.
    whole : frozenset of str
        Columns of whole numbers.
    seed : int
    sensitive : tuple of str
        Columns that the conditions of the step are on.
    """

    request: ProtectionRequest
    step: Step
    k: int
    within: tuple[str, ...]
    table: pl.DataFrame
    facts: Mapping[str, Column]
    household: str | None
    weight: str | None
    zeros: frozenset[str]
    whole: frozenset[str]
    seed: int
    sensitive: tuple[str, ...] = ()

    @property
    def apart(self) -> str | None:
        """The column that k counts instead of records."""
        return self.household if self.step.count == "household" else None
