"""Choosing tau, the number of rows of a cell that count, by the exponential mechanism."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shoal.dp.budget import MICRO
from shoal.dp.mechanisms.currency import PURE, choice_range
from shoal.dp.mechanisms.selection import exponential

STEPS = 31  # 1, 2, 4, ... 2^30


def tau_distances(sizes: np.ndarray, r: int) -> np.ndarray:
    """How far each candidate 1, 2, 4, ... is from cutting about `r` cells.

    N_t, the number of cells with more than t rows, moves by at most 1 with a cell, and so does the distance
    max(0, N_t(j) - r, r - N_t(j-1)).
    """
    cut = np.array([(sizes > t).sum() for t in (0, *(2**j for j in range(STEPS)))], dtype=np.int64)
    return np.maximum(np.maximum(cut[1:] - r, r - cut[:-1]), 0)


def choose_tau(sizes: np.ndarray, r: int, micro: int, currency: str = PURE) -> int:
    """A power of two, drawn with weight t^-2 exp(-epsilon * distance / 2): epsilon-DP in the cell unit.

    Parameters
    ----------
    sizes : int64 array
        Rows of each cell.
    r : int
        About how many cells may be cut.
    micro : int
        Millionths to spend.
    currency : {"pure", "zcdp"}

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.dp.mechanisms.tau import choose_tau
    >>> choose_tau(np.full(1000, 60), 20, 5_000_000)
    64
    """
    return 2 ** int(draw_tau(tau_distances(sizes, r), micro, currency=currency)[0])


def draw_tau(distances: np.ndarray, micro: int, draws: int = 1, currency: str = PURE) -> np.ndarray:
    """Positions of tau on its grid, drawn from the distances of `tau_distances`."""
    weights = np.array([4 ** (STEPS - 1 - j) for j in range(STEPS)], dtype=object)
    return exponential(distances, choice_range(currency, Fraction(micro, MICRO)) / 2, weights, draws)
