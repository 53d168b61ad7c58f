"""Figures of loss and risk, computed from the original: for the custodian only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import polars as pl

from shoal import bounds
from shoal.engine.columns import TypedColumn, read_column
from shoal.engine.encode import sum_of_squares
from shoal.measures import CellMeasures, cell_measures
from shoal.microaggregation import SearchWork
from shoal.publish.stages.identification import Identification
from shoal.publish.stages.plan import PublishPlan, original_columns
from shoal.publish.stages.solve import PartSums
from shoal.rules import KeptRule, added
from shoal.typing import Json

# Above this many records, figures of single cells are computed on an even selection of them.
MEASURED_RECORDS = 20_000


@dataclass(frozen=True)
class LossCertificate:
    """How far a loss is from the least that is possible.

    Attributes
    ----------
    bound : float
        No result of its kind loses less, in per cent.
    gap : float
        Per cent of the loss that could be saved at most.
    proven : bool
    method : str
    seconds : float
    note : str
    """

    bound: float
    gap: float
    proven: bool
    method: str
    seconds: float
    note: str


@dataclass(frozen=True)
class StepFigures:
    """What one step of a run did.

    Parameters
    ----------
    method : str
    columns : tuple of str
    k : int or None
        None where the step keeps no k.
    level : str
        Whether records or households were treated.
    within : tuple of str
        The columns whose classes were treated one by one.
    information_loss : float
        Per cent, the mean over the step's columns.
    seconds : float
    facts : mapping
        What only this method counts: its classes or groups, the cells that it changed.
    """

    method: str
    columns: tuple[str, ...]
    k: int | None
    level: str | None
    within: tuple[str, ...]
    information_loss: float
    seconds: float
    facts: Mapping[str, object]

    def to_dict(self) -> Json:
        """The figures as plain values."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "facts"}
        return {**own, "columns": list(self.columns), "within": list(self.within), **self.facts}


class CellFigures(CellMeasures, total=False):
    """Figures of the number columns, with the linkage and the number of records for which it was sought."""

    dld: float
    linked_records: int


