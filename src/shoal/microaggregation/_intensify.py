"""Recombination: the best partition that can be put together from the groups of many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csc_array

MOST = 2000
"""Groups that the integer programme chooses from at most, so that it stays a matter of seconds."""


class Pool:
    """Distinct groups met in good partitions, with their SSE.

    Parameters
    ----------
    Z : array of float64, (n_records, n_columns)
    """

    def __init__(self, Z: np.ndarray) -> None:
        self.Z = Z
        self.groups: dict[bytes, int] = {}
        self.members: list[np.ndarray] = []
        self.costs: list[float] = []

    def add(self, labels: np.ndarray) -> np.ndarray:
        """Take up the groups of a partition that are new; where its groups stand in the pool."""
        order = np.argsort(labels, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(labels))
        where = np.empty(ends.size, np.int64)
        for number, members in enumerate(np.split(order, ends[:-1])):
            key = members.tobytes()
            if key not in self.groups:
                self.groups[key] = len(self.members)
                rows = self.Z[members]
                self.members.append(members)
                self.costs.append(float(((rows - rows.mean(axis=0)) ** 2).sum()))
            where[number] = self.groups[key]
        return where

    def best(self, labels: np.ndarray, time_limit: float | None = None) -> np.ndarray | None:
        """Labels of the best partition made of these groups, or None when time ran out.

        The choice is among the groups of the best partition so far and the `MOST` of lowest reduced cost
        in the linear relaxation.
        """
        own = self.add(labels)
        n, costs = self.Z.shape[0], np.asarray(self.costs)
        reduced = relax(self.members, costs, n)
        kept = np.union1d(own, np.argsort(reduced, kind="stable")[:MOST])
        columns = [self.members[group] for group in kept]
        chosen = set_partition(columns, costs[kept], n, time_limit=time_limit)
        if chosen is None:
            return None
        found = np.empty(n, np.int64)
        for number, group in enumerate(chosen):
            found[columns[group]] = number
        return found


def relax(columns: list[np.ndarray], costs: np.ndarray, n_records: int) -> np.ndarray:
    """The reduced cost of each group in the linear relaxation of `set_partition`."""
    from scipy.optimize import linprog

    A = _incidence(columns, n_records)
    solved = linprog(costs, A_eq=A, b_eq=np.ones(n_records), method="highs-ds")
    return costs - A.T @ solved.eqlin.marginals


def _incidence(columns: list[np.ndarray], n_records: int) -> csc_array:
    """Records by groups: 1 where the group has the record."""
    from scipy.sparse import csc_array

    starts = np.concatenate([[0], np.cumsum([each.size for each in columns])])
    rows = np.concatenate(columns)
    return csc_array((np.ones(rows.size), rows, starts), shape=(n_records, len(columns)))


def set_partition(
    columns: list[np.ndarray], costs: np.ndarray, n_records: int, *, time_limit: float | None = None
) -> np.ndarray | None:
    """Choose groups that contain every record exactly once, at the least total cost.

    Parameters
    ----------
    columns : list of int arrays
        The records of each group.
    costs : array of float64
        One for each group.
    n_records : int
    time_limit : float, optional
        Seconds; no choice is given when they are over, so that a result never depends on the clock.

    Returns
    -------
    array of int64, or None where there is no choice or time ran out
        Positions of the chosen groups, ascending.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation._intensify import set_partition
    >>> groups = [np.array([0, 1]), np.array([2, 3]), np.array([0, 2]), np.array([1, 3])]
    >>> set_partition(groups, np.array([1.0, 1.0, 0.5, 2.0]), 4).tolist()
    [0, 1]
    """
    from scipy.optimize import LinearConstraint, milp

    started = time.perf_counter()
    A = _incidence(columns, n_records)
    options = {"mip_rel_gap": 1e-7, "node_limit": 50}
    if time_limit is not None:
        options["time_limit"] = time_limit
    found = milp(
        costs,
        integrality=np.ones(costs.size),
        bounds=(0, 1),
        constraints=LinearConstraint(A, 1, 1),
        options=options,
    )
    # Status 1 is a limit: that of nodes is repeatable, that of seconds is not.
    late = found.status == 1 and time_limit is not None and time.perf_counter() - started > 0.95 * time_limit
    if found.x is None or late:
        return None
    return np.flatnonzero(found.x > 0.5)
