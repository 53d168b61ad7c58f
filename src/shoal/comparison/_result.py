"""What a comparison gives back: its cells, the choice, and how it is told."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.comparison._preference import SEARCHED
from shoal.comparison._private import TableMap
from shoal.microaggregation import GivenPartition, SearchWork, methods
from shoal.publish.executors import Progress
from shoal.publish.request import ProtectionRequest
from shoal.publish.result import Protection
from shoal.typing import Json


@dataclass(frozen=True)
class Cell:
    """One method at one k.

    Attributes
    ----------
    method : str
    k : int
    information_loss, il2 : float
        In per cent; `il2` is None without a number column.
    dld, interval_disclosure, propensity : float
        Shares in 0..1.
    n_groups, smallest_group : int
    seconds : float
    on_front : bool
        Whether no other cell is better in both loss and linkage.
    indicators_kept : float or None
        Share of the schema's indicators that come out as before; None without any.
    labels : array of int64
        The group of each record.
    work : SearchWork or None
        With which a search that the clock ended can be repeated.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import compare
    >>> table = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12], "y": [1.0, 1, 2, 5, 5, 6]})
    >>> cell = compare(table, k=[3], methods=["mdav"]).recommended
    >>> cell.method, cell.k, cell.n_groups, cell.on_front
    ('mdav', 3, 2, True)
    """

    method: str
    k: int
    information_loss: float
    dld: float
    il2: float | None
    interval_disclosure: float | None
    propensity: float | None
    n_groups: int
    smallest_group: int
    seconds: float
    labels: np.ndarray
    work: SearchWork | None = None
    on_front: bool = False
    indicators_kept: float | None = None

    def to_dict(self) -> Json:
        """The facts as plain values, without the labels."""
        return {name: value for name, value in vars(self).items() if name not in ("labels", "work")}


@dataclass(frozen=True, repr=False)
class Comparison:
    """All cells of a comparison, the recommended one first among equals.

    Attributes
    ----------
    cells : tuple of Cell
    recommended : Cell
    reason : str
        Why, in one sentence.
    notes : tuple of str
    columns : tuple of str
        The columns aggregated.
    request : ProtectionRequest
        What to ask `protect` for to get the recommended cell.
    source : str
        The table's file, as the command names it.
    again : tuple of str
        What the comparison was asked for, as options of the command.
    tables : TableMap, optional
        Microaggregation, generalisation and private tables on one map, where epsilons were given.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import compare
    >>> table = pl.DataFrame({"x": [1.0, 2, 3, 10, 11, 12], "y": [1.0, 1, 2, 5, 5, 6]})
    >>> found = compare(table, k=[2, 3], methods=["mdav"], fixed_k=3)
    >>> found.recommended.k, len(found.cells)
    (3, 2)
    >>> found.frame().columns[:3]
    ['method', 'k', 'information_loss']
    """

    cells: tuple[Cell, ...]
    recommended: Cell
    reason: str
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    request: ProtectionRequest
    source: str = "FILE"
    again: tuple[str, ...] = ()
    tables: TableMap | None = None

    def command(self, output: str = "protected.csv") -> str:
        """The command that protects the table as recommended; of the search's choice, the comparison that publishes it."""
        if self.recommended.method != SEARCHED:
            return self.request.to_command(self.source, output)
        import shlex

        return shlex.join(["shoal", "compare", self.source, *self.again, "-o", output])

    def protect(
        self, frame: Any, *, progress: Progress | None = None, labelled: Collection[str] = ()
    ) -> Protection:
        """Protect the table that was compared as recommended, the search's choice included.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The table that was compared.
        progress : callable, optional
        labelled : collection of str, default ()

        Returns
        -------
        Protection

        Notes
        -----
        As in `shoal.protect`, the total of a ledger beside the schema's file ends.
        """
        from shoal.publish.calls import end_total
        from shoal.publish.executors.memory import Memory
        from shoal.publish.pipeline import protect

        return protect(self.request, Memory(frame, labelled), progress, lambda: end_total(self.request))

    @property
    def front(self) -> tuple[Cell, ...]:
        """The cells that no other beats in both loss and linkage, from least loss to least linkage."""
        return tuple(
            sorted((cell for cell in self.cells if cell.on_front), key=lambda cell: cell.information_loss)
        )

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.cells)} cells. {self.reason}>"

    def _repr_html_(self) -> str:
        from shoal.report.notebook import comparison_html

        return comparison_html(self)

    def frame(self) -> pl.DataFrame:
        """The cells as a table."""
        return pl.DataFrame([cell.to_dict() for cell in self.cells])

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "recommended": {"method": self.recommended.method, "k": self.recommended.k},
            "reason": self.reason,
            "command": self.command(),
            "rows": [cell.to_dict() for cell in self.cells],
            "columns": list(self.columns),
            "notes": list(self.notes),
            **({} if self.tables is None else {"tables": [each.to_dict() for each in self.tables.points]}),
        }

    def report(self, path: str | Path) -> None:
        """Write the risk-utility map and its figures as one HTML file (custodian only)."""
        from shoal.comparison._page import write_page

        write_page(self, path)


def request_for(cell: Cell, request: ProtectionRequest, time_limit: float) -> ProtectionRequest:
    """What gives a cell again: a search by its work, or by the clock where it has none."""
    if cell.method == SEARCHED:
        return replace(request, k=cell.k, method=GivenPartition(cell.k, cell.labels))
    limit = time_limit if methods()[cell.method].takes("time_limit") else None
    return replace(request, k=cell.k, method=cell.method, time_limit=limit).repeating(cell.work)
