"""Coordinates taken apart into what is published as a mean and what is published as a mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.engine.encode import sum_of_squares

LEVELS = 32_000
"""Most levels of a category; with more, its coordinates are taken for numbers."""


@dataclass(frozen=True)
class Mixed:
    """Numbers and codes of records.

    Attributes
    ----------
    numbers : array of float64, (n_records, n_numbers)
    codes : array of int16, (n_records, n_categories)
    worth : array of float64, (n_categories,)
        Squared distance of two different levels.
    """

    numbers: np.ndarray
    codes: np.ndarray
    worth: np.ndarray

    @classmethod
    def of(cls, Z: np.ndarray, categories: Sequence[tuple[int, int]] = ()) -> Mixed:
        """Take coordinates apart.

        Parameters
        ----------
        Z : array of float64
        categories : sequence of (int, int)
            First coordinate and the one after the last of each column published as its mode, one coordinate for
            each level.
        """
        number = np.ones(Z.shape[1], np.bool_)
        codes, worth = [], []
        for start, stop in categories:
            if stop - start > LEVELS:
                continue
            number[start:stop] = False
            block = Z[:, start:stop]
            step = float((block.max(axis=0) - block.min(axis=0)).max(initial=0.0))
            if step > 0.0:  # all alike is nothing to lose
                here = block - block.min(axis=0) > 0.5 * step
                codes.append(np.where(here.any(axis=1), here.argmax(axis=1), stop - start).astype(np.int16))
                worth.append(2.0 * step**2)
        numbers = Z if number.all() else np.ascontiguousarray(Z[:, number])
        stacked = np.stack(codes, axis=1) if codes else np.zeros((Z.shape[0], 0), np.int16)
        return cls(numbers, stacked, np.array(worth))

    def loss(self, labels: np.ndarray) -> float:
        """Squared distances of the records to what is published of their groups 0..c-1, summed."""
        lost = sum_of_squares(self.numbers, labels) if self.numbers.shape[1] else 0.0
        c = int(labels.max()) + 1
        for code, worth in zip(self.codes.T, self.worth, strict=True):
            levels = int(code.max()) + 1
            counts = np.bincount(labels * levels + code, minlength=c * levels).reshape(c, levels)
            lost += float(worth) * float(labels.size - counts.max(axis=1).sum())
        return lost
