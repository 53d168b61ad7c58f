"""Recombination: the best partition that can be put together from the groups of many."""

from __future__ import annotations

import time

import numpy as np


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

    def add(self, labels: np.ndarray) -> None:
        """Take up the groups of a partition that are new."""
        order = np.argsort(labels, kind="stable").astype(np.int32)
        ends = np.cumsum(np.bincount(labels))
        for members in np.split(order, ends[:-1]):
            key = members.tobytes()
            if key not in self.groups:
                self.groups[key] = len(self.members)
                rows = self.Z[members]
                self.members.append(members)
                self.costs.append(float(((rows - rows.mean(axis=0)) ** 2).sum()))

    def best(self, time_limit: float | None = None) -> np.ndarray | None:
        """Labels of the best partition made of these groups, or None when time ran out."""
        n = self.Z.shape[0]
        chosen = set_partition(self.members, np.asarray(self.costs), n, time_limit=time_limit)
        if chosen is None:
            return None
        labels = np.empty(n, np.int64)
        for number, group in enumerate(chosen):
            labels[self.members[group]] = number
        return labels


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
    from scipy.sparse import csc_array

    started = time.perf_counter()
    rows = np.concatenate(columns)
    starts = np.concatenate([[0], np.cumsum([each.size for each in columns])])
    A = csc_array((np.ones(rows.size), rows, starts), shape=(n_records, len(columns)))
    options = {"mip_rel_gap": 1e-7, "node_limit": 200}
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
