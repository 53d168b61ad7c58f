"""Tables, series and arrays alike: the same kind comes out, and missing cells stay where they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from shoal.engine.frame import Frame, is_frame, refuse_infinite
from shoal.errors import InputError

Perturb = Callable[[np.ndarray], np.ndarray]


def perturbed(data: Any, change: Perturb) -> Any:
    """The numbers of an array, series or table changed by a function of a matrix in which NaN is missing."""
    if is_frame(data):
        return _frame_changed(data, change)
    series = _as_series(data)
    if series is not None:
        changed = _frame_changed(series.alias("cells").to_frame().to_native(), change)
        return nw.from_native(changed, eager_only=True)["cells"].alias(series.name).to_native()
    X = np.asarray(data)
    if X.ndim not in (1, 2) or X.dtype.kind not in "biuf":
        raise InputError(f"Numbers in one or two dimensions were expected. Got {_shown(X)}.")
    matrix = np.array(X, dtype=np.float64, copy=True)
    refuse_infinite(matrix)
    return change(matrix[:, None])[:, 0] if X.ndim == 1 else change(matrix)


def changed_cells(data: Any, change: Callable[[pl.Series], pl.Series]) -> Any:
    """The cells of a series, array or list changed by a function of a polars series; the same kind comes out."""
    series = _as_series(data)
    if series is None:
        if isinstance(data, list | tuple):
            return type(data)(change(pl.Series("cells", list(data))).to_list())
        array = np.asarray(data)
        if array.ndim != 1:
            raise InputError(f"A series or cells in one dimension were expected. Got {_shown(array)}.")
        return change(pl.Series("cells", array)).to_numpy()
    after = change(series.to_polars())
    if isinstance(data, pl.Series):
        return after
    frame = Frame(series.alias("cells").to_frame().to_native())
    return (
        nw.from_native(frame.replaced({"cells": after}), eager_only=True)["cells"]
        .alias(series.name)
        .to_native()
    )


def _frame_changed(data: Any, change: Perturb) -> Any:
    frame = Frame(data)
    names = frame.numeric_columns()
    if not names:
        raise InputError(
            f"The table must have a numeric column. It has: {', '.join(map(str, frame.columns))}."
        )
    columns = [frame.narwhals[name] for name in names]
    X = np.stack([each.cast(nw.Float64).to_numpy() for each in columns], axis=1).astype(np.float64)
    refuse_infinite(X)
    Y = change(X.copy())
    new: dict[Any, pl.Series | np.ndarray] = {}
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        gone = column.is_null().to_numpy() & np.isnan(Y[:, j])
        values = pl.Series("cells", Y[:, j])
        new[name] = values.set(pl.Series(gone), None) if gone.any() else Y[:, j]
    return frame.replaced(new)


def _as_series(data: Any) -> nw.Series[Any] | None:
    found = nw.from_native(data, series_only=True, pass_through=True)
    return found if isinstance(found, nw.Series) else None


def _shown(array: np.ndarray) -> str:
    return f"an array of type {array.dtype} in {array.ndim} dimensions"
