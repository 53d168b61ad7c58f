"""Classes as facilities: the linear programme that bounds recoding, and the integer one that solves it."""

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
# How far above the relaxation classes and members are looked at, stage by stage, in units of a cell's cost.
STAGES = (0.0, 1.0, math.inf)
# Memberships beyond which a later stage is not begun: its work would be minutes.
MOST_BRANCHED = 6_000


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


@dataclass(frozen=True)
class Programme:
    """What the programme found.

    Attributes
    ----------
    labels : array of int64 or None
        The class of each record; None where nothing better than what was known was found.
    bound : float
        No recoding costs less in all.
    """

    labels: np.ndarray | None
    bound: float


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


def solve(
    lattice: Lattice, k: int, labels_cost: float, *, unit: float = 0.0, time_limit: float | None = None
) -> Programme | None:
    """Bound recoding from below, and find a better one than that at hand; None where the table is too large.

    Parameters
    ----------
    lattice : Lattice
    k : int
    labels_cost : float
        What the recoding at hand costs in all.
    unit : float, default 0
        Costs of recodings differ by at least this much; 1 where cells are counted.
    time_limit : float, optional
        Seconds for each programme; left open, the branching is limited instead.

    Notes
    -----
    One variable tells whether a class is used, one for each distinct record in it how many of its records it
    takes. Given the classes, the rest is a flow and so integral. The linear relaxation bounds from below; a
    class whose reduced cost exceeds the distance to the recoding at hand is in no better one and is left out
    without loss, so that the bound of the integer programme holds as well, or the sum of both.
    """
    facilities = list_facilities(lattice, k)
    if facilities is None:
        return None
    counts = lattice.counts.astype(np.float64)
    relaxation = _relax(facilities, counts, k, time_limit)
    if relaxation is None:
        return Programme(None, 0.0)
    base, reduced, open_ = relaxation.bound, relaxation.reduced, relaxation.used
    bound, best, labels = max(0.0, base), labels_cost, None
    scale = unit
    if unit <= 0:
        scale = float(np.median(facilities.cost[facilities.cost > 0])) if (facilities.cost > 0).any() else 0.0
    added = _inclusion_costs(facilities, counts, k, reduced, relaxation.duals)
    for step in STAGES:
        gap = best - unit - base
        if gap < (-1e-6 * unit if unit else 1e-9 * max(1.0, best)):  # nothing cheaper is left between
            break
        if step == 1.0 and gap <= 3.0 * scale:  # the whole gap is little more
            continue
        reach = min(step * scale, gap) if scale > 0 else gap
        members = added <= reach + 1e-6
        if step > 0 and int(members.sum()) > MOST_BRANCHED:
            break
        chosen = open_ | (reduced <= reach + 1e-6)
        members |= open_[facilities.facility]
        part = facilities.kept(chosen, members)
        run = _run(
            _model(part, counts, k),
            time_limit,
            whole=True,
            gap=0.999 * unit if unit else 0.0,
            cutoff=best - (0.5 * unit if unit else 1e-9 * best),
            proving=step > 0,
        )
        if run.values.size and run.objective < best - 1e-9:
            best = run.objective
            labels = _labels(lattice, part, run.values)
        # A recoding with a class or a member that was left out costs at least this much more than the relaxation:
        # more than a better one could, where all within the gap were taken.
        left = added[~members]
        outside = base + float(left.min()) if reach < gap and left.size else math.inf
        bound = max(bound, min(run.bound, outside, best))
        if reach >= gap:
            break
    return Programme(labels, min(best, _raised(bound, unit)))


@dataclass(frozen=True)
class _Relaxation:
    """The relaxation's bound, the reduced cost of every class, which classes it uses, and the records' prices."""

    bound: float
    reduced: np.ndarray
    used: np.ndarray
    duals: np.ndarray


