"""Record linkage: whose published row is this? By nearest rows, and by the best assignment of all people at once."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from shoal.attacks._tables import PublishedRows, Tables

# People of one assignment, which takes their number cubed in steps, and people of all assignments together.
BLOCK = 400
ASSIGNED = 8_000


def found_again(tables: Tables, targets: np.ndarray, *, exact: bool) -> np.ndarray:
    """For each target the chance that a draw among the nearest published rows is the target's own.

    Columns published as they were must agree first; with `exact` every category must, then the nearest numbers decide.
    """
    space = tables.space(tables.known)
    first = [axis.name for axis in space.axes if axis.untouched or (exact and not axis.numeric)]
    people = np.ascontiguousarray(tables.people[np.ix_(targets, tables.places(tables.known))])
    _, ties, hit = space.nearest(people, space.weights(first), targets)
    return np.where(hit, 1.0 / ties, 0.0)


def assigned(tables: Tables, rng: np.random.Generator) -> np.ndarray:
    """For people of some blocks, drawn until there are enough, the chance that the best one-to-one assignment gives them their own row.

    People and published rows are cut into blocks by the same planes: first by the columns published as they were,
    which both sides have, then at medians of the numbers that vary most. Whoever lies on another side than the own row
    counts as not found.
    """
    names = tables.known
    space = tables.space(names)
    weights = space.weights([axis.name for axis in space.axes if axis.untouched])
    people = np.ascontiguousarray(tables.people[:, tables.places(names)])
    rows = _middles(space)
    chances: list[np.ndarray] = []
    blocks = _blocks(people, rows, space)
    order = rng.permutation(len(blocks))
    before = np.cumsum([0, *(blocks[at][0].size for at in order)])[:-1]
    for at in order[before < ASSIGNED]:
        members, candidates = blocks[at]
        credit = np.zeros(members.size)
        if members.size and candidates.size:
            cost = _costs(people[members], space, space.of_row[candidates], weights)
            who, which = linear_sum_assignment(cost)
            own, taken = space.of_row[members[who]], space.of_row[candidates[which]]
            credit[who] = np.where(own == taken, 1.0 / space.counts[own], 0.0)
        chances.append(credit)
    return np.concatenate(chances) if chances else np.empty(0)


def _middles(space: PublishedRows) -> np.ndarray:
    """A point for each published row."""
    return np.stack([axis.middles() for axis in space.axes], axis=1)


def _blocks(
    people: np.ndarray, rows: np.ndarray, space: PublishedRows
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of people and published rows, each at most a block of people."""
    n = people.shape[0]
    start = [(np.arange(n), np.arange(rows.shape[0]))]
    shared = [at for at, axis in enumerate(space.axes) if axis.untouched]
    if shared:
        both = np.nan_to_num(np.vstack([people[:, shared], rows[:, shared]]), nan=-1e300)
        codes = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
        start = _by_code(codes[:n], codes[n:])
    done = []
    while start:
        members, candidates = start.pop()
        if members.size <= BLOCK:
            done.append((members, candidates))
            continue
        halves = _halves(people, rows, members, candidates)
        if halves is None:  # all alike: any part of them stands for the whole
            done.append((members[:BLOCK], candidates))
        else:
            start += halves
    return done


def _by_code(first: np.ndarray, second: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    a, b = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    codes = np.arange(int(max(first.max(), second.max())) + 2)
    starts, ends = np.searchsorted(first[a], codes), np.searchsorted(second[b], codes)
    pairs = [(a[starts[c] : starts[c + 1]], b[ends[c] : ends[c + 1]]) for c in codes[:-1]]
    return [pair for pair in pairs if pair[0].size]


def _halves(
    people: np.ndarray, rows: np.ndarray, members: np.ndarray, candidates: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """A cut at the median of the column in which these people differ most."""
    inside = people[members]
    order = np.argsort(-np.nan_to_num(np.nanstd(np.where(np.isnan(inside), np.nan, inside), axis=0)))
    for column in order:
        cells = np.nan_to_num(inside[:, column], nan=-1e300)
        cut = np.median(cells)
        left = cells <= cut
        if left.all():
            left = cells < cut
        if left.any() and not left.all():
            edge = cells[left].max() / 2 + cells[~left].min() / 2
            there = np.nan_to_num(rows[candidates, column], nan=-1e300) <= edge
            return [(members[left], candidates[there]), (members[~left], candidates[~there])]
    return None


def _costs(people: np.ndarray, space: PublishedRows, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Distances of the people of a block from its published rows; a block is small."""
    cost = np.zeros((people.shape[0], rows.size))
    for at, axis in enumerate(space.axes):
        x = people[:, at]
        missing = np.isnan(x)
        if axis.numeric:
            low, high = space.low[rows, at], space.high[rows, at]
            with np.errstate(invalid="ignore"):
                gap = np.maximum(0.0, np.maximum(low[None, :] - x[:, None], x[:, None] - high[None, :])) ** 2
        else:
            table = 1.0 - axis.fits[space.low[rows, at].astype(np.int64)].T
            gap = table[np.where(missing, 0, x).astype(np.int64)]
        gap[missing] = 0.0
        cost += weights[at] * gap
    return cost
