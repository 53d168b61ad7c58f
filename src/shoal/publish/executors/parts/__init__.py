"""Out of core on one machine: survey, route to spill files, solve parts in a pool of processes, write.

Everything waits in a work folder beside the output: spilled parts, solved parts, and the plan, so that an
interrupted run goes on from the parts already solved. The output appears by renaming, whole or not at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

from shoal import io
from shoal.publish.earlier import RowClasses, with_earlier_classes
from shoal.publish.executors import Draft, GivenOut, Progress, ReplacedDraft, Replacement
from shoal.publish.executors.parts import pool, replacing, resuming, spilling, writing
from shoal.publish.executors.parts.source import BatchFiles, in_threads, open_source
from shoal.publish.fields import BESIDE, bytes_of
from shoal.publish.recoding import CHANGING
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages import check
from shoal.publish.stages.identification import identification_of, keys_of
from shoal.publish.stages.measure import Figures
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.roles import GUESSED_ROWS, DecidedRoles, Roles
from shoal.publish.stages.survey import kept_rows
from shoal.publish.status import Status

T = TypeVar("T")
MEMORY = "2GB"
# Open spill files at a time.
MOST_PARTS = 512
LARGEST_PART = 100_000
# Bytes of memory per byte of a part while it is solved (coordinates, copies, blocks, linkage).
COPIES = 10
_CANNOT = {
    "certify": "the bound needs all records at once",
    "keep_best": "an interrupted run goes on with --resume instead",
}
# Where whole columns are replaced.
_CANNOT_REPLACE = {
    "order": "its rows are written in the order they come; shuffle the file before or after",
    "resume": "nothing of it waits on disk",
}


@dataclass(frozen=True)
class Parts:
    """Runs the stages over batches of a file, its parts solved by a pool of processes.

    Parameters
    ----------
    path : Path
        Parquet, Arrow or CSV; a file, or a folder of files of one kind.
    output : Path
    """

    path: Path
    output: Path
    name: str = "parts"

    def refuse(self, request: ProtectionRequest) -> None:
        """Raise a sentence that names the first field which cannot be honoured in parts."""
        refuse_fields(request, _CANNOT, "in parts")
        if request.method_name in (*CHANGING, "steps"):
            refuse_fields(request, _CANNOT_REPLACE, f"in parts by the method {request.method_name!r}")
        writing.check_kind(self.output)

    @contextlib.contextmanager
    def open(self, request: ProtectionRequest, tell: Progress) -> Iterator[PartsRows]:
        """Open the file; what waits on disk is kept where the run is interrupted, else removed."""
        io.check_writable(self.output)
        with (
            resuming.work_folder(self.output, request.resume) as folder,
            contextlib.ExitStack() as held,
        ):
            tell(f"opening {self.path}", 0, 0)
            source = open_source(self.path, folder, request.file, request.as_written)
            yield PartsRows(self, request, source, folder, held, tell)


class PartsRows:
    """The rows of a file, for one run."""

    def __init__(
        self,
        place: Parts,
        request: ProtectionRequest,
        source: BatchFiles,
        folder: Path,
        held: contextlib.ExitStack,
        tell: Progress,
    ) -> None:
        self.place, self.request, self.source, self.folder = place, request, source, folder
        self.held, self.tell = held, tell
        self.notes, self.labelled = source.notes, ()
        self.workers = pool.workers_of(request.n_jobs)
        self.memory = bytes_of(request.memory or MEMORY)
        self.begun = time.process_time()
        self.spent, self.peak = 0.0, 0
        self.roles: Roles | None = None
        self.tasks: list[spilling.SpillTask] = []
        self.sizes: resuming.Sizes | None = None
        self.written: writing.Written
        self.beside: RowClasses | None = None
        self.labels: np.ndarray | None = None

    labelled: Collection[str]

    def head(self) -> pl.DataFrame:
        """The first rows, from which roles are guessed."""
        frames, rows = [], 0
        for batch in self.source.batches():
            frames.append(batch)
            rows += batch.height
            if rows >= GUESSED_ROWS:
                break
        return pl.concat(frames).head(GUESSED_ROWS)

    def settle(self, roles: Roles) -> int:
        """Decode all batches from now on."""
        self.roles = roles
        return self.source.n_rows

    def recalled(self, roles: Roles) -> PublishPlan | None:
        """The plan of an interrupted run of the same request on the same files."""
        asked = sorted((name, repr(value)) for name, value in self.request.given().items())
        self.mark = resuming.fingerprint(
            [resuming.state_of(file) for file in self.source.inputs], dict(self.source.types), roles, self.workers,
            [each for each in asked if each[0] not in ("resume", "schema", "key", *BESIDE)],
        )  # fmt: skip
        known = resuming.recall(self.folder, self.mark) if self.request.resume else None
        if known is None:
            resuming.forget(self.folder)
            return None
        plan, self.sizes = known
        return replace(plan, request=self.request)  # which may ask for other files beside the table

    def fold(self, look: Callable[[pl.DataFrame], T]) -> Iterator[T]:
        """What a function makes of each decoded batch, by a thread for each core."""
        roles = self.roles
        assert roles is not None
        batches = self.source.numbered(roles.needed)
        return in_threads(lambda batch: look(roles.decoder(batch)), batches)

    def part_rows(self, roles: Roles) -> int | None:
        """Records of a part, so that all workers together stay within half of the memory."""
        rows = part_rows(self.memory, self.workers, len(roles.needed), self.source.n_rows)
        if self.workers > 1 and self.source.n_rows > rows:
            pool.start()
        return rows

    def solve(self, plan: PublishPlan) -> None:
        """Spill the rows to parts and solve these."""
        if self.request.time_limit is not None:  # the workers search at the same time
            method = plan.method.set_params(time_limit=self.request.time_limit * self.workers)
            plan = replace(plan, method=method)
        if self.sizes is None:
            self.tell(f"spilling {self.source.n_rows:,} rows to {plan.n_parts} parts", 0, 0)
            everything = self.request.order == "shuffle"
            self.sizes = spilling.spill(self.source, plan, self.folder, everything=everything)
            resuming.remember(self.folder, self.mark, plan, self.sizes)
        self.tasks = spilling.tasks_of(plan, *self.sizes, self.folder)
        peak, self.spent = pool.solve(self.tasks, plan, self.workers, self.tell)
        self.peak = peak + pool.peak_memory()  # the workers have ended when writing begins

    def draft(self, plan: PublishPlan, key: bytes | None) -> Draft:
        """Write the protected table to a file that has no name yet, and count its classes."""
        temporary = self.held.enter_context(io.atomic(self.place.output))
        self.tell("writing and checking", 0, self.source.n_rows)
        self.written = writing.write(
            self.source, plan, self.tasks, self.folder, temporary,
            kind=self.place.output.suffix.lower(), key=key, memory=self.memory // 4, tell=self.tell,
        )  # fmt: skip
        classes, self.beside, self.labels = self.written.classes, self.written.beside, self.written.labels
        return Draft(classes, check.verdicts_of_classes(classes, plan), self.written.tally)

    def measured(self, plan: PublishPlan, figures: Figures) -> Figures:
        """The risk of being found before and after."""
        after = self.written.keys
        if after is None:
            return figures
        self.tell("measuring the risk of being found", 1, 2)
        quasi = plan.roles.quasi
        before = pl.concat(self.fold(lambda batch: keys_of(kept_rows(batch, quasi), plan)))
        return replace(figures, identification=identification_of(before, after, plan))

    def columns(self, roles: Roles, names: Collection[str]) -> pl.DataFrame:
        """Whole columns in memory; raises a sentence where there is no room for them."""
        return replacing.whole_columns(self.source, roles, names, self.memory)

    def replaced(self, decided: DecidedRoles, replacement: Replacement, key: bytes | None) -> ReplacedDraft:
        """Write the table with its new columns to a file that has no name yet, and count its classes."""
        temporary = self.held.enter_context(io.atomic(self.place.output))
        kind = self.place.output.suffix.lower()
        draft, self.beside = replacing.write(
            self.source, decided, replacement, key, temporary, kind, self.tell
        )
        self.labels = replacement.labels if self.request.labels is not None else None
        return draft

    def with_earlier(self, status: Status, decided: DecidedRoles) -> tuple[Status, tuple[str, ...]]:
        """The status with what an earlier release adds, and what to say."""
        if self.beside is None:
            return status, ()
        self.tell("laying the earlier release beside this one", 0, 0)
        return with_earlier_classes(status, self.request, decided.roles, self.beside, self.folder)

    def costs(self, figures: Figures) -> Figures:
        """The seconds and the memory of this process and its workers."""
        return replace(
            figures, peak_memory=max(self.peak, pool.peak_memory()),
            cpu_seconds=self.spent + time.process_time() - self.begun,
        )  # fmt: skip

    def give(self, decided: DecidedRoles) -> GivenOut:
        """The file gets its name when the run ends well."""
        del decided
        return GivenOut(None, self.labels)


def part_rows(memory: int, workers: int, n_columns: int, n_rows: int) -> int:
    """Records of a part, so that all workers together stay within half of the memory."""
    fits = memory // 2 // max(1, workers) // (8 * COPIES * max(1, n_columns))
    return int(max(2_000, min(fits, max(LARGEST_PART, n_rows // (MOST_PARTS // 2)))))
