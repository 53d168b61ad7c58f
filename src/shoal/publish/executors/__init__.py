"""Where rows live: in memory, in parts on this machine, on Spark. All run the same stages.

An executor knows how to open a table, run a function over its batches, solve its parts, replace whole columns, and hold
what would be published until it is given out. It knows nothing of privacy. What it cannot honour it refuses by name before anything is read.
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
"""Told what is being done, how much of it is done, and of how much; 0 of 0 where that is not known."""

# Files above these sizes (bytes) are taken in parts; Parquet is packed about four to one.
LARGE, LARGE_PARQUET = 1 << 30, 1 << 28


@dataclass(frozen=True)
class Draft:
    """What would be published in groups, held back, and what was counted of it.

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
    """Columns that take the place of those that came, made from columns that were taken whole.

    Attributes
    ----------
    table : polars.DataFrame
        As `Rows.columns` gave it.
    new : mapping of str to polars.Series
        The columns that are published otherwise than they came, row by row of `table`.
    labels : array of int64
        The class of each row.
    households : polars.Series or None
        The household of each row, where households are counted.
    """

    table: pl.DataFrame
    new: Mapping[str, pl.Series]
    labels: np.ndarray
    households: pl.Series | None = None


@dataclass(frozen=True)
class ReplacedDraft:
    """What would be published where columns are replaced, held back.

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
    """What was given out: a frame, or None where it was written to a file; and the group of each row."""

    frame: Any = None
    labels: np.ndarray | None = None


class Rows(Protocol):
    """A table as an executor holds it, for one run."""

    notes: tuple[str, ...]
    labelled: Collection[str]

    def head(self) -> pl.DataFrame:
        """The first rows, from which roles are guessed; all of them where the table is in memory."""

    def settle(self, roles: Roles) -> int:
        """Decode all rows by these roles from now on; their number."""

    def recalled(self, roles: Roles) -> PublishPlan | None:
        """The plan of an interrupted run of the same request, where there is one."""

    def fold(self, look: Callable[[pl.DataFrame], T]) -> Iterator[T]:
        """What a function makes of each decoded batch, rows numbered, in any order."""

    def part_rows(self, roles: Roles) -> int | None:
        """Records of a part, about; None where the table is one part."""

    def solve(self, plan: PublishPlan) -> None:
        """Form and aggregate the groups of all parts."""

    def draft(self, plan: PublishPlan, key: bytes | None) -> Draft:
        """Make what would be published, count its classes and measure it; nothing is given out yet."""

    def measured(self, plan: PublishPlan, figures: Figures) -> Figures:
        """The figures of groups with the risk of being found, which needs their rows before and after."""

    def columns(self, roles: Roles, names: Collection[str]) -> pl.DataFrame:
        """Whole columns in memory, decoded, rows numbered, without those whose policy is to be dropped."""

    def replaced(self, decided: DecidedRoles, replacement: Replacement, key: bytes | None) -> ReplacedDraft:
        """Make what would be published when some columns are replaced; all others pass as they come."""

    def with_earlier(self, status: Status, decided: DecidedRoles) -> tuple[Status, tuple[str, ...]]:
        """The status with what an earlier release adds, and what to say."""

    def costs(self, figures: Figures) -> Figures:
        """The figures with what the run has cost, where that can be told."""

    def give(self, decided: DecidedRoles) -> GivenOut:
        """Give it out."""


class Executor(Protocol):
    """A place where rows live."""

    @property
    def name(self) -> str:
        """What it is called."""

    def refuse(self, request: ProtectionRequest) -> None:
        """Raise a sentence that names the first field which cannot be honoured here."""

    def open(self, request: ProtectionRequest, tell: Progress) -> AbstractContextManager[Rows]:
        """Open the table for one run."""


def is_large(path: str | Path) -> bool:
    """Whether a file is too large to be taken whole without being asked to."""
    path = Path(path)
    size = path.stat().st_size if path.is_file() else 0
    return path.is_dir() or size > (LARGE_PARQUET if path.suffix == ".parquet" else LARGE)


def in_parts(request: ProtectionRequest, path: str | Path) -> bool:
    """Whether a file is taken in parts: asked for, or too large for anything else."""
    asked = (request.engine, request.memory, request.n_jobs)
    return request.resume or any(each is not None for each in asked) or is_large(path)
