"""All outputs weighed together against a claim of rho-zCDP: a lower bound on the divergence of the two tables' outputs.

Under rho-zCDP the Kullback-Leibler divergence is at most rho, either way round. For every function g fixed beforehand
it is at least E_P[g] - log E_Q[e^g] (Donsker and Varadhan). g is a step function of one column, made of the runs that
explore; both means are bounded on fresh runs by betting (Waudby-Smith and Ramdas 2024). An event loses at least a
third of what Gaussian noise gives away, sixteen steps lose a few hundredths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_STEPS = 16
_LARGEST = 3.0  # of g, either way
_STAKE = 0.75  # of the capital at most, so that it stays above 0


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
        if min(len(here), len(there)) < 2 or low == high:
            return 0.0
        least = least_mean(here, low, high, share / 2)
        most = -least_mean(-there, -math.exp(high), -math.exp(low), share / 2)
        return max(0.0, least - math.log(most))

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


def least_mean(values: np.ndarray, low: float, high: float, share: float) -> float:
    """The mean of numbers between two ends is at least this, but for a chance of `share`.

    Who bets on each number being above m, with a stake made of the numbers before it, can expect to gain nothing if
    the mean is at most m. So the capital exceeds 1/share with a chance of at most `share` (Markov). Stakes do not
    depend on m, so that the capital falls in m, and the bound is where it passes 1/share.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit._weighing import least_mean
    >>> round(least_mean(np.tile([0.0, 1.0], 500), 0.0, 1.0, 0.05), 2)
    0.46
    """
    x = (np.asarray(values, dtype=np.float64) - low) / (high - low)
    at = np.arange(1, len(x) + 1)
    mean = (0.5 + np.cumsum(x)) / (at + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (at + 1)
    before = np.concatenate([[0.25], variance[:-1]])
    stakes = np.minimum(np.sqrt(2 * math.log(1 / share) / (len(x) * before)), _STAKE)
    least, most = 0.0, 1.0
    for _ in range(50):
        middle = (least + most) / 2
        if np.log1p(stakes * (x - middle)).sum() > math.log(1 / share):
            least = middle
        else:
            most = middle
    return low + least * (high - low)
