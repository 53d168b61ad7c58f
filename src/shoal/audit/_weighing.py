"""All outputs weighed together against a claim of rho-zCDP: a lower bound on the divergence of the two tables' outputs.

Under rho-zCDP the Kullback-Leibler divergence is at most rho, either way round. For every function g fixed beforehand it is at least
E_P[g] - log E_Q[e^g] (Donsker and Varadhan). g is a step function of one column, made of the runs that explore; both means are
bounded on fresh runs by the empirical Bernstein inequality (Maurer and Pontil 2009). An event loses at least a third of what
Gaussian noise gives away, sixteen steps lose a few hundredths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_STEPS = 16
_LARGEST = 3.0  # of g, either way


@dataclass(frozen=True)
class Weighing:
    """A step function of one column, fixed before it is tested.

    Parameters
    ----------
    column : int
    edges : array
        Between two steps.
    heights : array
    guess : int
        The table it speaks for.
    """

    column: int
    edges: np.ndarray
    heights: np.ndarray
    guess: int

    def of(self, outputs: np.ndarray) -> np.ndarray:
        """The function's value for each output."""
        return self.heights[_steps(outputs[:, self.column], self.edges)]

    def bound(self, outputs: np.ndarray, sides: np.ndarray, share: float) -> float:
        """The divergence is at least this, but for a chance of `share`."""
        found = self.of(outputs)
        here, there = found[sides == self.guess], np.exp(found[sides != self.guess])
        low, high = float(self.heights.min()), float(self.heights.max())
        if min(len(here), len(there)) < 2:
            return 0.0
        least = here.mean() - _margin(here, high - low, share / 2)
        most = there.mean() + _margin(there, math.exp(high) - math.exp(low), share / 2)
        return max(0.0, float(least - math.log(most)))

    def text(self, columns: tuple[str, ...]) -> str:
        """The function in words."""
        return f"{columns[self.column]}, weighed in {len(self.heights)} steps"


def explore_weighing(outputs: np.ndarray, sides: np.ndarray) -> Weighing:
    """The step function that asks for the largest rho on these runs."""
    found = [_made(outputs, sides, column, guess) for column in range(outputs.shape[1]) for guess in (0, 1)]
    return max(found, key=lambda each: each.bound(outputs, sides, 0.05))


def _made(outputs: np.ndarray, sides: np.ndarray, column: int, guess: int) -> Weighing:
    y = outputs[:, column]
    known = y[~np.isnan(y)]
    edges = np.unique(np.quantile(known, np.arange(1, _STEPS) / _STEPS)) if len(known) else np.zeros(0)
    places, steps = _steps(y, edges), len(edges) + 2
    here, there = (np.bincount(places[sides == each], minlength=steps) + 0.5 for each in (guess, 1 - guess))
    heights = np.log(here / here.sum()) - np.log(there / there.sum())
    return Weighing(column, edges, np.clip(heights, -_LARGEST, _LARGEST), guess)


def _steps(y: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The step of each output; no answer is a step of its own."""
    return np.where(np.isnan(y), len(edges) + 1, np.searchsorted(edges, y, side="right"))


def _margin(values: np.ndarray, width: float, share: float) -> float:
    n, log = len(values), math.log(2 / share)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * width * log / (3 * (n - 1))
