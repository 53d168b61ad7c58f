"""Columns of any frame as integer codes, with missing cells as a value of their own.

Codes go by the cells alone: neither the index of the frame nor unused levels of a category play a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa

from shoal.engine.frame import Frame
from shoal.errors import InputError, ParameterError

_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
# Integers that span less than this many values per record need no dictionary: value - minimum is the code.
_SPARSE = 16


@dataclass(frozen=True)
class CodedCells:
    """One column as codes 0..span-1.

    Parameters
    ----------
    name : str
    codes : array of integers, (n_records,)
        `codes - base` is the code of a cell.
    base : int
    span : int
        Codes lie below it; not every code needs to occur.
    missing : array of bool or None
        Which cells are missing; None where none is.
    source : pyarrow.Array or list
        The cells themselves, to show them.
    values : pyarrow.Array, list or None
        The value of each code, the missing one last or null; None where it was not asked for.
    """

    name: str
    codes: np.ndarray
    base: int
    span: int
    missing: np.ndarray | None
    source: Any
    values: Any = None

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return 0 if self.missing is None else int(self.missing.sum())

    def show(self, row: int) -> Any:
        """The cell of one record as a plain Python value; None where it is missing."""
        if self.missing is not None and self.missing[row]:
            return None
        cell = self.source[row]
        if not isinstance(cell, pa.Scalar):
            return cell
        try:
            return cell.as_py()
        except (OverflowError, ValueError):  # a day outside of the years 1 to 9999
            return cell.cast(pa.string()).as_py()


def names_of(columns: Sequence[str] | str, what: str) -> list[str]:
    """Column names as a list; refuses none at all and repeated ones."""
    if not isinstance(columns, Iterable):
        raise ParameterError(f"{what!r} must name columns. Got {columns!r}.")
    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise ParameterError(f"{what!r} must name at least one column. Got none.")
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{what!r} must name different columns. Got {name!r} more than once.")
    return names


def opened(data: Any, names: Sequence[str], what: str = "table") -> Frame:
    """The frame, with these columns and at least one record."""
    frame = data if isinstance(data, Frame) else Frame(data)
    frame.require(names)
    if len(frame) == 0:
        raise InputError(f"The {what} must have at least one record. Got none.")
    return frame


def cells_of(frame: Frame, names: Sequence[str], *, dense: bool = False) -> list[CodedCells]:
    """Code some columns; `dense` makes every code occur, and gives its value."""
    arrays = [_arrow(frame, name) for name in names]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(_coded, names, arrays, [dense] * len(arrays)))


def cells_of_both(one: Frame, other: Frame, names: Sequence[str]) -> list[CodedCells]:
    """Code the columns of two frames alike, the records of the second after those of the first."""
    together = []
    for name in names:
        first, second = _arrow(one, name), _arrow(other, name)
        together.append(_coded(name, _joined(first, second, name), False))
    return together


def _arrow(frame: Frame, name: str) -> pa.Array | list[Any]:
    """A column as one arrow array, or as a list where its cells are of several types."""
    series = frame.narwhals[name]
    try:
        array = series.to_arrow()
    except _ARROW_ERRORS:
        return series.to_list()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_nested(array.type) and not pa.types.is_dictionary(array.type):
        raise InputError(f"Column {name!r} must hold single values. Got cells of type {array.type}.")
    return array


def _joined(first: Any, second: Any, name: str) -> Any:
    """Two columns on end, under a type that holds both."""
    if isinstance(first, list) or isinstance(second, list):
        parts = [each if isinstance(each, list) else each.to_pylist() for each in (first, second)]
        return parts[0] + parts[1]
    first, second = (
        each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each
        for each in (first, second)
    )
    try:
        kind = pa.unify_schemas(
            [pa.schema([("x", each.type)]) for each in (first, second)], promote_options="permissive"
        )[0].type
        return pa.concat_arrays([first.cast(kind), second.cast(kind)])
    except _ARROW_ERRORS:
        raise InputError(
            f"Column {name!r} must have the same type in both tables. Got {first.type} and {second.type}."
        ) from None


def _coded(name: str, array: Any, dense: bool) -> CodedCells:
    if isinstance(array, list):
        return _coded_list(name, array)
    kind = array.type
    if pa.types.is_floating(kind):
        # One zero and one missing cell: -0.0 equals 0.0, and NaN is no value.
        array = _plain_floats(array)
    if not dense and array.null_count == 0 and pa.types.is_integer(kind):
        values = _values(array)
        low, high = int(values.min()), int(values.max())
        if high - low < max(_SPARSE * len(values), 4096):
            return CodedCells(name, values, low, high - low + 1, None, array)
    try:
        return _coded_dictionary(name, array)
    except _ARROW_ERRORS:
        return _coded_list(name, array.to_pylist())


def _values(array: Any) -> np.ndarray:
    """The values of an Arrow array, by way of polars: Arrow itself would load pandas for it."""
    return pl.Series(array).to_numpy()


def _plain_floats(array: pa.Array) -> pa.Array:
    """Floats with one zero and NaN as missing; by way of polars, as Arrow's own functions are slow to load."""
    wide = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    return pl.Series(_values(wide) + 0.0).fill_nan(None).to_arrow()


