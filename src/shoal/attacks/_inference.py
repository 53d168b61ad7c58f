"""Inference: a sensitive value from the other columns, by a model of the published table and by its nearest rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.attacks._axes import ComparedColumn
from shoal.attacks._tables import Tables
from shoal.utility import guessed

# A number counts as found within this share of the true one.
TOLERANCE = 0.05


@dataclass(frozen=True)
class GuessedColumn:
    """A column to be guessed: what is published of it and what is true."""

    axis: ComparedColumn
    published: np.ndarray
    rest: tuple[str, ...]

    @classmethod
    def of(cls, tables: Tables, name: str) -> GuessedColumn:
        """The column of this name, to be guessed from all others."""
        axis = next(each for each in tables.axes if each.name == name)
        rest = tuple(each.name for each in tables.axes if each.name != name)
        return cls(axis, axis.middles(), rest)

    def right(self, guesses: np.ndarray, true: np.ndarray) -> np.ndarray:
        """Whether guesses are right; someone whose value is missing cannot be found out, and is left out."""
        known = ~np.isnan(true)
        guesses, true = guesses[known], true[known]
        if not self.axis.numeric:
            return (guesses == true).astype(np.float64)
        scale, centre = self.axis.scale, self.axis.centre
        value, guess = true * scale + centre, guesses * scale + centre
        return (np.abs(guess - value) <= TOLERANCE * np.abs(value) + 1e-12 * scale).astype(np.float64)

    def constant(self) -> float:
        """The one guess that would be right for the most published rows."""
        known = self.published[~np.isnan(self.published)]
        if known.size == 0:
            return 0.0
        if not self.axis.numeric:
            return float(np.bincount(known.astype(np.int64)).argmax())
        values = np.sort(known * self.axis.scale + self.axis.centre)
        # A guess g is right for v where |g - v| <= tolerance |v|: count v from g / (1 + tolerance) to g / (1 - tolerance).
        size = np.sort(np.abs(np.unique(values)))
        marks = (
            np.unique(values)
            if size.size <= 5000
            else np.unique(np.quantile(values, np.linspace(0, 1, 5000)))
        )
        ends = np.sort(np.stack([marks / (1 + TOLERANCE), marks / (1 - TOLERANCE)]), axis=0)
        counts = np.searchsorted(values, ends[1], "right") - np.searchsorted(values, ends[0], "left")
        return float((marks[counts.argmax()] - self.axis.centre) / self.axis.scale)


def by_nearest(tables: Tables, secret: GuessedColumn, people: np.ndarray) -> np.ndarray:
    """The value that most of the published rows nearest in all other columns have; of numbers their mean."""
    space = tables.space(secret.rest)
    places = tables.places(secret.rest)
    inside = np.ascontiguousarray(people[:, places])
    weights = space.weights([axis.name for axis in space.axes if axis.untouched])
    best = space.nearest(inside, weights)[0]
    known = ~np.isnan(secret.published)
    if secret.axis.numeric:
        values = np.stack([np.where(known, secret.published, 0.0), known.astype(np.float64)], axis=1)
        sums = space.sums(inside, weights, best, values)
        return np.where(sums[:, 1] > 0, sums[:, 0] / np.maximum(sums[:, 1], 1.0), 0.0)
    values = np.zeros((tables.n_published, secret.axis.fits.shape[1]))
    values[np.flatnonzero(known), secret.published[known].astype(np.int64)] = 1.0
    sums = space.sums(inside, weights, best, values)
    return np.where(sums.sum(axis=1) > 0, sums.argmax(axis=1), secret.constant()).astype(np.float64)


def by_model(
    tables: Tables, secret: GuessedColumn, groups: list[np.ndarray], random_state: int
) -> list[np.ndarray]:
    """Guesses of a model trained on the published table, for each group of people."""
    places = tables.places(secret.rest)
    features = np.stack([tables.axes[at].middles() for at in places], axis=1)
    asked = [each[:, places] for each in groups]
    return guessed(features, secret.published, asked, numeric=secret.axis.numeric, random_state=random_state)
