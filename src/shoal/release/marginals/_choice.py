"""Which sets of columns are worth their noise: decided from what was bought so far, without a look at the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.release.marginals._mixture import simplex
from shoal.release.marginals._residuals import Key, Residuals, Sizes, cell_variance, keys_of, reconstruct
from shoal.release.marginals._spend import Purse

MOST_CELLS = 1 << 20  # of a marginal that may be chosen
_NOISE_LEFT = 0.5  # of the noise on a measured marginal, about so much survives the fit
_SHARES = tuple(Fraction(each, 4) for each in range(5))  # of a round that may go to single columns once more
_DRAWS = 20


@dataclass(frozen=True)
class Division:
    """What a round buys.

    Parameters
    ----------
    singles : Fraction
        The share that goes to single columns once more.
    chosen : tuple of column positions
        The sets that the rest goes to.
    """

    singles: Fraction
    chosen: tuple[Key, ...]


def candidates(sizes: Sizes) -> list[Key]:
    """Pairs that may be measured."""
    return [
        key for key in keys_of(len(sizes), (2,)) if freedom(key, sizes) and cells(key, sizes) <= MOST_CELLS
    ]


def freedom(key: Key, sizes: Sizes) -> int:
    """Free numbers of a residual."""
    return math.prod(sizes[at] - 1 for at in key)


def cells(key: Key, sizes: Sizes) -> int:
    """Cells of a marginal."""
    return math.prod(sizes[at] for at in key)


def total_of(residuals: Residuals) -> float:
    """The number of records as measured."""
    return max(1.0, float(residuals[()].values))


def best_prefix(
    keys: Sequence[Key], scores: np.ndarray, sizes: Sizes, purse: Purse
) -> tuple[list[Key], float]:
    """The sets worth measuring, where what is learnt outweighs the noise that all of them must share, and by how much."""
    power, outer = exchange(purse)
    worth = np.array([freedom(key, sizes) ** power for key in keys])
    order = np.argsort(-scores / worth, kind="stable")
    gained = np.cumsum(np.maximum(scores[order], 0))
    net = gained - _NOISE_LEFT * lone_noise(purse) * np.cumsum(worth[order]) ** outer
    if not len(net) or net.max() <= 0:
        return [], 0.0
    best = int(np.argmax(net))
    return [keys[at] for at in order[: best + 1]], float(net[best])


def divide(
    keys: Sequence[Key], scores: np.ndarray, errors: np.ndarray, sizes: Sizes, spent: Purse, purse: Purse
) -> Division:
    """How a round is best spent: on pairs, or on single columns once more.

    Of a table of three columns the error is about that of its columns and of its pairs. Over all such tables a column's
    error counts half as often as that of all pairs it is in. In pure differential privacy a measured pair tells its columns
    too, so that single columns are bought again only where no pair is worth it.

    Parameters
    ----------
    keys : sequence of column positions
        The pairs.
    scores : array
        How far each pair is from what is known, with noise.
    errors : array
        The error to expect of each single column, in records.
    sizes : sequence of int
    spent : Purse
        What single columns have got so far.
    purse : Purse
        What the round may spend.
    """
    if purse.currency == "pure":
        whole = best_prefix(keys, scores, sizes, purse)[0]
        return Division(Fraction(0 if whole else 1), tuple(whole))
    net_of_noise = scores - np.array([math.hypot(*(errors[at] for at in key)) for key in keys])
    found = []
    for share in _SHARES:
        more = 1 + float(share * purse.amount / spent.amount)
        left = (len(sizes) - 1) / 2 * float(errors.sum()) / math.sqrt(more)
        chosen, net = (
            best_prefix(keys, net_of_noise, sizes, purse.part(1 - share)) if share < 1 else ([], 0.0)
        )
        if chosen or share == 1:
            found.append((left - net, Division(share, tuple(chosen))))
    return min(found, key=lambda each: each[0])[1]


def are_visible(count: int, total: float, purse: Purse) -> bool:
    """Whether so many scores, bought with a purse, can tell pairs apart: their noise is below half the records."""
    return purse.score_deviation(count) < total / 2


def single_errors(residuals: Residuals, sizes: Sizes, seed: int) -> np.ndarray:
    """The error to expect of each single column, in records: what noise of its size does to the column as it is known."""
    rng, total = np.random.default_rng(seed), total_of(residuals)
    found = []
    for at, size in enumerate(sizes):
        shares = simplex(reconstruct((at,), residuals, sizes) / total)
        deviation = math.sqrt(cell_variance((at,), residuals, sizes)) / total
        moved = [simplex(shares + noise) for noise in rng.normal(0, deviation, (_DRAWS, size))]
        found.append(total * float(np.mean([np.abs(each - shares).sum() for each in moved])))
    return np.array(found)


def exchange(purse: Purse) -> tuple[float, float]:
    """The power of its free numbers in which a marginal shares a purse, and the power of their sum in the noise."""
    return (0.5, 2.0) if purse.currency == "pure" else (2 / 3, 1.5)


def lone_noise(purse: Purse) -> float:
    """The mean size of the noise on one cell if all of a purse is spent on one marginal."""
    if purse.currency == "pure":
        return purse.moves / float(purse.amount)
    return purse.moves * math.sqrt(1 / (math.pi * float(purse.amount)))


def noise_allowed(key: Key, sizes: Sizes, purse: Purse) -> int:
    """What a marginal would lose by noise if all of a purse were spent on it, in records."""
    return math.ceil(_NOISE_LEFT * lone_noise(purse) * freedom(key, sizes))


def widest(total: float, purse: Purse) -> float:
    """Free numbers above which a triple would be noise even with a tenth of the purse to itself."""
    return min(MOST_CELLS, total / 2 / lone_noise(purse.part(Fraction(1, 10))))
