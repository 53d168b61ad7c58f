"""Closed tours through all records: greedy edges, then 2-opt and Or-opt moves over neighbour lists, then kicks.

Every change of the tour is made of reversals of a run of positions, so that a kick that does not pay is undone
by doing the same reversals backwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from shoal.engine.compile import kernel
from shoal.errors import InputError, MissingExtraError

__all__ = ["tour_by_fast_tsp", "tour_length", "travelling_tours"]

FAST_TSP_LIMIT = 8000


def travelling_tours(
    Z: np.ndarray, seeds: Iterable[int] = (0,), *, kicks: int = 0, neighbours: int = 24
) -> list[np.ndarray]:
    """Short closed tours through the records by Euclidean distance, one for each seed.

    Equal records are visited in one go, in the order of the table. The same seed gives the same tour.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    seeds : iterable of int
    kicks : int
        Random local changes tried after the first local optimum.
    neighbours : int
        Length of the neighbour lists. Tables with repeated measurements have close clusters, and a list
        must reach out of them.

    Returns
    -------
    list of array of int64, (n_records,)
    """
    places, place_of = np.unique(Z, axis=0, return_inverse=True)
    found = _search(np.ascontiguousarray(places), seeds, kicks, neighbours)
    tours = []
    for visit in found:
        turn = np.empty(visit.size, np.int64)
        turn[visit] = np.arange(visit.size)
        tours.append(np.argsort(turn[place_of.reshape(-1)], kind="stable"))
    return tours


def tour_by_fast_tsp(Z: np.ndarray, seconds: float) -> np.ndarray:
    """A closed tour found by the package fast-tsp within a time limit, so not the same on every run.

    It takes distances as 16-bit integers, all pairs of them: up to `FAST_TSP_LIMIT` records.
    """
    try:
        import fast_tsp
    except ImportError:
        raise MissingExtraError("fast-tsp", "search") from None
    from scipy.spatial.distance import cdist

    n = Z.shape[0]
    if n > FAST_TSP_LIMIT:
        raise InputError(
            f"tour='fast-tsp' keeps the distances of all pairs, so it takes at most {FAST_TSP_LIMIT} records. "
            f"Got {n}; use tour='local'."
        )
    if n <= 3:
        return np.arange(n)
    distance = cdist(Z, Z)
    distance *= 65535.0 / (distance.max() or 1.0)
    return np.asarray(
        fast_tsp.find_tour(distance.round().astype(np.uint16), duration_seconds=seconds), np.int64
    )


def tour_length(Z: np.ndarray, tour: np.ndarray) -> float:
    """Length of a closed tour."""
    return float(np.linalg.norm(Z[tour] - Z[np.roll(tour, -1)], axis=1).sum())


def _search(X: np.ndarray, seeds: Iterable[int], kicks: int, neighbours: int) -> list[np.ndarray]:
    n = X.shape[0]
    if n <= 3:
        return [np.arange(n) for _ in seeds]
    from scipy.spatial import cKDTree  # takes a while

    distance, near = cKDTree(X).query(X, k=min(neighbours + 1, n), workers=-1)
    # Each place is its own nearest; where others are too near to tell apart it need not stand first.
    first = np.argsort(near != np.arange(n)[:, None], axis=1, kind="stable")[:, 1:]
    distance, near = (
        np.take_along_axis(distance, first, 1),
        np.take_along_axis(near, first, 1).astype(np.int64),
    )
    greedy = _greedy(X, distance, near)
    tours = []
    for seed in seeds:
        tour = greedy.copy()
        state = np.array([(seed * 0x9E3779B97F4A7C15 + 0x2545F4914F6CDD1D) % 2**64 or 1], np.uint64)
        _improve(X, distance, near, tour, kicks if n >= 8 else 0, state)
        tours.append(tour)
    return tours


def _greedy(X: np.ndarray, distance: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Shortest edges first, as long as they make paths; the paths' ends are then joined the same way."""
    n = X.shape[0]
    link = np.full((n, 2), -1, np.int64)
    path = np.arange(n)
    source = np.repeat(np.arange(n), near.shape[1])
    left = _link(link, path, *_by_length(source, near.ravel(), distance.ravel()), n)
    while left > 1:
        ends = np.flatnonzero(link[:, 1] < 0)
        # Few ends: look at all pairs. Many: at the nearest ends, more than a path has, so that every round joins.
        m = ends.size if ends.size <= 512 else 9
        from scipy.spatial import cKDTree  # takes a while

        d, other = cKDTree(X[ends]).query(X[ends], k=m, workers=-1)
        a, b = np.repeat(ends, m), ends[other.ravel()]
        left = _link(link, path, *_by_length(a, b, d.ravel()), left)
    return _walk(link)


