"""Disclosure risk: what an intruder who holds the original values could link or narrow down."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from shoal.engine.encode import Standardiser
from shoal.measures._arrays import pair
from shoal.measures._nearest import TIE, nearest_is_own
from shoal.params import Interval, Options, check_params

# Up to so many columns a tree skips most rows; beyond, it visits nearly all of them. Where every record is asked for, it
# is worth its time in more columns.
FEW_COLUMNS, FEW_FOR_ALL = 8, 20
# Pairs of records that a selection may ask for in all.
MOST_PAIRS = 2e9
# Points that a tree is asked for between two tellings of progress.
TOLD_POINTS = 2_000


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
    labels: np.ndarray | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> float:
    """Share of the rows of B whose nearest row of A is their own; coordinates are taken as they are.

    Above `max_records` an even selection of the rows of B stands for all of them, and a smaller one above 100,000 rows.
    With `blocks` (0..b-1 for each row) only rows of one block are compared: columns that both sides know exactly.
    `labels` are the groups of the rows, where they are known: they save time. `progress` is told how many rows are
    done, of how many.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.measures import linked_share
    >>> linked_share(np.array([[0.0], [1.0], [5.0]]), np.array([[0.5], [0.5], [5.0]]))
    0.6666666666666666
    """
    n = A.shape[0]
    rows = _selected(n, max_records, _among(n, blocks))
    if blocks is None and A.shape[1] <= (FEW_COLUMNS if max_records is not None else FEW_FOR_ALL):
        return _linked_by_tree(A, B, rows, ties, progress)
    alike, first = nearest_is_own(A, B, rows, blocks=blocks, labels=labels, progress=progress)
    if ties == "first":
        return float((first == rows).sum() / rows.size)
    return float((alike > 0).astype(float) @ (1.0 / np.maximum(1, alike)) / rows.size)


def sought_records(n: int, max_records: int | None, blocks: np.ndarray | None = None) -> int:
    """For how many records `linked_share` searches the nearest one; in a large table, for a selection.

    Parameters
    ----------
    n : int
        Records of the table.
    max_records : int or None
    blocks : array of int64, optional
        As `linked_share` is given them.

    Examples
    --------
    >>> from shoal.measures import sought_records
    >>> sought_records(900, 400), sought_records(50_000, 2_000)
    (900, 2000)
    """
    return int(_selected(n, max_records, _among(n, blocks)).size)


def _among(n: int, blocks: np.ndarray | None) -> float:
    """Among how many rows one is sought on the mean."""
    return n if blocks is None else float(np.bincount(blocks)[blocks].mean())


def _selected(n: int, most: int | None, among: float) -> np.ndarray:
    """An even selection of rows: at most so many, and so that they and those they are sought among are not too many pairs."""
    if most is None or n <= 1000:
        return np.arange(n)
    most = min(most, max(400, int(MOST_PAIRS / max(among, 1.0))))
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.int64)


def _linked_by_tree(
    A: np.ndarray,
    B: np.ndarray,
    rows: np.ndarray,
    ties: str,
    progress: Callable[[float, float], None] | None,
) -> float:
    """The same by a k-d tree, which skips most rows in few columns; all rows of a group are one point."""
    from scipy.spatial import cKDTree  # takes a while

    points, of_row = np.unique(B[rows], axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    to_own = np.sqrt(((A[rows] - B[rows]) ** 2).sum(axis=1))
    best = np.full(points.shape[0], np.inf)
    np.minimum.at(best, of_row, to_own)
    tree = cKDTree(A)
    m = points.shape[0]
    reach, counts, first = np.empty(m), np.ones(m, np.int64), np.full(m, -1, np.int64)
    for start in range(0, m, TOLD_POINTS):
        if progress is not None:
            progress(start, m)
        here = np.arange(start, min(m, start + TOLD_POINTS))
        reach[here] = tree.query(points[here], workers=-1)[0] * (1 + TIE) + 1e-300
        # Nearest rows are counted only where the own one may be among them.
        asked = here[best[here] <= reach[here]]
        if asked.size and ties == "first":
            inside = tree.query_ball_point(points[asked], reach[asked], workers=-1)
            first[asked] = [min(each) for each in inside]
        elif asked.size:
            found = tree.query_ball_point(points[asked], reach[asked], return_length=True, workers=-1)
            counts[asked] = np.maximum(1, found)
    linked = np.flatnonzero(to_own <= reach[of_row])
    asked = of_row[linked]
    if ties == "share":
        return float((1.0 / counts[asked]).sum() / rows.size)
    return float((first[asked] == rows[linked]).sum() / rows.size)


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
