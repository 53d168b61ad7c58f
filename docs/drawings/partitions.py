"""Groups in the plane: hulls of each method on one small table, and a partition while it forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from shoal.datasets import make_clusters
from shoal.microaggregation import (
    BRKGA,
    CBFS,
    CBFSMHM,
    FDM,
    GA,
    GSMS,
    GSMST2,
    IMHM,
    KC,
    KCKW,
    MD,
    MDAV,
    MDAVMHM,
    MDMHM,
    NPNMHM,
    VMDAV,
    Anneal,
    DerivativeFree,
    HMeans,
    KMeans,
    KWard,
    MDAVGeneric,
    MicTSP,
    MSTCentroid,
    MSTDiameter,
    PathExchange,
    Univariate,
    UnivariateMedian,
)
from shoal.report.canvas import AFTER, INK, MUTED, POINTS, RULE, SERIES, drawing, to_svg

SAND = SERIES[1]
K = 4

FAMILIES: dict[str, list[Any]] = {
    "fixed-size": [MDAV(K), MDAVGeneric(K), MD(K), CBFS(K), VMDAV(K)],
    "path": [
        Univariate(K), UnivariateMedian(K), NPNMHM(K), MDMHM(K), MDAVMHM(K),
        CBFSMHM(K), MicTSP(K), FDM(K), IMHM(K), PathExchange(K),
    ],
    "greedy-and-hierarchical": [GSMS(K), GSMST2(K), KWard(K), MSTDiameter(K), MSTCentroid(K)],
    "means": [
        KC(K), KCKW(K), KMeans(K),
        HMeans(K), DerivativeFree(K),
    ],
    "evolution": [BRKGA(K), GA(K)],
    "anneal": [MDAV(K), Anneal(K, max_proposals=200_000, random_state=0)],
}  # fmt: skip


def example() -> np.ndarray:
    """The table of every picture: 90 records in two columns, some in natural groups and some between."""
    return make_clusters(90, 2, 8, spread=0.55, random_state=11)[0]


def family(name: str) -> str:
    """One panel per method of a family: its groups on the same 90 records."""
    X = example()
    methods = FAMILIES[name]
    fitted = [method.fit(X[:, :1] if isinstance(method, Univariate) else X) for method in methods]
    with drawing():
        panels = _panels(len(methods), per_row=2 if len(methods) in (2, 4) else 3)
        for axes, each in zip(panels, fitted, strict=True):
            _records(axes, X)
            if isinstance(each, Univariate):
                _bands(axes, X, each.labels_)
            else:
                _hulls(axes, X, each.labels_)
            if hasattr(each, "tour_"):
                tour = X[np.append(each.tour_, each.tour_[0])]
                axes.plot(*tour.T, color=SAND, linewidth=0.7, zorder=1)
            _title(axes, each.name, f"{each.n_groups_} groups, {each.information_loss_:.2f} %")
        names = ", ".join(f"{each.name} loses {each.information_loss_:.2f} per cent" for each in fitted)
        return str(to_svg(panels[0], f"Groups of at least {K} among 90 records in the plane: {names}"))


def film() -> str:
    """Six frames: records, the first groups of MDAV, all of them, and the annealing at work."""
    X = example()
    start = MDAV(K).fit(X)
    order = start.labels_
    frames: list[tuple[str, str, np.ndarray]] = [("90 persons", "nobody is hidden", np.full(len(X), -1))]
    for shown in (2, 10):
        frames.append((f"MDAV, {shown} groups", "extremes first", np.where(order < shown, order, -1)))
    frames.append(("MDAV, done", f"{start.information_loss_:.2f} % lost", order))
    for proposals in (300, 200_000):
        each = Anneal(K, max_proposals=proposals, random_state=0).fit(X)
        title = (
            f"annealing, {each.n_proposals_ / 1000:,.0f}k moves" if proposals > 1000 else "annealing begins"
        )
        frames.append((title, f"{each.information_loss_:.2f} % lost", each.labels_))
    with drawing():
        panels = _panels(len(frames), per_row=3)
        for axes, (title, below, labels) in zip(panels, frames, strict=True):
            _records(axes, X)
            _hulls(axes, X, labels)
            _title(axes, title, below)
        words = "; ".join(f"{title}: {below}" for title, below, _ in frames)
        return str(to_svg(panels[0], f"Six frames of a partition that forms: {words}"))


def forming() -> str:
    """MDAV group by group, as an animation in the page's own style; still where motion is not wanted."""
    X = example()
    labels = MDAV(K).fit(X).labels_
    low, high = X.min(axis=0), X.max(axis=0)
    place = (X - low) / (high - low) * np.array([600, 330]) + np.array([20, 15])
    place[:, 1] = 360 - place[:, 1]
    shapes = []
    for group in range(labels.max() + 1):
        members = place[labels == group]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in members[ConvexHull(members).vertices])
        centre = members.mean(axis=0)
        shapes.append(
            f'<g class="forming" style="--turn: {group}"><polygon points="{corners}"/>'
            f'<circle class="centre" cx="{centre[0]:.1f}" cy="{centre[1]:.1f}" r="4.5"/></g>'
        )
    points = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in place)
    return (
        '<svg viewBox="0 0 640 360" class="animation" style="max-width: 800px" role="img" '
        f'aria-label="MDAV takes {labels.max() + 1} groups of {K} and more from 90 records, the extreme ones first">'
        f'{"".join(shapes)}<g class="records">{points}</g></svg>'
    )


