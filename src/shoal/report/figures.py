"""The pictures of the reports, each an inline SVG in the page's colours.

The first three show one protection; `scatter_map` and `lines` serve any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import dates as calendar
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from shoal.report.canvas import (
    AFTER,
    BEFORE,
    CARD,
    INK,
    MUTED,
    SERIES,
    canvas,
    clean,
    drawing,
    grid,
    short,
    to_svg,
)
from shoal.report.places import Box, place_labels
from shoal.typing import Json

BARS = 24
FARTHEST = 1e300  # beyond it the axis itself would overflow
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (9, 3)),
    (0, (3, 1, 1, 1, 1, 1)),
)


def group_sizes(sizes: np.ndarray, k: int) -> Markup:
    """How many groups there are of each size.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.report.figures import group_sizes
    >>> group_sizes(np.array([3, 3, 4, 5]), 3)[:4]
    Markup('<svg')
    """
    low, high = int(sizes.min()), int(sizes.max())
    step = -(-(high - low + 1) // 40)
    edges = np.arange(low, high + step + 1, step) - 0.5
    counts = np.histogram(sizes, edges)[0]
    with drawing():
        axes = canvas(400, 180, left=46, bottom=40, top=18)
        axes.bar(edges[:-1] + step / 2, counts, width=0.82 * step, color=AFTER, linewidth=0)
        grid(axes)
        axes.set_xlim(
            max(0.0, min(edges[0], k - 0.5) - 1.5 * step), max(edges[-1] + step, min(2 * k, k + 40) - 0.5)
        )
        axes.axvline(k - 0.5, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"k = {k}", (k - 0.5, 1), (5, 2), xycoords=("data", "axes fraction"), textcoords="offset points"
        )
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.set_xlabel("records in the group")
        axes.set_ylabel("groups")
        span = f"of {low:,} records each" if low == high else f"of {low:,} to {high:,} records"
        return to_svg(axes, f"Histogram of group sizes: {sizes.size:,} groups {span}; k is {k}.")


def compare_numbers(
    name: str, before: np.ndarray, after: np.ndarray, *, dates: bool = False
) -> tuple[Markup, bool]:
    """Original and protected values of a column as two histograms over the same bars.

    Parameters
    ----------
    name : str
    before, after : arrays of float64
        Without missing cells; days since 1970 where `dates`.
    dates : bool, default False

    Returns
    -------
    (Markup, bool)
        The picture, and whether its axis is compressed: so it is where more than a third of the records
        would otherwise fall into a single bar.
    """
    before, after = (np.clip(each, -FARTHEST, FARTHEST) for each in (before, after))
    edges, width = _bars(np.concatenate([before, after]), before, compressible=not dates)
    shares = [100 * np.histogram(each, edges)[0] / max(each.size, 1) for each in (before, after)]
    with drawing():
        axes = canvas(280, 150, left=34, bottom=24, top=8, right=16)
        if width is not None:
            axes.set_xscale("asinh", linear_width=width)
        axes.stairs(shares[0], edges, fill=True, color=BEFORE, linewidth=0)
        axes.stairs(shares[1], edges, color=AFTER, linewidth=1.8)
        margin = 0.02 * (edges[-1] - edges[0]) if width is None else 0.0
        axes.set_xlim(edges[0] - margin, edges[-1] + margin)
        axes.set_ylim(0, 1.06 * max(1e-9, *(each.max() for each in shares)))
        _number_axis(axes, edges, width, dates=dates)
        grid(axes)
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
        label = f"Histograms of {clean(name, 80)}: original filled, protected as a line."
        return to_svg(axes, label), width is not None


def compare_levels(name: str, levels: Sequence[str], before: np.ndarray, after: np.ndarray) -> Markup:
    """Shares of the values of a column, original above protected.

    Parameters
    ----------
    name : str
    levels : sequence of str
    before, after : arrays of float64
        Shares in 0..1, one for each level.
    """
    count = len(levels)
    names = [clean(level, 17) for level in levels]
    with drawing():
        axes = canvas(
            280, 26 + 19 * count, left=14 + 6 * max(map(len, names), default=0), bottom=22, right=14, top=4
        )
        rows = np.arange(count)
        axes.barh(rows - 0.2, 100 * before, height=0.36, color=BEFORE, linewidth=0)
        axes.barh(rows + 0.2, 100 * after, height=0.36, color=AFTER, linewidth=0)
        axes.set_yticks(rows, names)
        axes.tick_params(axis="y", labelcolor=INK)
        axes.invert_yaxis()
        axes.grid(visible=True, axis="x")
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
        spoken = "; ".join(
            f"{clean(level, 40)} {100 * x:.3g} % and {100 * y:.3g} %"
            for level, x, y in zip(levels, before, after, strict=True)
        )
        return to_svg(axes, f"Shares of the values of {clean(name, 80)}, original and protected: {spoken}.")


@dataclass(frozen=True)
class MapPoint:
    """One method at one k: what it loses (per cent) and what can be linked back (a share in 0..1).

    Points that are `named` carry their method's name on the map; a `chosen` one has a ring around it.
    """

    method: str
    k: int
    loss: float
    risk: float
    named: bool = True
    chosen: bool = False


def pareto_front(points: Sequence[MapPoint]) -> list[bool]:
    """Which points no other one beats in both loss and risk.

    Examples
    --------
    >>> from shoal.report.figures import MapPoint, pareto_front
    >>> pareto_front([MapPoint("a", 3, 5, 0.2), MapPoint("b", 3, 6, 0.3), MapPoint("a", 5, 9, 0.1)])
    [True, False, True]
    """
    return [
        not any(
            other.loss <= each.loss
            and other.risk <= each.risk
            and (other.loss, other.risk) != (each.loss, each.risk)
            for other in points
        )
        for each in points
    ]


def scatter_map(points: Sequence[MapPoint]) -> Markup:
    """The risk-utility map: linkage against information loss, a mark for each method and k.

    Shape and colour tell k; names are written where there is room, and always on the Pareto front, which a
    dashed line joins. Each mark tells its method, k and figures when pointed at.

    Examples
    --------
    >>> from shoal.report.figures import MapPoint, scatter_map
    >>> "mdav, k = 3" in scatter_map([MapPoint("mdav", 3, 5.7, 0.29), MapPoint("cbfs", 3, 5.6, 0.28)])
    True
    """
    front = pareto_front(points)
    ks = sorted({point.k for point in points})
    tips = {}
    with drawing():
        axes = canvas(720, 480, left=52, bottom=44, top=34, right=16)
        for position, (point, best) in enumerate(zip(points, front, strict=True)):
            rank = ks.index(point.k)
            colour = SERIES[rank % len(SERIES)]
            axes.plot(
                [point.loss],
                [100 * point.risk],
                MARKERS[rank % len(MARKERS)],
                markersize=9 if best else 7,
                markerfacecolor=colour if best else CARD,
                markeredgecolor=colour,
                markeredgewidth=1.4,
                gid=f"tip-{position}",
                zorder=4 if best else 3,
            )
            if point.chosen:
                ring: Json = {
                    "markerfacecolor": "none",
                    "markeredgecolor": INK,
                    "markeredgewidth": 1.6,
                }
                axes.plot([point.loss], [100 * point.risk], "o", markersize=19, zorder=2, **ring)
            tips[f"tip-{position}"] = _told(point, best)
        _front_line(axes, [point for point, best in zip(points, front, strict=True) if best])
        _frame_map(axes, points)
        _name_points(axes, points, front)
        _legend_of_ks(axes, ks)
        count = len({point.method for point in points})
        label = (
            f"Risk-utility map of {count} methods: linkage against information loss. On the Pareto front: "
            + "; ".join(_told(point, False) for point, best in zip(points, front, strict=True) if best)
        )
        return to_svg(axes, label, tips)


@dataclass(frozen=True)
class Series:
    """A line, or single points if not joined: its name, its points, and where there is one the ends of its band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    joined: bool = True


