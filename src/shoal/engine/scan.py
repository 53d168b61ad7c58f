"""Distances to many records at once: records held column by column, so that vector instructions apply."""

from __future__ import annotations

from shoal.engine.compile import kernel


@kernel()
def squares_to(columns, point, ds):
    """Squared distances of the first `ds.size` records to a point, summed in the order of the columns.

    Four columns at a time spare three of four trips of the sums to memory; their order, and so the result to
    the last digit, is that of one column after the other. The loops run over array sizes, not constants: a
    loop of known length is unrolled before it can be turned into vector instructions.
    """
    n, p = ds.size, point.size
    whole = p - p % 4
    for j in range(n):
        ds[j] = 0.0
    for a in range(0, whole, 4):
        y0, y1, y2, y3 = point[a], point[a + 1], point[a + 2], point[a + 3]
        c0, c1, c2, c3 = columns[a], columns[a + 1], columns[a + 2], columns[a + 3]
        for j in range(n):
            t0, t1, t2, t3 = c0[j] - y0, c1[j] - y1, c2[j] - y2, c3[j] - y3
            ds[j] = (((ds[j] + t0 * t0) + t1 * t1) + t2 * t2) + t3 * t3
    for a in range(whole, p):
        y, row = point[a], columns[a]
        for j in range(n):
            t = row[j] - y
            ds[j] += t * t


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
