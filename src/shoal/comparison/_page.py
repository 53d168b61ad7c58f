"""The risk-utility map as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from shoal.io import check_page, write_text
from shoal.report import Section, figure, page, side_by_side, table, tiles
from shoal.report.figures import MapPoint, Series, lines, scatter_map

if TYPE_CHECKING:
    from shoal.comparison._private import TableMap
    from shoal.comparison._result import Comparison

HEADER = (
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
)


def write_page(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as one HTML file."""
    check_page(path)  # before the work
    sections = [_which(comparison), _map(comparison)]
    if comparison.tables is not None:
        sections.append(_private(comparison.tables))
    if len({cell.k for cell in comparison.cells}) > 1:
        sections.append(_against_k(comparison))
    if any(cell.indicators_kept is not None for cell in comparison.cells):
        sections.append(_indicators(comparison))
    sections.append(_figures(comparison))
    notes = [f"Columns aggregated: {', '.join(comparison.columns)}.", *comparison.notes]
    sections.append(Section("Notes", " ".join(notes)))
    text = page(
        "Which method, which k?",
        sections,
        mark="custodian only",
        subtitle="Loss and linkage are measured against the original, so this page is for its custodian.",
    )
    write_text(text, path)


def _which(comparison: Comparison) -> Section:
    """The recommendation: its reason, its figures, and the command that carries it out."""
    best = comparison.recommended
    figures = tiles(
        [
            ("method", best.method),
            ("k", str(best.k)),
            ("information lost", f"{best.information_loss:.2f} %"),
            ("linked back", f"{100 * best.dld:.1f} %"),
            ("groups", f"{best.n_groups:,}"),
        ]
    )
    words = Markup("<p>{}</p>{}<pre>{}</pre>")
    return Section("Which one?", words.format(comparison.reason, figures, comparison.command()))


def _map(comparison: Comparison) -> Section:
    points = [
        MapPoint(
            cell.method,
            cell.k,
            cell.information_loss,
            cell.dld,
            named=cell.method != "search",
            chosen=cell is comparison.recommended,
        )
        for cell in comparison.cells
    ]
    return Section(
        "Risk-utility map",
        figure(
            scatter_map(points),
            "Left is less lost, down is fewer records linked; the dashed line joins the front, the ring is "
            "around the recommended point.",
            wide=True,
        ),
        "Each mark is one method at one k. A point on the front is beaten by no other in both directions.",
    )


def _private(found: TableMap) -> Section:
    """Microaggregation, generalisation and private tables, measured alike."""
    series = []
    for family in dict.fromkeys(each.family for each in found.points):
        own = sorted((each for each in found.points if each.family == family), key=lambda each: each.lost)
        series.append(Series(family, [100 * each.lost for each in own], [100 * each.linked for each in own]))
    rows = [
        [each.family, f"{each.strength:g}", f"{100 * each.lost:.1f}", f"{100 * each.linked:.2f}"]
        for each in found.points
    ]
    picture = lines(series, x_label="two-way tables lost (%)", y_label="records linked (%)")
    told = f"Columns: {', '.join(found.columns)}. {' '.join(found.notes)}"
    return Section(
        "Microaggregation, generalisation and private tables",
        figure(picture, "To the left less is lost; further down fewer records are linked.", wide=True)
        + table(("family", "k or epsilon", "lost %", "linked %"), rows),
        "All released columns are protected and measured in the same way: mean total variation of two-way tables on declared bins, "
        f"and people whose own row is nearest. Rows of private tables belong to nobody. {told}",
    )


def _against_k(comparison: Comparison) -> Section:
    names = dict.fromkeys(cell.method for cell in comparison.cells if cell.method != "search")
    of = {name: [cell for cell in comparison.cells if cell.method == name] for name in names}
    lost = [
        Series(name, [c.k for c in cells], [c.information_loss for c in cells]) for name, cells in of.items()
    ]
    linked = [Series(name, [c.k for c in cells], [100 * c.dld for c in cells]) for name, cells in of.items()]
    pictures = [
        figure(lines(lost, x_label="k", y_label="information loss (%)", width=440), "What is lost."),
        figure(lines(linked, x_label="k", y_label="records linked (%)", width=440), "What can be linked."),
    ]
    return Section("Loss and risk against k", side_by_side(pictures))


def _indicators(comparison: Comparison) -> Section:
    """What is kept of the indicators against what can be linked."""
    ks = sorted({cell.k for cell in comparison.cells})
    series = [
        Series(f"k = {k}", [100 * cell.dld for cell in comparison.cells if cell.k == k],
               [100 * (cell.indicators_kept or 0.0) for cell in comparison.cells if cell.k == k], joined=False)
        for k in ks
    ]  # fmt: skip
    picture = lines(series, x_label="records linked (%)", y_label="indicators kept (%)")
    rows = [
        [cell.method, cell.k, f"{100 * (cell.indicators_kept or 0.0):.0f}", f"{100 * cell.dld:.1f}"]
        for cell in sorted(comparison.cells, key=lambda cell: (cell.k, -(cell.indicators_kept or 0.0)))
    ]
    return Section(
        "Indicators kept",
        figure(picture, "Up is more kept, left is fewer records linked.")
        + table(["method", "k", "kept %", "linked %"], rows),
        "The share of the schema's indicators whose interval after overlaps that before by half or more.",
    )


def _figures(comparison: Comparison) -> Section:
    """All cells, k by k, the least loss first."""
    cells = sorted(comparison.cells, key=lambda cell: (cell.k, cell.information_loss))
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
            "recommended" if cell is comparison.recommended else "front" if cell.on_front else "",
        ]
        for cell in cells
    ]
    front = [position for position, cell in enumerate(cells) if cell.on_front]
    return Section(
        "All figures",
        table(HEADER, rows, marked=front),
        "Rows on the front are set off; for each k the least loss stands first.",
    )