def lines(
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
    label: str = "",
    width: int = 600,
) -> Markup:
    """Lines over a common axis, each with its own colour, dash and mark; `width` is that of the page's place.

    Examples
    --------
    >>> from shoal.report.figures import Series, lines
    >>> picture = lines([Series("mdav", [1, 10, 100], [1, 20, 400])], x_label="rows", y_label="s", log_x=True)
    >>> picture.startswith("<svg")
    True
    """
    with drawing():
        axes = canvas(width, 340, left=60, bottom=44, top=14 + 18 * -(-len(series) // 3), right=16)
        for position, each in enumerate(series):
            colour = SERIES[position % len(SERIES)]
            look = position + position // len(SERIES)  # where colours begin again, dashes and marks differ
            if each.low is not None and each.high is not None:
                axes.fill_between(each.x, each.low, each.high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(
                each.x,
                each.y,
                color=colour,
                linewidth=1.8,
                linestyle=DASHES[look % len(DASHES)] if each.joined else "none",
                marker=MARKERS[look % len(MARKERS)] if len(each.x) <= 40 or not each.joined else None,
                markersize=5 if each.joined else 3.5,
                label=clean(each.name, 28),
            )
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        for axis, is_log in ((axes.xaxis, log_x), (axes.yaxis, log_y)):
            low, high = axis.get_view_interval()
            if is_log and high < 100 * low:  # whole powers of ten would leave the axis bare
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_formatter(NullFormatter())
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        grid(axes)
        axes.set_xlabel(clean(x_label, 80))
        axes.set_ylabel(clean(y_label, 60))
        if len(series) > 1 or series[0].name:
            axes.legend(
                loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, handlelength=2.6, labelcolor=INK
            )
        names = ", ".join(clean(each.name, 60) for each in series)
        return to_svg(axes, label or f"{y_label} against {x_label}: {names}.")


def _bars(both: np.ndarray, before: np.ndarray, *, compressible: bool) -> tuple[np.ndarray, float | None]:
    """Edges of the bars, and the half-width of the linear part where the axis is to be compressed."""
    low, high = (float(both.min()), float(both.max())) if both.size else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        half = max(0.5, 0.05 * abs(low))
        return np.linspace(low - half, high + half, 4), None
    if np.array_equal(before, np.rint(before)) and high - low < 1e9:
        step = -(-int(high - low + 1) // BARS)
        edges = np.arange(np.floor(low), high + step + 1, step) - 0.5
    else:
        edges = np.linspace(low, high, BARS + 1)
    fullest = np.histogram(before, edges)[0].max() / max(before.size, 1)
    sizes = np.abs(before[before != 0])
    if not compressible or fullest <= 1 / 3 or edges.size <= BARS // 2 or before.size < 2 * BARS:
        return edges, None
    width = max(float(np.quantile(sizes, 0.25)), 1e-9 * max(abs(low), abs(high)))
    edges = width * np.sinh(np.linspace(np.arcsinh(low / width), np.arcsinh(high / width), BARS + 1))
    edges[[0, -1]] = low, high  # what rounding moved
    return edges, width


def _number_axis(axes: Axes, edges: np.ndarray, width: float | None, *, dates: bool) -> None:
    if dates:
        locator = calendar.AutoDateLocator(minticks=2, maxticks=4)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(calendar.ConciseDateFormatter(locator, show_offset=False))
        return
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if width is None:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        return
    ends = np.arcsinh(edges[[0, -1]] / width)
    powers = 10.0 ** np.arange(-12, 19)
    kept: list[float] = []
    for value in [0.0, *powers[::-1], *-powers[::-1]]:
        at = np.arcsinh(value / width)
        room = 0.17 * (ends[1] - ends[0])
        if ends[0] <= at <= ends[1] and all(abs(at - np.arcsinh(each / width)) >= room for each in kept):
            kept.append(value)
    axes.set_xticks(sorted(kept))
    axes.set_xticks([], minor=True)


def _told(point: MapPoint, best: bool) -> str:
    words = f"{point.method}, k = {point.k}: loss {point.loss:.4g} %, linkage {100 * point.risk:.3g} %"
    return words + (", on the Pareto front" if best else "")


def _front_line(axes: Axes, best: list[MapPoint]) -> None:
    ordered = sorted(best, key=lambda point: (point.loss, -point.risk))
    axes.plot(
        [point.loss for point in ordered],
        [100 * point.risk for point in ordered],
        color=MUTED,
        linewidth=1.2,
        linestyle=(0, (4, 3)),
        zorder=2,
    )


def _frame_map(axes: Axes, points: Sequence[MapPoint]) -> None:
    losses, risks = ([point.loss for point in points], [100 * point.risk for point in points])
    for values, setter in ((losses, axes.set_xlim), (risks, axes.set_ylim)):
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = max(0.08 * (high - low), 0.02 * high, 1e-6)
        # Zero is shown where it costs little room.
        setter(0.0 if low < 0.4 * high else max(0.0, low - margin), high + margin)
    grid(axes)
    axes.grid(visible=True, axis="x")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))
    axes.set_xlabel("information loss (less is better)")
    axes.set_ylabel("records linked back, DLD (less is better)")


def _name_points(axes: Axes, points: Sequence[MapPoint], front: Sequence[bool]) -> None:
    """Write names beside the marks: the front first, then the others where there is room."""
    front = [best for point, best in zip(points, front, strict=True) if point.named]
    points = [point for point in points if point.named]
    frame = axes.bbox
    marks = [tuple(axes.transData.transform((point.loss, 100 * point.risk))) for point in points]
    names = [clean(point.method, 20) for point in points]
    places = place_labels(marks, names, front, Box(frame.x0, frame.y0, frame.x1, frame.y1))
    for name, place, best in zip(names, places, front, strict=True):
        if place is not None:
            x, y = axes.transData.inverted().transform((place.anchor, place.box.low + 2.5))
            weight, colour = ("bold", INK) if best else ("normal", MUTED)
            axes.text(x, y, name, ha=place.align, color=colour, fontweight=weight, zorder=5)


def _legend_of_ks(axes: Axes, ks: Sequence[int]) -> None:
    for rank, k in enumerate(ks):
        colour = SERIES[rank % len(SERIES)]
        axes.plot([], [], MARKERS[rank % len(MARKERS)], color=colour, markersize=7, label=f"k = {k}")
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(ks),
        labelcolor=INK,
        handletextpad=0.2,
        columnspacing=1.2,
    )
