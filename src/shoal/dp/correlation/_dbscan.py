"""Approach 1: DBSCAN's clusters, Spearman within them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import polars as pl

from shoal.dp.correlation._largest import Profiles, largest_similarity
from shoal.dp.correlation._prepare import Preparation, check_missing, check_preprocessing
from shoal.errors import ParameterError


class DBSCANModel:
    """Records of one DBSCAN cluster go together by Spearman's degree; outliers stand alone.

    Parameters
    ----------
    eps : float
        Radius; the dissertation takes 0.4 on Adult, 0.5 on CCC, 5.0 on HAPT.
    min_points : int, default 2
        Records within the radius, the record itself among them, that make it a core.
    preprocessing : {"raw", "min-max", "z-score"}, default "min-max"
        Not printed there; raw values cannot have been used.
    columns : sequence of str, optional
    missing : {"nearest", "mean", "error"}, default "nearest"
        A missing cell takes the mean of the five records nearest in the other columns, the column's mean, or
        is refused.

    Notes
    -----
    For mode `heuristic` only. With 2 points the clusters are the connected parts of the graph of pairs within
    `eps`; they are found by spreading from records in tiles, O(n) memory.

    References
    ----------
    .. [1] M. Ester, H.-P. Kriegel, J. Sander, X. Xu (1996). A density-based algorithm for discovering clusters
       in large spatial databases with noise. KDD, 226-231.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import DBSCANModel
    >>> frame = pl.DataFrame({"a": [0.0, 0.1, 9.0], "b": [1.0, 1.1, 0.0]})
    >>> model = DBSCANModel(0.5, preprocessing="raw").fit(frame)
    >>> model.labels_.tolist(), model.row_influence(np.ones(3), np.arange(3))
    ([0, 0, -1], 2.0)
    """

    frozen = False
    n_cells = 0

    def __init__(
        self,
        eps: float,
        min_points: int = 2,
        *,
        preprocessing: str = "min-max",
        columns: Sequence[str] | None = None,
        missing: str = "nearest",
    ) -> None:
        check_preprocessing(preprocessing)
        check_missing(missing)
        real = isinstance(eps, (int, float)) and not isinstance(eps, bool)
        if not real or not 0 < eps < float("inf"):
            raise ParameterError(f"'eps' of DBSCANModel must be a number above 0. Got {eps!r}.")
        if isinstance(min_points, bool) or not isinstance(min_points, int) or min_points < 1:
            raise ParameterError(
                f"'min_points' of DBSCANModel must be an int of at least 1. Got {min_points!r}."
            )
        self.eps, self.min_points, self.preprocessing = float(eps), min_points, preprocessing
        self.columns, self.missing = None if columns is None else tuple(columns), missing
        self.name = f"dbscan(eps {eps:g}, min_points {min_points}, {preprocessing})"
        self.fingerprint = f"{self.name} of the private table"
        self._profiles: Profiles | None = None

    def fit(self, frame: pl.DataFrame) -> Self:
        """Find the clusters and keep each record's ranks."""
        self.preparation_ = Preparation.learn(frame, self.preprocessing, self.columns)
        X = self.preparation_.apply(frame, self.missing)
        if self.min_points == 2:
            self.labels_ = connected(X, self.eps)
        else:
            from sklearn.cluster import DBSCAN

            self.labels_ = DBSCAN(eps=self.eps, min_samples=self.min_points).fit(X).labels_.astype(np.int64)
        self._profiles = Profiles.of(X, ranks=True)
        return self

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> float:
        """The largest of (|Delta| w)_i over the answering rows, cluster by cluster, heaviest first."""
        if self._profiles is None:
            raise ParameterError("The model must be fitted before it can weigh rows.")
        labels = self.labels_[answer]
        best = float(weights.max(initial=0.0))  # a record always goes with itself
        inside = np.flatnonzero(labels >= 0)
        if not len(inside):
            return best
        order = inside[np.argsort(labels[inside], kind="stable")]
        _, starts = np.unique(labels[order], return_index=True)
        members = np.split(order, starts[1:])
        heavy = np.add.reduceat(weights[order], starts)
        for at in np.argsort(-heavy, kind="stable"):
            if heavy[at] <= best:
                break
            rows = members[at]
            best = largest_similarity(self._profiles.take(answer[rows]), weights[rows], best=best)
        return best

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """There is none."""
        raise ParameterError("Clusters of the private table are no public map to cells.")


def connected(X: np.ndarray, eps: float, block: int = 128) -> np.ndarray:
    """Labels of the connected parts of the pairs within `eps`, by smallest record; -1 for a record alone.

    Pairs are looked at in tiles; of each tile only those are kept that join parts still apart.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = len(X)
    X = X - X.mean(axis=0)
    square = (X**2).sum(axis=1)
    part = np.arange(n)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        near = _near(X, square, rows, eps) & (part[rows, None] != part[None, start:])
        one, other = np.nonzero(near)
        if len(one):
            ends = part[start + one], part[start + other]
            graph = coo_array((np.ones(len(one), dtype=bool), ends), shape=(n, n))
            part = connected_components(graph, directed=False)[1][part]
    sizes = np.bincount(part, minlength=n)
    _, first, labels = np.unique(part, return_index=True, return_inverse=True)
    several = np.flatnonzero(sizes[part[first]] > 1)
    names = np.full(len(first), -1, dtype=np.int64)
    names[several[np.argsort(first[several])]] = np.arange(len(several))
    return names[labels]


def _near(X: np.ndarray, square: np.ndarray, rows: slice, eps: float) -> np.ndarray:
    """Which records from the first of `rows` on lie within `eps`; what rounding leaves open is done directly."""
    distance = X[rows] @ X[rows.start :].T
    distance *= -2.0
    distance += square[rows, None]
    distance += square[None, rows.start :]
    slack = 1e-12 * (eps**2 + 4.0 * float(square.max()))
    near = distance < eps**2 - slack
    for i, j in np.argwhere(~near & (distance <= eps**2 + slack)):
        near[i, j] = np.sqrt(((X[rows.start + i] - X[rows.start + j]) ** 2).sum()) <= eps
    return near
