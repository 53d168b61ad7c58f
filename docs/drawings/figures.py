"""Figures measured or computed: loss against seconds, the risk-utility map, the noise of each mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.transforms import Bbox

from shoal import datasets
from shoal.comparison import compare
from shoal.report.canvas import AFTER, CARD, INK, MUTED, SERIES, canvas, drawing, short, to_svg
from shoal.report.figures import MapPoint, scatter_map

FAR = 1.45  # methods that lose this many times the least are told, not drawn
FOLDER = Path(__file__).parents[1] / "benchmarks"


def measured() -> list[dict[str, Any]]:
    """Records of table, method, k, seconds and il, as `make bench` found them."""
    return json.loads((FOLDER / "methods.json").read_text(encoding="utf-8"))["records"]


def loss_against_seconds(table: str) -> str:
    """Each method a point, the annealing a line: the more time it is given, the less is lost."""
    records = [each for each in measured() if each["table"] == table]
    k = records[0]["k"]
    names = list(dict.fromkeys(each["method"] for each in records))
    best = min(records, key=lambda each: each["il"])
    others = [each for each in records if each["method"] != "anneal"]
    beyond = [each for each in others if each["il"] > FAR * best["il"]]
    others = [each for each in others if each not in beyond]
    anneal = sorted((each["seconds"], each["il"]) for each in records if each["method"] == "anneal")
    tips = {}
    with drawing():
        axes = canvas(720, 430, left=52, bottom=44, top=34, right=16)
        axes.set_xscale("log")
        for position, each in enumerate(others):
            axes.plot([each["seconds"]], [each["il"]], "o", markersize=7, markerfacecolor=CARD,
                      markeredgecolor=AFTER, markeredgewidth=1.4, gid=f"tip-{position}")  # fmt: skip
            tips[f"tip-{position}"] = f"{each['method']}: {each['il']:.3f} % in {each['seconds']:.3g} s"
        if anneal:
            axes.plot(*zip(*anneal, strict=True), "-", color=SERIES[1], linewidth=2)
            axes.plot(*anneal[-1], "o", color=SERIES[1], markersize=8)
            axes.annotate("anneal", anneal[-1], xytext=(0, -16), textcoords="offset points", color=SERIES[1],
                          ha="center", fontweight="bold")  # fmt: skip
        axes.grid(visible=True, axis="both", which="major")
        axes.xaxis.set_major_formatter(lambda value, _: short(value))
        axes.margins(0.08)
        left_out = "".join(f"; not shown: {each['method']}, {each['il']:.1f} %" for each in beyond)
        axes.set_xlabel(f"seconds{left_out}")
        _name(axes, [(each["seconds"], each["il"], each["method"]) for each in others])
        axes.text(0, 1.03, f"information loss (%), {table}, k = {k}", transform=axes.transAxes, color=INK)
        label = f"Loss against seconds of {len(names)} methods on {table}: least by {best['method']}, {best['il']:.3f} %"
        return str(to_svg(axes, label, tips))


def seconds_over_records() -> str:
    """Time over records, both logarithmic, with the growth of each between its two largest sizes."""
    rows = json.loads((FOLDER / "scale.json").read_text(encoding="utf-8"))["records"]
    tips = {}
    with drawing():
        axes = canvas(720, 400, left=52, bottom=44, top=34, right=150)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for position, name in enumerate(dict.fromkeys(each["series"] for each in rows)):
            points = sorted((each["n"], each["seconds"]) for each in rows if each["series"] == name)
            growth = next(each["exponent"] for each in rows if each["series"] == name)
            colour = (MUTED, *SERIES)[position % (len(SERIES) + 1)]
            axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=6, gid=f"tip-{position}")
            tips[f"tip-{position}"] = f"{name}: " + ", ".join(f"{n:,} in {s:.3g} s" for n, s in points)
            widest = points[-1][0] == max(each["n"] for each in rows)
            axes.annotate(f"{name}, n^{growth:.2f}", points[-1], xytext=(9 if widest else -9, -4), color=colour,
                          textcoords="offset points", ha="left" if widest else "right")  # fmt: skip
        axes.grid(visible=True, axis="both", which="major")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: short(value))
        axes.set_xlabel("records")
        axes.text(0, 1.03, "seconds, 10 normal columns", transform=axes.transAxes, color=INK)
        label = "Seconds over records: the plain and the fast MDAV, files protected in parts, and Spark"
        return str(to_svg(axes, label, tips))


def risk_utility() -> str:
    """The map of `shoal compare` on the bundled survey."""
    found = compare(
        datasets.load_survey(),
        k=[3, 5, 10],
        methods=["mdav", "cbfs", "v-mdav", "mdav-mhm", "fdm", "k-ward"],
        columns=["age", "income", "rent", "taxes"],
    )
    return str(
        scatter_map([MapPoint(cell.method, cell.k, cell.information_loss, cell.dld) for cell in found.cells])
    )


def correlated_noise() -> str:
    """The distribution of a noisy COUNT at one epsilon, by what is hidden together."""
    epsilon, count = 0.5, 500
    modes = (
        ("dp", "one record", 1, SERIES[0]),
        ("correlated", "a cell of look-alikes, at most 4 counted", 4, SERIES[2]),
        ("group", "a household of at most 6", 6, SERIES[1]),
    )
    with drawing():
        axes = canvas(720, 330, left=16, bottom=44, top=12, right=16)
        values = np.arange(count - 60, count + 61)
        for floor, (name, hidden, rows, colour) in enumerate(reversed(modes)):
            ratio = np.exp(-epsilon / rows)
            density = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values - count)
            height = 0.8 * density / density.max()
            axes.fill_between(
                values, floor, floor + height, step="mid", facecolor=colour, alpha=0.28, linewidth=0
            )
            axes.step(values, floor + height, where="mid", color=colour, linewidth=1.3)
            half = int(np.ceil(np.log(0.05 * (1 + ratio) / 2) / np.log(ratio))) - 1
            axes.plot(
                [count - half, count + half], [floor, floor], color=colour, linewidth=4, solid_capstyle="butt"
            )
            axes.text(values[0], floor + 0.62, name, color=INK, fontsize=12.5, fontweight="bold")
            axes.text(values[0], floor + 0.42, hidden, color=MUTED)
            axes.text(values[0], floor + 0.22, f"95 % within {half}", color=MUTED)
        axes.axvline(count, color=MUTED, linewidth=0.8, linestyle=(0, (3, 3)))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"answer to COUNT(*), true count {count}, epsilon = {epsilon}")
        label = "Noise of a count at epsilon 0.5: narrow for one record, wider for a cell of four, widest for a household of six"
        return str(to_svg(axes, label))


def _name(axes: Any, points: list[tuple[float, float, str]]) -> None:
    """Names beside the points, left out where two would meet."""
    axes.get_xlim(), axes.get_ylim()  # settles where the points lie
    taken: list[Any] = [axes.transData.transform((x, y)) for x, y, _ in points]
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in taken]
    for x, y, name in sorted(points, key=lambda each: each[1]):
        for shift, side in (((7, -4), "left"), ((0, 8), "center"), ((0, -16), "center"), ((-7, -4), "right")):
            text = axes.annotate(name, (x, y), xytext=shift, textcoords="offset points", color=MUTED, ha=side)
            box = text.get_window_extent()
            if box.x1 <= axes.bbox.x1 and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()
