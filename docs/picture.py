"""Draws docs/pictures/shoal.svg: one table in the plane, before and after, by the default method."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.spatial import ConvexHull

from shoal.datasets import make_clusters
from shoal.microaggregation import Anneal

TEAL, SAND = "#0b7285", "#e8590c"


def draw(path: Path) -> None:
    """Records on the left, their groups and centroids on the right."""
    mpl.rcParams["svg.hashsalt"] = "shoal"
    X, _ = make_clusters(150, 2, 12, spread=0.75, random_state=4)
    fitted = Anneal(k=5, max_proposals=2_000_000, random_state=0).fit(X)
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    before, after = figure.subplots(1, 2, sharex=True, sharey=True)
    before.scatter(*X.T, s=14, color=TEAL)
    before.set_title("150 persons", fontsize=11)
    for group in range(fitted.n_groups_):
        members = X[fitted.labels_ == group]
        corners = members[ConvexHull(members).vertices]
        after.fill(*corners.T, facecolor=TEAL, alpha=0.16, edgecolor=TEAL, linewidth=0.8)
    sizes = np.bincount(fitted.labels_)
    after.scatter(*fitted.centroids_.T, s=6 * sizes, color=SAND, zorder=3)
    after.set_title(
        f"{fitted.n_groups_} groups of at least 5, {fitted.information_loss_:.1f} % of the information lost",
        fontsize=11,
    )
    for axes in (before, after):
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color("#adb5bd")
    figure.savefig(path, metadata={"Date": None}, transparent=False)


if __name__ == "__main__":
    draw(Path(__file__).parent / "pictures" / "shoal.svg")
