"""The risk-utility map as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.io import atomic, check_folder
from shoal.report import Section, figure, page, table
from shoal.report.figures import MapPoint, Series, lines, scatter_map

if TYPE_CHECKING:
    from shoal.compare._grid import Comparison


def write_page(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as one HTML file."""
    check_folder(path)
    cells = comparison.cells
    ks = sorted({cell.k for cell in cells})
    names = list(dict.fromkeys(cell.method for cell in cells))
    points = [
        MapPoint(cell.method, cell.k, cell.information_loss, cell.dld, named=cell.method != "search")
        for cell in cells
    ]
    rows = [
        [
            cell.method,
            cell.k,
            f"{cell.information_loss:.3f}",
            "" if cell.il2 is None else f"{cell.il2:.2f}",
            f"{100 * cell.dld:.1f}",
            "" if cell.interval_disclosure is None else f"{100 * cell.interval_disclosure:.1f}",
            "" if cell.propensity is None else f"{cell.propensity:.4f}",
            cell.n_groups,
            f"{cell.seconds:.2f}",
            "front" if cell.on_front else "",
        ]
        for cell in cells
    ]
    header = [
        "method",
        "k",
        "loss %",
        "IL2 %",
        "linked %",
        "interval %",
        "propensity",
        "groups",
        "seconds",
        "",
    ]
    sections = [
        Section("Which one?", comparison.reason, "The recommendation, with its reason."),
        Section(
            "Risk-utility map",
            figure(
                scatter_map(points),
                "Left is less lost, down is fewer records linked; the dashed line joins the front.",
                wide=True,
            ),
            "Each mark is one method at one k. A point on the front is beaten by no other in both directions.",
        ),
    ]
    if len(ks) > 1:
        by_k = [
            Series(
                name,
                [c.k for c in cells if c.method == name],
                [c.information_loss for c in cells if c.method == name],
            )
            for name in names
            if name != "search"
        ]
        linked = [
            Series(
                name,
                [c.k for c in cells if c.method == name],
                [100 * c.dld for c in cells if c.method == name],
            )
            for name in names
            if name != "search"
        ]
        pictures = figure(
            lines(by_k, x_label="k", y_label="information loss (%)"), "What is lost.", wide=True
        ) + figure(lines(linked, x_label="k", y_label="records linked (%)"), "What can be linked.", wide=True)
        sections.append(Section("Loss and risk against k", pictures))
    front = [position for position, cell in enumerate(cells) if cell.on_front]
    sections.append(
        Section("All figures", table(header, rows, marked=front), "Rows on the front are set off.")
    )
    notes = [f"Columns aggregated: {', '.join(comparison.columns)}.", *comparison.notes]
    sections.append(Section("Notes", " ".join(notes)))
    text = page(
        "Which method, which k?",
        sections,
        mark="custodian only",
        subtitle="Loss and linkage are measured against the original, so this page is for its custodian.",
    )
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
