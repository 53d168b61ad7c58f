"""Recoding of a small table as an integer programme over its possible classes: solved, or bounded from below."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from shoal.generalization._facility import Facilities, Packings, SolverResult, programme, run
from shoal.generalization._lattice import Lattice
from shoal.generalization._relaxed import RelaxedProgramme, relax

# How far above the relaxation memberships are looked at for a better recoding, in units of a cell's cost.
SEARCHED = (0.0, 0.5)
# Memberships up to which all that a better recoding could use are looked at at once, and up to which a cost is refuted.
SOLVED, PROVED = 6_000, 30_000


@dataclass(frozen=True)
class Programme:
    """What the programme found.

    Attributes
    ----------
    labels : array of int64 or None
        The class of each record; None where nothing better than what was known was found.
    bound : float
        No recoding costs less in all.
    seconds : float
        What it took of a processor.
    """

    labels: np.ndarray | None
    bound: float
    seconds: float


def solve(
    lattice: Lattice,
    facilities: Facilities,
    k: int,
    labels_cost: float,
    *,
    unit: float = 0.0,
    time_limit: float | None = None,
    full: bool = False,
) -> Programme:
    """Bound recoding from below, and find a better one than that at hand.

    Parameters
    ----------
    lattice : Lattice
    facilities : Facilities
        The classes that a recoding may use, as `list_facilities` tells them of tables that are small enough.
    k : int
    labels_cost : float
        What the recoding at hand costs in all.
    unit : float, default 0
        Costs of recodings differ by at least this much; 1 where cells are counted.
    time_limit : float, optional
        Seconds for each programme; left open, the branching is limited instead.
    full : bool, default False
        Look at as many memberships as the last proof needs, which may take minutes.

    Notes
    -----
    One variable tells whether a class is used, one for each distinct record in it how many of its records it
    takes. Given the classes, the rest is a flow and so integral. The linear relaxation bounds from below. A
    membership that adds more to it than a cost allows is in no recoding of that cost: few are left to look at, and
    where none of them makes such a recoding, every recoding costs more.
    """
    began = time.thread_time()
    counts = lattice.counts.astype(np.float64)
    scale = unit
    if unit <= 0:
        scale = float(np.median(facilities.cost[facilities.cost > 0])) if (facilities.cost > 0).any() else 0.0
    relaxation = relax(facilities, counts, k, scale, time_limit)
    if relaxation is None:
        return Programme(None, 0.0, time.thread_time() - began)
    search = _Search(lattice, facilities, counts, k, relaxation, unit, time_limit, labels_cost)
    first, *others = SEARCHED
    if not search.closed():
        search.look(first * scale)
    beside = 0.0
    if not search.closed():
        beside = _both(search, [step * scale for step in others], math.inf if full else PROVED)
    seconds = time.thread_time() - began + beside
    return Programme(search.labels, min(search.best, _raised(search.bound, unit)), seconds)


@dataclass
class _Search:
    """The best recoding so far, and what is proven of all."""

    lattice: Lattice
    facilities: Facilities
    counts: np.ndarray
    k: int
    relaxation: RelaxedProgramme
    unit: float
    time_limit: float | None
    best: float
    labels: np.ndarray | None = None
    bound: float = 0.0

    def __post_init__(self) -> None:
        self.bound = max(0.0, self.relaxation.bound)

    def closed(self) -> bool:
        """Whether nothing cheaper is left between the bound and the best."""
        close = 1e-6 * self.unit if self.unit else -1e-9 * max(1.0, self.best)
        return self.best - self.unit - _raised(self.bound, self.unit) < -close

    def whole(self) -> bool:
        """Whether so few memberships could be in a better recoding that one look at them all settles it."""
        gap = self.best - self.unit - self.relaxation.bound
        return int((self.relaxation.added <= gap + 1e-6).sum()) <= SOLVED

    def look(self, reach: float) -> None:
        """Look for a better recoding among memberships near the relaxation; among all that could be in one, if few."""
        base, added = self.relaxation.bound, self.relaxation.added
        gap = self.best - self.unit - base
        if self.whole():
            reach = gap
        members = (added <= min(reach, gap) + 1e-6) | self.relaxation.used[self.facilities.facility]
        cutoff = self.best - (0.5 * self.unit if self.unit else 1e-9 * self.best)
        done = self._run(members, cutoff, proving=reach >= gap)
        # A recoding with a member that was left out costs at least this much.
        left = added[~members]
        outside = base + float(left.min()) if reach < gap and left.size else math.inf
        self.bound = max(self.bound, min(done.bound, outside))

    def refute(self, most: float) -> None:
        """Prove that no recoding has the highest cost below the best one's for which at most so many memberships are left."""
        base, added = self.relaxation.bound, self.relaxation.added
        few = np.partition(added, int(most))[int(most)] - 1e-6 if added.size > most else math.inf
        cost = min(base + few, self.best - self.unit)
        if self.unit:
            cost = math.floor(cost / self.unit + 1e-6) * self.unit
        cutoff = cost + 0.5 * self.unit if self.unit else cost
        if cutoff <= self.bound:
            return
        done = self._run(added <= cost - base + 1e-6, cutoff, proving=True)
        self.bound = max(self.bound, done.bound)

    def _run(self, members: np.ndarray, cutoff: float, *, proving: bool) -> SolverResult:
        """Solve the integer programme over some memberships, and keep what is better."""
        classes = np.zeros(self.facilities.cost.size, bool)
        classes[self.facilities.facility[members]] = True
        part = self.facilities.kept(classes, members)
        packings = self.relaxation.packings
        packings = Packings(packings.inside[:, np.flatnonzero(classes)], packings.most)
        done = run(
            programme(part, self.counts, self.k, packings),
            self.time_limit,
            classes=part.cost.size,
            gap=0.999 * self.unit if self.unit else 0.0,
            cutoff=cutoff,
            proving=proving,
        )
        if done.values.size and done.objective < self.best - 1e-9:
            self.best, self.labels = done.objective, _labels(self.lattice, part, done.values)
        return done


def _both(search: _Search, steps: list[float], most: float) -> float:
    """Look further, and refute what lies below the best: side by side where a look alone cannot settle it.

    Returns the seconds of a processor that the side took. Both start from the same recoding, whatever the other finds
    meanwhile, so that a run repeats.
    """
    if search.whole():
        for step in steps:
            if not search.closed():
                search.look(step)
        if not search.closed():
            search.refute(most)
        return 0.0
    other = replace(search)

    def refuted() -> float:
        began = time.thread_time()
        other.refute(most)
        return time.thread_time() - began

    with ThreadPoolExecutor(1) as beside:
        task = beside.submit(refuted)
        for step in steps:
            if not search.closed():
                search.look(step)
        seconds = task.result()
    search.bound = max(search.bound, other.bound)
    if other.best < search.best - 1e-9:
        search.best, search.labels = other.best, other.labels
    return seconds


def _raised(bound: float, unit: float) -> float:
    """A bound on a whole number of units, as a whole number."""
    return math.ceil(bound / unit - 1e-6) * unit if unit else bound


def _labels(lattice: Lattice, facilities: Facilities, values: np.ndarray) -> np.ndarray:
    """Deal the records of each distinct record out to its classes."""
    taken = np.rint(values[: facilities.record.size]).astype(np.int64)
    order = np.lexsort((facilities.facility, facilities.record))
    classes = np.repeat(facilities.facility[order], taken[order])
    labels = np.empty(lattice.n_records, np.int64)
    labels[np.argsort(lattice.of_row, kind="stable")] = classes
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
