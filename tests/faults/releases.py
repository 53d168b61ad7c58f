"""Faults planted in releases: the auditor must refute each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shoal.audit import Mechanism
from shoal.release._audit import ranked_case
from shoal.release.marginals._audit import (
    SIZES,
    listed,
    marginal_game,
    ranked,
    rounds_game,
)
from shoal.release.marginals._measure import measure_sets, measure_single
from shoal.release.marginals._residuals import count_table
from shoal.release.marginals._spend import Measurement, Purse


def noise_per_copy(epsilon: float) -> Mechanism:
    """Every printed copy of a centroid gets noise of its own."""
    once = ranked_case(epsilon)

    def sample(side: int, draws: int) -> np.ndarray:
        copies = [once.sample(side, draws)[:, 3:4] for _ in range(5)]  # the group that the record leaps into
        return np.concatenate([*copies, np.sum(copies, axis=0)], axis=1)

    return Mechanism("noise per copy", epsilon, sample, (*(f"copy {at}" for at in range(5)), "their sum"))


def unsplit_noise(epsilon: float) -> Mechanism:
    """Every marginal gets the whole budget."""

    def measured(codes: np.ndarray, purse: Purse) -> list[Measurement]:
        keys = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
        return [purse.measure(count_table(codes, key, SIZES), key, SIZES) for key in keys]

    return marginal_game(
        "noise too small by the number of marginals", epsilon, Purse("pure", Fraction(str(epsilon))), measured
    )


def unpaid_selection(epsilon: float) -> Mechanism:
    """The largest scores are taken as they are."""
    return listed(
        "selection not paid for", epsilon, lambda scores, draws: np.argsort(-scores, kind="stable")[:draws]
    )


def bins_from_data(epsilon: float) -> Mechanism:
    """Bins lie between the smallest and the largest value of the table."""
    tables = [np.array([1.0, 2, 3, 4, 5, 6]), np.array([1.0, 2, 3, 4, 5, 6, 60])]
    purse = Purse("pure", Fraction(str(epsilon)))

    def sample(side: int, draws: int) -> np.ndarray:
        values = tables[side]
        edges = np.linspace(values.min(), values.max(), 5)
        codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 3)[:, None]
        found = [measure_single(codes, (4,), purse)[0].numbers for _ in range(draws)]
        return np.array(found, dtype=np.float64)

    return Mechanism("bins from the data", epsilon, sample, ("first", "second", "third", "fourth"))


def unpaid_bins(epsilon: float) -> Mechanism:
    """Bins lie between the ranks of the table as they are."""
    return ranked(
        "bins by rank not paid for",
        epsilon,
        lambda cells, axis: (0.0, *np.quantile(cells, [0.25, 0.5, 0.75], method="lower"), 8.0),
    )


def unpaid_rounds(epsilon: float, rounds: int = 8) -> Mechanism:
    """Each of some rounds measures its pair with what all of them may spend."""

    def measured(codes: np.ndarray, purse: Purse) -> list[Measurement]:
        pairs = rounds // 2 * ((0, 1), (1, 2))
        return [each for pair in pairs for each in measure_sets(codes, [pair], SIZES, purse)]

    return rounds_game("later rounds not paid for", epsilon, measured)


MARGINAL_FAULTS = {
    "unpaid rounds": unpaid_rounds,
    "unsplit noise": unsplit_noise,
    "unpaid selection": unpaid_selection,
    "bins from data": bins_from_data,
    "unpaid bins": unpaid_bins,
}
