"""A reproduced figure beside the printed one, and tables of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.typing import Json

CLAIM_HEADER = ["claim", "data", "holds here", "found"]


@dataclass(frozen=True)
class PaperRow:
    """One cell of a paper's table, as printed and as measured here.

    Attributes
    ----------
    data, method : str
    k : int
    published : float or None
        None where the paper prints nothing.
    ours : float
        A mean where several seeds were run.
    seconds : float
        Of one run.
    sizes_kept : bool
        Whether every group had k..2k-1 records (or at least k, where the method promises no more).
    spread : float or None
        Standard deviation over seeds.
    extra : dict
        Further facts: ranks, IL2, DLD, seconds printed by the paper, the reading taken.

    Examples
    --------
    >>> from shoal.research import PaperRow
    >>> row = PaperRow("census", "mdav", 3, published=5.692, ours=5.692, seconds=0.01, sizes_kept=True)
    >>> row.ours - row.published
    0.0
    """

    data: str
    method: str
    k: int
    published: float | None
    ours: float
    seconds: float
    sizes_kept: bool
    spread: float | None = None
    extra: Json = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """How far ours lies from the printed figure, in per cent of it."""
        return None if not self.published else 100.0 * (self.ours - self.published) / self.published

    @property
    def cell(self) -> tuple[Any, ...]:
        """What the printed figure belongs to; several readings of it share this."""
        return (self.data, self.method, self.k, self.extra.get("start"), self.extra.get("gamma0"))

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "data": self.data,
            "method": self.method,
            "k": self.k,
            "published": self.published,
            "ours": self.ours,
            "difference_percent": self.difference,
            "spread": self.spread,
            "seconds": self.seconds,
            "sizes_kept": self.sizes_kept,
        } | self.extra


@dataclass(frozen=True)
class PaperClaim:
    """What a paper says of its results, and what is found here."""

    claim: str
    data: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Agreement:
    """How many printed cells are reached, each by the closest reading.

    Attributes
    ----------
    cells : int
        Printed cells that were run.
    within_005, within_05, within_2 : int
        Those that ours meets within 0.05, 0.5 and 2 per cent, each contained in the next.
    """

    cells: int
    within_005: int
    within_05: int
    within_2: int

    @property
    def missed(self) -> int:
        """Cells farther off than 2 per cent."""
        return self.cells - self.within_2

    def to_dict(self) -> dict[str, int]:
        """The counts as plain values."""
        return {
            "cells": self.cells,
            "within_0.05_percent": self.within_005,
            "within_0.5_percent": self.within_05,
            "within_2_percent": self.within_2,
            "missed": self.missed,
        }


def agreement(rows: Sequence[Any]) -> Agreement:
    """Count the printed cells that are reached; of several readings of one cell the nearest counts.

    A search that ended at the most it tried chose nothing: its cell is missed, however near the number lies.

    Examples
    --------
    >>> from shoal.research import PaperRow, agreement
    >>> row = PaperRow("census", "mdav", 3, 5.692, 5.6922, 0.1, True)
    >>> agreement([row]).to_dict()["within_0.05_percent"]
    1
    """
    nearest: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row.difference is not None:
            off = float("inf") if "boundary" in row.extra else abs(row.difference)
            nearest[row.cell] = min(nearest.get(row.cell, float("inf")), off)
    counts = [sum(off <= limit for off in nearest.values()) for limit in (0.05, 0.5, 2.0)]
    return Agreement(len(nearest), *counts)


@dataclass(frozen=True)
class ReproducedTable:
    """A paper's table, reproduced.

    Attributes
    ----------
    name, title : str
    rows : tuple of PaperRow
    notes : tuple of str
        What must be known to read it: readings taken, contradictions found.
    seconds : float
        Of the whole run.
    claims : tuple of PaperClaim

    Examples
    --------
    >>> from shoal.research import PaperRow, ReproducedTable
    >>> row = PaperRow("census", "mdav", 3, published=5.692, ours=5.692, seconds=0.01, sizes_kept=True)
    >>> table = ReproducedTable("table1", "Losses", (row,), ("Losses are cut, not rounded.",), seconds=0.01)
    >>> [each.method for each in table.rows]
    ['mdav']
    """

    name: str
    title: str
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...]
    seconds: float
    claims: tuple[PaperClaim, ...] = ()

    def pictures(self) -> Json:
        """The paper's figures as SVG, by name, where it has some."""
        return {}

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "experiment": self.name,
            "title": self.title,
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
            "seconds": self.seconds,
            "claims": [vars(each) for each in self.claims],
            "agreement": agreement(self.rows).to_dict(),
        }

    def header(self) -> list[str]:
        """Names of the columns of the table."""
        extras = list(dict.fromkeys(name for row in self.rows for name in row.extra))
        return [
            "data",
            "method",
            "k",
            "published",
            "ours",
            "difference %",
            "spread",
            "seconds",
            "sizes kept",
            *extras,
        ]

    def cells(self) -> list[list[str]]:
        """The table as texts."""
        extras = self.header()[9:]
        return [
            [
                row.data,
                row.method,
                str(row.k),
                cell_text(row.published),
                cell_text(row.ours),
                "" if row.difference is None else f"{row.difference:+.2f}",
                cell_text(row.spread),
                f"{row.seconds:.2f}",
                "yes" if row.sizes_kept else "no",
                *(cell_text(row.extra.get(name)) for name in extras),
            ]
            for row in self.rows
        ]

    def to_markdown(self) -> str:
        """The table, its notes and the paper's claims as Markdown."""
        lines = [f"## {self.title}", "", _line(self.header()), _line(["---"] * len(self.header()))]
        lines += [_line(cells) for cells in self.cells()]
        lines += ["", *(f"- {note}" for note in self.notes), ""]
        if self.claims:
            lines += [_line(CLAIM_HEADER), _line(["---"] * len(CLAIM_HEADER))]
            lines += [_line(cells) for cells in self.verdicts()]
            lines.append("")
        return "\n".join(lines)

    def verdicts(self) -> list[list[str]]:
        """The claims as texts."""
        return [[each.claim, each.data, "yes" if each.holds else "no", each.found] for each in self.claims]

    def to_html(self) -> str:
        """Claims, pictures, table and notes as one HTML page."""
        from markupsafe import Markup

        from shoal.report import Section, figure, page, table

        sections = []
        if self.claims:
            sections.append(Section("What the paper says", table(CLAIM_HEADER, self.verdicts())))
        drawn = [figure(svg, name, wide=True) for name, svg in self.pictures().items()]
        if drawn:
            sections.append(Section("Pictures", Markup("").join(drawn)))
        sections.append(Section(self.title, table(self.header(), self.cells())))
        sections += [Section("Note", note) for note in self.notes]
        return page("Published and reproduced", sections, subtitle=f"shoal reproduce {self.name}")


def ranks(values: Sequence[float], digits: int = 2) -> list[int]:
    """Ranks from 1, without gaps; values that are equal after rounding share a rank.

    Examples
    --------
    >>> from shoal.research import ranks
    >>> ranks([5.69, 5.4, 5.691, 6.0])
    [2, 1, 2, 3]
    """
    rounded = [round(value, digits) for value in values]
    order = sorted(set(rounded))
    return [order.index(value) + 1 for value in rounded]


def cell_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
