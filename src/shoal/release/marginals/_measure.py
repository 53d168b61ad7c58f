"""Which marginals are bought: single columns first, then the sets of columns that the data depend on most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.release.marginals._mixture import fit, simplex
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
MOST_SETS = 6_000  # marginals that may be asked for
_SINGLE = 30.0  # how much the variance of single columns counts beside that of larger sets
LISTED = {"zcdp": 60, "pure": 20}  # triples on the short list
_NOISE_LEFT = 0.5  # of the noise on a measured marginal, about so much survives the fit


@dataclass(frozen=True)
class Shares:
    """How a release divides what it may spend, in whole weights.

    Parameters
    ----------
    total : int
        On the number of records, from which the other weights follow.
    single : int
        On single columns.
    scores, pairs : int
        On how much pairs of columns depend, and on the pairs chosen.
    errors, triples : int
        On how wrong the model then is about triples, and on the triples chosen; 0 for none.
    """

    total: int = 1
    single: int = 49
    scores: int = 7
    pairs: int = 43
    errors: int = 0
    triples: int = 0

    def part(self, purse: Purse, name: str) -> Purse:
        """What one of them gets."""
        return purse.part(Fraction(getattr(self, name), sum(vars(self).values())))


POOR, MIDDLE, RICH = Shares(), Shares(1, 34, 6, 59), Shares(1, 13, 3, 46, 4, 33)


def shares_for(total: float, purse: Purse) -> Shares:
    """The division for so many records: little budget goes to single columns, much of it to larger sets.

    Both figures are public, and all three divisions add up to the same.
    """
    root = float(purse.amount) / 8 if purse.currency == "pure" else math.sqrt(float(purse.amount))
    power = total * root / purse.moves
    return POOR if power < 1_500 else MIDDLE if power < 10_000 else RICH


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


def measure_asked(codes: np.ndarray, asked: Sequence[Key], sizes: Sizes, purse: Purse) -> list[Measurement]:
    """All single columns and the marginals asked for, without any choice: by the best split of theorem 2.

    In pure differential privacy each gets the share that makes their mean total variation least.
    """
    keys = [*keys_of(len(sizes), (1,)), *asked]
    if purse.currency == "pure":
        parts = purse.split([math.sqrt(_cells(key, sizes)) for key in keys])
        public = [Measurement((), "residual", 0.0, count_table(codes, (), sizes))] if purse.replaced else []
        return public + [
            part.measure(count_table(codes, key, sizes), key, sizes)
            for part, key in zip(parts, keys, strict=True)
        ]
    weights = {key: _cells(key, sizes) * (_SINGLE if len(key) == 1 else 1.0) for key in keys}
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
    power, outer = _exchange(purse)
    worth = np.array([freedom(key, sizes) ** power for key in keys])
    order = np.argsort(-scores / worth, kind="stable")
    gained = np.cumsum(np.maximum(scores[order], 0))
    noise = _NOISE_LEFT * _lone_noise(purse) * np.cumsum(worth[order]) ** outer
    net = gained - noise
    best = int(np.argmax(net)) + 1 if len(net) and net.max() > 0 else 0
    return [keys[at] for at in order[:best]]


def _exchange(purse: Purse) -> tuple[float, float]:
    """The power of its free numbers in which a marginal shares a purse, and the power of their sum in the noise."""
    return (0.5, 2.0) if purse.currency == "pure" else (2 / 3, 1.5)


def measure_sets(codes: np.ndarray, chosen: Sequence[Key], sizes: Sizes, purse: Purse) -> list[Measurement]:
    """The sets chosen, each with the share that makes their mean total variation least."""
    if not chosen:
        return []
    power = _exchange(purse)[0]
    parts = purse.split([freedom(key, sizes) ** power for key in chosen])
    return [
        part.measure(count_table(codes, key, sizes), key, sizes)
        for part, key in zip(parts, chosen, strict=True)
    ]


def measure(codes: np.ndarray, sizes: Sizes, purse: Purse, seed: int = 0) -> list[Measurement]:
    """Everything that is bought, in order; what each step buys depends on what the steps before it gave.

    Parameters
    ----------
    codes : int64 array
        Positions, records in rows.
    sizes : sequence of int
    purse : Purse
        What may be spent; it is not exceeded.
    seed : int
        Of the fit between the steps; touches no data.
    """
    keys = candidates(sizes)
    if not keys:
        return measure_single(codes, sizes, purse)
    bought = [POOR.part(purse, "total").measure(count_table(codes, (), sizes), (), sizes)]
    shares = shares_for(total_of(residuals_of(bought)), purse)
    bought += measure_single(codes, sizes, shares.part(purse, "single"))
    known = residuals_of(bought)
    noisy = shares.part(purse, "scores").noisy_scores(dependence(codes, keys, known, sizes))[0]
    for_pairs = shares.part(purse, "pairs")
    bought += measure_sets(codes, best_prefix(keys, noisy, sizes, for_pairs), sizes, for_pairs)
    if shares.triples and len(sizes) > 2:
        bought += _triples(codes, sizes, purse, shares, bought, seed)
    return bought


def _triples(
    codes: np.ndarray,
    sizes: Sizes,
    purse: Purse,
    shares: Shares,
    bought: Sequence[Measurement],
    seed: int,
) -> list[Measurement]:
    """Triples that the model fitted so far gets most wrong: a short list by the exponential mechanism, then scores."""
    known = residuals_of(bought)
    total, for_triples = total_of(known), shares.part(purse, "triples")
    keys = [
        key for key in keys_of(len(sizes), (3,)) if 0 < freedom(key, sizes) <= _widest(total, for_triples)
    ]
    if not keys:
        return []
    mixture = fit(total, known, sizes, seed)
    wrong = [
        int(
            np.abs(
                count_table(codes, key, sizes) - np.rint(total * mixture.marginal(key)).astype(np.int64)
            ).sum()
        )
        for key in keys
    ]
    count = min(len(keys), LISTED[purse.currency])
    each = for_triples.part(Fraction(1, count))
    noise = [math.ceil(_NOISE_LEFT * _lone_noise(each) * freedom(key, sizes)) for key in keys]
    first, second = shares.part(purse, "errors").split([1, 1])
    listed = first.choose(np.array(wrong) - np.array(noise), count)
    noisy = second.noisy_scores(np.array(wrong)[listed])[0]
    chosen = best_prefix([keys[at] for at in listed], noisy, sizes, for_triples)
    return measure_sets(codes, chosen, sizes, for_triples)


def _lone_noise(purse: Purse) -> float:
    """The mean size of the noise on one cell if all of a purse is spent on one marginal."""
    if purse.currency == "pure":
        return purse.moves / float(purse.amount)
    return purse.moves * math.sqrt(1 / (math.pi * float(purse.amount)))


def _widest(total: float, purse: Purse) -> float:
    """Free numbers above which a triple would be noise even with a tenth of the purse to itself."""
    return min(MOST_CELLS, total / 2 / _lone_noise(purse.part(Fraction(1, 10))))
