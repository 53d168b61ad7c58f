"""Pictures of the papers' figures that `shoal.report.figures` has no kind for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup


def losses_by_method(methods: Sequence[str], losses: Sequence[float], label: str) -> Markup:
    """Points joined in the order of the methods, as the split-recombine paper draws its figures 3 to 5."""
    from shoal.report.canvas import INK, SERIES, canvas, clean, drawing, grid, to_svg

    with drawing():
        axes = canvas(600, 320, left=60, bottom=86, top=16, right=16)
        places = range(len(methods))
        axes.plot(places, losses, color=SERIES[0], linewidth=1.4, marker="o", markersize=5)
        for place, loss in zip(places, losses, strict=True):
            axes.annotate(
                f"{loss:.3g}",
                (place, loss),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                color=INK,
            )
        axes.set_xticks(list(places), [clean(name, 20) for name in methods], rotation=35, ha="right")
        axes.margins(y=0.15)
        grid(axes)
        axes.set_ylabel("information loss, %")
        return to_svg(axes, label)


def build_seconds(rows: Sequence[Any], data: str) -> Markup:
    """Figure 19 of the dissertation: seconds to build each approach as measured here, and pair by pair, extrapolated."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from shoal.report.canvas import INK, SERIES, canvas, drawing, grid, short, to_svg

    ways = {"measured": "", "pair by pair, extrapolated": " (pair by pair)"}
    names = ("baseline", "approach 1", "approach 2", "approach 3")
    found = {row.method: row.ours for row in rows if (row.experiment, row.data) == ("build", data)}
    with drawing():
        axes = canvas(600, 320, left=60, bottom=44, top=34, right=16)
        for position, (way, ending) in enumerate(ways.items()):
            heights = [max(found.get(name + ending, 0.0), 1e-3) for name in names]
            places = [at + 0.4 * position - 0.2 for at in range(len(names))]
            axes.bar(places, heights, 0.36, color=SERIES[position], label=way)
            for place, height in zip(places, heights, strict=True):
                axes.annotate(
                    f"{height:.3g}",
                    (place, height),
                    xytext=(0, 3),
                    textcoords="offset points",
                    ha="center",
                    color=INK,
                )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.margins(y=0.2)
        axes.set_xticks(range(len(names)), names)
        grid(axes)
        axes.set_ylabel("seconds")
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, labelcolor=INK)
        return to_svg(
            axes, f"{data}: seconds to build each approach, measured, and pair by pair, extrapolated."
        )