def _by_length(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Edges of two lists of ends, each once, shortest first, ties by smallest ends."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((high, low, d))
    return low[order], high[order]


# Kernels. Reversals have at most _LONGEST records, so that a million records do not take quadratic time.
_LONGEST = 25_000


@kernel()
def _link(link, path, low, high, paths):
    """Add the edges that join two different paths at free ends; how many paths are left."""
    for e in range(low.size):
        i, j = low[e], high[e]
        if link[i, 1] >= 0 or link[j, 1] >= 0:
            continue
        r, s = i, j
        while path[r] != r:
            path[r] = path[path[r]]
            r = path[r]
        while path[s] != s:
            path[s] = path[path[s]]
            s = path[s]
        if r == s:
            continue
        path[max(r, s)] = min(r, s)
        link[i, 0 if link[i, 0] < 0 else 1] = j
        link[j, 0 if link[j, 0] < 0 else 1] = i
        paths -= 1
    return paths


@kernel()
def _walk(link):
    """The order in which a single path visits its records."""
    n = link.shape[0]
    tour = np.empty(n, np.int64)
    here = 0
    while link[here, 1] >= 0:
        here += 1
    before = -1
    for t in range(n):
        tour[t] = here
        following = link[here, 0] if link[here, 0] != before else link[here, 1]
        before, here = here, following
    return tour


@kernel()
def _improve(X, distance, near, tour, kicks, state):
    """Bring a tour to a local optimum; then kick it locally, keeping what shortens it."""
    n = tour.size
    pos = np.empty(n, np.int64)
    pos[tour] = np.arange(n)
    queue = tour.copy()
    waiting = np.ones(n, np.bool_)
    journal = np.empty((1024, 2), np.int64)
    _settle(X, distance, near, tour, pos, queue, waiting, n, journal, np.zeros(1, np.int64))
    used = np.zeros(1, np.int64)
    reach = max(1, min(50, n // 4))
    for _ in range(kicks):
        start = np.int64(_random(state) % np.uint64(n))
        a = 1 + np.int64(_random(state) % np.uint64(reach))
        b = 1 + np.int64(_random(state) % np.uint64(reach))
        used[0] = 0
        change, m = _swap_runs(X, tour, pos, queue, waiting, start, a, b, journal, used)
        change += _settle(X, distance, near, tour, pos, queue, waiting, m, journal, used)
        if change >= 0.0 and used[0] <= journal.shape[0]:
            for at in range(used[0] - 1, -1, -1):
                _turn(tour, pos, journal[at, 0], journal[at, 1])


@kernel(inline=True)
def _random(state):
    """Xorshift."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return x


@kernel()
def _length(X, i, j):
    d = 0.0
    for a in range(X.shape[1]):
        t = X[i, a] - X[j, a]
        d += t * t
    return np.sqrt(d)


@kernel(inline=True)
def _run(pos, i, j):
    """Steps between two records along the cycle, the shorter way."""
    steps = abs(pos[i] - pos[j])
    return min(steps, pos.size - steps)


@kernel()
def _turn(tour, pos, start, size):
    """Reverse `size` positions from `start` on, around the end."""
    n = tour.size
    i, j = start, start + size - 1
    if j >= n:
        j -= n
    for _ in range(size // 2):
        x, y = tour[i], tour[j]
        tour[i] = y
        pos[y] = i
        tour[j] = x
        pos[x] = j
        i = i + 1 if i + 1 < n else 0
        j = j - 1 if j > 0 else n - 1


@kernel()
def _reverse(tour, pos, first, last, journal, used):
    """Reverse the run from one record to another, or the rest of the cycle, whichever is shorter."""
    n = tour.size
    start = pos[first]
    size = pos[last] - start + 1
    if size <= 0:
        size += n
    if 2 * size > n:
        start = (start + size) % n
        size = n - size
    _turn(tour, pos, start, size)
    if used[0] < journal.shape[0]:
        journal[used[0], 0] = start
        journal[used[0], 1] = size
    used[0] += 1


@kernel()
def _swap_runs(X, tour, pos, queue, waiting, start, a, b, journal, used):
    """Exchange two neighbouring runs of a and b records (a double bridge); the change of length."""
    n = tour.size
    before, after = tour[start], tour[(start + a + b + 1) % n]
    a1, a2 = tour[(start + 1) % n], tour[(start + a) % n]
    b1, b2 = tour[(start + a + 1) % n], tour[(start + a + b) % n]
    change = _length(X, before, b1) + _length(X, b2, a1) + _length(X, a2, after)
    change -= _length(X, before, a1) + _length(X, a2, b1) + _length(X, b2, after)
    _reverse(tour, pos, a1, b2, journal, used)
    _reverse_between(tour, pos, before, b2, b1, journal, used)
    _reverse_between(tour, pos, b2, a2, a1, journal, used)
    m = 0
    for i in (before, after, a1, a2, b1, b2):
        if not waiting[i]:
            waiting[i] = True
            queue[m] = i
            m += 1
    return change, m


@kernel()
def _reverse_between(tour, pos, outside, first, last, journal, used):
    """Reverse the run from `first` to `last`, where `outside` is next to `first`, in either direction."""
    n = tour.size
    at = pos[outside] + 1
    if tour[at if at < n else 0] == first:
        _reverse(tour, pos, first, last, journal, used)
    else:
        _reverse(tour, pos, last, first, journal, used)


@kernel()
def _settle(X, distance, near, tour, pos, queue, waiting, count, journal, used):
    """Try moves at the `count` records that head the queue, and wherever a move was made; the change."""
    n = tour.size
    head, change = 0, 0.0
    ends = np.empty(6, np.int64)
    while count > 0:
        i = queue[head]
        head = head + 1 if head + 1 < n else 0
        count -= 1
        waiting[i] = False
        while True:
            ends[:] = -1
            gain = _two_opt(X, distance, near, tour, pos, i, ends, journal, used)
            if gain == 0.0:
                gain = _or_opt(X, distance, near, tour, pos, i, ends, journal, used)
            if gain == 0.0:
                break
            change -= gain
            for j in ends:
                if j >= 0 and j != i and not waiting[j]:
                    waiting[j] = True
                    queue[(head + count) % n] = j
                    count += 1
    return change


@kernel()
def _two_opt(X, distance, near, tour, pos, i, ends, journal, used):
    """Make the first move found that gives record i a nearer neighbour by one reversal; its gain."""
    n = tour.size
    for side in range(2):
        step = 1 if side == 0 else n - 1
        j = tour[(pos[i] + step) % n]
        old = _length(X, i, j)
        for q in range(near.shape[1]):
            if distance[i, q] >= old:
                break
            u = near[i, q]
            v = tour[(pos[u] + step) % n]
            gain = old + _length(X, u, v) - distance[i, q] - _length(X, j, v)
            if gain > 1e-10:
                if _run(pos, j, u) > _LONGEST:
                    continue
                if side == 0:
                    _reverse(tour, pos, j, u, journal, used)
                else:
                    _reverse(tour, pos, u, j, journal, used)
                ends[0], ends[1], ends[2], ends[3] = i, j, u, v
                return gain
    return 0.0


@kernel()
def _or_opt(X, distance, near, tour, pos, i, ends, journal, used):
    """Move one to three records, record i at an end of them, next to a near record of i; the gain."""
    n = tour.size
    for size in range(1, min(3, n - 3) + 1):
        for side in range(2):
            # The segment runs from i forwards (side 0) or backwards; `e` is its other end.
            step = 1 if side == 0 else n - 1
            back = n - step
            e = tour[(pos[i] + (size - 1) * step) % n]
            p, s = tour[(pos[i] + back) % n], tour[(pos[e] + step) % n]
            spare = _length(X, p, i) + _length(X, e, s) - _length(X, p, s)
            for q in range(near.shape[1]):
                if distance[i, q] >= spare:
                    break
                u = near[i, q]
                inside = (pos[u] - pos[i]) * (1 if side == 0 else -1)
                if inside < 0:
                    inside += n
                if inside < size:
                    continue
                # Beyond u: i next to u, e next to the record on u's far side, in both directions.
                for way in range(2):
                    v = tour[(pos[u] + (step if way == 0 else back)) % n]
                    if v in (i, e):
                        continue
                    gain = spare + _length(X, u, v) - distance[i, q] - _length(X, e, v)
                    if gain > 1e-10 and _run(pos, i, u) <= _LONGEST:
                        _move(tour, pos, p, i, e, s, u, v, way, side, journal, used)
                        ends[0], ends[1], ends[2] = p, s, u
                        ends[3], ends[4], ends[5] = v, i, e
                        return gain
    return 0.0


@kernel()
def _move(tour, pos, p, i, e, s, u, v, way, side, journal, used):
    """Take the segment i..e from between p and s and put it between u and v, i beside u.

    Read in the segment's own direction the cycle is p [i..e] s ... x y ..., where (x, y) is (u, v) for way
    0 and (v, u) for way 1.
    """
    x = u if way == 0 else v
    # p [i..e] [s..x] y  ->  p [x..s] [e..i] y
    if side == 0:
        _reverse(tour, pos, i, x, journal, used)
    else:
        _reverse(tour, pos, x, i, journal, used)
    # ->  p [s..x] [e..i] y
    _reverse_between(tour, pos, p, x, s, journal, used)
    if way == 0:  # ->  p [s..x] [i..e] y
        _reverse_between(tour, pos, x, e, i, journal, used)
