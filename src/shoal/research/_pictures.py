"""Pictures of the papers' figures that `shoal.report.figures` has no kind for."""

from __future__ import annotations

from collections.abc import Sequence

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