def cover() -> str:
    """One table before and after, by the default method."""
    X, _ = make_clusters(150, 2, 12, spread=0.75, random_state=4)
    each = Anneal(k=5, max_proposals=2_000_000, random_state=0).fit(X)
    with drawing():
        before, after = _panels(2, per_row=2, width=360, height=250)
        before.scatter(*X.T, s=16, color=AFTER, linewidth=0)
        _hulls(after, X, each.labels_, sized=True)
        for axes in (before, after):
            axes.set_xlim(X[:, 0].min() - 0.02, X[:, 0].max() + 0.02)
            axes.set_ylim(X[:, 1].min() - 0.02, X[:, 1].max() + 0.02)
        _title(before, "150 persons", "each a point that can be found")
        lost = f"{each.information_loss_:.1f} % of the information lost"
        _title(after, f"{each.n_groups_} groups of at least 5", lost)
        return str(to_svg(before, "A table of 150 persons in the plane, and the groups they are hidden in"))


def _panels(count: int, per_row: int, width: float = 236, height: float = 200) -> Sequence[Axes]:
    """Axes in rows, each with room for two lines above it."""
    rows = -(-count // per_row)
    figure = Figure(figsize=(per_row * width / POINTS, rows * height / POINTS), dpi=POINTS)
    panels = []
    for position in range(count):
        row, column = divmod(position, per_row)
        panels.append(
            figure.add_axes(
                (
                    (column + 0.03) / per_row,
                    1 - (row + 0.98) / rows,
                    0.94 / per_row,
                    (0.96 - 40 / height) / rows,
                )
            )
        )
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(visible=True, color=RULE)
    return panels


def _title(axes: Axes, name: str, below: str) -> None:
    axes.annotate(name, (0, 1), xytext=(1, 19), xycoords="axes fraction", textcoords="offset points",
                  color=INK, fontsize=12.5, fontweight="bold")  # fmt: skip
    axes.annotate(below, (0, 1), xytext=(1, 5), xycoords="axes fraction", textcoords="offset points",
                  color=MUTED, fontsize=11)  # fmt: skip


def _records(axes: Axes, X: np.ndarray) -> None:
    axes.scatter(*X.T, s=9, color=AFTER, linewidth=0, zorder=2)


def _hulls(axes: Axes, X: np.ndarray, labels: np.ndarray, *, sized: bool = False) -> None:
    """Hull and centroid of each group; records labelled -1 are still free."""
    for group in range(labels.max() + 1):
        members = X[labels == group]
        axes.fill(*members[ConvexHull(members).vertices].T, facecolor=AFTER, alpha=0.22, linewidth=0)
        axes.fill(*members[ConvexHull(members).vertices].T, fill=False, edgecolor=AFTER, linewidth=0.9)
        size = 4.5 * len(members) if sized else 22
        axes.scatter(*members.mean(axis=0), s=size, color=SAND, linewidth=0, zorder=3)


def _bands(axes: Axes, X: np.ndarray, labels: np.ndarray) -> None:
    """Groups of one column: an interval each."""
    for group in range(labels.max() + 1):
        column = X[labels == group, 0]
        axes.axvspan(column.min(), column.max(), facecolor=AFTER, alpha=0.22, edgecolor=AFTER, linewidth=0.9)
        axes.axvline(column.mean(), color=SAND, linewidth=1.4)
