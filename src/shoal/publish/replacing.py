"""Runs that replace whole columns: the columns they need in memory, all others passed through as they come.

Suppression, generalisation and runs of steps decide about all rows at once, so the columns they look at are held in
memory wherever the rows live; in parts every other column goes from file to file, batch by batch, and on Spark it stays on
the cluster.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from shoal import io, rules
from shoal.engine.frame import Frame
from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import InputError
from shoal.privacy import Verdict
from shoal.publish.earlier import RowClasses, with_earlier, with_earlier_classes
from shoal.publish.executors import Executor, GivenOut, Progress, Rows
from shoal.publish.executors.memory import MemoryRows
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.result import Protection, original_cells
from shoal.publish.stages import check
from shoal.publish.stages.measure import MEASURED_RECORDS, Figures
from shoal.publish.stages.release import hidden, shuffled
from shoal.publish.stages.roles import DecidedRoles, Roles, settle_roles, settle_rules
from shoal.publish.stages.survey import ROW, kept_rows, weights_of
from shoal.publish.status import Status, refuse_red

if TYPE_CHECKING:
    from shoal.publish.executors.parts import PartsRows

_IN_PARTS = {
    "order": "its rows are written in the order they come; shuffle the file before or after",
    "labels": "its rows are written as they come",
    "resume": "nothing of it waits on disk",
}


@dataclass(frozen=True)
class Outcome:
    """What would be published, held back.

    Attributes
    ----------
    classes : polars.DataFrame
        As `stages.check.class_rows` counts them.
    original, published : polars.DataFrame
        An even selection of rows before and after.
    give : callable
        Gives it out.
    whole : polars.DataFrame or None
        All rows as published, where they are in memory.
    beside : RowClasses or None
        The class of each row where they are not, and an earlier release is laid beside them.
    """

    classes: pl.DataFrame
    original: pl.DataFrame
    published: pl.DataFrame
    give: Callable[[np.ndarray], GivenOut]
    whole: pl.DataFrame | None = None
    beside: RowClasses | None = None


@dataclass(frozen=True)
class Opened:
    """A table that is open for one run.

    Attributes
    ----------
    request : ProtectionRequest
    rows : Rows
    roles : Roles
    edits : tuple of Edit
    key : bytes or None
        Of the hashes, where identifiers are hashed.
    started : float
    """

    request: ProtectionRequest
    rows: Rows
    roles: Roles
    edits: tuple[rules.Edit, ...]
    key: bytes | None
    started: float = field(default_factory=time.perf_counter)

    def settled(self, status: Status, made: Outcome, table: pl.DataFrame) -> tuple[Status, tuple[str, ...]]:
        """The status with what an earlier release adds, and notes on it; raises where it must not be given out."""
        told: tuple[str, ...] = ()
        if made.whole is not None:
            status, told = with_earlier(status, self.request, self.roles, made.whole, table[ROW])
        elif made.beside is not None:
            folder = cast("PartsRows", self.rows).folder
            status, told = with_earlier_classes(status, self.request, self.roles, made.beside, folder)
        refuse_red(status, accepted=self.request.accept_risk)
        return status, (*self.rows.notes, *self.roles.notes, *told)

    def protection(
        self, made: Outcome, given: GivenOut, verdicts: tuple[Verdict, ...], figures: Figures, status: Status,
        notes: tuple[str, ...], sizes: np.ndarray, parameters: Mapping[str, object],
    ) -> Protection:  # fmt: skip
        """What the run gives back."""
        return Protection(
            frame=given.frame, labels=given.labels, verdicts=verdicts,
            figures=replace(figures, seconds=time.perf_counter() - self.started), status=status.colour,
            reasons=status.reasons, request=self.request, roles=self.roles, notes=notes, sizes=sizes,
            original=made.original, published=made.published, parameters=dict(parameters),
        )  # fmt: skip


@contextlib.contextmanager
def opened(request: ProtectionRequest, executor: Executor, tell: Progress) -> Iterator[Opened]:
    """Refuse what cannot be had, open the table and settle what every column is."""
    started = time.perf_counter()
    refuse_executor(request, executor)
    executor.refuse(request)
    key = None if request.identifiers == "drop" else request.key or secrets.token_bytes(32)
    with executor.open(request, tell) as rows:
        tell("reading the schema", 0, 0)
        head = rows.head()
        roles = settle_roles(head, request, rows.labelled)
        edits = settle_rules(roles, head)
        if request.count == "household" and roles.household is None:
            raise InputError(
                "Counting households needs their column: name it (--households), or give it that role in a schema. None "
                "has it."
            )
        yield Opened(request, rows, roles, edits, key, started)


def class_weights(table: pl.DataFrame, weight: str, labels: np.ndarray) -> pl.Series:
    """The mean of a class's weights: totals of the class hold, and the weight tells nobody apart."""
    means = np.bincount(labels, weights_of(table, weight)) / np.maximum(np.bincount(labels), 1)
    return pl.Series(weight, means[labels])


def refuse_executor(request: ProtectionRequest, executor: Executor) -> None:
    """Raise a sentence where such a run cannot have all that was asked for on an executor."""
    if executor.name == "parts":
        refuse_fields(request, _IN_PARTS, f"in parts by the method {request.method_name!r}")


def needed_table(rows: Any, roles: Roles, names: Collection[str]) -> pl.DataFrame:
    """The decoded columns a run looks at, rows numbered; rows whose policy is to be dropped are left out, and counted."""
    n_rows = rows.settle(roles)
    table = _needed(rows, roles, names)
    if table.height < n_rows:
        said = f"Rows with missing cells that were dropped: {n_rows - table.height:,}."
        rows.notes = (*rows.notes, said)
    return table


