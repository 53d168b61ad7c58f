"""The best choice among listed groups: set partitioning by the branch and bound of HiGHS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal.relaxation.cuts import right_hand_sides
from shoal.relaxation.master import NO_CUTS, load_highs, quiet_highs, rows_of


@dataclass(frozen=True)
class IntegerSolution:
    """What branch and bound found.

    Attributes
    ----------
    taken : array of int64 or None
        Positions of the chosen groups, ascending; None where no choice was found.
    cost, bound : float
        The cost of this choice, and what no choice goes below.
    finished : bool
        Whether the choice is the best, or it is certain that there is none.
    in_time : bool
        Whether the seconds were enough and nobody stopped it, whatever else ended the search.
    iterations : int
        Steps of the simplex method: a measure of the work that does not depend on the machine.
    """

    taken: np.ndarray | None
    cost: float
    bound: float
    finished: bool
    in_time: bool
    iterations: int


def choose(
    groups: np.ndarray,
    costs: np.ndarray,
    n: int,
    *,
    cuts: np.ndarray = NO_CUTS,
    known: np.ndarray | None = None,
    nodes: int | None = None,
    seconds: float | None = None,
    stopped: Callable[[], bool] | None = None,
    gap: float = 0.0,
) -> IntegerSolution:
    """Choose groups that contain every record exactly once, at the least total cost.

    Parameters
    ----------
    groups : array of int64, (n_groups, largest size)
        Record numbers, rows filled up with -1.
    costs : array of float64, (n_groups,)
    n : int
        Number of records.
    cuts : array of int64, (n_cuts, 5), optional
        Cuts that every partition satisfies; they tighten the relaxation.
    known : array of bool, (n_groups,), optional
        A choice to start from.
    nodes, seconds, stopped, gap : optional
        Limits of the search; `stopped` is asked now and then whether to end at once, `gap` is relative.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.relaxation.integer import choose
    >>> groups = np.array([[0, 1], [2, 3], [0, 2], [1, 3]])
    >>> choose(groups, np.array([1.0, 1.0, 0.5, 2.0]), 4).taken.tolist()
    [0, 1]
    """
    highspy = load_highs()
    highs = quiet_highs()
    highs.setOptionValue("mip_rel_gap", gap)
    if nodes is not None:
        highs.setOptionValue("mip_max_nodes", nodes)
    if seconds is not None:
        highs.setOptionValue("time_limit", max(seconds, 0.0))
    ones, count = np.ones(n), costs.size
    none = np.zeros(0, np.int32)
    sides = right_hand_sides(cuts)
    lower = np.concatenate([ones, np.full(sides.size, -highs.getInfinity())])
    upper = np.concatenate([ones, sides])
    highs.addRows(lower.size, lower, upper, 0, np.zeros(lower.size, np.int32), none, np.zeros(0))
    A = rows_of(groups, cuts, n)
    starts, indices = A.indptr[:-1].astype(np.int32), A.indices.astype(np.int32)
    highs.addCols(count, costs, np.zeros(count), np.ones(count), A.nnz, starts, indices, A.data)
    kinds = np.full(count, highspy.HighsVarType.kInteger)
    highs.changeColsIntegrality(count, np.arange(count, dtype=np.int32), kinds)
    if known is not None:
        solution = highspy.HighsSolution()
        solution.col_value = known.astype(np.float64).tolist()
        highs.setSolution(solution)
    if stopped is not None:
        highs.cbMipInterrupt += lambda event: event.interrupt() if stopped() else None
    highs.run()
    status, info = highs.getModelStatus(), highs.getInfo()
    taken, cost = None, math.inf
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        taken = np.flatnonzero(np.asarray(highs.getSolution().col_value) > 0.5)
        cost = float(info.objective_function_value)
    ended = (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    return IntegerSolution(
        taken,
        cost,
        float(info.mip_dual_bound),
        status in ended,
        status not in (highspy.HighsModelStatus.kTimeLimit, highspy.HighsModelStatus.kInterrupt),
        max(0, int(info.simplex_iteration_count)),
    )
