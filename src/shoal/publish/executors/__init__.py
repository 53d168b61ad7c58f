"""Where rows are kept: in memory, in parts on this machine, or on Spark. All executors run the same stages.

An executor can open a table, run a function over its batches, solve its parts, replace whole columns, and keep what
would be published until it is given out. It knows nothing about privacy. It refuses an option that it cannot use, by
name, before anything is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl

from shoal.privacy import Verdict
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.measure import Figures, Tally
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.roles import DecidedRoles, Roles
from shoal.publish.status import Status

T = TypeVar("T")
Progress = Callable[[str, float, float], None]
"""Called with the name of a stage, how much of it is done, and how much there is (0 of 0 if that is not known)."""

# Files above these sizes (bytes) are protected in parts. Parquet is compressed, to about a quarter.
LARGE, LARGE_PARQUET = 1 << 30, 1 << 28


@dataclass(frozen=True)
class Draft:
    """What a run with groups would publish, not given out yet, and what was counted on it.

    Attributes
    ----------
    classes : polars.DataFrame
        The classes of all rows, as `stages.check.class_rows` counts them.
    verdicts : tuple of Verdict
    tally : Tally
    """

    classes: pl.DataFrame
    verdicts: tuple[Verdict, ...]
    tally: Tally


@dataclass(frozen=True)
class Replacement:
    """New columns that replace columns of the table.

    Attributes
    ----------
    table : polars.DataFrame
        As `Rows.columns` gave it.
    new : mapping of str to polars.Series
        The new columns, row by row of `table`.
    labels : array of int64
        The class of each row.
    households : polars.Series or None
        The household of each row, if households are counted.
    """

    table: pl.DataFrame
    new: Mapping[str, pl.Series]
    labels: np.ndarray
    households: pl.Series | None = None


@dataclass(frozen=True)
class ReplacedDraft:
    """What a run that replaces columns would publish, not given out yet.

    Attributes
    ----------
    classes : polars.DataFrame
        The classes of all rows, as `stages.check.class_rows` counts them.
    original, published : polars.DataFrame
        An even selection of rows before and after.
    """

    classes: pl.DataFrame
    original: pl.DataFrame
    published: pl.DataFrame


@dataclass(frozen=True)
class GivenOut:
    """What was given out: a frame, or None if it was written to a file; and the group of each row."""

    frame: Any = None
    labels: np.ndarray | None = None


class Rows(Protocol):
    """A table as an executor holds it, for one run."""

    notes: tuple[str, ...]
    labelled: Collection[str]

    def head(self) -> pl.DataFrame:
        """The first rows, from which roles are guessed; all rows if the table is in memory."""

    def settle(self, roles: Roles) -> int:
        """Decode all rows by these roles from now on, and return their number."""

    def recalled(self, roles: Roles) -> PublishPlan | None:
        """The plan of an interrupted run of the same request, if there is one."""

    def fold(self, look: Callable[[pl.DataFrame], T]) -> Iterator[T]:
        """Apply a function to each decoded batch, in any order. The rows are numbered."""

    def part_rows(self, roles: Roles) -> int | None:
        """About how many records a part has; None if the table is one part."""

    def solve(self, plan: PublishPlan) -> None:
        """Form and aggregate the groups of all parts."""

    def draft(self, plan: PublishPlan, key: bytes | None) -> Draft:
        """Make what would be published, count its classes and measure it; nothing is given out yet."""

    def measured(self, plan: PublishPlan, figures: Figures) -> Figures:
        """Add the risk of being found to the figures; it needs the rows before and after."""

    def columns(self, roles: Roles, names: Collection[str]) -> pl.DataFrame:
        """Whole columns in memory, decoded, with numbered rows and without the rows that are dropped."""

    def replaced(self, decided: DecidedRoles, replacement: Replacement, key: bytes | None) -> ReplacedDraft:
        """Make what would be published with some columns replaced and all others unchanged."""

    def with_earlier(self, status: Status, decided: DecidedRoles) -> tuple[Status, tuple[str, ...]]:
        """The status after a check against an earlier release, and notes on it."""

    def costs(self, figures: Figures) -> Figures:
        """Add the costs of the run to the figures, if they are known."""

    def give(self, decided: DecidedRoles) -> GivenOut:
        """Give it out."""


class Executor(Protocol):
    """A place where rows are kept."""

    @property
    def name(self) -> str:
        """Its name."""

    def refuse(self, request: ProtectionRequest) -> None:
        """Raise a sentence that names the first field that cannot be used here."""

    def open(self, request: ProtectionRequest, tell: Progress) -> AbstractContextManager[Rows]:
        """Open the table for one run."""


def is_large(path: str | Path) -> bool:
    """Whether a file is so large that it is protected in parts by default."""
    path = Path(path)
    size = path.stat().st_size if path.is_file() else 0
    return path.is_dir() or size > (LARGE_PARQUET if path.suffix == ".parquet" else LARGE)


def in_parts(request: ProtectionRequest, path: str | Path) -> bool:
    """Whether a file is protected in parts: because it was asked for, or because the file is large."""
    asked = (request.engine, request.memory, request.n_jobs)
    return request.resume or any(each is not None for each in asked) or is_large(path)
