"""Indicators before and after, for a page: a picture of both intervals and a table with a verdict for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from shoal.report.canvas import AFTER, BEFORE, INK, canvas, clean, drawing, to_svg
from shoal.report.html import figure, table

if TYPE_CHECKING:
    from shoal.utility import Fitness, KeptFigure

DRAWN = 40
_STATES = {"kept": "holds", "moved": "reported", "lost": "fails"}


def intervals_picture(figures: Sequence[KeptFigure]) -> Markup:
    """Both intervals of each figure, in units of the one before: its middle is 0, its ends are -1 and 1.

    Examples
    --------
    >>> from shoal.report.indicators import intervals_picture
    >>> from shoal.utility import Estimate, KeptFigure
    >>> intervals_picture([KeptFigure("mean of x", "", Estimate(1, 0, 2), Estimate(2, 1, 3), 0.5)])[:4]
    Markup('<svg')
    """
    shown = [each for each in figures if not np.isnan(each.before.value)][:DRAWN]
    names = [clean(each.title, 44) for each in shown]
    with drawing():
        axes = canvas(720, 70 + 22 * max(1, len(shown)), left=290, bottom=38, top=26, right=20)
        for row, each in enumerate(shown):
            middle, half = (each.before.low + each.before.high) / 2, (each.before.high - each.before.low) / 2
            unit = half if half > 0 else max(abs(middle), 1.0) * 0.01
            axes.plot(
                [-half / unit, half / unit], [row, row], color=BEFORE, linewidth=8, solid_capstyle="butt"
            )
            if not np.isnan(each.after.value):
                ends = np.clip([(end - middle) / unit for end in (each.after.low, each.after.high)], -4, 4)
                point = float(np.clip((each.after.value - middle) / unit, -4, 4))
                axes.plot(ends, [row, row], color=AFTER, linewidth=2.4, solid_capstyle="butt")
                axes.plot([point], [row], "o", color=AFTER, markersize=5)
        axes.set_yticks(range(len(shown)), names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.invert_yaxis()
        axes.set_xlim(-4.2, 4.2)
        axes.grid(visible=True, axis="x")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("in half-widths of the interval before; beyond 4 is drawn at the edge")
        axes.plot([], [], color=BEFORE, linewidth=8, label="before, 95 %")
        axes.plot([], [], "o-", color=AFTER, linewidth=2.4, markersize=5, label="after, 95 %")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, labelcolor=INK)
        spoken = "; ".join(f"{name} {each.verdict}" for name, each in zip(names, shown, strict=True))
        return to_svg(axes, f"Intervals of the indicators before and after: {spoken}.")


def indicator_table(figures: Sequence[KeptFigure]) -> Markup:
    """Each figure before and after, the overlap of its intervals, and the verdict."""
    from shoal.utility import figure_text  # after the page is asked for

    rows = []
    for each in figures:
        state = Markup('<span class="state {}">{}</span>').format(_STATES[each.verdict], each.verdict)
        told = [
            ""
            if np.isnan(part.value)
            else f"{figure_text(part.value)} ({figure_text(part.low)} to {figure_text(part.high)})"
            for part in (each.before, each.after)
        ]
        rows.append([each.title, told[0], told[1] or each.note or "none", f"{each.overlap:.2f}", state])
    return table(["indicator", "before (95 %)", "after (95 %)", "overlap", "verdict"], rows)


def indicators_body(found: Fitness) -> Markup:
    """Picture and table, for a section."""
    more = len(found.figures) - DRAWN
    words = "Kept: half of both intervals or more is common. Lost: they are apart."
    words += f" The first {DRAWN} are drawn." if more > 0 else ""
    return figure(intervals_picture(found.figures), words, wide=True) + indicator_table(found.figures)
