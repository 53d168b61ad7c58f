"""Streams under the auditor: one row of one period, seen in all running totals together."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shoal.audit._game import Mechanism
from shoal.dp.continual import PeriodTree, toeplitz
from shoal.dp.mechanisms.discrete_gaussian import gaussian, gaussian_scale
from shoal.dp.mechanisms.discrete_laplace import laplace

PERIODS = 12
TREE = PeriodTree(PERIODS, 5, 2)  # two levels, as long streams have; so few periods alone would have one
STAGES = (1_000, 4_000)
_OTHERS = 3  # rows of each period


def streamed(
    name: str,
    epsilon: float,
    period: int,
    *,
    levels: int | None = None,
    kept: bool = True,
    short: float = 1.0,
) -> Mechanism:
    """The totals of a stream in which one period has a row more, or not.

    `levels` says how often a row is counted in the noise, `kept` whether a node's noise stays, `short` by how much the
    noise is too small.
    """
    tree = TREE
    scale = Fraction(tree.levels if levels is None else levels) / Fraction(epsilon) / Fraction(short)

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
    return Mechanism(name, epsilon, sample, (*names, "the sum of all totals", "the likelihood ratio"))


def _evidence(tree: PeriodTree, shown: np.ndarray, period: int) -> np.ndarray:
    """Log-likelihood ratio of all totals, but for its scale: the noise of each node that is used follows from them."""
    used = sorted({node for at in range(1, PERIODS + 1) for _, node in tree.nodes(at)})
    signs = np.zeros((PERIODS, len(used)))
    for at in range(1, PERIODS + 1):
        for sign, node in tree.nodes(at):
            signs[at - 1, used.index(node)] += sign
    exact = _OTHERS * np.arange(1, PERIODS + 1)
    noise = np.round((shown - exact) @ np.linalg.inv(signs).T)
    holds = np.array(
        [place * tree.base**level < period <= (place + 1) * tree.base**level for level, place in used]
    )
    return (np.abs(noise) - np.abs(noise - holds)).sum(axis=1, keepdims=True)


def streamed_rho(
    name: str, rho: float, period: int, *, short: float = 1.0, weights: bool = True
) -> Mechanism:
    """The same of a stream counted in rho: what is released in each period, and the totals made of it.

    `short` and `weights` (whether the noise allows for a row's weight in later periods) are for planted faults.
    """
    shape = toeplitz(PERIODS)
    moved = np.array(
        [shape.weighted([int(at == period) for at in range(1, now + 1)]) for now in range(1, PERIODS + 1)]
    )
    exact = np.array([shape.weighted([_OTHERS] * now) for now in range(1, PERIODS + 1)])
    square = shape.squared if weights else shape.weights[0] ** 2
    scale = gaussian_scale(Fraction(square) / (2 * Fraction(rho)) / Fraction(short) ** 2)

    def sample(side: int, draws: int) -> np.ndarray:
        told = gaussian(np.broadcast_to(exact + side * moved, (draws, PERIODS)), scale).astype(np.float64)
        back = np.array(
            [[shape.back[now - at] if at <= now else 0.0 for at in range(PERIODS)] for now in range(PERIODS)]
        )
        ratio = (told - exact) @ moved / scale**2  # of normal noise, but for a constant
        return np.concatenate([told @ back.T, ratio[:, None]], axis=1)

    names = tuple(f"total {at}" for at in range(1, PERIODS + 1))
    return Mechanism(name, rho, sample, (*names, "the likelihood ratio"), rho=True)


STREAMS: tuple[Callable[[float], Mechanism], ...] = (
    lambda e: streamed("a row of the first period", e, 1),
    lambda e: streamed("a row in the middle", e, 8),
    lambda e: streamed("a row of the last period", e, PERIODS),
    lambda e: streamed_rho("in rho: a row of the first period", e, 1),
    lambda e: streamed_rho("in rho: a row of the last period", e, PERIODS),
)
