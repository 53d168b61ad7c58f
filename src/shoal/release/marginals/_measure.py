"""Which marginals are bought: single columns first, then the sets of columns that the data depend on most."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.release.marginals._choice import (
    are_visible,
    best_prefix,
    candidates,
    cells,
    divide,
    exchange,
    freedom,
    noise_allowed,
    single_errors,
    total_of,
    widest,
)
from shoal.release.marginals._mixture import ITERATIONS, fit, simplex
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

MOST_SETS = 6_000  # marginals that may be asked for
_SINGLE = 30.0  # how much the variance of single columns counts beside that of larger sets
LISTED = {"zcdp": 60, "pure": 20}  # triples on the short list


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
        On how far pairs of columns are from what is known, and on the pairs chosen.
    errors, triples : int
        On how wrong the model then is about triples, and on the triples chosen; 0 for none.
    rounds : int
        In how many equal parts pairs are chosen, each after the model has learnt from those before. In pure differential
        privacy halves lose more than they teach: there it is one.
    """

    total: int = 1
    single: int = 49
    scores: int = 7
    pairs: int = 43
    errors: int = 0
    triples: int = 0
    rounds: int = 1

    @property
    def weights(self) -> int:
        """All weights together."""
        return sum(vars(self).values()) - self.rounds

    def part(self, purse: Purse, name: str) -> Purse:
        """What one of them gets."""
        return purse.part(Fraction(getattr(self, name), self.weights))


POOR, MIDDLE, RICH = Shares(), Shares(1, 34, 6, 59, rounds=2), Shares(1, 13, 3, 46, 4, 33, rounds=2)


def shares_for(total: float, purse: Purse) -> Shares:
    """The division for so many records: little budget goes to single columns, much of it to larger sets.

    Both figures are public, and all three divisions add up to the same.
    """
    root = float(purse.amount) / 8 if purse.currency == "pure" else math.sqrt(float(purse.amount))
    power = total * root / purse.moves
    return POOR if power < 1_500 else MIDDLE if power < 10_000 else RICH


def measure_single(codes: np.ndarray, sizes: Sizes, purse: Purse) -> list[Measurement]:
    """The total and all single columns, with the least mean total variation."""
    weights = {key: sizes[key[0]] ** (4 / 3) for key in keys_of(len(sizes), (1,))}
    return _measured_once(codes, sizes, purse, weights)


def measure_asked(codes: np.ndarray, asked: Sequence[Key], sizes: Sizes, purse: Purse) -> list[Measurement]:
    """All single columns and the marginals asked for, without any choice: by the best split of theorem 2.

    In pure differential privacy each gets the share that makes their mean total variation least.
    """
    keys = [*keys_of(len(sizes), (1,)), *asked]
    weights = {key: cells(key, sizes) * (_SINGLE if len(key) == 1 else 1.0) for key in keys}
    return _measured_once(codes, sizes, purse, weights)


def _measured_once(
    codes: np.ndarray, sizes: Sizes, purse: Purse, weights: Mapping[Key, float]
) -> list[Measurement]:
    """Marginals measured without any choice: in zCDP by their weights, else by the roots of their sizes."""
    if purse.currency == "pure":
        parts = purse.split([math.sqrt(cells(key, sizes)) for key in weights])
        public = [Measurement((), "residual", 0.0, count_table(codes, (), sizes))] if purse.replaced else []
        return public + [
            part.measure(count_table(codes, key, sizes), key, sizes)
            for part, key in zip(parts, weights, strict=True)
        ]
    scales = optimal_scales(weights, sizes, purse.amount, purse.rows, purse.replaced)
    return [
        Measurement(key, "residual", scale, noisy_residual(count_table(codes, key, sizes), scale))
        for key, scale in scales.items()
    ]


def dependence(codes: np.ndarray, keys: Sequence[Key], residuals: Residuals, sizes: Sizes) -> np.ndarray:
    """How far each pair is from independent columns, in whole numbers; one record moves each by at most 1."""
    total = total_of(residuals)
    single = [simplex(reconstruct((at,), residuals, sizes) / total) for at in range(len(sizes))]
    expected = ((key, total * np.outer(*(single[at] for at in key))) for key in keys)
    return _distances(codes, expected, sizes)


