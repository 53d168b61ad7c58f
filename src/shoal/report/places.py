"""Where to write names on a crowded picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTER = 7.0  # width of a letter and height of a line of the pictures' text, in pixels
LINE = 13.0
MARK = 5.0  # half the size of a mark


@dataclass(frozen=True)
class Box:
    """A rectangle, from its lower left to its upper right corner."""

    left: float
    low: float
    right: float
    high: float

    def overlap(self, other: Box) -> float:
        """The area that two rectangles share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.high, other.high) - max(self.low, other.low)
        return max(0.0, width) * max(0.0, height)

    @property
    def area(self) -> float:
        """Width times height."""
        return (self.right - self.left) * (self.high - self.low)


@dataclass(frozen=True)
class Place:
    """Room for a name, and the side of it that touches the mark."""

    box: Box
    align: str

    @property
    def anchor(self) -> float:
        """Where a text with this alignment starts."""
        middle = (self.box.left + self.box.right) / 2
        return {"left": self.box.left, "center": middle, "right": self.box.right}[self.align]


def place_labels(
    marks: Sequence[tuple[float, float]], names: Sequence[str], must: Sequence[bool], frame: Box
) -> list[Place | None]:
    """A place beside its mark for each name; None where there is no room and the name is not a must.

    Names that must be written go first, each to the free place it likes best, or to the one that covers
    least. O(number of names squared).

    Examples
    --------
    >>> from shoal.report.places import Box, place_labels
    >>> places = place_labels([(50, 50), (52, 50)], ["one", "two"], [True, True], Box(0, 0, 200, 100))
    >>> places[0].box.overlap(places[1].box)
    0.0
    """
    taken = [Box(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in marks]
    places: list[Place | None] = [None] * len(names)
    order = sorted(range(len(names)), key=lambda position: (not must[position], position))
    for position in order:
        best, least = None, float("inf")
        for place in _around(marks[position], LETTER * len(names[position])):
            inside = place.box.overlap(frame) >= 0.999 * place.box.area
            covered = sum(place.box.overlap(other) for other in taken) + (0.0 if inside else place.box.area)
            if covered < least:
                best, least = place, covered
        if best is not None and (must[position] or least == 0.0):
            places[position] = best
            taken.append(best.box)
    return places


def _around(mark: tuple[float, float], width: float) -> list[Place]:
    """Places for a name of this width around a mark: beside it, above and below, then at its corners."""
    x, y = mark
    gap = MARK + 2
    places = []
    for align, left, low in (
        ("left", x + gap, y - LINE / 2),
        ("right", x - gap - width, y - LINE / 2),
        ("center", x - width / 2, y + gap),
        ("center", x - width / 2, y - gap - LINE),
        ("left", x + MARK, y + MARK),
        ("left", x + MARK, y - MARK - LINE),
        ("right", x - MARK - width, y + MARK),
        ("right", x - MARK - width, y - MARK - LINE),
    ):
        places.append(Place(Box(left, low, left + width, low + LINE), align))
    return places
