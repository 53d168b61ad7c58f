"""Where to write names on a crowded picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LETTER = 6.4  # width of a letter and height of a line of the pictures' text, in pixels
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


def place_labels(
    marks: Sequence[tuple[float, float]], names: Sequence[str], must: Sequence[bool], frame: Box
) -> list[Box | None]:
    """A place beside its mark for each name; None where there is no room and the name is not a must.

    Names that must be written go first, each to the free place it likes best, or to the one that covers
    least. O(number of names squared).

    Examples
    --------
    >>> from shoal.report.places import Box, place_labels
    >>> places = place_labels([(50, 50), (52, 50)], ["one", "two"], [True, True], Box(0, 0, 200, 100))
    >>> places[0].overlap(places[1])
    0.0
    """
    taken = [Box(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in marks]
    places: list[Box | None] = [None] * len(names)
    order = sorted(range(len(names)), key=lambda position: (not must[position], position))
    for position in order:
        best, least = None, float("inf")
        for place in _around(marks[position], LETTER * len(names[position])):
            inside = place.overlap(frame) >= 0.999 * place.area
            covered = sum(place.overlap(other) for other in taken) + (0.0 if inside else place.area)
            if covered < least:
                best, least = place, covered
        if best is not None and (must[position] or least == 0.0):
            places[position] = best
            taken.append(best)
    return places


def _around(mark: tuple[float, float], width: float) -> list[Box]:
    """Places for a name of this width around a mark: near ones first, right before left."""
    x, y = mark
    corners = []
    for gap in (MARK + 2, MARK + 9):
        for left, low in (
            (x + gap, y - LINE / 2),
            (x - gap - width, y - LINE / 2),
            (x - width / 2, y + gap),
            (x - width / 2, y - gap - LINE),
            (x + gap - 2, y + gap - 2),
            (x + gap - 2, y - gap - LINE + 2),
            (x - gap - width + 2, y + gap - 2),
            (x - gap - width + 2, y - gap - LINE + 2),
        ):
            corners.append(Box(left, low, left + width, low + LINE))
    return corners