def _coded_dictionary(name: str, array: pa.Array) -> CodedCells:
    if pa.types.is_dictionary(array.type):
        return _coded_levels(name, array)
    encoded = array.dictionary_encode(null_encoding="encode")
    codes = _values(encoded.indices)
    missing = _values(array.is_null()) if array.null_count else None
    return CodedCells(name, codes, 0, len(encoded.dictionary), missing, array, encoded.dictionary)


def _coded_levels(name: str, array: pa.Array) -> CodedCells:
    """Code a category by the levels that occur, in the order of the levels; a null level is missing."""
    plain = array.dictionary
    n_levels = len(plain)
    # Two levels may be spelt alike, and the last slot catches the missing cells (number -1).
    alike = np.empty(n_levels + 1, np.int64)
    alike[:n_levels] = _values(plain.dictionary_encode(null_encoding="encode").indices)
    alike[:n_levels][_values(plain.is_null())] = n_levels
    alike[n_levels] = n_levels
    numbers = pl.Series(array.indices).cast(pl.Int64).fill_null(-1).to_numpy()
    used = np.zeros(n_levels + 1, bool)
    used[alike[np.flatnonzero(np.bincount(numbers + 1, minlength=n_levels + 1)) - 1]] = True
    code = np.cumsum(used) - 1
    codes = code[alike][numbers]
    kept = np.flatnonzero(used)
    missing = codes == code[n_levels] if used[n_levels] else None
    first = {alike_to: at for at, alike_to in reversed(list(enumerate(alike[:n_levels].tolist())))}
    values = [plain[first[each]].as_py() if each < n_levels else None for each in kept.tolist()]
    return CodedCells(name, codes, 0, len(values), missing, array, values)


def _coded_list(name: str, cells: list[Any]) -> CodedCells:
    """Code cells of several types; a truth value differs from the number it equals."""
    known: dict[Any, int] = {}
    values: list[Any] = []
    codes = np.empty(len(cells), np.int64)
    missing = np.zeros(len(cells), bool)
    for row, cell in enumerate(cells):
        missing[row] = is_missing(cell)
        key = _MISSING if missing[row] else (isinstance(cell, bool), cell)
        try:
            codes[row] = known.setdefault(key, len(known))
        except TypeError:
            raise InputError(
                f"Column {name!r} must hold single values. Got a cell of type {type(cell).__name__}."
            ) from None
        if len(known) > len(values):
            values.append(None if missing[row] else cell)
    return CodedCells(name, codes, 0, len(known), missing if missing.any() else None, cells, values)


_MISSING = object()


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or NA: what does not equal itself."""
    if cell is None:
        return True
    try:
        return bool(cell != cell)  # noqa: PLR0124  (NaN and NaT differ from themselves)
    except (TypeError, ValueError):
        return True


def is_ordered(frame: Frame, name: str) -> bool:
    """Whether a column has an order of its own: numbers, dates, times, ordered categories."""
    kind = frame.narwhals.schema[name]
    return bool(kind.is_numeric() or kind.is_temporal() or kind == nw.Enum)
