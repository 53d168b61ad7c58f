"""The linear programme over the groups known so far, with a box around the duals.

minimise   c'x + hi'u - lo'v
subject to each record covered: (Ax)_i + u_i - v_i = 1,   each cut: (Hx)_t <= b_t,   x, u, v >= 0,

so that the duals of the records stay within lo <= pi <= hi. HiGHS solves it from the last basis.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from shoal.errors import ImportFailedError, InternalError
from shoal.relaxation.cuts import hits, right_hand_sides

NO_CUTS = np.zeros((0, 5), np.int64)


@dataclass(frozen=True)
class MasterSolution:
    """Optimal value, duals of records and (sign turned, so >= 0) of cuts, amounts of the groups, steps made."""

    value: float
    pi: np.ndarray
    mu: np.ndarray
    x: np.ndarray
    iterations: int


def incidence(groups: np.ndarray, n: int) -> sparse.csc_array:
    """Records by groups, one where a group holds a record."""
    column, place = np.nonzero(groups >= 0)
    entries = np.ones(column.size)
    return sparse.csc_array((entries, (groups[column, place], column)), shape=(n, groups.shape[0]))


def rows_of(groups: np.ndarray, cuts: np.ndarray, n: int) -> sparse.csc_array:
    """The coefficients of groups (columns) in the rows of the records and of the cuts."""
    parts = [incidence(groups, n)]
    if cuts.size:
        parts.append(hits(groups, cuts, n).T)
    return sparse.vstack(parts, format="csc")


def load_highs() -> Any:
    """The module of the solver; where it cannot be loaded, one sentence says why."""
    try:
        import highspy
    except ImportError as error:
        hint = ""
        if "ortools" in sys.modules:
            hint = "Import highspy before ortools: both bring a HiGHS of their own, and the first one loaded stays."
        raise ImportFailedError("highspy", error, hint) from None
    return highspy


def quiet_highs() -> Any:
    """A solver that prints nothing and uses one thread, so that its answers repeat."""
    highs = load_highs().Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    return highs


class Master:
    """A linear programme that grows by groups and cuts, kept with its last basis inside HiGHS.

    Attributes
    ----------
    groups : array of int64
        The columns, one row of record numbers each, filled up with -1.
    costs : array of float64
    cuts : array of int64
        Record numbers, rows filled up with -1.
    """

    def __init__(self, n: int, width: int) -> None:
        self.n = n
        self.groups = np.zeros((0, width), np.int64)
        self.costs = np.zeros(0)
        self.cuts = NO_CUTS
        self._optimal = load_highs().HighsModelStatus.kOptimal
        self._highs = highs = quiet_highs()
        highs.setOptionValue("solver", "simplex")
        highs.setOptionValue("presolve", "off")
        none, each = np.zeros(0), np.arange(n, dtype=np.int32)
        highs.addRows(n, np.ones(n), np.ones(n), 0, np.zeros(n, np.int32), none.astype(np.int32), none)
        for sign in (1.0, -1.0):
            highs.addCols(
                n, np.zeros(n), np.zeros(n), np.full(n, highs.getInfinity()), n, each, each, np.full(n, sign)
            )
        self._new_cuts = False

    def add_groups(self, groups: np.ndarray, costs: np.ndarray) -> None:
        """Add columns, one row of record numbers each, filled up with -1."""
        self.groups = np.concatenate([self.groups, groups])
        self.costs = np.concatenate([self.costs, costs])
        A = rows_of(groups, self.cuts, self.n)
        infinite = np.full(costs.size, self._highs.getInfinity())
        self._highs.addCols(
            costs.size,
            costs,
            np.zeros(costs.size),
            infinite,
            A.nnz,
            A.indptr[:-1].astype(np.int32),
            A.indices.astype(np.int32),
            A.data,
        )

    def add_cuts(self, cuts: np.ndarray) -> None:
        """Add cuts, one row of record numbers each, filled up with -1."""
        self.cuts = np.concatenate([self.cuts, cuts])
        H = sparse.csr_array(hits(self.groups, cuts, self.n).T)
        count = cuts.shape[0]
        self._highs.addRows(
            count,
            np.full(count, -self._highs.getInfinity()),
            right_hand_sides(cuts),
            H.nnz,
            H.indptr[:-1].astype(np.int32),
            (H.indices + 2 * self.n).astype(np.int32),
            H.data,
        )
        self._new_cuts = True

    def keep(self, groups: np.ndarray, cuts: np.ndarray) -> None:
        """Keep only the groups and cuts marked true."""
        self.groups, self.costs, self.cuts = self.groups[groups], self.costs[groups], self.cuts[cuts]
        for delete, shift, kept in (
            (self._highs.deleteCols, 2 * self.n, groups),
            (self._highs.deleteRows, self.n, cuts),
        ):
            gone = (np.flatnonzero(~kept) + shift).astype(np.int32)
            if gone.size:
                delete(gone.size, gone)

    def solve(self, low: np.ndarray, high: np.ndarray) -> MasterSolution:
        """Solve within a box around the duals of the records."""
        highs, n = self._highs, self.n
        each = np.arange(n, dtype=np.int32)
        highs.changeColsCost(n, each, high)
        highs.changeColsCost(n, each + np.int32(n), -low)
        # New columns leave the last basis primal feasible, new rows leave it dual feasible.
        highs.setOptionValue("simplex_strategy", 1 if self._new_cuts else 4)
        self._new_cuts = False
        highs.run()
        if highs.getModelStatus() != self._optimal:
            highs.clearSolver()
            highs.setOptionValue("simplex_strategy", 1)
            highs.run()
        if highs.getModelStatus() != self._optimal:
            status = highs.modelStatusToString(highs.getModelStatus())
            raise InternalError(f"The linear programme of the bound was not solved: {status}.")
        solution = highs.getSolution()
        duals = np.asarray(solution.row_dual)
        info = highs.getInfo()
        value = float(info.objective_function_value)
        amounts = np.asarray(solution.col_value)[2 * n :]
        return MasterSolution(
            value, duals[:n], np.maximum(0.0, -duals[n:]), amounts, int(info.simplex_iteration_count)
        )
