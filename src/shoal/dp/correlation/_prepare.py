"""From a loaded table to the numbers that a correlation model compares, in a recorded way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl

from shoal.errors import ParameterError
from shoal.typing import Json

PREPROCESSING = ("raw", "min-max", "z-score")
MISSING = ("nearest", "mean", "error")
NEIGHBOURS = 5
DONORS = 5_000  # records among which the nearest are looked for
_FARTHEST = 1e9  # prepared values beyond are cut, so that squares stay finite


@dataclass(frozen=True)
class Preparation:
    """What is done to each column before records are compared: (value - shift) / scale.

    Attributes
    ----------
    preprocessing : {"raw", "min-max", "z-score"}
    columns : tuple of str
        Numbers and dates as they are, levels as codes (their declared positions).
    shift, scale, fill : tuples of float
        One a column; `fill` stands in for missing cells, the column's mean.
    """

    preprocessing: str
    columns: tuple[str, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]
    fill: tuple[float, ...]

    @classmethod
    def learn(cls, frame: pl.DataFrame, preprocessing: str, columns: Sequence[str] | None = None) -> Self:
        """Read shifts and scales from a loaded table; without `columns`, all that hold numbers or codes."""
        check_preprocessing(preprocessing)
        names = tuple(n for n in frame.columns if frame[n].dtype.is_numeric()) if columns is None else columns
        for name in names:
            if name not in frame.columns or not frame[name].dtype.is_numeric():
                raise ParameterError(
                    f"A correlation model compares columns of numbers or declared levels. Got {name!r}."
                )
        if not names:
            raise ParameterError("A correlation model needs at least one column of numbers or levels.")
        shift, scale, fill = [], [], []
        for name in names:
            x = frame[name].drop_nulls().cast(pl.Float64).to_numpy()
            x = x if x.size else np.zeros(1)
            fill.append(float(x.mean()))
            if preprocessing == "z-score":
                shift.append(float(x.mean()))
                scale.append(float(x.std()))
            elif preprocessing == "min-max":
                shift.append(float(x.min()))
                scale.append(float(x.max() - x.min()))
            else:
                shift.append(0.0)
                scale.append(1.0)
            if x.min() == x.max() or not np.isfinite(scale[-1]) or scale[-1] <= 0:
                scale[-1] = 1.0
        return cls(preprocessing, tuple(names), tuple(shift), tuple(scale), tuple(fill))

    def apply(self, frame: pl.DataFrame, missing: str = "mean") -> np.ndarray:
        """Prepared values, row by row, float64 (rows, columns).

        A missing cell takes the column's mean, or ("nearest") the mean of the five records nearest in the
        other columns that have it; "error" refuses it.
        """
        if missing != "mean" and any(frame[name].null_count() for name in self.columns if name in frame):
            if missing == "error":
                raise ParameterError("A correlation model with missing='error' takes no missing cells.")
            return _from_nearest(self.apply(frame), self._gone(frame))
        out = np.empty((frame.height, len(self.columns)))
        for at, name in enumerate(self.columns):
            if name not in frame.columns:
                raise ParameterError(
                    f"The correlation model compares column {name!r}, which is not declared."
                )
            x = frame[name].cast(pl.Float64).fill_null(self.fill[at]).to_numpy()
            out[:, at] = np.clip((x - self.shift[at]) / self.scale[at], -_FARTHEST, _FARTHEST)
        return out

    def _gone(self, frame: pl.DataFrame) -> np.ndarray:
        return np.stack([frame[name].is_null().to_numpy() for name in self.columns], axis=1)

    def chosen(self, keep: Sequence[int]) -> Preparation:
        """The same for some of the columns."""
        return Preparation(
            self.preprocessing,
            tuple(self.columns[j] for j in keep),
            tuple(self.shift[j] for j in keep),
            tuple(self.scale[j] for j in keep),
            tuple(self.fill[j] for j in keep),
        )

    def to_dict(self) -> Json:
        """The facts as plain values."""
        return {
            "preprocessing": self.preprocessing,
            "columns": list(self.columns),
            "shift": list(self.shift),
            "scale": list(self.scale),
            "fill": list(self.fill),
        }

    @classmethod
    def from_dict(cls, facts: Json) -> Self:
        """Read the facts back; raises `ParameterError` where they make no sense."""
        try:
            numbers = [tuple(float(v) for v in facts[name]) for name in ("shift", "scale", "fill")]
            columns = tuple(str(name) for name in facts["columns"])
            made = cls(str(facts["preprocessing"]), columns, *numbers)
        except (KeyError, TypeError, ValueError):
            raise ParameterError("The file of the model does not say how columns are prepared.") from None
        check_preprocessing(made.preprocessing)
        sizes_agree = all(len(each) == len(columns) for each in numbers) and columns
        if not sizes_agree or not np.isfinite(numbers).all() or min(made.scale) <= 0:
            raise ParameterError(
                "A prepared column needs a finite shift and fill and a finite scale above 0."
            )
        return made


def _from_nearest(X: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Fill the cells that are gone from the nearest records; what no neighbour has keeps its value."""
    from sklearn.impute import KNNImputer

    holes = np.flatnonzero(gone.any(axis=1))
    donors = np.flatnonzero(~gone.all(axis=1))
    if donors.size > DONORS:
        donors = np.sort(np.random.default_rng(0).choice(donors, DONORS, replace=False))
    if donors.size == 0:
        return X
    blank = np.where(gone, np.nan, X)
    imputer = KNNImputer(n_neighbors=NEIGHBOURS, keep_empty_features=True).fit(blank[donors])
    found = imputer.transform(blank[holes])
    empty = gone[donors].all(axis=0)  # no donor knows the column
    X = X.copy()
    X[holes] = np.where(gone[holes] & ~empty, found, X[holes])
    return X


def check_missing(missing: str) -> None:
    """Raise unless it is a known way to treat missing cells."""
    if missing not in MISSING:
        raise ParameterError(f"'missing' must be one of {', '.join(MISSING)}. Got {missing!r}.")


def check_preprocessing(preprocessing: Any) -> None:
    """Raise unless it is one of the known kinds."""
    if preprocessing not in PREPROCESSING:
        raise ParameterError(
            f"'preprocessing' must be one of {', '.join(PREPROCESSING)}. Got {preprocessing!r}."
        )
