"""Streams under the auditor: one row of one period, seen in all running totals together."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shoal.audit._game import Mechanism
from shoal.dp.continual import Tree
from shoal.dp.mechanisms.discrete_laplace import laplace

PERIODS = 12
TREE = Tree(PERIODS, 5, 2)  # two levels, as long streams have; so few periods alone would have one
STAGES = (1_000, 4_000)
_OTHERS = 3  # rows of each period


def streamed(
    name: str, epsilon: float, period: int, *, levels: int | None = None, kept: bool = True
) -> Mechanism:
    """The totals of a stream in which one period has a row more, or not.

    `levels` says how often a row is counted in the noise, `kept` whether a node's noise stays.
    """
    tree = TREE
    scale = Fraction(tree.levels if levels is None else levels) / Fraction(epsilon)

    def sample(side: int, draws: int) -> np.ndarray:
        noise: dict[tuple[int, int], np.ndarray] = {}

        def noise_of(node: tuple[int, int]) -> np.ndarray:
            if node not in noise or not kept:
                noise[node] = laplace(np.zeros(draws, dtype=np.int64), scale)
            return noise[node]

        totals = [
            tree.total(at, np.full(draws, _OTHERS * at + (side and at >= period)), noise_of)
            for at in range(1, PERIODS + 1)
        ]
        shown = np.stack(totals, axis=1).astype(np.float64)
        return np.concatenate(
            [shown, shown.sum(axis=1, keepdims=True), _evidence(tree, shown, period)], axis=1
        )

    names = tuple(f"total {at}" for at in range(1, PERIODS + 1))
    return Mechanism(name, epsilon, sample, (*names, "the sum of all totals", "what single nodes say"))


def _evidence(tree: Tree, shown: np.ndarray, period: int) -> np.ndarray:
    """Log-likelihood ratio, but for its scale, of the totals that are one node which holds the row."""
    found = np.zeros((len(shown), 1))
    for at in range(1, PERIODS + 1):
        nodes = tree.nodes(at)
        level, place = nodes[0][1]
        size = tree.base**level
        if len(nodes) == 1 and place * size < period <= (place + 1) * size:
            apart = shown[:, at - 1 : at] - _OTHERS * at
            found += np.abs(apart) - np.abs(apart - 1)
    return found


STREAMS: tuple[Callable[[float], Mechanism], ...] = (
    lambda e: streamed("a row of the first period", e, 1),
    lambda e: streamed("a row in the middle", e, 8),
    lambda e: streamed("a row of the last period", e, PERIODS),
)
