"""Disclosure risk: what an intruder who holds the original values could link or narrow down."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from shoal.engine.compile import kernel, prange
from shoal.engine.encode import Standardiser
from shoal.measures._arrays import pair
from shoal.params import Interval, Options, check_params

# Distances that differ by less than this share are ties: sums of squares are rounded differently.
TIE = 1e-9
# Up to so many columns a tree skips most rows; beyond, it visits nearly all of them.
FEW_COLUMNS = 20
# Distances held at once by a scan: 64 MB.
SCAN_CELLS = 1 << 23
# Squared differences that a selection of records may cost in all.
MOST_STEPS = 5e8


def dld(original: Any, protected: Any, *, own: bool = False, ties: str = "share") -> float:
    """Distance-based linkage disclosure: share of protected records whose nearest original is their own.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    own : bool, default False
        Standardise each side by its own mean and deviation instead of both by the original's.
    ties : {"share", "first"}, default "share"
        A protected record equally near to m originals, its own among them, counts 1/m; with "first" it
        counts 1 if its own has the smallest index, else 0.

    Notes
    -----
    One k-d tree, O(n log n) in few dimensions, no n x n matrix.

    References
    ----------
    .. [1] J. Domingo-Ferrer, V. Torra (2001). A quantitative comparison of disclosure control methods for
       microdata. In: Confidentiality, Disclosure and Data Access, Elsevier, 111-133.

    Examples
    --------
    >>> from shoal.measures import dld
    >>> dld([[0.0], [1.0], [9.0]], [[0.0], [1.0], [9.0]])
    1.0
    >>> dld([[0.0], [2.0], [9.0], [11.0]], [[1.0], [1.0], [10.0], [10.0]])
    0.5
    """
    check_params("dld", {"ties": Options(("share", "first"))}, {"ties": ties})
    X, Y = pair(original, protected)
    standardiser = Standardiser.fit(X)
    A = standardiser.transform(X)
    B = (Standardiser.fit(Y) if own else standardiser).transform(Y)
    return linked_share(A, B, ties=ties)


def linked_share(
    A: np.ndarray,
    B: np.ndarray,
    *,
    ties: str = "share",
    max_records: int | None = None,
    blocks: np.ndarray | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> float:
    """Share of the rows of B whose nearest row of A is their own; coordinates are taken as they are.

    Above `max_records` an even selection of the rows of B stands for all of them, and a smaller one where many columns
    or large blocks would make even that long. With `blocks` (0..b-1 for each row) only rows of one block are compared:
    columns that both sides know exactly. `progress` is told how many points are done, of how many.
    """
    n = A.shape[0]
    if blocks is not None:
        rows = _selected(n, max_records, float(np.bincount(blocks)[blocks].mean()) * A.shape[1])
        order = np.argsort(blocks, kind="stable")
        starts = np.searchsorted(blocks[order], np.arange(int(blocks.max()) + 2))
        return float(_linked_in_blocks(A, B, rows, blocks, order, starts).mean())
    rows = _selected(n, max_records, 0.0 if A.shape[1] <= FEW_COLUMNS else n * (1 + 0.05 * A.shape[1]))
    # All rows of a group are the same point: ask once for each.
    points, of_row = np.unique(B[rows], axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    to_own = np.sqrt(((A[rows] - B[rows]) ** 2).sum(axis=1))
    if A.shape[1] > FEW_COLUMNS:
        neighbours = _scanned(A, points, progress)
    else:
        best = np.full(points.shape[0], np.inf)
        np.minimum.at(best, of_row, to_own)
        neighbours = _in_tree(A, points, best, firsts=ties == "first")
    linked = np.flatnonzero(to_own <= neighbours.reach[of_row])
    asked = of_row[linked]
    if ties == "share":
        return float((1.0 / neighbours.counts[asked]).sum() / rows.size)
    return float((neighbours.firsts[asked] == rows[linked]).sum() / rows.size)


def _selected(n: int, most: int | None, work: float) -> np.ndarray:
    """An even selection of rows: at most so many, and so that `work` steps for each are not too many in all."""
    if most is None or n <= 1000:
        return np.arange(n)
    most = min(most, max(400, int(MOST_STEPS / max(work, 1.0))))
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


class _Neighbours(NamedTuple):
    """For each point that may be linked: how far its nearest rows are, how many they are, the first of them."""

    reach: np.ndarray
    counts: np.ndarray
    firsts: np.ndarray


def _in_tree(A: np.ndarray, points: np.ndarray, best: np.ndarray, *, firsts: bool) -> _Neighbours:
    """By a k-d tree, which skips most rows in few columns; nearest rows are counted only within `best`."""
    from scipy.spatial import cKDTree  # takes a while

    tree = cKDTree(A)
    reach = tree.query(points, workers=-1)[0] * (1 + TIE) + 1e-300
    counts, first = np.ones(reach.size, np.int64), np.full(reach.size, -1, np.int64)
    asked = np.flatnonzero(best <= reach)
    if asked.size and firsts:
        inside = tree.query_ball_point(points[asked], reach[asked], workers=-1)
        first[asked] = [min(each) for each in inside]
    elif asked.size:
        found = tree.query_ball_point(points[asked], reach[asked], return_length=True, workers=-1)
        counts[asked] = np.maximum(1, found)
    return _Neighbours(reach, counts, first)


def _scanned(
    A: np.ndarray, points: np.ndarray, progress: Callable[[float, float], None] | None = None
) -> _Neighbours:
    """By matrix products, which in many columns beat a tree that can skip nothing.

    A product is less exact than a sum of squared differences, so it only names candidates, with room for
    its rounding; their distances are summed anew.
    """
    centre = A.mean(axis=0)
    A, points = A - centre, points - centre
    norms = np.einsum("ij,ij->i", A, A)
    m = points.shape[0]
    reach, counts, first = np.empty(m), np.empty(m, np.int64), np.empty(m, np.int64)
    step = max(1, SCAN_CELLS // A.shape[0])
    for start in range(0, m, step):
        if progress is not None:
            progress(start, m)
        P = points[start : start + step]
        own = np.einsum("ij,ij->i", P, P)
        squares = P @ A.T
        squares *= -2.0
        squares += norms
        squares += own[:, None]
        least = squares.min(axis=1)
        room = 1e-8 * np.maximum(least, 0.0) + 1e-12 * (own + norms.max())
        at, row = np.nonzero(squares <= (least + room)[:, None])
        distance = np.sqrt(((P[at] - A[row]) ** 2).sum(axis=1))
        begins = np.searchsorted(at, np.arange(P.shape[0]))
        here = slice(start, start + P.shape[0])
        reach[here] = np.minimum.reduceat(distance, begins) * (1 + TIE) + 1e-300
        inside = distance <= reach[here][at]
        counts[here] = np.add.reduceat(inside, begins, dtype=np.int64)
        first[here] = np.minimum.reduceat(np.where(inside, row, A.shape[0]), begins)
    return _Neighbours(reach, counts, first)


def interval_disclosure(original: Any, protected: Any, *, width: float = 0.1, kind: str = "rank") -> float:
    """Share of cells whose original value lies in a narrow interval around the protected one.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    width : float, default 0.1
        Half the interval: a share of the ranks ("rank"), or in standard deviations ("deviation").
    kind : {"rank", "deviation"}, default "rank"

    References
    ----------
    .. [1] J. M. Mateo-Sanz, F. Sebe, J. Domingo-Ferrer (2004). Outlier protection in continuous microdata
       masking. LNCS 3050, 201-215. doi:10.1007/978-3-540-25955-8_16

    Examples
    --------
    >>> from shoal.measures import interval_disclosure
    >>> interval_disclosure([[0.0], [1.0], [2.0], [3.0]], [[0.5], [0.5], [2.5], [2.5]], width=0.25)
    1.0
    """
    check_params(
        "interval_disclosure",
        {"width": Interval(Real, 0, np.inf), "kind": Options(("rank", "deviation"))},
        {"width": width, "kind": kind},
    )
    X, Y = pair(original, protected)
    n = X.shape[0]
    inside = 0
    for x, y in zip(X.T, Y.T, strict=True):
        if kind == "deviation":
            inside += int((np.abs(x - y) <= width * x.std()).sum())
            continue
        ordered = np.sort(x)
        low, high = np.searchsorted(ordered, y, "left"), np.searchsorted(ordered, y, "right")
        reach = int(np.ceil(width * n))
        floor = ordered[np.clip(low - reach, 0, n - 1)]
        ceiling = ordered[np.clip(high - 1 + reach, 0, n - 1)]
        inside += int(((x >= floor) & (x <= ceiling)).sum())
    return inside / X.size


def drisk(original: Any, protected: Any, *, width: float = 0.05, outside: int = 1) -> float:
    """Share of records whose originals lie near the published values in all but `outside` columns: sdcMicro's dRisk.

    `interval_disclosure` is another thing: a share of cells, the interval taken from the original's ranks or deviation.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    width : float, default 0.05
        Half the interval around a published value, in deviations of the *published* column.
    outside : int, default 1
        Columns of a record that may lie outside and still count it as disclosed.

    References
    ----------
    .. [1] M. Templ (2017). Statistical Disclosure Control for Microdata: Methods and Applications in R. Springer.
       doi:10.1007/978-3-319-50272-4

    Examples
    --------
    >>> from shoal.measures import drisk
    >>> drisk([[0.0, 0.0], [10.0, 10.0]], [[0.0, 5.0], [12.0, 5.0]], outside=0)
    0.0
    >>> drisk([[0.0, 0.0], [10.0, 10.0]], [[0.0, 5.0], [12.0, 5.0]])
    0.5
    """
    check_params(
        "drisk",
        {"width": Interval(Real, 0, np.inf), "outside": Interval(Integral, 0)},
        {"width": width, "outside": outside},
    )
    X, Y = pair(original, protected)
    reach = width * (Y.std(axis=0, ddof=1) if Y.shape[0] > 1 else np.zeros(Y.shape[1]))
    away = (np.abs(X - Y) > reach).sum(axis=1)
    return float((away <= outside).mean())


# Kernels


@kernel(parallel=True)
def _linked_in_blocks(A, B, rows, blocks, order, starts):
    """For each row asked for: 1/m if its own record is among the m nearest of its block, else 0."""
    out = np.zeros(rows.size)
    for r in prange(rows.size):
        i = rows[r]
        own = 0.0
        for a in range(A.shape[1]):
            own += (A[i, a] - B[i, a]) ** 2
        reach = np.sqrt(own) * (1.0 + TIE) + 1e-300
        ties, nearer = 0, False
        for at in range(starts[blocks[i]], starts[blocks[i] + 1]):
            j = order[at]
            distance = 0.0
            for a in range(A.shape[1]):
                distance += (A[j, a] - B[i, a]) ** 2
            distance = np.sqrt(distance)
            if distance * (1.0 + TIE) + 1e-300 < np.sqrt(own):
                nearer = True
                break
            if distance <= reach:
                ties += 1
        if not nearer:
            out[r] = 1.0 / max(1, ties)
    return out