def _needed(rows: Any, roles: Roles, names: Collection[str]) -> pl.DataFrame:
    if isinstance(rows, MemoryRows):
        rows.table = kept_rows(rows.table, roles.quasi)
        return rows.table
    if not isinstance(rows, _parts()):
        from shoal.publish.executors.spark.replacing import needed_columns

        return needed_columns(rows, roles, names)
    wanted = [name for name in roles.names if name in names]
    batches, size = [], 0.0
    for batch in rows.source.numbered(wanted):
        batches.append(kept_rows(roles.decoder(batch), roles.quasi))
        size += batches[-1].estimated_size()
        if size > rows.memory:
            raise InputError(
                f"The columns {', '.join(wanted[:8])} need more than the {rows.memory / 1e9:.3g} GB allowed. Raise "
                "--memory, or recode columns with very many values."
            )
    return pl.concat(batches)


def outcome_of(
    rows: Any,
    settled: DecidedRoles,
    table: pl.DataFrame,
    new: Mapping[str, pl.Series],
    key: bytes | None,
    households: pl.Series | None = None,
) -> Outcome:
    """What would be published when some columns are replaced.

    Parameters
    ----------
    table : polars.DataFrame
        As `needed_table` gave it.
    new : mapping of str to polars.Series
        The columns that are published otherwise than they came, row by row of `table`.
    key : bytes or None
        Of the hashes, where identifiers are hashed.
    households : polars.Series, optional
        The household of each row, where households are counted.
    """
    if isinstance(rows, MemoryRows):
        return _in_memory(rows, settled, dict(new), key, households)
    if isinstance(rows, _parts()):
        return _in_parts(rows, settled, table, new, key, households)
    from shoal.publish.executors.spark.replacing import Replaced

    made = Replaced(rows, settled, table, new, key, households)
    step = max(1, -(-table.height // MEASURED_RECORDS))
    return Outcome(made.classes(), *made.selection(step), made.give)


def _parts() -> type[PartsRows]:
    """The rows of a table in parts; loaded only where a table is not in memory."""
    from shoal.publish.executors.parts import PartsRows

    return PartsRows


def _in_memory(
    rows: MemoryRows,
    settled: DecidedRoles,
    new: dict[str, pl.Series],
    key: bytes | None,
    households: pl.Series | None,
) -> Outcome:
    roles, request, table = settled.roles, settled.request, rows.table
    for column in roles.decoder.columns:
        if column.name in table.columns and column.name not in new and column.name not in hidden(roles):
            new[column.name] = table[column.name]
    whole = table.with_columns(new.values())
    published = whole.select(n for n in roles.names if n not in hidden(roles))
    step = max(1, -(-published.height // MEASURED_RECORDS))

    def give(labels: np.ndarray) -> GivenOut:
        cells = dict(new)
        if key is not None:
            cells |= {name: pseudonyms(table[name], key) for name in hidden(roles)}
        frame = rows.given.taken(table[ROW].to_numpy())
        made = frame.without(hidden(roles) if request.identifiers == "drop" else []).replaced(cells)
        if request.order == "shuffle":
            order = shuffled(Frame(made).to_polars())
            return GivenOut(Frame(made).in_order(order), labels[order])
        return GivenOut(made, labels)

    return Outcome(
        check.class_rows(whole, settled, households),
        original_cells(table, roles)[::step],
        published[::step],
        give,
        published,
    )


def _in_parts(
    rows: PartsRows,
    settled: DecidedRoles,
    table: pl.DataFrame,
    new: Mapping[str, pl.Series],
    key: bytes | None,
    households: pl.Series | None,
) -> Outcome:
    from shoal.publish.executors.parts.writing import BatchWriter, ClassCounter

    roles = settled.roles
    temporary = rows.held.enter_context(io.atomic(rows.place.output))
    gone = hidden(roles) if settled.request.identifiers == "drop" else []
    names = [name for name in roles.names if name not in gone]
    step = max(1, -(-table.height // MEASURED_RECORDS))
    place = np.full(rows.source.n_rows, -1, np.int64)
    place[table[ROW].to_numpy()] = np.arange(table.height)
    classes, before, after = ClassCounter(), [], []
    beside: list[RowClasses] = []
    writer = BatchWriter(temporary, rows.place.output.suffix.lower(), rows.source)
    try:
        for batch in rows.source.numbered(None):
            here = place[batch[ROW].to_numpy()]
            kept = here >= 0
            decoded, here = roles.decoder(batch.filter(pl.Series(kept))), here[kept]
            cells = [series.gather(here) for series in new.values()]
            cells += [] if key is None else [pseudonyms(decoded[name], key) for name in hidden(roles)]
            made = decoded.with_columns(cells)
            homes = None if households is None else households.gather(here)
            classes.add(check.class_rows(made, settled, homes))
            if settled.request.earlier is not None:
                beside.append(RowClasses.of(made[ROW], made, roles.open))
            chosen = np.flatnonzero(here % step == 0)
            before.append(original_cells(decoded, roles)[chosen])
            after.append(made.select(n for n in roles.names if n not in hidden(roles))[chosen])
            writer.write(made.select(names))
            rows.tell("writing and checking", int(here[-1]) + 1 if here.size else 0, table.height)
    finally:
        writer.close()
    return Outcome(
        classes.all(), pl.concat(before), pl.concat(after), lambda _labels: GivenOut(None, None),
        beside=RowClasses.joined(beside) if beside else None,
    )  # fmt: skip
