"""Local recoding improved by annealing: records move between classes of look-alikes, never below k."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shoal.generalization._anneal_kernels import ClassDemands, ClassLists, Company, anneal, fill
from shoal.generalization._closing import class_nodes
from shoal.generalization._conditions import Conditions
from shoal.generalization._lattice import Joined, Lattice
from shoal.generalization._near import near_tuples

# The temperature, in mean losses of a record that loses anything, at the start and at the end.
HOT, COLD = 0.5, 0.06
# Above so many records the classes are shared out between two jobs, anew in each round; who moves is found anew too.
SHARED, ROUNDS = 4_000, 40
# Classes times values that are counted in them; larger tables keep their first classes.
MOST_COUNTS = 100_000_000


def improve(
    lattice: Lattice, conditions: Conditions, labels: np.ndarray, proposals: int, random_state: int = 0
) -> np.ndarray:
    """Better labels by annealing: `proposals` for each record that is not released as it is.

    Parameters
    ----------
    lattice : Lattice
    conditions : Conditions
    labels : array of int64, (n_records,)
        Classes that hold the conditions.
    proposals : int
    random_state : int, default 0

    Returns
    -------
    array of int64
        Labels whose loss is no larger. The same for any number of threads: the jobs touch different classes.
    """
    groups = int(labels.max()) + 1
    price = class_prices(lattice, labels)
    if not (price[labels] > 1e-12).any() or proposals == 0 or 2 * groups * conditions.width > MOST_COUNTS:
        return labels
    near, order = lattice.side_by_side()
    rows = np.ascontiguousarray(near.tuples[near.of_row], np.uint16)
    joined = _packed(near.joined)
    losing = price[labels[order]] > 1e-12
    company = _company(near, losing)
    demands = _demands(conditions, labels, groups, order)
    classes = _classes(rows, labels[order], groups)
    fill(rows, groups, classes, joined)
    mean = float(price[labels[order[losing]]].mean())
    heat = (HOT * mean, COLD * mean)
    jobs = 2 if int(losing.sum()) >= SHARED else 1
    _rounds(near, joined, rows, company, demands, classes, conditions.k, heat, proposals, jobs, random_state)
    found = np.empty_like(labels)
    found[order] = np.unique(classes.labels, return_inverse=True)[1].reshape(-1)
    return found if mean_cost(lattice, found) <= mean_cost(lattice, labels) else labels


def _company(lattice: Lattice, losing: np.ndarray) -> Company:
    """The look-alikes of every record that loses anything, and of those: they may be borrowed, and must find back."""
    wanted = np.unique(lattice.of_row[losing])
    lists = near_tuples(lattice, wanted)
    lenders = np.setdiff1d(lists[lists >= 0], wanted)
    lists = np.concatenate([lists, near_tuples(lattice, lenders)])
    place = np.full(lattice.tuples.shape[0], -1, np.int32)
    place[wanted] = np.arange(wanted.size)
    place[lenders] = wanted.size + np.arange(lenders.size)
    starts = np.concatenate([[0], np.cumsum(lattice.counts)])
    return Company(place[lattice.of_row], lists.astype(np.int32), starts)


def _packed(joined: Joined) -> Joined:
    """Common ancestors in as few bytes as the search needs: they are looked up all the time."""
    return Joined(joined.start, joined.width, joined.node.astype(np.uint16), joined.cost.astype(np.float32))


def _rounds(
    lattice: Lattice, joined: Joined, rows: np.ndarray, company: Company, demands: ClassDemands, classes: ClassLists, k: int,
    heat: tuple[float, float], proposals: int, jobs: int, random_state: int,
) -> None:  # fmt: skip
    """Cool down round by round; in each the classes are cut in two by another order of the columns."""
    rng = np.random.default_rng(random_state)
    hot, cold = heat
    steps = np.geomspace(hot, cold, ROUNDS + 1)
    with ThreadPoolExecutor(jobs) as pool:
        for turn in range(ROUNDS):
            _deal(lattice, classes, jobs, rng)
            active = np.flatnonzero((classes.price[classes.labels] > 0) & (company.place >= 0))
            mine = [active[classes.owner[classes.labels[active]] == job] for job in range(jobs)]
            seeds = rng.integers(1, 1 << 62, jobs)
            tasks = [
                pool.submit(
                    anneal, rows, company, classes, demands, joined, mine[job], k, float(steps[turn]),
                    float(steps[turn + 1]), mine[job].size * proposals // ROUNDS, np.uint64(seeds[job]), job,
                )
                for job in range(jobs)
            ]  # fmt: skip
            for task in tasks:
                task.result()


def _deal(lattice: Lattice, classes: ClassLists, jobs: int, rng: np.random.Generator) -> None:
    """Give each class to a job: neighbours in a random order of the columns stay together."""
    used = np.flatnonzero(classes.sizes > 0)
    empty = np.flatnonzero(classes.sizes == 0)
    classes.owner[empty] = np.arange(empty.size) % jobs
    if jobs == 1:
        classes.owner[:] = 0
        return
    columns = []
    for c in rng.permutation(len(lattice.hierarchies)):
        columns.append(classes.nodes[used, c])
    order = np.lexsort(columns[::-1])
    weight = np.cumsum(np.where(classes.price[used] > 0, classes.sizes[used], 0)[order])
    cut = int(np.searchsorted(weight, weight[-1] * rng.uniform(0.35, 0.65)))
    classes.owner[used[order[:cut]]] = 0
    classes.owner[used[order[cut:]]] = 1


def _classes(rows: np.ndarray, labels: np.ndarray, groups: int) -> ClassLists:
    """Classes without their records yet, with room for as many more."""
    room, n = 2 * groups + 16, rows.shape[0]
    return ClassLists(
        np.full(room, -1, np.int64), np.full(n, -1, np.int64), np.full(n, -1, np.int64), np.zeros(room, np.int64),
        np.zeros((room, rows.shape[1]), np.uint16), np.zeros(room), labels.astype(np.int64), np.zeros(room, np.int64),
        np.zeros(rows.shape, np.uint16), np.zeros(n), np.zeros(room, np.bool_),
    )  # fmt: skip


def _demands(conditions: Conditions, labels: np.ndarray, groups: int, order: np.ndarray) -> ClassDemands:
    """Each record's places in the table of its class, the tables, and what they must hold."""
    spans, limits, shares = conditions.packed()
    if not conditions.width:
        return ClassDemands(
            np.zeros((order.size, 0), np.int64), np.zeros((1, 0), np.int64), spans, limits, shares
        )
    codes = [each[order] + start for each, (start, *_) in zip(conditions.codes, spans, strict=True)]
    table = conditions.counted(labels, groups)
    room = np.zeros((groups + 16, table.shape[1]), np.int64)
    return ClassDemands(np.stack(codes, axis=1), np.concatenate([table, room]), spans, limits, shares)


def class_prices(lattice: Lattice, labels: np.ndarray) -> np.ndarray:
    """What a record of each class costs if the class is released at its common ancestors."""
    rows = lattice.tuples[lattice.of_row]
    nodes = class_nodes(rows, labels, int(labels.max()) + 1, lattice.joined)
    costs = lattice.cost[np.arange(nodes.shape[1]), np.maximum(nodes, 0)].sum(axis=1)
    return np.where(nodes[:, 0] < 0, 0.0, costs)


def mean_cost(lattice: Lattice, labels: np.ndarray) -> float:
    """The mean loss of a record if each class is released at its common ancestors."""
    return float((class_prices(lattice, labels) * np.bincount(labels)).sum() / labels.size)
