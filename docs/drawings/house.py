"""The architecture, drawn from the imports that are really there and the floors that `make lint` keeps."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from shoal.report.canvas import AFTER, CARD, INK, MUTED, SERIES, canvas, drawing, to_svg

ROOT = Path(__file__).parents[2]
DOORS = {"cli", "server", "client", "research"}
WIDE, HIGH, GAP, STEP, SLAB = 98.0, 25.0, 14.0, 55.0, 33.0


def floors() -> list[list[str]]:
    """Rooms from top to bottom, as the import contract of pyproject.toml lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return [[room.strip(" ()") for room in layer.split("|")] for layer in layers]


def uses() -> dict[str, dict[str, int]]:
    """For each room the rooms it imports from, and in how many files; imports for type checkers do not count."""
    package = ROOT / "src" / "shoal"
    found: dict[str, dict[str, int]] = {room: {} for floor in floors() for room in floor}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if room not in found:
            continue  # the front door: __init__ and __main__
        for other in sorted(set(_rooms(ast.parse(path.read_text(encoding="utf-8"))))):
            if other != room and other in found:
                found[room][other] = found[room].get(other, 0) + 1
    return found


def needed(edges: dict[str, dict[str, int]]) -> dict[str, set[str]]:
    """What is left of the imports without those that follow from others."""
    below: dict[str, set[str]] = {}

    def reach(room: str) -> set[str]:
        if room not in below:
            below[room] = set(edges[room]).union(*(reach(other) for other in edges[room]))
        return below[room]

    return {
        room: {
            other
            for other in others
            if not any(other in reach(between) for between in others if between != other)
        }
        for room, others in edges.items()
    }


def house() -> str:
    """Rooms on their floors, joined by what they use; the ground floor carries them all."""
    rows, edges = floors(), uses()
    above = rows[: rows.index(["io"])]
    ground = rows[len(above) :]
    width = max(len(row) for row in above) * (WIDE + GAP) + GAP
    height = len(above) * STEP + len(ground) * SLAB + 6
    place = {
        room: (
            width / 2 + (position - (len(row) - 1) / 2) * min(width / len(row), 2.1 * WIDE),
            height - 20 - floor * STEP,
        )
        for floor, row in enumerate(above)
        for position, room in enumerate(row)
    }
    with drawing():
        axes = canvas(width, height, left=0, bottom=0, right=0, top=0)
        axes.set(xlim=(0, width), ylim=(0, height))
        axes.axis("off")
        upper = {room: {each: 1 for each in edges[room] if each in place} for room in place}
        for room, others in needed(upper).items():
            for other in sorted(others):
                _line(axes, place[room], place[other])
        tips = {}
        for room, (x, y) in place.items():
            colour = SERIES[1] if room in ("protect", "dp") else AFTER if room in DOORS else MUTED
            _box(axes, room, x, y, WIDE, colour)
            tips[f"room-{room}"] = f"{room} uses " + ", ".join(edges[room])
        for floor, row in enumerate(ground):
            y = height - len(above) * STEP - floor * SLAB - 6
            each = (width - 2 * GAP - (len(row) - 1) * GAP) / len(row)
            for position, room in enumerate(row):
                x = GAP + each / 2 + position * (each + GAP)
                users = [other for other in edges if room in edges[other]]
                _box(axes, room, x, y, each, MUTED, f"{room}, used by {len(users)} rooms")
                tips[f"room-{room}"] = f"{room} is used by " + ", ".join(users)
        label = (
            f"The {len(tips)} rooms of Shoal on {len(rows)} floors; lines join a room with what it uses below"
        )
        return str(to_svg(axes, label, tips))


def _box(axes, room: str, x: float, y: float, width: float, colour: str, words: str = "") -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - HIGH / 2), width, HIGH, boxstyle="round,pad=0,rounding_size=6",
            facecolor=CARD, edgecolor=colour, linewidth=1.3, zorder=3, gid=f"room-{room}",
        )
    )  # fmt: skip
    size = 10 if len(room) > 12 else 11.5
    axes.text(x, y, words or room, ha="center", va="center", color=INK, fontsize=size, zorder=4)


def _line(axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A line that bends around the floors it passes."""
    passed = round((start[1] - end[1]) / STEP)
    side = 1 if start[0] >= end[0] else -1
    bend = 0.0 if passed < 2 else 0.1 * side if abs(start[0] - end[0]) > WIDE else 0.35 * side
    axes.add_patch(
        FancyArrowPatch(
            (start[0], start[1] - HIGH / 2), (end[0], end[1] + HIGH / 2 + 1),
            connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=7,
            color=MUTED, linewidth=0.8, alpha=0.55, zorder=1,
        )
    )  # fmt: skip


def _rooms(tree: ast.AST) -> Iterator[str]:
    """Rooms that a file imports, at the top or inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("shoal."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "shoal":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [name.name for name in node.names]
        else:
            yield from _rooms(node)
