"""Two tables of the same records, as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.engine.frame import Frame, is_frame, refuse_odd_cells
from shoal.errors import InputError


def pair(original: Any, protected: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both tables as finite float64 matrices of one shape; of frames, the columns numeric in both."""
    if is_frame(original) and is_frame(protected):
        first, second = Frame(original), Frame(protected)
        names = [name for name in first.numeric_columns() if name in second.numeric_columns()]
        if not names:
            raise InputError("The two tables must share a numeric column. They share none.")
        X, Y = first.matrix(names), second.matrix(names)
    else:
        X, Y = (np.asarray(each, dtype=np.float64) for each in (original, protected))
        X, Y = (each[:, None] if each.ndim == 1 else each for each in (X, Y))
        for each in (X, Y):
            if each.ndim != 2:
                raise InputError(f"The two tables must have rows and columns. Got {each.ndim} dimensions.")
            refuse_odd_cells(each, [str(j) for j in range(each.shape[1])])
    if X.shape != Y.shape:
        raise InputError(f"The two tables must have the same shape. Got {X.shape} and {Y.shape}.")
    return np.ascontiguousarray(X), np.ascontiguousarray(Y)
