"""Lower bounds on the information loss: how far a partition can be from optimal, proven.

The cheap bound needs nearest neighbours only. Dual ascent finds prices of the records that no group undercuts, at any
size; where records come in clusters, small blocks of them are solved as wholes. On small tables a linear relaxation
with cuts, solved by column generation, raises the bound further; where little is left between it and a known
partition, an integer programme proves the optimum.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoal.bounds._forecast import (
    ASCENDED,
    LARGEST_K,
    NEIGHBOURS,
    RULES,
    SECONDS,
    BoundForecast,
    forecast,
    most_linear,
)
from shoal.engine.encode import standardise, sum_of_squares
from shoal.engine.frame import Frame, is_frame, refuse_odd_cells
from shoal.errors import InputError
from shoal.params import check_params

__all__ = ["Bound", "BoundForecast", "forecast", "information_loss_bound", "partition_loss"]

# Records from which dual ascent comes before the linear programme.
_FEWEST_ASCENDED = 200

# A gap, in parts of the loss, that cuts over triples do not close: blocks of records are then solved as wholes.
_WIDE_GAP = 0.025

# A bound this near to a partition's sum of squares proves it optimal.
_MEETS = 2e-6

# What float64 sums of squares may be off by, relative to the total.
_MARGIN = 1e-12


@dataclass(frozen=True)
class Bound:
    """A lower bound on the information loss of every partition into groups of at least k.

    Attributes
    ----------
    bound : float
        No partition loses less than this (100 * SSE / SST on standardised columns).
    proven : bool
        Whether the bound is proven. A search that had to be cut short never enters it, so it always is.
    method : {"trivial", "cheap", "ascent", "blocks", "relaxation", "cuts", "integer"}
        What proved it.
    information_loss : float or None
        Loss of the best partition met on the way; None where none was looked for.
    labels : array of int64 or None
        That partition.
    optimal : bool
        Whether that partition is proven optimal (in the floating-point arithmetic of the solver, within
        2e-6 of the sum of squares).
    seconds : float
        Wall-clock time used.
    note : str
        What limited the bound, in one sentence; empty if nothing did.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.bounds import information_loss_bound
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> found = information_loss_bound(X, k=3)
    >>> found.proven, round(found.gap, 2), round(found.gap_of(5.0), 1)
    (True, 0.0, 36.3)
    """

    bound: float
    proven: bool
    method: str
    information_loss: float | None = None
    labels: np.ndarray | None = field(default=None, repr=False, compare=False)
    optimal: bool = False
    seconds: float = field(default=0.0, compare=False)
    note: str = ""

    @property
    def gap(self) -> float | None:
        """Per cent of the loss of the best partition met that another partition could at most save."""
        return None if self.information_loss is None else self.gap_of(self.information_loss)

    def gap_of(self, information_loss: float) -> float:
        """Per cent of a partition's information loss that another partition could at most save."""
        if information_loss <= 0:
            return 0.0
        return max(0.0, 100.0 * (information_loss - self.bound) / information_loss)


