"""Any data frame in, the same kind out.

pandas, polars and pyarrow tables go through narwhals, a lazy polars frame is collected and given back lazy, and any
object that speaks the Arrow PyCapsule interface comes back as a pyarrow table; an array stays an array. A frame is
never changed in place: `Frame.replaced` gives a new one of the same kind, with index, column order and the columns it
was not told about kept. Inside, names of columns are texts; a pandas frame gets its own names (numbers, say) back.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa

from shoal.engine.levels import as_before, bare
from shoal.errors import InputError

_KINDS = "a pandas, polars or pyarrow table, or another that gives itself as Arrow columns"


def is_frame(data: Any) -> bool:
    """Whether an object is a table: a data frame that narwhals knows, or one of Arrow columns."""
    try:
        found = nw.from_native(data, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"Column names must differ. {' '.join(str(error).split())}.") from None
    return isinstance(found, nw.DataFrame) or isinstance(data, pl.LazyFrame) or _speaks_arrow(data)


class Frame:
    """A data frame of any kind, seen as named columns.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame, polars.LazyFrame, pyarrow.Table, or an object with Arrow columns
    """

    def __init__(self, data: Any) -> None:
        if isinstance(data, pa.RecordBatchReader):
            raise InputError(
                "A table is read more than once, which a stream does not allow: give reader.read_all()."
            )
        if not is_frame(data):
            hint = ", whose columns have no names" if isinstance(data, np.ndarray) else ""
            raise InputError(f"The data must be {_KINDS}. Got {type(data).__name__}{hint}.")
        self._lazy = isinstance(data, pl.LazyFrame)
        if self._lazy:
            data = _collected(data)
        elif _speaks_arrow(data):
            data = _arrow_table(data)
        self._own: dict[str, Hashable] = {}
        if nw.dependencies.is_pandas_dataframe(data):
            self._own, data = _named_by_texts(data)
        self._nw: nw.DataFrame[Any] = nw.from_native(data, eager_only=True)
        repeated = {name for name in self._nw.columns if self._nw.columns.count(name) > 1}
        if repeated:
            raise InputError(f"Column names must differ. Got {sorted(repeated)} more than once.")
        refuse_control(self._nw.columns)

    def _like(self, frame: nw.DataFrame[Any]) -> Frame:
        """Another frame of the same kind."""
        made = object.__new__(Frame)
        made._lazy, made._own, made._nw = self._lazy, self._own, frame
        return made

    def _leave(self, frame: nw.DataFrame[Any]) -> Any:
        """A frame as the caller knows it: lazy if it came so, with its own names."""
        native = frame.to_native()
        if self._own:
            native = native.rename(columns={text: own for text, own in self._own.items() if text in native})
        return native.lazy() if self._lazy else native

    @property
    def columns(self) -> list[str]:
        """Column names in order."""
        return list(self._nw.columns)

    @property
    def native(self) -> Any:
        """The frame as it came."""
        return self._leave(self._nw)

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
        try:
            return self._nw.to_polars()
        except (TypeError, pa.ArrowException):
            raise InputError(self._unreadable()) from None  # what went wrong may quote a cell

    def _unreadable(self) -> str:
        """A sentence on the first column whose cells are no Arrow column."""
        for name in self.columns:
            try:
                self._nw.select(name).to_polars()
            except (TypeError, pa.ArrowException):
                dtype = self._nw[name].to_native().dtype
                return f"The cells of a column must be of one simple type. Column {name!r} ({dtype}) holds others."
        return "The columns cannot be read together."

    def taken(self, rows: np.ndarray) -> Frame:
        """The frame restricted to some rows, index included."""
        return self._like(self._nw[rows.tolist() if rows.size else []]) if rows.size < len(self) else self

    def numbered(self) -> tuple[Frame, str]:
        """The frame with rows that only have numbers, and a word on the index that was left out; it may name people."""
        index = nw.maybe_get_index(self._nw)
        if index is None:
            return self, ""
        if type(index).__name__ == "RangeIndex":
            return self._like(nw.maybe_reset_index(self._nw)), ""
        named = ", ".join(repr(name) for name in index.names if name is not None)
        said = f"The index{f' ({named})' if named else ''} is left out, since it may name people: reset_index() makes it a column."
        return self._like(nw.maybe_reset_index(self._nw)), said

    def bare(self) -> Any:
        """The same kind of frame, its categories without levels that do not occur, without words beside the cells."""
        return self._leave(nw.from_native(bare(self._nw.to_native()), eager_only=True))

    def in_order(self, order: np.ndarray) -> Any:
        """The same kind of frame with its rows in another order, which no index tells."""
        return self._leave(nw.maybe_reset_index(self._nw[order.tolist()]))

    def replaced(self, new: Mapping[str, pl.Series | np.ndarray]) -> Any:
        """The same kind of frame with some columns replaced or added."""
        return self._leave(
            self._nw.with_columns(*(self._series(name, values) for name, values in new.items()))
        )

    def _series(self, name: str, values: pl.Series | np.ndarray) -> nw.Series[Any]:
        backend = self._nw.implementation
        if isinstance(values, np.ndarray):
            return nw.new_series(name, values, backend=backend)
        values = values.alias(name)
        if backend.is_polars():
            return nw.from_native(self._of_kind(name, values), series_only=True)
        if backend.is_pyarrow():
            return nw.from_native(pa.chunked_array([values.to_arrow()]), series_only=True).alias(name)
        if backend.is_pandas():
            return nw.from_native(self._to_pandas(name, values), series_only=True)
        return nw.new_series(name, values.to_list(), backend=backend)

    def _of_kind(self, name: str, values: pl.Series) -> pl.Series:
        """Texts as the categories they were, where these still hold all of them."""
        before = self._nw[name].to_native().dtype if name in self._nw.columns else None
        if values.dtype != pl.String or before not in (pl.Categorical, pl.Enum):
            return values
        kept = values.cast(before, strict=False)
        return kept if kept.null_count() == values.null_count() else values

    def _to_pandas(self, name: str, values: pl.Series) -> Any:
        """Cells for pandas; a column that could hold NA, or Arrow cells, stays one that can."""
        before = self._nw[name].to_native().dtype if name in self._nw.columns else np.dtype(object)
        if type(before).__name__ == "ArrowDtype":
            return values.to_pandas(use_pyarrow_extension_array=True)
        native = values.to_pandas()
        if type(before).__name__ == "CategoricalDtype":
            return as_before(native, before)
        if isinstance(before, np.dtype):
            return native
        if values.dtype == pl.String:
            return native.astype(before) if type(before).__name__ == "StringDtype" else native
        able = {pl.Boolean: "boolean", pl.Float32: "Float32", pl.Float64: "Float64", pl.Int64: "Int64"}
        dtype = next((word for kind, word in able.items() if values.dtype == kind), None)
        return native if dtype is None else native.astype(dtype)

    def without(self, names: Sequence[str]) -> Frame:
        """The frame without some of its columns."""
        return self._like(self._nw.drop(*names)) if names else self


def _speaks_arrow(data: Any) -> bool:
    """Whether an object gives itself as a table of Arrow columns and is no frame, series or array known otherwise."""
    if not (hasattr(data, "__arrow_c_stream__") or isinstance(data, pa.RecordBatch)):
        return False
    if isinstance(data, pa.Table | pa.ChunkedArray | pl.DataFrame | pl.LazyFrame):
        return False
    return not isinstance(
        nw.from_native(data, allow_series=True, pass_through=True), nw.DataFrame | nw.Series
    )


def _arrow_table(data: Any) -> pa.Table:
    try:
        return pa.table(data) if not isinstance(data, pa.RecordBatch) else pa.Table.from_batches([data])
    except (TypeError, ValueError, pa.ArrowException) as error:
        what = str(error).splitlines()[0]
        raise InputError(f"The Arrow columns of {type(data).__name__} cannot be read: {what}.") from None


def _collected(data: pl.LazyFrame) -> pl.DataFrame:
    try:
        return data.collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"The lazy frame cannot be collected: {str(error).splitlines()[0]}.") from None


def _named_by_texts(data: Any) -> tuple[dict[str, Hashable], Any]:
    """A pandas frame with texts as names, and the names it had where they were no texts."""
    odd = [name for name in data.columns if not isinstance(name, str)]
    if not odd:
        return {}, data
    if data.columns.nlevels > 1:
        raise InputError(f"Column names must have one level. Got {odd[0]!r}.")
    texts = [str(name) for name in data.columns]
    repeated = [text for text in texts if texts.count(text) > 1]
    if repeated:
        raise InputError(f"Column names must differ as texts. Got {repeated[0]!r} more than once.")
    return dict(zip(texts, data.columns, strict=True)), data.set_axis(texts, axis=1)


def refuse_control(names: Iterable[str]) -> None:
    r"""Raise a sentence if the name of a column holds a line end or another control character.

    Names stand in the header of the output, in notes and in commands: one that breaks lines would break all of these.

    Examples
    --------
    >>> from shoal.engine.frame import refuse_control
    >>> refuse_control(["age", "income\n(yearly)"])
    Traceback (most recent call last):
    ...
    shoal.errors.InputError: Column names must be without line ends and other control characters. Got 'income\n(yearly)'.
    """
    for name in names:
        if any(unicodedata.category(each) in ("Cc", "Zl", "Zp") for each in name):
            raise InputError(
                f"Column names must be without line ends and other control characters. Got {name[:80]!r}."
            )


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
