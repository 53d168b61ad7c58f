"""Any data frame in, the same kind out.

pandas, polars and pyarrow tables go through narwhals; an array stays an array. A frame is never changed
in place: `Frame.replaced` gives a new one of the same kind, with index, column order and the columns it
was not told about kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa

from shoal.errors import InputError


def is_frame(data: Any) -> bool:
    """Whether narwhals knows this object as an eager data frame."""
    try:
        return isinstance(nw.from_native(data, eager_only=True, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"Column names must differ. {' '.join(str(error).split())}.") from None


class Frame:
    """A data frame of any kind, seen as named columns.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame, pyarrow.Table or any eager frame narwhals knows
    """

    def __init__(self, data: Any) -> None:
        if not is_frame(data):
            raise InputError(
                f"The data must be a pandas, polars or pyarrow table. Got {type(data).__name__}."
            )
        self._nw: nw.DataFrame[Any] = nw.from_native(data, eager_only=True)
        repeated = {name for name in self._nw.columns if self._nw.columns.count(name) > 1}
        if repeated:
            raise InputError(f"Column names must differ. Got {sorted(repeated)} more than once.")

    @property
    def columns(self) -> list[str]:
        """Column names in order."""
        return list(self._nw.columns)

    @property
    def native(self) -> Any:
        """The frame as it came."""
        return self._nw.to_native()

    @property
    def narwhals(self) -> nw.DataFrame[Any]:
        """The frame as narwhals sees it."""
        return self._nw

    def __len__(self) -> int:
        return self._nw.shape[0]

    def numeric_columns(self) -> list[str]:
        """Names of the columns that hold integers, floats or decimals."""
        return [name for name, dtype in self._nw.schema.items() if dtype.is_numeric()]

    def values(self, name: str) -> np.ndarray:
        """One column as an array."""
        self.require([name])
        return self._nw[name].to_numpy()

    def require(self, names: Sequence[str]) -> None:
        """Raise `InputError` naming the columns that are not there."""
        missing = [name for name in names if name not in self._nw.columns]
        if missing:
            raise InputError(f"No column {missing[0]!r} in the table. It has: {', '.join(self.columns)}.")

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """Numeric columns as a float64 C-contiguous matrix; refuses text, missing and infinite cells."""
        self.require(names)
        X = np.empty((len(self), len(names)), dtype=np.float64)
        for position, name in enumerate(names):
            series = self._nw[name]
            if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
                raise InputError(f"Column {name!r} must hold numbers. Got {_example(series)}.")
            X[:, position] = series.cast(nw.Float64).to_numpy()
        refuse_odd_cells(X, names)
        return X

    def to_polars(self) -> pl.DataFrame:
        """The frame as polars computes on it; the index of a pandas frame is not part of it."""
        odd = [name for name in self._nw.columns if not isinstance(name, str)]
        if odd:
            raise InputError(f"Column names must be texts. Got {odd[0]!r}.")
        try:
            return self._nw.to_polars()
        except (TypeError, pa.ArrowException) as error:
            raise InputError(f"A column must hold one type of cells: {str(error).splitlines()[0]}.") from None

    def taken(self, rows: np.ndarray) -> Frame:
        """The frame restricted to some rows, index included."""
        return (
            Frame(self._nw[rows.tolist() if rows.size else []].to_native()) if rows.size < len(self) else self
        )

    def replaced(self, new: Mapping[str, pl.Series | np.ndarray]) -> Any:
        """The same kind of frame with some columns replaced or added."""
        return self._nw.with_columns(
            *(self._series(name, values) for name, values in new.items())
        ).to_native()

    def _series(self, name: str, values: pl.Series | np.ndarray) -> nw.Series[Any]:
        backend = self._nw.implementation
        if isinstance(values, np.ndarray):
            return nw.new_series(name, values, backend=backend)
        values = values.alias(name)
        if backend.is_polars():
            return nw.from_native(values, series_only=True)
        if backend.is_pyarrow():
            return nw.from_native(pa.chunked_array([values.to_arrow()]), series_only=True).alias(name)
        if backend.is_pandas():
            series = nw.from_native(values.to_pandas(), series_only=True)
        else:
            series = nw.new_series(name, values.to_list(), backend=backend)
        before = self._nw.schema.get(name)
        return series.cast(before) if isinstance(before, (nw.Categorical, nw.Enum)) else series

    def without(self, names: Sequence[str]) -> Frame:
        """The frame without some of its columns."""
        return Frame(self._nw.drop(*names).to_native()) if names else self


def refuse_odd_cells(X: np.ndarray, names: Sequence[str]) -> None:
    """Raise `InputError` that names the columns with missing or infinite cells, and how many."""
    finite = np.isfinite(X)
    if finite.all():
        return
    missing, infinite = np.isnan(X).sum(axis=0), np.isinf(X).sum(axis=0)
    for counts, word in ((missing, "missing"), (infinite, "infinite")):
        if counts.any():
            listed = ", ".join(f"{names[j]!r} ({counts[j]})" for j in np.flatnonzero(counts)[:8])
            raise InputError(f"Numbers must be finite. Got {word} cells in {listed}.")


def refuse_infinite(X: np.ndarray) -> None:
    """Raise `InputError` if a cell is infinite; NaN stands for a missing one."""
    infinite = int(np.isinf(X).sum())
    if infinite:
        raise InputError(
            f"Numbers must be finite. Got {infinite} infinite cell{'s' if infinite > 1 else ''}."
        )


def _example(series: nw.Series[Any]) -> str:
    texts = [value for value in series.head(1000).to_list() if value is not None]
    odd = next((value for value in texts if not _is_number(value)), texts[0] if texts else None)
    return f"{odd!r}" if odd is not None else "only missing cells"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
