"""What a notebook shows of a protection: the status, the tiles of the report and the verdicts."""

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
