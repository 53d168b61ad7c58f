"""A public grid on declared columns."""

from __future__ import annotations

import hashlib
import math
from typing import Self

import numpy as np
import polars as pl

from shoal.dp.meaning.bounds import finite_bounds
from shoal.dp.meaning.check import has_codes, levels
from shoal.errors import ParameterError, SchemaError
from shoal.schema import Schema


class Grid:
    """Rows are alike if they fall in the same cell of a grid on declared columns.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
        Numbers and dates with bounds are cut into equal bins, columns with levels into their levels; missing
        cells are a bin of their own.
    bins : int or sequence of int, default 16
        Of each column.

    Notes
    -----
    Frozen: nothing is read from the data. As degrees, rows of one cell count as wholly alike.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.correlation import Grid
    >>> from shoal.schema import Column, Schema
    >>> grid = Grid(Schema({"age": Column("age", bounds=(0, 100))}), ["age"], bins=10)
    >>> grid.n_cells, grid.cell(pl.DataFrame({"age": [5.0, 95.0, None, 250.0]})).tolist()
    (11, [0, 9, 10, 9])
    """

    frozen = True

    def __init__(
        self, schema: Schema, columns: list[str] | tuple[str, ...], bins: int | tuple[int, ...] = 16
    ) -> None:
        counts = (bins,) * len(columns) if isinstance(bins, int) else tuple(bins)
        if not columns or len(counts) != len(columns) or min(counts) < 1:
            raise ParameterError(
                f"'bins' of Grid must be an int of at least 1, or one per column. Got {bins!r}."
            )
        self._axes: list[tuple[str, float, float, int]] = []
        for name, count in zip(columns, counts, strict=True):
            if name not in schema.columns:
                raise SchemaError(f"A grid needs declared columns. Got {name!r}.")
            column = schema.columns[name]
            if has_codes(column):
                size = len(levels(column) or ())
                self._axes.append((name, 0.0, float(size), size))
            elif column.bounds is not None:
                low, high = finite_bounds(column)
                self._axes.append((name, low, high, count))
            else:
                raise SchemaError(f"A grid needs declared bounds or levels, and column {name!r} has none.")
        self.n_cells = math.prod(size + 1 for *_, size in self._axes)
        if self.n_cells > 10_000_000:
            raise ParameterError(f"A grid may have at most 10,000,000 cells. Got {self.n_cells}.")
        self.name = f"grid({', '.join(columns)})"
        self.fingerprint = "grid-" + hashlib.sha256(repr(self._axes).encode()).hexdigest()[:24]
        self._cells: np.ndarray | None = None

    @classmethod
    def of_schema(cls, schema: Schema) -> Self:
        """The grid that a schema declares."""
        if schema.cells is None:
            raise SchemaError("The schema declares no 'cells'.")
        return cls(schema, schema.cells.columns, schema.cells.bins)

    def fit(self, frame: pl.DataFrame) -> Self:
        """Remember each row's cell."""
        self._cells = self.cell(frame)
        return self

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """Sum of the weights in each answering row's cell."""
        return shared_weight(self._cells, weights, answer)

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """The cell of each row."""
        code = np.zeros(frame.height, dtype=np.int64)
        for name, low, high, size in self._axes:
            values = frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            gone = np.isnan(values)
            place = np.floor((np.where(gone, low, np.clip(values, low, high)) - low) / (high - low) * size)
            code = code * (size + 1) + np.where(gone, size, np.clip(place, 0, size - 1)).astype(np.int64)
        return code


def shared_weight(cells: np.ndarray | None, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
    """Sum of the weights of the answering rows that share a row's cell: degree 1 within, 0 across."""
    if cells is None:
        raise ParameterError("The model must be fitted before it can weigh rows.")
    _, where = np.unique(cells[answer], return_inverse=True)
    return np.bincount(where, weights=weights)[where] if len(answer) else np.zeros(0)
