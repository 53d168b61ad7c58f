"""What a notebook shows: of a protection the status and the verdicts, of a comparison its cells."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

_COLOURS = {"green": "#2e7d32", "amber": "#b26a00", "red": "#b3261e"}


def protection_html(protection: Any) -> str:
    """A short piece of HTML, every text escaped.

    Examples
    --------
    >>> import polars as pl, shoal
    >>> shown = shoal.protect(pl.DataFrame({"a<b": [1, 2, 3, 4, 5, 6]}), k=3, method="mdav")._repr_html_()
    >>> "status green" in shown, "a&lt;b" in shown
    (True, True)
    """
    figures = protection.figures
    rows = [
        ("records", f"{figures.n_records:,}"),
        ("groups", f"{figures.n_groups:,} of {figures.smallest_group:,} to {figures.largest_group:,}"),
        ("at risk", f"{100 * figures.at_risk:.3g} %"),
        ("information lost", f"{figures.information_loss:.3g} %"),
        *(("verdict", str(verdict)) for verdict in protection.verdicts if verdict.holds is not None),
        *(("because", reason) for reason in protection.reasons),
    ]
    cells = Markup("").join(
        Markup('<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>').format(*row)
        for row in rows
    )
    return str(
        Markup('<div><strong style="color:{}">status {}: {}</strong><table>{}</table></div>').format(
            _COLOURS[protection.status], protection.status, protection.advice, cells
        )
    )


def comparison_html(comparison: Any) -> str:
    """The cells of a comparison, the recommended one marked, and the reason; every text escaped."""
    head = ("method", "k", "loss %", "linked %", "groups")
    best = comparison.recommended.method, comparison.recommended.k
    rows = []
    for cell in comparison.cells:
        values = (
            cell.method, cell.k, f"{cell.information_loss:.3f}", f"{100 * cell.dld:.1f}", f"{cell.n_groups:,}",
        )  # fmt: skip
        mark = "font-weight:bold" if (cell.method, cell.k) == best else ""
        cells = Markup("").join(Markup("<td>{}</td>").format(value) for value in values)
        rows.append(Markup('<tr style="{}">{}</tr>').format(mark, cells))
    names = Markup("").join(Markup("<th>{}</th>").format(each) for each in head)
    return str(
        Markup("<div><strong>{}</strong><table><tr>{}</tr>{}</table><code>{}</code></div>").format(
            comparison.reason, names, Markup("").join(rows), comparison.command()
        )
    )
