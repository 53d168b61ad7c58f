"""From columns to a matrix in which distances mean likeness, and from groups back to columns.

A number, date or ordered kind becomes one standardised coordinate. A category becomes one coordinate per
level, scaled so that the whole column has the variance of a standardised number: each column weighs the
same in the distances, times the importance its schema gives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.engine.columns import TypedColumn

FAR, SHRINK = 1e200, 2.0**-400
# A column whose range is below this share of its largest magnitude is shifted before it is scaled.
FAR_FROM_ZERO = 2.0**-20


@dataclass(frozen=True)
class Standardiser:
    """Z-scores per column; a constant column becomes zeros.

    `unit` keeps very large values from overflowing: columns are divided by their largest magnitude
    before mean and deviation are taken. `shift` is taken off before that where a column lies so far from zero
    that dividing would round its differences away.
    """

    unit: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    shift: np.ndarray | float = 0.0

    @classmethod
    def fit(cls, X: np.ndarray) -> Standardiser:
        """Learn mean and deviation of each column."""
        low, high = X.min(axis=0), X.max(axis=0)
        shift = shifts(low, high)
        unit = np.maximum(np.abs(low - shift), np.abs(high - shift))
        unit[unit == 0] = 1.0
        mean, deviation = np.zeros(X.shape[1]), np.ones(X.shape[1])
        for j in range(X.shape[1]):
            scaled = (X[:, j] - shift[j]) / unit[j]
            mean[j] = scaled.mean()
            if scaled.min() < scaled.max():
                deviation[j] = scaled.std() or 1.0
        return cls(unit, mean, deviation, shift)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Standardise rows."""
        Z = (X - self.shift) / self.unit
        Z -= self.mean
        Z /= self.deviation
        return np.ascontiguousarray(Z)


def shifts(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What to take off each column before scaling: its smallest value where it is far from zero, else nothing.

    Differences of close numbers are exact, so that nothing is lost by it.
    """
    near = np.maximum(np.abs(low), np.abs(high)) * FAR_FROM_ZERO
    return np.where(high / 2 - low / 2 < near / 2, low, 0.0)


def standardise(X: np.ndarray) -> np.ndarray:
    """Z-scores of a matrix by its own mean and deviation."""
    return Standardiser.fit(X).transform(X)


@dataclass(frozen=True)
class Encoder:
    """Learned coordinates of a list of columns."""

    standardisers: tuple[Standardiser | None, ...]
    shares: tuple[np.ndarray | None, ...]
    weights: tuple[float, ...]

    @classmethod
    def fit(cls, columns: Sequence[TypedColumn]) -> Encoder:
        """Learn means, deviations and shares of levels from the cells that are there."""
        standardisers: list[Standardiser | None] = []
        shares: list[np.ndarray | None] = []
        for column in columns:
            present = column.values[~column.missing]
            if column.is_coded:
                n_levels = 1 if column.levels is None else column.levels.len()
                counts = np.bincount(present.astype(np.int64), minlength=n_levels)
                shares.append(counts / max(1, present.size))
                standardisers.append(None)
            else:
                shares.append(None)
                standardisers.append(Standardiser.fit((present if present.size else np.zeros(1))[:, None]))
        return cls(tuple(standardisers), tuple(shares), tuple(column.facts.importance for column in columns))

    def widths(self) -> list[int]:
        """Number of coordinates of each column."""
        return [1 if share is None else share.size for share in self.shares]

    def modes(self, columns: Sequence[TypedColumn]) -> list[tuple[int, int]]:
        """First coordinate, and the one after the last, of each column that is published as its mode."""
        ends = np.cumsum(self.widths())
        return [
            (int(end) - share.size, int(end))
            for column, share, end in zip(columns, self.shares, ends, strict=True)
            if share is not None and column.facts.aggregate in (None, "mode")
        ]

    def transform(self, columns: Sequence[TypedColumn]) -> np.ndarray:
        """Coordinates of the rows; a missing cell lies in the middle of its column."""
        Z = np.zeros((columns[0].values.size if columns else 0, sum(self.widths())))
        at = 0
        for column, standardiser, share, weight in zip(
            columns, self.standardisers, self.shares, self.weights, strict=True
        ):
            if standardiser is not None:
                block = standardiser.transform(column.values[:, None])
                if column.missing.any():
                    block[column.missing] = 0.0
            elif share is not None:
                variance = 1.0 - float(share @ share)
                block = np.zeros((column.values.size, share.size))
                present = np.flatnonzero(~column.missing)
                block[present, column.values[present].astype(np.int64)] = 1.0
                block[present] -= share
                block /= np.sqrt(variance) if variance > 0 else 1.0
            if weight != 1.0:
                block *= np.sqrt(weight)
            Z[:, at : at + block.shape[1]] = block
            at += block.shape[1]
        return Z


def group_means(X: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean of each group 0..c-1, none empty, one row each (weighted where weights are given)."""
    c = int(labels.max()) + 1
    mass = np.bincount(labels, weights=weights, minlength=c)
    # Around a member of each group: a large common offset does not cancel, and equal values keep their mean.
    first = np.zeros(c, np.int64)
    first[labels[::-1]] = np.arange(labels.size - 1, -1, -1)
    anchors = X[first]
    means = np.empty((c, X.shape[1]))
    for j in range(X.shape[1]):
        column, anchor = X[:, j], anchors[:, j]
        far = max(column.max(), -column.min()) > FAR
        if far:  # in units of a power of two, so that no sum overflows
            column, anchor = column * SHRINK, anchor * SHRINK
        centred = column - anchor[labels]
        sums = np.bincount(labels, weights=centred if weights is None else centred * weights, minlength=c)
        means[:, j] = anchor + sums / mass
        if far:
            means[:, j] /= SHRINK
    return means


def sum_of_squares(Z: np.ndarray, labels: np.ndarray) -> float:
    """SSE: squared distances of the records to their group's centroid, summed."""
    centred = Z - group_means(Z, labels)[labels]
    return float(np.einsum("ij,ij->", centred, centred))
