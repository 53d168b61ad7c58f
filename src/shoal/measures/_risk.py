"""Disclosure risk: what an intruder who holds the original values could link or narrow down."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from shoal.engine.encode import Standardiser
from shoal.measures._arrays import pair
from shoal.params import Interval, Options, check_params

# Distances that differ by less than this share are ties: sums of squares are rounded differently.
TIE = 1e-9


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
    A: np.ndarray, B: np.ndarray, *, ties: str = "share", max_records: int | None = None
) -> float:
    """Share of the rows of B whose nearest row of A is their own; coordinates are taken as they are.

    Above `max_records` an even selection of the rows of B stands for all of them.
    """
    n = A.shape[0]
    rows = (
        np.arange(n)
        if max_records is None or n <= max_records
        else np.linspace(0, n - 1, max_records).astype(np.int64)
    )
    tree = cKDTree(A)
    # All rows of a group are the same point: ask once for each.
    points, of_row = np.unique(B[rows], axis=0, return_inverse=True)
    of_row = of_row.reshape(-1)
    nearest = tree.query(points, workers=-1)[0]
    to_own = np.sqrt(((A[rows] - B[rows]) ** 2).sum(axis=1))
    reach = nearest * (1 + TIE) + 1e-300
    linked = np.flatnonzero(to_own <= reach[of_row])
    if linked.size == 0:
        return 0.0
    asked, back = np.unique(of_row[linked], return_inverse=True)
    back = back.reshape(-1)
    if ties == "share":
        counts = tree.query_ball_point(points[asked], reach[asked], return_length=True, workers=-1)
        return float((1.0 / np.maximum(1, counts)[back]).sum() / rows.size)
    first = np.array(
        [min(inside) for inside in tree.query_ball_point(points[asked], reach[asked], workers=-1)]
    )
    return float((first[back] == rows[linked]).sum() / rows.size)


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
