"""Which marginals are bought: single columns first, then the sets of columns that the data depend on most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.release.marginals._mixture import simplex
from shoal.release.marginals._residuals import (
    Key,
    Residuals,
    Sizes,
    count_table,
    keys_of,
    noisy_residual,
    optimal_scales,
    reconstruct,
)
from shoal.release.marginals._spend import Measurement, Purse, residuals_of

MOST_CELLS = 1 << 20  # of a marginal that may be chosen
MOST_PAIRS = 20_000
_NOISE_LEFT = 0.5  # of the noise on a measured marginal, about so much survives the fit


@dataclass(frozen=True)
class Shares:
    """How a release divides what it may spend.

    Parameters
    ----------
    single, scores, pairs : int
        Whole weights: of the total and single columns, of the scores by which pairs are chosen, of the pairs.
    """

    single: int = 30
    scores: int = 7
    pairs: int = 63

    def part(self, purse: Purse, name: str) -> Purse:
        """What one of the three gets."""
        return purse.part(Fraction(getattr(self, name), self.single + self.scores + self.pairs))


def measure_single(codes: np.ndarray, sizes: Sizes, purse: Purse) -> list[Measurement]:
    """The total and all single columns, with the least mean total variation."""
    keys = keys_of(len(sizes), (1,))
    if purse.currency == "pure":
        each = purse.split([math.sqrt(sizes[key[0]]) for key in keys])
        public = [Measurement((), "residual", 0.0, count_table(codes, (), sizes))] if purse.replaced else []
        return public + [
            part.measure(count_table(codes, key, sizes), key, sizes)
            for part, key in zip(each, keys, strict=True)
        ]
    weights = {key: sizes[key[0]] ** (4 / 3) for key in keys}
    scales = optimal_scales(weights, sizes, purse.amount, purse.rows, purse.replaced)
    return [
        Measurement(key, "residual", scale, noisy_residual(count_table(codes, key, sizes), scale))
        for key, scale in scales.items()
    ]


def total_of(residuals: Residuals) -> float:
    """The number of records as measured."""
    return max(1.0, float(residuals[()].values))


def candidates(sizes: Sizes) -> list[Key]:
    """Pairs that may be measured."""
    return [
        key for key in keys_of(len(sizes), (2,)) if freedom(key, sizes) and _cells(key, sizes) <= MOST_CELLS
    ]


def freedom(key: Key, sizes: Sizes) -> int:
    """Free numbers of a residual."""
    return math.prod(sizes[at] - 1 for at in key)


def _cells(key: Key, sizes: Sizes) -> int:
    return math.prod(sizes[at] for at in key)


def dependence(codes: np.ndarray, keys: Sequence[Key], residuals: Residuals, sizes: Sizes) -> np.ndarray:
    """How far each pair is from independent columns, in whole numbers; one record moves each by at most 1."""
    total = total_of(residuals)
    single = [simplex(reconstruct((at,), residuals, sizes) / total) for at in range(len(sizes))]
    scores = []
    for first, second in keys:
        expected = np.rint(total * np.outer(single[first], single[second])).astype(np.int64)
        scores.append(int(np.abs(count_table(codes, (first, second), sizes) - expected).sum()))
    return np.array(scores, dtype=np.int64)


def best_prefix(keys: Sequence[Key], scores: np.ndarray, sizes: Sizes, purse: Purse) -> list[Key]:
    """The pairs worth measuring: where what is learnt outweighs the noise that all of them must share."""
    power, unit = _exchange(purse)
    worth = np.array([freedom(key, sizes) ** power for key in keys])
    order = np.argsort(-scores / worth, kind="stable")
    gained = np.cumsum(np.maximum(scores[order], 0))
    noise = _NOISE_LEFT * unit * np.cumsum(worth[order]) ** (1 / power if power == 0.5 else 1.5)
    net = gained - noise
    best = int(np.argmax(net)) + 1 if len(net) and net.max() > 0 else 0
    return [keys[at] for at in order[:best]]


def _exchange(purse: Purse) -> tuple[float, float]:
    """Total noise of marginals that share a purse: unit * (sum of freedom^power)^(...)."""
    lone = purse.rows * (2 if purse.replaced else 1)
    if purse.currency == "pure":
        return 0.5, lone / float(purse.amount)
    return 2 / 3, lone * math.sqrt(1 / (math.pi * float(purse.amount)))


def measure_pairs(codes: np.ndarray, chosen: Sequence[Key], sizes: Sizes, purse: Purse) -> list[Measurement]:
    """The pairs chosen, each with the share that makes their mean total variation least."""
    if not chosen:
        return []
    power = _exchange(purse)[0]
    parts = purse.split([freedom(key, sizes) ** power for key in chosen])
    return [
        part.measure(count_table(codes, key, sizes), key, sizes)
        for part, key in zip(parts, chosen, strict=True)
    ]


def measure(codes: np.ndarray, sizes: Sizes, purse: Purse, shares: Shares | None = None) -> list[Measurement]:
    """Everything that is bought, in order; what each step buys depends on what the steps before it gave."""
    shares = shares or Shares()
    if len(candidates(sizes)) == 0:
        return measure_single(codes, sizes, purse)
    bought = measure_single(codes, sizes, shares.part(purse, "single"))
    known = residuals_of(bought)
    keys = candidates(sizes)
    noisy = shares.part(purse, "scores").noisy_scores(dependence(codes, keys, known, sizes))[0]
    rest = shares.part(purse, "pairs")
    chosen = best_prefix(keys, noisy, sizes, rest)
    return bought + measure_pairs(codes, chosen, sizes, rest)