def _distances(codes: np.ndarray, expected: Iterable[tuple[Key, np.ndarray]], sizes: Sizes) -> np.ndarray:
    """How far tables are from what is expected of them, in whole numbers; one record moves each by at most 1."""
    found = [
        int(np.abs(count_table(codes, key, sizes) - np.rint(each).astype(np.int64)).sum())
        for key, each in expected
    ]
    return np.array(found, dtype=np.int64)


def measure_sets(codes: np.ndarray, chosen: Sequence[Key], sizes: Sizes, purse: Purse) -> list[Measurement]:
    """The sets chosen, each with the share that makes their mean total variation least."""
    if not chosen:
        return []
    power = exchange(purse)[0]
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
    total = total_of(residuals_of(bought))
    shares = shares_for(total, purse)
    if not are_visible(len(keys), total, shares.part(purse, "scores")):
        return bought + measure_single(codes, sizes, purse.part(1 - Fraction(shares.total, shares.weights)))
    bought += measure_single(codes, sizes, shares.part(purse, "single"))
    bought += measure_pairs(codes, keys, sizes, purse, shares, bought, seed)
    if shares.triples and len(sizes) > 2:
        bought += _triples(codes, sizes, purse, shares, bought, seed)
    return bought


def measure_pairs(
    codes: np.ndarray,
    keys: Sequence[Key],
    sizes: Sizes,
    purse: Purse,
    shares: Shares,
    known: Sequence[Measurement],
    seed: int,
    steps: int = ITERATIONS // 2,
) -> list[Measurement]:
    """Pairs that are furthest from what is known, round by round; what they are not worth goes to single columns."""
    bought: list[Measurement] = []
    spent, even = shares.part(purse, "single"), [1.0] * (1 if purse.currency == "pure" else shares.rounds)
    rounds = zip(
        shares.part(purse, "scores").split(even), shares.part(purse, "pairs").split(even), strict=True
    )
    for for_scores, purse_of_round in rounds:
        residuals = residuals_of([*known, *bought])
        scores = for_scores.noisy_scores(_unexplained(codes, keys, residuals, sizes, seed, steps))
        errors = single_errors(residuals, sizes, seed)
        found = divide(keys, scores, errors, sizes, spent, purse_of_round)
        if found.singles:
            again = purse_of_round.part(found.singles)
            bought += measure_single(codes, sizes, again)
            spent = spent.with_amount(spent.amount + again.amount)
        bought += measure_sets(codes, found.chosen, sizes, purse_of_round.part(1 - found.singles))
    return bought


def _unexplained(
    codes: np.ndarray, keys: Sequence[Key], residuals: Residuals, sizes: Sizes, seed: int, steps: int
) -> np.ndarray:
    """How far each pair is from what is known: from independent columns first, then from a quick fit."""
    if all(len(key) < 2 for key in residuals):
        return dependence(codes, keys, residuals, sizes)
    total = total_of(residuals)
    mixture = fit(total, residuals, sizes, seed, iterations=steps)
    return _distances(codes, ((key, total * mixture.marginal(key)) for key in keys), sizes)


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
    keys = [key for key in keys_of(len(sizes), (3,)) if 0 < freedom(key, sizes) <= widest(total, for_triples)]
    if not keys:
        return []
    mixture = fit(total, known, sizes, seed)
    wrong = _distances(codes, ((key, total * mixture.marginal(key)) for key in keys), sizes)
    count = min(len(keys), LISTED[purse.currency])
    each = for_triples.part(Fraction(1, count))
    noise = np.array([noise_allowed(key, sizes, each) for key in keys])
    first, second = shares.part(purse, "errors").split([1, 1])
    listed = first.choose(wrong - noise, count)
    noisy = second.noisy_scores(wrong[listed])
    chosen = best_prefix([keys[at] for at in listed], noisy, sizes, for_triples)[0]
    return measure_sets(codes, chosen, sizes, for_triples)
