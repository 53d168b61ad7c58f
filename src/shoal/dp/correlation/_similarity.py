"""Zhu's degrees: Pearson or Spearman between the attribute vectors of two records, with a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
import polars as pl

from shoal.dp.correlation._largest import Profiles, largest_similarity
from shoal.dp.correlation._prepare import Preparation, check_missing, check_preprocessing
from shoal.errors import ParameterError
from shoal.typing import Json


class Similarity:
    """What `Pearson` and `Spearman` share."""

    frozen = False
    n_cells = 0
    kind: ClassVar[str] = ""

    def __init__(
        self,
        threshold: float = 0.0,
        *,
        preprocessing: str = "z-score",
        columns: Sequence[str] | None = None,
        missing: str = "nearest",
    ) -> None:
        check_preprocessing(preprocessing)
        check_missing(missing)
        real = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
        if not real or not 0 <= threshold <= 1:
            raise ParameterError(f"'threshold' must be a number in [0, 1]. Got {threshold!r}.")
        self.threshold, self.preprocessing, self.missing = float(threshold), preprocessing, missing
        self.columns = None if columns is None else tuple(columns)
        self.name = f"{self.kind}(threshold {threshold:g}, {preprocessing})"
        self.fingerprint = f"{self.name} of the private table"
        self._profiles: Profiles | None = None

    def fit(self, frame: pl.DataFrame) -> Self:
        """Keep each record's profile: its ranks or centred values over its own columns."""
        self.preparation_ = Preparation.learn(frame, self.preprocessing, self.columns)
        self._profiles = Profiles.of(
            self.preparation_.apply(frame, self.missing), ranks=self.kind == "spearman"
        )
        return self

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> float:
        """The largest of (|Delta| w)_i over the answering rows, exact."""
        if self._profiles is None:
            raise ParameterError("The model must be fitted before it can weigh rows.")
        return largest_similarity(self._profiles.take(answer), weights, self.threshold)

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """There is none."""
        raise ParameterError("Degrees read from the private table are no public map to cells.")

    def to_dict(self) -> Json:
        """The model's settings as plain values."""
        return {"model": self.kind, "threshold": self.threshold, "preprocessing": self.preprocessing}


class Spearman(Similarity):
    """Degree of two records: Spearman's rank correlation of their attribute vectors (Zhu's baseline).

    Parameters
    ----------
    threshold : float, default 0.0
        delta_0: degrees below it in size count as zero.
    preprocessing : {"raw", "min-max", "z-score"}, default "z-score"
        Decides the result: over raw columns the ranks within a record follow the columns' scales and all
        records look alike.
    columns : sequence of str, optional
        All numbers and declared levels (as codes) if left open.
    missing : {"nearest", "mean", "error"}, default "nearest"
        A missing cell takes the mean of the five records nearest in the other columns, the column's mean, or
        is refused.

    Notes
    -----
    For mode `heuristic` only: the degrees are read from the private table and carry no guarantee. O(n d)
    memory; a query of m rows takes at most O(m^2 d), pruned by an exact bound.

    References
    ----------
    .. [1] T. Zhu, P. Xiong, G. Li, W. Zhou (2015). Correlated differential privacy: hiding information in
       non-IID data set. IEEE TIFS 10(2), 229-242. doi:10.1109/TIFS.2014.2368363

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import Spearman
    >>> frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 1.0], "c": [7.0, 8.0, 0.0]})
    >>> Spearman(preprocessing="raw").fit(frame).row_influence(np.ones(3), np.arange(3))
    3.0
    """

    kind = "spearman"


class Pearson(Similarity):
    """Degree of two records: Pearson's correlation of their attribute vectors, with Zhu's threshold.

    Parameters
    ----------
    threshold : float, default 0.0
    preprocessing : {"raw", "min-max", "z-score"}, default "z-score"
    columns : sequence of str, optional
    missing : {"nearest", "mean", "error"}, default "nearest"
        A missing cell takes the mean of the five records nearest in the other columns, the column's mean, or
        is refused.

    Notes
    -----
    As `Spearman`, with values instead of ranks.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import Pearson
    >>> frame = pl.DataFrame({"a": [1.0, 2.0], "b": [2.0, 4.0], "c": [3.0, 6.0]})
    >>> round(Pearson(preprocessing="raw").fit(frame).row_influence(np.ones(2), np.arange(2)), 9)
    2.0
    """

    kind = "pearson"
