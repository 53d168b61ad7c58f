"""The architecture, drawn from the imports in the source and from the layers that `make lint` checks."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from shoal.report.canvas import AFTER, CARD, INK, MUTED, SERIES, canvas, drawing, to_svg

ROOT = Path(__file__).parents[2]
ENTRIES = {"cli", "server", "client", "research"}
WIDE, HIGH, GAP, STEP, SLAB = 98.0, 25.0, 14.0, 55.0, 33.0


def layers(within: str = "shoal") -> list[list[str]]:
    """Packages from top to bottom, as the import contract of pyproject.toml lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    kept = next(each["layers"] for each in contracts if each.get("containers") == [within])
    return [[part.strip(" ()") for part in re.split(r"[|:]", layer)] for layer in kept]


def uses(within: str = "shoal") -> dict[str, dict[str, int]]:
    """For each part the packages it imports from, and in how many files; imports for type checkers do not count."""
    package = ROOT.joinpath("src", *within.split("."))
    found: dict[str, dict[str, int]] = {part: {} for layer in layers(within) for part in layer}
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if part not in found:
            continue  # not a package of its own: __init__ and __main__
        for other in sorted(set(_imported(ast.parse(path.read_text(encoding="utf-8")), within))):
            if other != part and other in found:
                found[part][other] = found[part].get(other, 0) + 1
    return found


def needed(edges: dict[str, dict[str, int]]) -> dict[str, set[str]]:
    """The imports, without those that a longer path of imports already implies."""
    below: dict[str, set[str]] = {}

    def reach(part: str) -> set[str]:
        if part not in below:
            below[part] = set(edges[part]).union(*(reach(other) for other in edges[part]))
        return below[part]

    return {
        part: {
            other
            for other in others
            if not any(other in reach(between) for between in others if between != other)
        }
        for part, others in edges.items()
    }


def architecture() -> str:
    """Packages in their layers; a line joins a package with one that it imports."""
    return _drawn("shoal", "io", ("publish", "dp"))


def answering() -> str:
    """The folders and files of private answers, drawn the same way."""
    return _drawn("shoal.dp", "accounting", ("session",))


def _drawn(within: str, lowest: str, chief: tuple[str, ...]) -> str:
    """Boxes and lines; from the layer of `lowest` on, wide boxes without lines, since nearly all others use them."""
    rows, edges = layers(within), uses(within)
    above = rows[: rows.index([lowest])]
    base = rows[len(above) :]
    width = max(len(row) for row in above) * (WIDE + GAP) + GAP
    height = len(above) * STEP + len(base) * SLAB + 6
    place = {
        part: (
            width / 2 + (position - (len(row) - 1) / 2) * min(width / len(row), 2.1 * WIDE),
            height - 20 - layer * STEP,
        )
        for layer, row in enumerate(above)
        for position, part in enumerate(row)
    }
    with drawing():
        axes = canvas(width, height, left=0, bottom=0, right=0, top=0)
        axes.set(xlim=(0, width), ylim=(0, height))
        axes.axis("off")
        # Neighbours of one layer may use each other; their places say so.
        upper = {
            part: {each: 1 for each in edges[part] if each in place and place[each][1] < place[part][1]}
            for part in place
        }
        for part, others in needed(upper).items():
            for other in sorted(others):
                _line(axes, place[part], place[other])
        tips = {}
        for part, (x, y) in place.items():
            colour = SERIES[1] if part in chief else AFTER if part in ENTRIES else MUTED
            _box(axes, part, x, y, WIDE, colour)
            tips[f"package-{part}"] = f"{part} uses " + (", ".join(edges[part]) or "nothing here")
        for layer, row in enumerate(base):
            y = height - len(above) * STEP - layer * SLAB - 6
            each = (width - 2 * GAP - (len(row) - 1) * GAP) / len(row)
            for position, part in enumerate(row):
                x = GAP + each / 2 + position * (each + GAP)
                users = [other for other in edges if part in edges[other]]
                _box(
                    axes,
                    part,
                    x,
                    y,
                    each,
                    MUTED,
                    f"{part}, used by {len(users)} other{'s' * (len(users) != 1)}",
                )
                tips[f"package-{part}"] = f"{part} is used by " + ", ".join(users)
        what = "packages of Shoal" if within == "shoal" else f"parts of {within}"
        label = f"The {len(tips)} {what} in {len(rows)} layers; lines join a part with what it uses below"
        return str(to_svg(axes, label, tips))


def _box(axes, part: str, x: float, y: float, width: float, colour: str, words: str = "") -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - HIGH / 2), width, HIGH, boxstyle="round,pad=0,rounding_size=6",
            facecolor=CARD, edgecolor=colour, linewidth=1.3, zorder=3, gid=f"package-{part}",
        )
    )  # fmt: skip
    size = 10.5 if len(part) > 14 else 11.5 if len(part) > 12 else 13
    axes.text(x, y, words or part, ha="center", va="center", color=INK, fontsize=size, zorder=4)


def _line(axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A line that bends around the layers it passes."""
    passed = round((start[1] - end[1]) / STEP)
    side = 1 if start[0] >= end[0] else -1
    bend = 0.0 if passed < 2 else 0.1 * side if abs(start[0] - end[0]) > WIDE else 0.35 * side
    axes.add_patch(
        FancyArrowPatch(
            (start[0], start[1] - HIGH / 2), (end[0], end[1] + HIGH / 2 + 1),
            connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=7,
            color=MUTED, linewidth=1.0, alpha=0.8, zorder=1,
        )
    )  # fmt: skip


def _imported(tree: ast.AST, within: str) -> Iterator[str]:
    """Parts of a package that a file imports, at the top or inside a function."""
    depth = within.count(".") + 1
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (
                each.name.split(".")[depth] for each in node.names if each.name.startswith(f"{within}.")
            )
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{within}."):
            parts = node.module.split(".")
            yield from [parts[depth]] if len(parts) > depth else [name.name for name in node.names]
        else:
            yield from _imported(node, within)
