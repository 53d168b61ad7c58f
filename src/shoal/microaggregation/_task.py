"""What a search is given: the table, where it begins, how much it may do, and with what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from shoal.microaggregation._work import Report, Work


@dataclass(frozen=True, eq=False)
class SearchTask:
    """What every search is made of.

    Parameters
    ----------
    Z : array of float64
    k : int
    labels : array of int64
        A partition with group sizes k..2k-1, labelled 0..c-1.
    work : Work
    workers : ThreadPoolExecutor
    rng : numpy.random.Generator
    report : callable
        Called now and then with a function that gives the SSE.
    given : array of float64, optional
        The table as it was given, where `Z` is moved to its centre: there ties fall as in the methods themselves.
    """

    Z: np.ndarray
    k: int
    labels: np.ndarray
    work: Work
    workers: ThreadPoolExecutor
    rng: np.random.Generator
    report: Report
    given: np.ndarray | None = None

    @property
    def as_given(self) -> np.ndarray:
        """The table for methods that a search takes partitions from."""
        return self.Z if self.given is None else self.given