def _relax(
    facilities: Facilities, counts: np.ndarray, k: int, time_limit: float | None
) -> _Relaxation | None:
    """Solve the linear relaxation.

    Classes of records that could all stay as they are seldom pay, but do where such a record was lent out;
    they join when their reduced cost is negative.
    """
    used = facilities.likely.copy()
    while True:
        part = facilities.kept(used)
        run = _run(_model(part, counts, k), time_limit)
        if not run.optimal:
            return None
        duals = run.duals[: counts.size]
        reduced = _reduced_costs(facilities, counts, k, duals)
        more = ~used & (reduced < -1e-9)
        if not more.any():
            break
        used |= more
    open_ = np.zeros(facilities.cost.size, bool)
    open_[np.flatnonzero(used)] = run.values[part.record.size :] > 1e-7
    bound = float((counts * duals).sum() + np.minimum(reduced, 0.0).sum())
    return _Relaxation(bound, reduced, open_, duals)


def _raised(bound: float, unit: float) -> float:
    """A bound on a whole number of units, as a whole number."""
    return math.ceil(bound / unit - 1e-6) * unit if unit else bound


@dataclass(frozen=True)
class _Run:
    optimal: bool
    objective: float
    bound: float
    values: np.ndarray
    duals: np.ndarray


def _model(facilities: Facilities, counts: np.ndarray, k: int) -> Any:
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
    rows = sp.vstack([whole, filled, ties]).tocsr()
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = ny + nf, rows.shape[0]
    model.col_cost_ = np.r_[facilities.cost[facilities.facility], np.zeros(nf)]
    model.col_lower_ = np.zeros(ny + nf)
    model.col_upper_ = np.r_[counts[facilities.record], np.ones(nf)]
    model.row_lower_ = np.r_[counts, np.zeros(nf), np.full(ny, -np.inf)]
    model.row_upper_ = np.r_[counts, np.full(nf, np.inf), np.zeros(ny)]
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = (
        rows.indptr,
        rows.indices,
        rows.data,
    )
    return model


def _run(
    model: Any, time_limit: float | None, *, whole: bool = False, gap: float = 0.0, cutoff: float = math.inf,
    proving: bool = False,
) -> _Run:  # fmt: skip
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if time_limit is not None:
        solver.setOptionValue("time_limit", float(time_limit))
    if whole:
        used = _facility_count(model)
        flows = [highspy.HighsVarType.kContinuous] * (model.num_col_ - used)
        model.integrality_ = flows + [highspy.HighsVarType.kInteger] * used
        solver.setOptionValue("mip_abs_gap", max(gap, 1e-6))
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_max_nodes", BRANCHES)
        if proving:
            # A good recoding is known: looking for others and making the model smaller first cost more than they save.
            solver.setOptionValue("presolve", "off")
            solver.setOptionValue("mip_heuristic_effort", 0.0)
        if math.isfinite(cutoff):
            solver.setOptionValue("objective_bound", float(cutoff))
    solver.passModel(model)
    solver.run()
    info, solution = solver.getInfo(), solver.getSolution()
    optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    values = np.asarray(solution.col_value) if solution.value_valid else np.empty(0)
    bound = float(info.mip_dual_bound) if whole else float(info.objective_function_value)
    if (
        whole and solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    ):  # nothing is better than the cutoff
        values, bound = np.empty(0), math.inf
    return _Run(optimal, float(info.objective_function_value), bound, values, np.asarray(solution.row_dual))


def _facility_count(model: Any) -> int:
    return int((np.asarray(model.row_upper_) == np.inf).sum())


def _reduced_costs(facilities: Facilities, counts: np.ndarray, k: int, duals: np.ndarray) -> np.ndarray:
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


def _inclusion_costs(
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


def _labels(lattice: Lattice, facilities: Facilities, values: np.ndarray) -> np.ndarray:
    """Deal the records of each distinct record out to its classes."""
    taken = np.rint(values[: facilities.record.size]).astype(np.int64)
    order = np.lexsort((facilities.facility, facilities.record))
    classes = np.repeat(facilities.facility[order], taken[order])
    labels = np.empty(lattice.n_records, np.int64)
    labels[np.argsort(lattice.of_row, kind="stable")] = classes
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
