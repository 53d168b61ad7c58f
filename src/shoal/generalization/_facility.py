"""Classes as facilities: every class that could be used, and the programme over them as the solver takes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from shoal.generalization._lattice import Lattice

# Beyond so many memberships (a distinct record in a possible class) the programme is not set up.
MOST_MEMBERSHIPS = 800_000
MOST_LISTED = 5_000
# Nodes of the branching: the work of a run does not depend on the machine's load.
BRANCHES = 40
# Up to so many variables a proof is quicker without making the model smaller first.
SMALL = 40_000


@dataclass(frozen=True)
class Facilities:
    """Every possible class, as the distinct records that could be in it.

    Attributes
    ----------
    record, facility : arrays of int64
        Memberships: this distinct record could be in this class.
    cost : array of float64
        What a record costs in each class.
    likely : array of bool
        Classes with a record that cannot stay as it is, and those of records that stay.
    """

    record: np.ndarray
    facility: np.ndarray
    cost: np.ndarray
    likely: np.ndarray

    def kept(self, chosen: np.ndarray, members: np.ndarray | None = None) -> Facilities:
        """Only some of the classes, and of their memberships."""
        number = np.cumsum(chosen) - 1
        inside = chosen[self.facility] if members is None else chosen[self.facility] & members
        return Facilities(
            self.record[inside], number[self.facility[inside]], self.cost[chosen], self.likely[chosen]
        )


def list_facilities(lattice: Lattice, k: int) -> Facilities | None:
    """Every set of at least k records with the same nodes somewhere; None where there are too many."""
    n, q = lattice.tuples.shape
    if n > MOST_LISTED or lattice.size > MOST_LISTED:
        return None
    nodes, _ = lattice.nodes_by(lattice.level_costs(), MOST_LISTED)
    names = np.random.default_rng(1).integers(1, 1 << 62, n)
    found: dict[tuple[int, int], int] = {}
    members: list[np.ndarray] = []
    costs: list[float] = []
    likely: list[bool] = []
    total = 0
    for node in nodes:
        cells = np.stack([lattice.up[c, node[c], lattice.tuples[:, c]] for c in range(q)])
        key = sum(lattice.keys[c][cells[c]] for c in range(q))
        ids = np.unique(key, return_inverse=True)[1].reshape(-1)
        sizes = np.bincount(ids, weights=lattice.counts)
        risky = np.bincount(ids, weights=lattice.counts < k)
        hashes = np.zeros(sizes.size, np.int64)
        np.add.at(hashes, ids, names)
        price = sum(lattice.cost[c][cells[c]] for c in range(q))
        order = np.argsort(ids, kind="stable")
        starts = np.searchsorted(ids[order], np.arange(sizes.size + 1))
        exact = not node.any()
        for j in np.flatnonzero(sizes >= k):
            inside = order[starts[j] : starts[j + 1]]
            name = (int(hashes[j]), inside.size)
            if name in found:
                costs[found[name]] = min(costs[found[name]], float(price[inside[0]]))
                continue
            found[name] = len(members)
            members.append(inside)
            costs.append(float(price[inside[0]]))
            likely.append(exact or risky[j] > 0)
            total += inside.size
            if total > MOST_MEMBERSHIPS:
                return None
    facility = np.repeat(np.arange(len(members)), [each.size for each in members])
    return Facilities(np.concatenate(members), facility, np.asarray(costs), np.asarray(likely))


@dataclass(frozen=True)
class Packings:
    """Sets of distinct records in which no more than so many classes have room.

    Attributes
    ----------
    inside : sparse matrix, (n_sets, n_facilities)
        1 for the classes whose records are all in the set.
    most : array of float64
        How many of them can be used: the records of the set by k, rounded down.
    """

    inside: sp.csr_matrix
    most: np.ndarray


@dataclass(frozen=True)
class SolverResult:
    """What the solver said: `bound` holds for the costs below the cutoff it was given, if any."""

    optimal: bool
    objective: float
    bound: float
    values: np.ndarray
    duals: np.ndarray


def programme(facilities: Facilities, counts: np.ndarray, k: int, packings: Packings | None = None) -> Any:
    """Minimise cost: every record in a class, a used class with k records, none in an unused one."""
    import highspy

    ny, nf, n = facilities.record.size, facilities.cost.size, counts.size
    taken = np.arange(ny)
    whole = sp.csr_matrix((np.ones(ny), (facilities.record, taken)), shape=(n, ny + nf))
    filled = sp.csr_matrix(
        (
            np.r_[np.ones(ny), np.full(nf, -float(k))],
            (np.r_[facilities.facility, np.arange(nf)], np.arange(ny + nf)),
        ),
        shape=(nf, ny + nf),
    )
    ties = sp.csr_matrix(
        (
            np.r_[np.ones(ny), -counts[facilities.record]],
            (np.r_[taken, taken], np.r_[taken, ny + facilities.facility]),
        ),
        shape=(ny, ny + nf),
    )
    most = np.zeros(0) if packings is None else packings.most
    packed = sp.csr_matrix((0, nf)) if packings is None else packings.inside
    rows = sp.vstack([whole, filled, ties, sp.hstack([sp.csr_matrix((most.size, ny)), packed])], format="csr")
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = ny + nf, rows.shape[0]
    model.col_cost_ = np.r_[facilities.cost[facilities.facility], np.zeros(nf)]
    model.col_lower_ = np.zeros(ny + nf)
    model.col_upper_ = np.r_[counts[facilities.record], np.ones(nf)]
    model.row_lower_ = np.r_[counts, np.zeros(nf), np.full(ny + most.size, -np.inf)]
    model.row_upper_ = np.r_[counts, np.full(nf, np.inf), np.zeros(ny), most]
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = (
        rows.indptr,
        rows.indices,
        rows.data,
    )
    return model


def run(
    model: Any, time_limit: float | None, *, classes: int = 0, gap: float = 0.0, cutoff: float = math.inf,
    proving: bool = False,
) -> SolverResult:  # fmt: skip
    """Solve a programme, its last `classes` variables whole; costs from the cutoff on are of no interest."""
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if time_limit is not None:
        solver.setOptionValue("time_limit", float(time_limit))
    if classes:
        flows = [highspy.HighsVarType.kContinuous] * (model.num_col_ - classes)
        model.integrality_ = flows + [highspy.HighsVarType.kInteger] * classes
        solver.setOptionValue("mip_abs_gap", max(gap, 1e-6))
        solver.setOptionValue("mip_rel_gap", 0.0)
        if time_limit is None:
            solver.setOptionValue("mip_max_nodes", BRANCHES)
        if proving:  # a good recoding is known: looking for others costs more than it saves
            solver.setOptionValue("mip_heuristic_effort", 0.0)
            if model.num_col_ < SMALL:
                solver.setOptionValue("presolve", "off")
        if math.isfinite(cutoff):
            solver.setOptionValue("objective_bound", float(cutoff))
    solver.passModel(model)
    solver.run()
    info, solution = solver.getInfo(), solver.getSolution()
    status = solver.getModelStatus()
    values = np.asarray(solution.col_value) if solution.value_valid else np.empty(0)
    objective = float(info.objective_function_value)
    bound = float(info.mip_dual_bound) if classes else objective
    if classes and status == highspy.HighsModelStatus.kInfeasible:  # nothing is below the cutoff
        values, bound = np.empty(0), math.inf
    optimal = status == highspy.HighsModelStatus.kOptimal
    return SolverResult(optimal, objective, min(bound, cutoff), values, np.asarray(solution.row_dual))


def reduced_costs(facilities: Facilities, counts: np.ndarray, k: int, duals: np.ndarray) -> np.ndarray:
    """What using a class adds at least to the relaxation: its cheapest k records, and any below zero."""
    gain = facilities.cost[facilities.facility] - duals[facilities.record]
    order = np.lexsort((gain, facilities.facility))
    which, gain = facilities.facility[order], gain[order]
    many = counts[facilities.record[order]]
    before = np.cumsum(many) - many
    first = np.searchsorted(which, np.arange(facilities.cost.size))
    before = before - before[first][which]
    needed = np.clip(k - before, 0.0, many)
    taken = np.where(gain < 0.0, many, needed)
    return np.bincount(which, weights=taken * gain, minlength=facilities.cost.size)


def inclusion_costs(
    facilities: Facilities, counts: np.ndarray, k: int, reduced: np.ndarray, duals: np.ndarray
) -> np.ndarray:
    """What a record in a class adds at least to the relaxation, for each membership.

    The class adds its reduced cost; a record that is not among its cheapest k takes the place of the dearest of them.
    """
    gain = facilities.cost[facilities.facility] - duals[facilities.record]
    order = np.lexsort((gain, facilities.facility))
    which = facilities.facility[order]
    many = counts[facilities.record[order]]
    before = np.cumsum(many) - many
    first = np.searchsorted(which, np.arange(facilities.cost.size))
    filled = np.flatnonzero(before - before[first][which] + many >= k)
    classes, at = np.unique(which[filled], return_index=True)
    dearest = np.zeros(facilities.cost.size)
    dearest[classes] = np.maximum(gain[order][filled[at]], 0.0)
    return reduced[facilities.facility] + np.maximum(0.0, gain - dearest[facilities.facility])
