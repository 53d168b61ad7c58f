"""Travelling-salesman microaggregation: a short closed tour through the records, cut at the least cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from shoal.errors import ParameterError
from shoal.microaggregation._base import Microaggregator
from shoal.microaggregation._path import cut_cycle
from shoal.microaggregation._tour import tour_by_fast_tsp, travelling_tours
from shoal.params import AnyOf, Constraint, Interval, Options, Unset


class MicTSP(Microaggregator):
    """Cut a travelling-salesman tour of the records by the shortest path.

    The tour is closed, so every start among its first 2k-1 records is tried and the best cut kept: the
    optimal partition of that tour.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    tour : {"local", "fast-tsp"}, default "local"
        Who finds the tour: our 2-opt and Or-opt search, or the package fast-tsp (extra `search`, up to
        8,000 records), which runs for `seconds` and so does not give the same tour every time.
    kicks : int, optional
        Local search only: random changes tried after the first local optimum. Ten for each record, but at
        most 25,000, unless given.
    seconds : float, default 2.0
        fast-tsp only: its time limit.
    random_state : int, default 0
        Local search only: seed of the random changes.

    Attributes
    ----------
    tour_ : array of int64, (n_records,)
        The records in the order of the tour.

    Notes
    -----
    The local search takes about n log n time and O(n) memory, the cut O(n k (k + p)) and O(k^2). Its tours
    are about as short as those of two seconds of fast-tsp: lengths 801 / 1183 / 732 on Tarragona, Census and
    EIA against 799 / 1179 / 732, and losses that differ by chance in either direction.

    References
    ----------
    .. [1] W. Heaton (2011). New record ordering heuristics for multivariate microaggregation. Doctoral
       thesis, Nova Southeastern University.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import MicTSP
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> MicTSP(k=3).fit_transform(X).ravel()
    array([ 2.,  2.,  2., 11., 11., 11.])
    """

    name: ClassVar = "mictsp"
    _rules: ClassVar[dict[str, Constraint]] = {
        "k": Interval(Integral, 2),
        "tour": Options(("local", "fast-tsp")),
        "kicks": AnyOf((Interval(Integral, 0), Unset())),
        "seconds": Interval(Real, 0),
        "random_state": Interval(Integral, 0),
    }

    def __init__(
        self,
        k: int = 5,
        tour: str = "local",
        kicks: int | None = None,
        seconds: float = 2.0,
        random_state: int = 0,
    ) -> None:
        self.k = k
        self.tour = tour
        self.kicks = kicks
        self.seconds = seconds
        self.random_state = random_state

    def _travel(self, Z: np.ndarray) -> np.ndarray:
        if self.tour == "fast-tsp":
            return tour_by_fast_tsp(Z, float(self.seconds))
        kicks = min(10 * Z.shape[0], 25_000) if self.kicks is None else self.kicks
        return travelling_tours(Z, [int(self.random_state)], kicks=int(kicks))[0]

    def _partition(self, Z: np.ndarray) -> np.ndarray:
        self.tour_ = self._travel(Z)
        return cut_cycle(Z, self.tour_, self.k)


class FDM(MicTSP):
    """Fast data-oriented microaggregation: one tour, cut for every k that is asked for.

    A single `FDM(k)` is `MicTSP(k)`; `FDM.all` shares the tour, which does not depend on k.

    Parameters
    ----------
    k : int, default 5
        Smallest group size.
    tour : {"local", "fast-tsp"}, default "local"
        Who finds the tour, as in `MicTSP`.
    kicks : int, optional
        Local search only: random changes tried after the first local optimum. Ten for each record, but at
        most 25,000, unless given.
    seconds : float, default 2.0
        fast-tsp only: its time limit.
    random_state : int, default 0
        Local search only: seed of the random changes.

    Attributes
    ----------
    tour_ : array of int64, (n_records,)
        The records in the order of the tour.

    References
    ----------
    .. [1] R. Mortazavi, S. Jalili (2014). Fast data-oriented microaggregation algorithm for large
       numerical datasets. Knowledge-Based Systems 67, 195-205.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import FDM
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> {k: fitted.n_groups_ for k, fitted in FDM.all(X, [2, 3]).items()}
    {2: 2, 3: 2}
    """

    name: ClassVar = "fdm"

    @classmethod
    def all(cls, X: Any, ks: Iterable[int], **params: Any) -> dict[int, Self]:
        """Fit one `FDM` for each k, computing the tour once.

        Parameters
        ----------
        X : array, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        ks : iterable of int
        **params
            Further parameters of the class.

        Returns
        -------
        dict of int to FDM
            In the order of `ks`.
        """
        fitted: dict[int, Self] = {}
        for k in ks:
            each = cls(k, **params)
            each._shared = next(iter(fitted.values())).tour_ if fitted else None
            fitted[k] = each.fit(X)
        if not fitted:
            raise ParameterError("'ks' of FDM.all must name at least one k. Got none.")
        return fitted

    def partition_all(self, Z: np.ndarray, ks: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Label the records for several k, one after the other, along one tour."""
        tour = None
        for k in ks:
            each = self.copy().set_params(k=k)
            each._shared = tour  # noqa: SLF001 - a copy of itself
            yield k, each.partition(Z)
            tour = each.tour_

    _shared: np.ndarray | None = None

    def _travel(self, Z: np.ndarray) -> np.ndarray:
        if self._shared is None:
            return super()._travel(Z)
        tour, self._shared = self._shared, None  # used once: a later fit may see other records
        return tour
