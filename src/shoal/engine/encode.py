"""From columns to standardised matrices, and from groups back to columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardiser:
    """Z-scores per column; a constant column becomes zeros.

    `unit` keeps very large values from overflowing: columns are divided by their largest magnitude
    before mean and deviation are taken.
    """

    unit: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray) -> Standardiser:
        """Learn mean and deviation of each column."""
        unit = np.abs(X).max(axis=0)
        unit[unit == 0] = 1.0
        mean, deviation = np.zeros(X.shape[1]), np.ones(X.shape[1])
        for j in range(X.shape[1]):
            scaled = X[:, j] / unit[j]
            mean[j] = scaled.mean()
            if scaled.min() < scaled.max():
                deviation[j] = scaled.std() or 1.0
        return cls(unit, mean, deviation)

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Standardise rows."""
        Z = X / self.unit
        Z -= self.mean
        Z /= self.deviation
        return np.ascontiguousarray(Z)


def standardise(X: np.ndarray) -> np.ndarray:
    """Z-scores of a matrix by its own mean and deviation."""
    return Standardiser.fit(X).transform(X)


def group_means(X: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Mean of each group 0..c-1, one row each (weighted where weights are given)."""
    c = int(labels.max()) + 1
    mass = np.bincount(labels, weights=weights, minlength=c)
    sums = np.empty((c, X.shape[1]))
    # Around the overall middle, so that a large common offset does not cancel.
    middle = X.mean(axis=0) if np.isfinite(X.mean(axis=0)).all() else np.zeros(X.shape[1])
    for j in range(X.shape[1]):
        centred = X[:, j] - middle[j]
        sums[:, j] = np.bincount(
            labels, weights=centred if weights is None else centred * weights, minlength=c
        )
    return sums / mass[:, None] + middle


def sum_of_squares(Z: np.ndarray, labels: np.ndarray) -> float:
    """SSE: squared distances of the records to their group's centroid, summed."""
    centred = Z - group_means(Z, labels)[labels]
    return float(np.einsum("ij,ij->", centred, centred))
