"""The relaxation of recoding as a linear programme, cut by what packing allows: a bound, and prices that prove it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from shoal.generalization._facility import (
    Facilities,
    Packings,
    inclusion_costs,
    programme,
    reduced_costs,
    run,
)

# Sets of more than so many times k records are not looked at: rounding down changes little there.
WIDEST = 20
# Rounds of looking for sets that hold too many classes, and sets added in each.
ROUNDS, ADDED = 4, 100


@dataclass(frozen=True)
class RelaxedProgramme:
    """What the relaxation proves.

    Attributes
    ----------
    bound : float
        No recoding costs less in all.
    added : array of float64, one for each membership
        What a record in a class adds at least to the bound.
    used : array of bool
        The classes that the relaxation uses.
    packings : Packings
    """

    bound: float
    added: np.ndarray
    used: np.ndarray
    packings: Packings


def relax(
    facilities: Facilities, counts: np.ndarray, k: int, scale: float, time_limit: float | None
) -> RelaxedProgramme | None:
    """Solve the relaxation, and again with the packings it violates; None where the time was too short.

    Notes
    -----
    Classes of records that could all stay as they are seldom pay, but do where such a record was lent out; they
    join when their reduced cost is negative, and so do memberships once only the promising ones are kept. A class
    has k records at least, so that the classes within a set of records are no more than its records by k, rounded
    down: fractions of classes violate that. With prices u of records and charges m >= 0 of packings, a class adds
    its reduced cost plus the charges of the sets it is in, and sum n u - sum m most + the negative ones is a bound
    for any u and m.
    """
    price = facilities.cost[facilities.facility]
    own = np.full(counts.size, np.inf)
    np.minimum.at(own, facilities.record, price)
    # All records in one class is a recoding: whatever else is left out, there is one.
    one = (np.bincount(facilities.facility) == counts.size)[facilities.facility]
    chosen = one | (facilities.likely[facilities.facility] & (price <= own[facilities.record] + scale))
    none = Packings(sp.csr_matrix((0, facilities.cost.size)), np.zeros(0))
    found = _priced(facilities, counts, k, chosen, none, time_limit)
    if found is None:
        return None
    for _ in range(ROUNDS):
        best, values = found
        more = _violated(facilities, counts, k, values)
        if not more.most.size:
            break
        packings = Packings(
            sp.vstack([best.packings.inside, more.inside], format="csr"),
            np.r_[best.packings.most, more.most],
        )
        near = one | (best.added <= scale) | best.used[facilities.facility]
        again = _priced(facilities, counts, k, near, packings, time_limit)
        if again is None or again[0].bound <= best.bound + 1e-6 * scale:
            break
        found = again
    return found[0]


def _priced(
    facilities: Facilities, counts: np.ndarray, k: int, chosen: np.ndarray, packings: Packings,
    time_limit: float | None,
) -> tuple[RelaxedProgramme, np.ndarray] | None:  # fmt: skip
    """The relaxation over some memberships, joined by others until none would lower it; and how far classes are used."""
    chosen = chosen.copy()
    while True:
        classes = np.zeros(facilities.cost.size, bool)
        classes[facilities.facility[chosen]] = True
        part = facilities.kept(classes, chosen)
        kept = Packings(packings.inside[:, np.flatnonzero(classes)], packings.most)
        done = run(programme(part, counts, k, kept), time_limit)
        if not done.optimal:
            return None
        prices = done.duals[: counts.size]
        charges = np.maximum(0.0, -done.duals[done.duals.size - packings.most.size :])
        reduced = reduced_costs(facilities, counts, k, prices) + packings.inside.T @ charges
        added = inclusion_costs(facilities, counts, k, reduced, prices)
        more = ~chosen & (added < -1e-9)
        if not more.any():
            break
        chosen |= more
    values = np.zeros(facilities.cost.size)
    values[classes] = done.values[part.record.size :]
    bound = float((counts * prices).sum() - charges @ packings.most + np.minimum(reduced, 0.0).sum())
    return RelaxedProgramme(bound, np.maximum(added, 0.0), values > 1e-7, packings), values


def _violated(facilities: Facilities, counts: np.ndarray, k: int, values: np.ndarray) -> Packings:
    """Sets in which the relaxation uses more classes than there is room for.

    The records of any class are looked at, and those of two that are used in part and overlap.
    """
    within = sp.csr_matrix(
        (np.ones(facilities.record.size), (facilities.facility, facilities.record)),
        shape=(facilities.cost.size, counts.size),
    )
    size, records = within @ np.ones(counts.size), within @ counts
    used, small = np.flatnonzero(values > 1e-7), records <= WIDEST * k
    partly = within[np.flatnonzero((values > 1e-7) & (values < 1.0 - 1e-7) & small)]
    pairs = sp.triu(partly @ partly.T, 1).tocoo()
    sets = sp.vstack([within[np.flatnonzero(small)], partly[pairs.row] + partly[pairs.col]], format="csr")
    sets.data[:] = 1.0
    shared = (sets @ within[used].T).tocoo()
    inside = shared.data >= size[used[shared.col]]
    total = np.bincount(shared.row[inside], weights=values[used[shared.col[inside]]], minlength=sets.shape[0])
    most = np.floor(sets @ counts / k)
    over = total - most
    worst = np.argsort(-over, kind="stable")[:ADDED]
    worst = worst[over[worst] > 1e-4]
    every = (sets[worst] @ within.T).tocoo()
    whole = every.data >= size[every.col]
    rows = sp.csr_matrix(
        (np.ones(int(whole.sum())), (every.row[whole], every.col[whole])),
        shape=(worst.size, facilities.cost.size),
    )
    return Packings(rows, most[worst])
