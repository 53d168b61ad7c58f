"""Local recoding: records that look alike are released alike, each class at its own common ancestors."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from shoal.errors import GuaranteeError
from shoal.generalization._anneal import class_prices, improve, mean_cost
from shoal.generalization._certificate import lower_bound
from shoal.generalization._closing import class_nodes, close_classes
from shoal.generalization._conditions import Conditions
from shoal.generalization._facility import Facilities, list_facilities
from shoal.generalization._lattice import Lattice
from shoal.generalization._programme import solve

# Prices a proof starts from, in what the first classes cost: too high ones are lowered. Sweeps of a full proof.
RAISED, SWEEPS = 1.25, 2
# Nodes tried when classes are closed; what is left open then joins the cheapest class.
MOST_NODES = 20_000


@dataclass(frozen=True)
class LocalRecoding:
    """Classes and what they cost.

    Attributes
    ----------
    labels : array of int64, (n_records,)
    nodes : array of int64, (n_classes, n_columns)
        The common ancestors of each class.
    loss : float
        Mean cost of a record.
    bound : float or None
        No recoding of classes of k costs less on the mean; None where it was not asked for.
    seconds : float
        What the bound took of a processor.
    """

    labels: np.ndarray
    nodes: np.ndarray
    loss: float
    bound: float | None
    seconds: float


def recode_locally(
    lattice: Lattice,
    conditions: Conditions,
    *,
    proposals: int = 150,
    unit: float = 0.0,
    certify: bool | str = True,
    time_limit: float | None = None,
    random_state: int = 0,
) -> LocalRecoding:
    """Close classes, improve them, solve small tables to the end, and bound what is lost.

    Parameters
    ----------
    lattice : Lattice
    conditions : Conditions
    proposals : int, default 150
        For each record that is not released as it is.
    unit : float, default 0
        Total costs differ by at least this much, where that is known.
    certify : bool or "full", default True
        Bound the loss from below; "full" with as much work as a proof takes.
    time_limit : float, optional
        Seconds for each programme of a small table; left open, its branching is limited instead.
    random_state : int, default 0
    """
    if not bool(conditions.holds(np.zeros(lattice.n_records, np.int64))[0]):
        raise GuaranteeError(f"No class can hold {conditions}: the whole table does not.")
    nodes, _ = lattice.nodes_by(lattice.level_costs(), MOST_NODES)
    first = _held(lattice, conditions, close_classes(lattice, conditions, nodes))
    full, bound, seconds = certify == "full", None, 0.0
    facilities = list_facilities(lattice, conditions.k) if certify else None
    with ThreadPoolExecutor(1) as beside:
        # The bound of a large table needs the first classes alone: it is found while they are improved.
        task = (
            beside.submit(_bounded, lattice, conditions.k, first, full)
            if certify and facilities is None
            else None
        )
        labels = improve(lattice, conditions, first, proposals, random_state)
        if task is not None:
            bound, seconds = task.result()
    if facilities is not None:
        labels, bound, seconds = _solved(lattice, conditions, facilities, labels, unit, time_limit, full=full)
    loss = mean_cost(lattice, labels)
    found = class_nodes(lattice.tuples[lattice.of_row], labels, int(labels.max()) + 1, lattice.joined)
    return LocalRecoding(labels, found, loss, None if bound is None else min(bound, loss), seconds)


def _solved(
    lattice: Lattice, conditions: Conditions, facilities: Facilities, labels: np.ndarray, unit: float,
    time_limit: float | None, *, full: bool,
) -> tuple[np.ndarray, float, float]:  # fmt: skip
    """Better labels of a small table where its programme finds them, a bound on the mean cost, and its seconds."""
    n, cost = lattice.n_records, mean_cost(lattice, labels)
    programme = solve(
        lattice, facilities, conditions.k, cost * n, unit=unit, time_limit=time_limit, full=full
    )
    found = programme.labels
    if found is not None and bool(conditions.holds(found).all()) and mean_cost(lattice, found) < cost:
        labels = found
    return labels, programme.bound / n, programme.seconds


def _bounded(lattice: Lattice, k: int, first: np.ndarray, full: bool) -> tuple[float, float]:
    """A bound on the mean cost of a large table's record, and the seconds it took.

    Prices start from the first classes: those of better ones are lower where they need not be, and bound less.
    """
    began = time.thread_time()
    by_tuple = np.bincount(lattice.of_row, weights=class_prices(lattice, first)[first]) / lattice.counts
    bound = lower_bound(lattice, k, RAISED * by_tuple, SWEEPS if full else 0)
    return bound, time.thread_time() - began


def _held(lattice: Lattice, conditions: Conditions, labels: np.ndarray) -> np.ndarray:
    """Join classes that fail to the class that costs least, until all hold."""
    rows = lattice.tuples[lattice.of_row]
    joined, columns = lattice.joined, np.arange(rows.shape[1])
    while True:
        labels = np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
        failing = np.flatnonzero(~conditions.holds(labels))
        if failing.size == 0:
            return labels
        nodes = class_nodes(rows, labels, int(labels.max()) + 1, joined)
        sizes = np.bincount(labels)
        number = np.arange(sizes.size)
        price = lattice.cost[columns, nodes].sum(axis=1)
        gone: set[int] = set()
        for g in failing:
            if int(g) in gone:
                continue
            at = joined.start + nodes[g] * joined.width
            after = joined.cost[at[None, :] + nodes].sum(axis=1)
            more = (sizes + sizes[g]) * after - sizes * price - sizes[g] * price[g]
            more[[g, *gone]] = np.inf
            other = int(np.argmin(more))
            if not np.isfinite(more[other]):
                continue
            number[g] = other
            gone |= {int(g), other}
        labels = number[labels]