@dataclass(frozen=True)
class Figures:
    """What was lost and what is left to be found. Computed from the original: for the custodian only.

    Attributes
    ----------
    n_records, n_groups, smallest_group, largest_group : int
    information_loss : float
        Per cent of the variation of the protected columns that is gone; recoding, coded ends and suppression count.
    loss_per_column : dict
    at_risk : float
        Share of records whose published columns, all but the sensitive ones, are shared by fewer than k.
    linkage : float or None
        Share of records found by someone who holds their originals and also knows the columns left as they are.
    dld : float or None
        The same by the protected columns alone; with groups of k it cannot exceed 1/k.
    linked_records : int or None
        Records for which these two were sought: an even selection in a large table.
    attribute_disclosure : dict
        For each sensitive column, the share of records that have the same value as every record that looks like them.
    false_cells : int
        Cells of categories that hold a value which is not the record's own.
    suppressed_cells, suppressed_records : int
        Cells that lost their value, and records that were left out.
    unchanged : float
        Share of records all of whose protected columns are published as they were.
    il1, il2, interval_disclosure, propensity, change_of_... : float or None
        Of the number columns; see `shoal.measures`.
    indicators_kept : float or None
        Share of the schema's indicators whose interval after overlaps that before by half or more.
    measured_records : int
        Records on which these were measured.
    identification : Identification or None
    certificate : LossCertificate or None
    steps : tuple of StepFigures or None
        Of a run of several steps.
    rules : tuple of KeptRule or None
        What became of each edit rule.
    seconds : float
    cpu_seconds, peak_memory : float, int or None
    """

    n_records: int = 0
    n_groups: int = 0
    smallest_group: int = 0
    largest_group: int = 0
    information_loss: float = 0.0
    loss_per_column: dict[str, float] = field(default_factory=dict)
    at_risk: float = 0.0
    linkage: float | None = None
    dld: float | None = None
    linked_records: int | None = None
    attribute_disclosure: dict[str, float] = field(default_factory=dict)
    false_cells: int = 0
    suppressed_cells: int = 0
    suppressed_records: int = 0
    unchanged: float = 0.0
    il1: float | None = None
    il2: float | None = None
    interval_disclosure: float | None = None
    propensity: float | None = None
    change_of_mean: float | None = None
    change_of_variance: float | None = None
    change_of_covariance: float | None = None
    change_of_correlation: float | None = None
    change_of_eigenvalue: float | None = None
    indicators_kept: float | None = None
    measured_records: int = 0
    identification: Identification | None = None
    certificate: LossCertificate | None = None
    steps: tuple[StepFigures, ...] | None = None
    rules: tuple[KeptRule, ...] | None = None
    seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory: int | None = None

    def to_dict(self) -> Json:
        """The figures that there are, as plain values."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.identification is not None:
            told["identification"] = self.identification.to_dict()
        if self.certificate is not None:
            told["certificate"] = asdict(self.certificate)
        if self.steps is not None:
            told["steps"] = [each.to_dict() for each in self.steps]
        if self.rules is not None:
            told["rules"] = [each.to_dict() for each in self.rules]
        return {name: value for name, value in told.items() if value is not None}


class Tally:
    """Sums over parts, and an even selection of rows before and after."""

    def __init__(self, plan: PublishPlan) -> None:
        self.plan = plan
        self.n = self.groups = self.largest = self.false_cells = self.suppressed = self.unchanged = 0
        self.merged = 0
        self.smallest: int | None = None
        self.loss = np.zeros(len(plan.templates))
        self.total = np.zeros(len(plan.templates))
        self.linked = self.linked_open = self.asked = 0.0
        self.sought = 0
        self.work: SearchWork | None = None
        self.interrupted = False
        self.sizes: list[np.ndarray] = []
        self.rules: list[tuple[KeptRule, ...]] = []
        self.step = max(1, -(-plan.n_rows // MEASURED_RECORDS))
        self.pairs: list[tuple[pl.DataFrame, pl.DataFrame]] = []
        self.shown: list[pl.DataFrame] = []

    def add(self, sizes: np.ndarray, sums: PartSums) -> None:
        """Add the groups of a part: their sizes, and what they add to the figures."""
        n = int(sizes.sum())
        self.sizes.append(sizes)
        self.work = sums.work if self.groups == 0 else None
        self.n += n
        self.groups += sizes.size
        self.smallest = int(min(sizes.min(), self.smallest if self.smallest is not None else sizes.min()))
        self.largest = int(max(sizes.max(), self.largest))
        self.loss += sums.loss
        self.total += sums.total
        self.false_cells += sums.false_cells
        self.suppressed += sums.suppressed_cells
        self.unchanged += sums.unchanged
        self.merged += sums.merged
        self.interrupted |= sums.interrupted
        self.rules.append(sums.rules)
        if not np.isnan(sums.linked):
            self.linked += sums.linked * n
            self.linked_open += sums.linked_open * n
            self.asked += n
            self.sought += sums.sought

    def chosen(self, start: int) -> slice:
        """An even selection of rows, of which the first is row `start` of all."""
        return slice(-start % self.step, None, self.step)

    def keep(self, before: pl.DataFrame, after: pl.DataFrame) -> None:
        """Keep selected decoded rows and the same rows as published."""
        self.pairs.append((before, after))

    def show(self, published: pl.DataFrame, start: int) -> None:
        """Keep an even selection of rows as published, with all their columns."""
        self.shown.append(published[self.chosen(start)])

    def selection(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The selected rows, decoded and as published."""
        return pl.concat([each[0] for each in self.pairs]), pl.concat([each[1] for each in self.pairs])

    def published(self) -> pl.DataFrame:
        """Selected rows with all columns as published."""
        return pl.concat(self.shown)

    def figures(self) -> Figures:
        """The figures so far: groups, loss, linkage, and those of number columns."""
        names, total = self.plan.roles.quasi_names, float(self.total.sum())
        measured, cells = self._numbers()
        return Figures(
            n_records=self.n,
            n_groups=self.groups,
            smallest_group=self.smallest or 0,
            largest_group=self.largest,
            information_loss=100.0 * float(self.loss.sum()) / total if total > 0 else 0.0,
            loss_per_column={
                name: 100.0 * float(gone) / max(float(whole), 1e-300)
                for name, gone, whole in zip(names, self.loss, self.total, strict=True)
            },
            linkage=self.linked_open / self.asked if self.asked else None,
            dld=self.linked / self.asked if self.asked else None,
            linked_records=self.sought or None,
            false_cells=self.false_cells,
            suppressed_cells=self.suppressed,
            suppressed_records=self.plan.dropped,
            unchanged=self.unchanged / max(1, self.n),
            measured_records=measured,
            rules=added(self.rules) or None,
            **cells,
        )

    def _numbers(self) -> tuple[int, CellMeasures]:
        """Figures of the selected rows on the columns of numbers that were not recoded."""
        if not self.pairs:
            return 0, CellMeasures()
        before, after = self.selection()
        own = original_columns(before, self.plan)
        new = [read_column(after[each.name], each.facts) for each in self.plan.templates]
        return before.height, number_figures(own, new)


def number_figures(before: Sequence[TypedColumn], after: Sequence[TypedColumn]) -> CellMeasures:
    """Figures of the columns of numbers, on the records that have all of them before and after."""
    columns = [each for each in zip(before, after, strict=True) if each[1].facts.kind == "number"]
    if not columns:
        return CellMeasures()
    known = ~np.stack([own.missing | new.missing for own, new in columns], axis=1).any(axis=1)
    X = np.stack([own.values for own, _ in columns], axis=1)[known]
    Y = np.stack([new.values for _, new in columns], axis=1)[known]
    return cell_measures(X, Y) if X.shape[0] > 1 else CellMeasures()


def certificate(Z: np.ndarray, k: int, labels: np.ndarray, effort: Any) -> LossCertificate:
    """How much of the loss could be saved at most; strata and households only forbid partitions, so it holds."""
    found = bounds.information_loss_bound(
        Z, k, "default" if effort is True else effort, labels=labels, scaled=True
    )
    loss = 100.0 * sum_of_squares(Z, labels) / max(float(((Z - Z.mean(axis=0)) ** 2).sum()), 1e-300)
    return LossCertificate(
        found.bound, found.gap_of(loss), found.proven, found.method, found.seconds, found.note
    )
