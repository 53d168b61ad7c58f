"""The nearest records of each record, kept in order."""

from __future__ import annotations

from shoal.engine.compile import kernel


@kernel()
def sort_in(found, distance, filled, i, d):
    """Put record i, at distance d, into a list of the nearest, nearest first; how many the list then holds.

    Of equals the earlier stays before the later; the last falls out of a full list.
    """
    at = filled
    if filled == found.size:
        at -= 1
        if d >= distance[at]:
            return filled
    while at > 0 and distance[at - 1] > d:
        distance[at] = distance[at - 1]
        found[at] = found[at - 1]
        at -= 1
    distance[at] = d
    found[at] = i
    return min(filled + 1, found.size)
