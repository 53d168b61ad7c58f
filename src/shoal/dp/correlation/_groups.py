"""Groups named by a column."""

from __future__ import annotations

import hashlib
from typing import Self

import numpy as np
import polars as pl

from shoal.dp.correlation._grid import shared_weight
from shoal.dp.meaning.check import has_codes, levels
from shoal.errors import ParameterError, SchemaError
from shoal.schema import Schema
from shoal.typing import Json


class Groups:
    """Rows go together if they share a value of a column.

    Parameters
    ----------
    schema : Schema
    column : str
    cells : int, optional
        Where the column has no declared levels: values are hashed into so many cells, since the number of
        different values is itself private.

    Notes
    -----
    Frozen. Rows without a value share one cell.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.correlation import Groups
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"house": Column("house", kind="category", levels=("a", "b"))})
    >>> groups = Groups(schema, "house")
    >>> groups.n_cells, groups.cell(pl.DataFrame({"house": [1, 0, None]})).tolist()
    (3, [1, 0, 2])
    """

    frozen = True

    def __init__(self, schema: Schema, column: str, cells: int | None = None) -> None:
        if column not in schema.columns:
            raise SchemaError(f"Groups need a declared column. Got {column!r}.")
        declared = schema.columns[column]
        self._column, self._coded = column, has_codes(declared)
        if not self._coded and (isinstance(cells, bool) or not isinstance(cells, int) or cells < 1):
            raise ParameterError(
                f"Groups by {column!r}, which has no declared levels, need a number of cells. Got {cells!r}."
            )
        size = len(levels(declared) or ()) if self._coded else int(cells or 0)
        self.n_cells = size + 1
        self.name = f"groups({column})"
        facts = repr((column, self._coded, size, declared.levels if self._coded else None))
        self.fingerprint = "groups-" + hashlib.sha256(facts.encode()).hexdigest()[:24]
        self._cells: np.ndarray | None = None

    def fit(self, frame: pl.DataFrame) -> Self:
        """Remember each row's group itself, not its hashed cell; rows without one stand alone."""
        codes = frame[self._column].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
        alone = codes == 0
        self._cells = np.where(alone, -1 - np.arange(len(codes)), codes)
        return self

    def to_dict(self) -> Json:
        """The model as plain values."""
        return {"column": self._column, "cells": None if self._coded else self.n_cells - 1}

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray:
        """Sum of the weights in each answering row's group."""
        return shared_weight(self._cells, weights, answer)

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """The cell of each row."""
        series, last = frame[self._column], self.n_cells - 1
        if self._coded:
            return series.fill_null(last).cast(pl.Int64).to_numpy()
        values = series.unique().drop_nulls().to_list()
        cells = [
            int.from_bytes(hashlib.blake2b(str(v).encode(), digest_size=8).digest()) % last for v in values
        ]
        return series.replace_strict(values, cells, default=last, return_dtype=pl.Int64).to_numpy()
