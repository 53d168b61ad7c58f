"""Fill the front between the cells: a multi-objective search over group moves.

Individuals are partitions, seeded by the cells of the grid. A child takes whole groups of one parent and
fills up from the other; mutation exchanges or relocates records of neighbouring groups. NSGA-II
keeps what no other individual beats in loss and linkage. With an aim, how far an individual falls short of it
is added to both, so that those near the aim beat those far from it: preferences in the search, as in Mortazavi and
Jalili (2015), Information Fusion 25, 85-104.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import cKDTree

from shoal.engine.encode import group_means, sum_of_squares
from shoal.errors import MissingExtraError
from shoal.measures import linked_share
from shoal.microaggregation import repair
from shoal.typing import Keywords

if TYPE_CHECKING:
    from shoal.comparison._result import Cell
    from shoal.publish.prepared import Prepared

POPULATION = 40
GENERATIONS = 40
MOVES = 12
# Linkage is asked about an even selection of the records of a larger table.
ASKED_RECORDS = 4000


def fill_front(  # noqa: C901 - holds four small classes: pymoo is imported when it is used
    ready: Prepared, cells: Iterable[Cell], random_state: int, aim: tuple[float, float] | None = None
) -> list[tuple[int, np.ndarray]]:
    """New partitions on the front, each with the k it keeps; with an aim (loss in per cent, share linked) near it."""
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.crossover import Crossover
        from pymoo.core.duplicate import NoDuplicateElimination
        from pymoo.core.mutation import Mutation
        from pymoo.core.problem import ElementwiseProblem
        from pymoo.core.sampling import Sampling
        from pymoo.optimize import minimize
    except ImportError:
        raise MissingExtraError("pymoo", "search") from None

    Z, n = ready.part.Z, ready.part.Z.shape[0]
    total = float((Z**2).sum()) or 1.0
    seeds = [(cell.k, cell.labels) for cell in cells]
    ks = sorted({k for k, _ in seeds})
    rng = np.random.default_rng(random_state)
    neighbours = cKDTree(Z).query(Z, k=min(n, 3 * ks[-1] + 1))[1]

    class Partitions(ElementwiseProblem):
        """Loss and linkage of a partition."""

        def __init__(self) -> None:
            super().__init__(n_var=1, n_obj=2)

        def _evaluate(self, x: Any, out: Keywords, *_: Any, **__: Any) -> None:
            labels = x[0][1]
            Y = group_means(Z, labels)[labels]
            found = sum_of_squares(Z, labels) / total, linked_share(Z, Y, max_records=ASKED_RECORDS)
            out["F"] = found if aim is None else _towards(found, aim)

    class Seeds(Sampling):
        """The cells of the grid, repeated until the population is full."""

        def _do(self, _: Any, n_samples: int, **__: Any) -> np.ndarray:
            X = np.empty((n_samples, 1), dtype=object)
            for i in range(n_samples):
                X[i, 0] = seeds[i % len(seeds)]
            return X

    class GroupCrossover(Crossover):
        """Whole groups of one parent, the rest as the other has it."""

        def __init__(self) -> None:
            super().__init__(2, 2)

        def _do(self, _: Any, X: np.ndarray, **__: Any) -> np.ndarray:
            Y = np.empty_like(X)
            for mating in range(X.shape[1]):
                for child in range(2):
                    Y[child, mating, 0] = _crossed(Z, X[child, mating, 0], X[1 - child, mating, 0], rng)
            return Y

    class Moves(Mutation):
        """A few random moves among neighbours."""

        def _do(self, _: Any, X: np.ndarray, **__: Any) -> np.ndarray:
            Y = np.empty_like(X)
            for i in range(X.shape[0]):
                Y[i, 0] = _moved(X[i, 0], neighbours, rng)
            return Y

    parts = {
        "pop_size": POPULATION,
        "sampling": Seeds(),
        "crossover": GroupCrossover(),
        "mutation": Moves(),
        "eliminate_duplicates": NoDuplicateElimination(),
    }
    found = minimize(
        Partitions(),
        NSGA2(**parts),
        ("n_gen", GENERATIONS),
        seed=random_state,
        verbose=False,
    )
    known = {labels.tobytes() for _, labels in seeds}
    fresh: dict[bytes, tuple[int, np.ndarray]] = {}
    for row in np.atleast_2d(found.X):
        labels = np.unique(row[0][1], return_inverse=True)[1].astype(np.int64).reshape(-1)
        if labels.tobytes() not in known:
            fresh[labels.tobytes()] = (int(np.bincount(labels).min()), labels)
    return list(fresh.values())


def _towards(found: tuple[float, float], aim: tuple[float, float]) -> tuple[float, float]:
    """Loss and linkage, both raised by how far the worse of them falls short of the aim."""
    short = max(found[0] - aim[0] / 100.0, found[1] - aim[1], 0.0)
    return found[0] + short, found[1] + short


def _crossed(
    Z: np.ndarray, first: tuple[int, np.ndarray], second: tuple[int, np.ndarray], rng: np.random.Generator
) -> tuple[int, np.ndarray]:
    """Groups of the first parent on one side of a random plane, groups of the second elsewhere."""
    k = min(first[0], second[0])
    direction = Z @ rng.normal(size=Z.shape[1])
    centres = group_means(direction[:, None], first[1])[:, 0]
    kept = (centres > np.quantile(centres, rng.random()))[first[1]]
    labels = np.where(kept, first[1], second[1] + int(first[1].max()) + 1)
    return k, repair(Z, labels, k)


def _moved(
    individual: tuple[int, np.ndarray], neighbours: np.ndarray, rng: np.random.Generator
) -> tuple[int, np.ndarray]:
    """Exchange records between neighbouring groups, or relocate one where sizes allow."""
    k, labels = individual[0], individual[1].copy()
    sizes = np.bincount(labels)
    for record in rng.integers(0, labels.size, int(rng.integers(1, MOVES))):
        other = neighbours[record, int(rng.integers(1, neighbours.shape[1]))]
        source, target = labels[record], labels[other]
        if source == target:
            continue
        if sizes[source] > k and sizes[target] < 2 * k - 1 and rng.random() < 0.5:
            labels[record] = target
            sizes[source] -= 1
            sizes[target] += 1
        else:
            labels[record], labels[other] = target, source
    return k, labels