def information_loss_bound(
    X: Any,
    k: int,
    effort: str | float = "default",
    *,
    labels: Any = None,
    scaled: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Bound:
    """Prove a lower bound on the information loss of all partitions into groups of at least `k` records.

    Parameters
    ----------
    X : array, pandas.DataFrame, polars.DataFrame or pyarrow.Table
        In a frame the numeric columns are used. Columns are standardised, as everywhere.
    k : int
        Smallest group size.
    effort : {"cheap", "default", "optimal"} or seconds, default "default"
        "cheap": nearest neighbours only, any number of records. "default": up to 5,000 records the linear
        programme within about two minutes; up to 200,000 dual ascent, for as long as `forecast` says; the cheap
        bound beyond. "optimal": ten minutes, or what `forecast` says; the linear programme up to 12,000 records, dual
        ascent beyond. A number of seconds: the same within about that time. All but "cheap" go on to the
        integer programme when the gap is small and time is left.
    labels : array of int, (n_records,), optional
        A good partition to start from, one group number per record.
    scaled : bool, default False
        The columns are comparable as they are, and are not standardised.
    progress : function, optional
        Called with the stage and the bound (per cent) after each step.

    Returns
    -------
    Bound
        Interrupted (Ctrl-C), the best proven bound so far.

    Notes
    -----
    Dual ascent needs O(n k) memory and, on clustered data, time in proportion to n k^2: 20,000 records with k = 5 take
    about 50 CPU seconds. What it proves holds for the standardised records with all rounding counted. The linear
    programme holds n^2 squared distances in memory (134 MB for 4,092 records); its time depends on the data: with
    k of 3 to 5 and about a thousand records it takes seconds; outliers that may be filled up with any records make
    its pricing explode at larger k, which the note then says.

    References
    ----------
    .. [1] M. Jepsen, B. Petersen, S. Spoorendonk, D. Pisinger (2008). Subset-row inequalities applied to the
       vehicle-routing problem with time windows. Operations Research 56(2), 497-511.
       doi:10.1287/opre.1070.0449
    .. [2] O. du Merle, D. Villeneuve, J. Desrosiers, P. Hansen (1999). Stabilized column generation.
       Discrete Mathematics 194, 229-237. doi:10.1016/S0012-365X(98)00213-1

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.bounds import information_loss_bound
    >>> X = np.array([[1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> found = information_loss_bound(X, k=3)
    >>> found.optimal, round(found.bound, 3), round(found.information_loss, 3)
    (True, 3.187, 3.187)
    """
    check_params("information_loss_bound", RULES, {"k": k, "effort": effort})
    matrix = _matrix(X, k)
    Z = _centred(matrix) if scaled else standardise(matrix)
    search = _Search(Z, int(k), effort, progress or (lambda stage, bound: None))
    if labels is not None:
        search.offer(_checked_labels(labels, Z.shape[0], k))
    search.run_until_done_or_interrupted()
    return search.result()


def partition_loss(X: Any, labels: Any, k: int) -> float:
    """Information loss of a partition, 100 * SSE / SST on standardised columns.

    Parameters
    ----------
    X : array or frame
        As for `information_loss_bound`.
    labels : array, (n_records,)
        The group of each record; every group must have at least `k`, or the bound does not apply to it.
    k : int

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.bounds import partition_loss
    >>> round(partition_loss(np.array([[1.0], [2.0], [8.0], [9.0]]), [0, 0, 1, 1], k=2), 3)
    2.0
    """
    check_params("partition_loss", {"k": RULES["k"]}, {"k": k})
    Z = standardise(_matrix(X, k))
    total = _total(Z)
    loss = sum_of_squares(Z, _checked_labels(labels, Z.shape[0], k))
    return 100.0 * loss / total if total > 0 else 0.0


def _total(Z: np.ndarray) -> float:
    """All squares; added in pairs, so that the error stays far below the margin of a bound at any size."""
    return float(np.square(np.ascontiguousarray(Z)).reshape(-1).sum())


def _only_cheap(n: int, k: int) -> str:
    if k > LARGEST_K:
        return f"Dual ascent is for k of at most {LARGEST_K}: this is the cheap bound of {n} records."
    return (
        f"Dual ascent is for at most {ASCENDED} records unless it is asked for (effort optimal, or seconds): this is "
        f"the cheap bound of {n}."
    )


def _checked_labels(labels: Any, n: int, k: int) -> np.ndarray:
    given = np.asarray(labels).reshape(-1)
    if given.size != n:
        raise InputError(f"There must be one label per record, so {n}. Got {given.size}.")
    numbered = np.unique(given, return_inverse=True)[1].astype(np.int64).reshape(-1)
    smallest = int(np.bincount(numbered).min())
    if smallest < k:
        raise InputError(f"Every group must have at least k = {k} records. Got one of {smallest}.")
    return numbered


def _matrix(X: Any, k: int) -> np.ndarray:
    if is_frame(X):
        frame = Frame(X)
        names = frame.numeric_columns()
        if not names:
            raise InputError(f"The table must have a numeric column. It has: {', '.join(frame.columns)}.")
        matrix = frame.matrix(names)
    else:
        try:
            matrix = np.ascontiguousarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("The data must be a table of numbers. Got cells that are not.") from None
        if matrix.ndim != 2 or matrix.shape[1] == 0:
            raise InputError(f"The data must be a matrix, records by columns. Got shape {matrix.shape}.")
        refuse_odd_cells(matrix, [f"x{j}" for j in range(matrix.shape[1])])
    if matrix.shape[0] < k:
        raise InputError(
            f"A group needs k = {k} records, so the table must have at least that many. Got {matrix.shape[0]}."
        )
    return matrix


def _centred(matrix: np.ndarray) -> np.ndarray:
    """Centred columns, all divided by one power of two, which changes no loss and keeps squares in range."""
    scaled = np.ldexp(matrix, -math.frexp(float(np.abs(matrix).max(initial=0.0)))[1])
    return scaled - scaled.mean(axis=0)


class _Search:
    """The stages of one bound; whatever stage it is stopped in, `result` is proven."""

    def __init__(
        self, Z: np.ndarray, k: int, effort: str | float, progress: Callable[[str, float], None]
    ) -> None:
        self._Z, self._k, self._progress = Z, k, progress
        self._start = time.monotonic()
        self._seconds = SECONDS[effort] if isinstance(effort, str) else float(effort)
        self._effort = effort
        self._total = _total(Z)
        self._value, self._method = 0.0, "trivial"
        self._best: tuple[float, np.ndarray | None] = (math.inf, None)
        self._interrupted = False
        self._optimal = False
        self._relaxation: Any = None
        self._ascent: Any = None
        self._blocked: Any = None
        self._note = ""

    def run_until_done_or_interrupted(self) -> None:
        """Run in a thread, so that Ctrl-C is heard even while a solver or kernel works."""
        failures: list[BaseException] = []

        def work() -> None:
            try:
                self.run()
            except BaseException as error:  # handed to the caller's thread below
                failures.append(error)

        thread = threading.Thread(target=work, name="shoal-bound", daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                thread.join(0.1)
        except KeyboardInterrupt:
            self._seconds = 0.0
            self._interrupted = True
        if failures:
            raise failures[0]

    def run(self) -> None:
        """All stages that the effort allows."""
        n, k = self._Z.shape[0], self._k
        if self._total == 0 or n < 2 * k:
            # Nothing to lose, or nothing to choose.
            labels = np.zeros(n, np.int64)
            if n >= 2 * k:
                labels = np.minimum(np.arange(n) // k, n // k - 1)
            self.offer(labels)
            self._value, self._optimal = self._loss, True
            return
        from shoal.bounds._incumbent import incumbent
        from shoal.relaxation.cheap import cheap_duals

        duals = cheap_duals(self._Z, k)
        self._raise(math.fsum(duals), "cheap")
        if self._seconds == 0:
            return
        small = n <= most_linear(self._effort)
        if not small:
            plan = forecast(n, self._Z.shape[1], k, self._effort)
            if plan.method == "cheap":
                self._note = _only_cheap(n, k)
                return
            if isinstance(self._effort, str):
                self._seconds = math.inf  # the work is counted, so that a busy machine proves no less
        if self._best[1] is None or small:
            self.offer(incumbent(self._Z, k, min(5.0, self._seconds / 10) if small else None))
        if n >= _FEWEST_ASCENDED and k <= LARGEST_K:
            duals = self._ascend(duals, small)
        if small and self._time_left() > 0:
            self._strong(duals)

    def _ascend(self, duals: np.ndarray, small: bool) -> np.ndarray:
        from shoal.relaxation.ascent import Ascent
        from shoal.relaxation.surroundings import Surroundings

        around = Surroundings.of(self._Z, self._k, NEIGHBOURS * self._k)
        self._ascent = Ascent(around, duals, self._best[1], self._time_left)
        self._ascent.run(self._loss - _MEETS / 2, self._tell)
        self._raise_from_searches()
        if small and self._gap > _WIDE_GAP and not self._ascent.cut:
            self._blocks(around)
        if self._ascent.cut:
            self._note = (
                f"{self._ascent.cut} records were priced lower, as too many groups come close to them."
            )
        return self._ascent.pi

    def _blocks(self, around: Any) -> None:
        from shoal.relaxation.blocked import LARGEST_K as LARGEST_K_OF_BLOCKS
        from shoal.relaxation.blocked import BlockAscent

        labels = self._best[1]
        if labels is None or self._k > LARGEST_K_OF_BLOCKS:
            return
        self._blocked = BlockAscent(around, self._ascent, labels, self._time_left)
        self._blocked.run(self._loss - _MEETS / 2, self._tell)
        self._raise_from_searches()

    def _strong(self, duals: np.ndarray) -> None:
        from shoal.relaxation.columns import Relaxation, first_groups
        from shoal.relaxation.pricing import RoundedDistances

        grid = RoundedDistances.of(self._Z, self._k)
        self._relaxation = Relaxation(
            grid, duals, first_groups(grid.D, self._k, self._best[1]), self._time_left
        )
        self._relaxation.run(self._loss - _MEETS / 2, self._tell)
        self._raise_from_searches()
        if self._loss - self._value <= _MEETS:
            self._optimal = True
        elif self._relaxation.exploded:
            self._note = (
                "Pricing exploded: outliers may be filled up with too many different records at this k."
            )
        elif self._time_left() <= 0:
            self._note = "Time was up before the relaxation was solved."
        if not self._optimal and self._time_left() > 1:
            self._integer(grid)

    def _integer(self, grid: Any) -> None:
        from shoal.bounds._integer import close

        proof = close(grid, self._relaxation, self._loss, self._time_left)
        if proof.labels is not None:
            self.offer(proof.labels)
        self._raise(proof.value, "integer")
        if proof.optimal:
            self._optimal, self._method = True, "integer"
            self._note = ""
        elif self._time_left() <= 1:
            self._note = "Time was up before optimality was proven."
        else:
            self._note = (
                self._note or "Too many groups could still be part of a better partition to prove optimality."
            )

    def offer(self, labels: np.ndarray) -> None:
        """Keep a partition if it is the best so far."""
        loss = sum_of_squares(self._Z, labels)
        if loss < self._loss:
            self._best = (loss, labels)

    @property
    def _loss(self) -> float:
        return self._best[0]

    @property
    def _gap(self) -> float:
        return 1.0 - self._value / self._loss

    def _raise(self, value: float, method: str) -> None:
        if value > self._value:
            self._value, self._method = value, method

    def _raise_from_searches(self) -> None:
        if self._ascent is not None:
            self._raise(self._ascent.value, "ascent")
        if self._blocked is not None:
            self._raise(self._blocked.value, "blocks")
        if self._relaxation is not None:
            method = "cuts" if (self._relaxation.mu > 0).any() else "relaxation"
            self._raise(self._relaxation.value, method)

    def _tell(self, stage: str, value: float) -> None:
        self._progress(stage, 100.0 * value / self._total)

    def _time_left(self) -> float:
        return self._seconds - (time.monotonic() - self._start)

    def result(self) -> Bound:
        """What has been proven so far."""
        self._raise_from_searches()
        loss, labels = self._best
        value = min(self._value - _MARGIN * self._total, loss)
        share = 100.0 / self._total if self._total > 0 else 0.0
        return Bound(
            bound=max(0.0, value * share),
            proven=True,
            method=self._method,
            information_loss=None if labels is None else loss * share,
            labels=labels,
            optimal=self._optimal,
            seconds=time.monotonic() - self._start,
            note="Interrupted: this is the best bound proven so far." if self._interrupted else self._note,
        )
