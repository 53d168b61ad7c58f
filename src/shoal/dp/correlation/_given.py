"""Degrees of correlation given by the owner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import polars as pl

from shoal.errors import ParameterError
from shoal.typing import Json

LARGEST = 5000


class GivenDegrees:
    """Degrees between the records of one table, as the owner states them.

    Parameters
    ----------
    matrix : array (n, n), optional
        Degrees in [-1, 1], one on the diagonal; for small tables, at most 5,000 records.
    factor : array (n, c), optional
        Instead: degrees |M M'| with ones on the diagonal, M = `factor` with entries of at least 0, never
        multiplied out.

    Notes
    -----
    Belongs to the rows of one table, so it is no public map to cells: for mode `heuristic` only.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.dp.correlation import GivenDegrees
    >>> model = GivenDegrees(matrix=[[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])
    >>> model.row_influence(np.ones(2), np.array([0, 1])).tolist()
    [1.9, 1.9]
    """

    frozen = False
    n_cells = 0
    name = "given degrees"
    fingerprint = "given"

    def __init__(self, matrix: Any = None, factor: Any = None) -> None:
        if (matrix is None) == (factor is None):
            raise ParameterError("GivenDegrees needs either 'matrix' or 'factor'.")
        given = np.abs(np.asarray(matrix if factor is None else factor, dtype=np.float64))
        if given.ndim != 2 or not np.isfinite(given).all():
            raise ParameterError("The degrees of GivenDegrees must be a table of finite numbers.")
        if factor is None:
            if given.shape[0] != given.shape[1] or len(given) > LARGEST or given.max(initial=0) > 1:
                raise ParameterError(
                    f"'matrix' of GivenDegrees must be square, with degrees in [-1, 1] and at most {LARGEST} rows."
                )
            given = given.copy()
            np.fill_diagonal(given, 1.0)
        self._matrix: np.ndarray | None = given if factor is None else None
        self._factor: np.ndarray | None = None if factor is None else given

    def fit(self, frame: pl.DataFrame) -> Self:
        """Check that the degrees are for as many rows as the table has."""
        rows = len(self._factor if self._matrix is None else self._matrix)  # type: ignore[arg-type]
        if rows != frame.height:
            raise ParameterError(f"GivenDegrees must have one row per record. Got {rows} for another number.")
        return self

    def to_dict(self) -> Json:
        """The model as plain values."""
        if self._matrix is not None:
            return {"matrix": self._matrix.tolist()}
        assert self._factor is not None  # one of the two was given
        return {"factor": self._factor.tolist()}

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """(|Delta| w) over the answering rows."""
        if self._matrix is not None:
            return self._matrix[np.ix_(answer, answer)] @ weights
        assert self._factor is not None  # one of the two was given
        part = self._factor[answer]
        return part @ (part.T @ weights) + (1 - (part**2).sum(axis=1)) * weights  # the diagonal is one

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """There is none."""
        raise ParameterError("Given degrees are no public map to cells.")
