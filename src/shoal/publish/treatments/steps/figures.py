"""Loss and risk of a run of several steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from shoal.engine.columns import read_column
from shoal.engine.encode import Encoder
from shoal.engine.roles import row_codes
from shoal.measures import cell_measures, linked_share, sought_records
from shoal.publish.request import ProtectionRequest
from shoal.publish.stages.decode import decoded_facts
from shoal.publish.stages.identification import identification
from shoal.publish.stages.measure import MEASURED_RECORDS, CellFigures, Figures, StepFigures
from shoal.publish.stages.roles import Roles

if TYPE_CHECKING:
    from shoal.publish.treatments.steps.run import Ran
    from shoal.rules import KeptRule


@dataclass(frozen=True)
class DecidedSteps:
    """What is decided of a run of steps.

    Attributes
    ----------
    request : ProtectionRequest
    roles : Roles
    treated : tuple of str
        All columns that a step treats.
    keys : tuple of str
        Those that were suppressed or generalised: what the risk of being found is measured on.
    known : tuple of str
        Those whose step keeps a k.
    """

    request: ProtectionRequest
    roles: Roles
    treated: tuple[str, ...]
    keys: tuple[str, ...]
    known: tuple[str, ...]

    def by_keys(self) -> DecidedSteps:
        """The same with the keys alone as quasi-identifiers."""
        facts = tuple(decoded_facts(self.roles.schema.columns[name]) for name in self.keys)
        return replace(self, roles=replace(self.roles, quasi=facts))


def figures_of(
    before: pl.DataFrame, after: pl.DataFrame, decided: DecidedSteps, ran: Sequence[Ran], kept: Sequence[KeptRule],
    labels: np.ndarray, compared: LinkageColumns,
) -> Figures:  # fmt: skip
    """What was lost by column and step, and the risk by the keys before and after."""
    losses: dict[str, float] = {}
    for each in ran:
        for name, share in each.treated.losses.items():
            losses[name] = 1.0 - (1.0 - losses.get(name, 0.0)) * (1.0 - min(share, 1.0))
    same = [
        before[n].cast(pl.String).eq_missing(after[n].cast(pl.String)).to_numpy() for n in decided.treated
    ]
    gone = {name: int((before[name].is_not_null() & after[name].is_null()).sum()) for name in decided.treated}
    sizes = np.bincount(labels)
    measured, cells = _numbers(before, after, decided, compared)
    return Figures(
        n_records=before.height,
        n_groups=int(sizes.size),
        smallest_group=int(sizes.min()),
        largest_group=int(sizes.max()),
        information_loss=100.0 * float(np.mean(list(losses.values()))),
        loss_per_column={name: 100.0 * share for name, share in losses.items()},
        suppressed_cells=sum(gone.values()),
        false_cells=_false_cells(before, after, decided),
        unchanged=float(np.logical_and.reduce(same).mean()),
        measured_records=measured,
        identification=identification(before, after, decided.by_keys()),
        steps=tuple(_of_step(each) for each in ran),
        rules=tuple(kept),
        **cells,
    )


def _of_step(ran: Ran) -> StepFigures:
    """What one step did: its loss, and what its method counts."""
    step, treated = ran.step, ran.treated
    loss = float(np.mean(list(treated.losses.values()))) if treated.losses else 0.0
    return StepFigures(
        method=step.method,
        columns=tuple(step.columns),
        k=ran.k if step.is_truthful or step.is_grouping else None,
        level=step.level,
        within=tuple(ran.within),
        information_loss=100.0 * loss,
        seconds=ran.seconds,
        facts={name: fact for name, fact in treated.facts.items() if name != "loss"},
    )


@dataclass(frozen=True)
class LinkageColumns:
    """What linkage compares: the numbers, among records whose keys are released alike."""

    numbers: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What is compared, as a note."""
        among = f", among records whose {', '.join(self.keys)} are released alike" if self.keys else ""
        return f"Linkage by distance compares {', '.join(self.numbers)}{among}."


def linkage_columns(
    before: pl.DataFrame, after: pl.DataFrame, decided: DecidedSteps, ran: Sequence[Ran]
) -> LinkageColumns:
    """The columns of numbers that are numbers still, and the keys that are true: who knows a record knows its class."""
    facts = decided.roles.schema.columns
    numbers = tuple(
        name
        for name in decided.treated
        if facts[name].kind == "number"
        and before.schema[name].is_numeric()
        and after.schema[name].is_numeric()
    )
    keys = dict.fromkeys(name for each in ran if each.step.is_truthful for name in each.step.columns)
    return LinkageColumns(numbers, tuple(name for name in keys if name not in numbers))


def _numbers(
    before: pl.DataFrame, after: pl.DataFrame, decided: DecidedSteps, compared: LinkageColumns
) -> tuple[int, CellFigures]:
    """Figures of the columns of numbers that are numbers still."""
    facts, names = decided.roles.schema.columns, compared.numbers
    if not names:
        return before.height, CellFigures()
    old = [read_column(before[name], decoded_facts(facts[name])) for name in names]
    new = [read_column(after[name], decoded_facts(facts[name])) for name in names]
    known = ~np.stack([a.missing | b.missing for a, b in zip(old, new, strict=True)], axis=1).any(axis=1)
    present = np.flatnonzero(known)
    rows = present[:: max(1, -(-present.size // MEASURED_RECORDS))]
    if rows.size < 2:
        return before.height, CellFigures()
    X, Y = (np.stack([each.values for each in columns], axis=1)[rows] for columns in (old, new))
    encoder = Encoder.fit(old)
    blocks = row_codes(after[present], list(compared.keys))
    linked = linked_share(
        encoder.transform(old)[present], encoder.transform(new)[present], max_records=MEASURED_RECORDS,
        blocks=blocks,
    )  # fmt: skip
    sought = sought_records(present.size, MEASURED_RECORDS, blocks)
    return int(rows.size), CellFigures(**cell_measures(X, Y), dld=linked, linked_records=sought)


def _false_cells(before: pl.DataFrame, after: pl.DataFrame, decided: DecidedSteps) -> int:
    """Cells of categories that hold another value than the record's own, coarsened ones left out."""
    truthful = set(decided.keys)
    facts = decided.roles.schema.columns
    return sum(
        int((before[name].cast(pl.String) != after[name].cast(pl.String)).sum())
        for name in decided.treated
        if name not in truthful and facts[name].kind in ("category", "boolean", "ordered")
    )
