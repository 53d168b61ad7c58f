"""Releases through marginals in the distinguishing game."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from shoal.audit import Mechanism
from shoal.release.marginals._axes import MarginalAxis
from shoal.release.marginals._choice import candidates
from shoal.release.marginals._haar import block_counts, measure_blocks
from shoal.release.marginals._measure import Shares, measure, measure_asked, measure_pairs, measure_single
from shoal.release.marginals._quantiles import bins_by_rank
from shoal.release.marginals._residuals import count_table, scaled_residual
from shoal.release.marginals._spend import Measurement, Purse
from shoal.schema import Column

SIZES = (2, 3, 2)
STEPS = 5  # of the fit between the rounds, which sees no data
TWO_ROUNDS = Shares(0, 1, 1, 18, rounds=2)
_DEPENDENT = np.array([[0, 0, 0], [1, 1, 1], [1, 2, 1]] * 20)
_ROWS = np.array([[0, 0, 0]] * 3 + [[1, 1, 1]] * 3 + [[1, 2, 0]])
Measured = Callable[[np.ndarray, Purse], list[Measurement]]


def marginal_cases(epsilon: float) -> list[Mechanism]:
    """One record more: in marginals chosen for the data, in ranges, in a short list of scores."""
    purse = Purse("pure", Fraction(str(epsilon)))
    return [
        marginal_game(
            "marginals chosen for the data",
            epsilon,
            purse,
            lambda codes, spent: measure(codes, SIZES, spent),
        ),
        marginal_game(
            "blocks of ranges",
            epsilon,
            purse,
            lambda codes, spent: measure_blocks(codes[:, :2], (2, 3), spent),
        ),
        marginal_game(
            "a replaced record",
            epsilon,
            Purse("pure", Fraction(str(epsilon)), replaced=True),
            lambda codes, spent: measure(codes, SIZES, spent),
            (_ROWS, np.concatenate([_ROWS[:-1], [[0, 0, 1]]])),
        ),
        marginal_game(
            "a unit of two rows",
            epsilon,
            Purse("pure", Fraction(str(epsilon)), rows=2),
            lambda codes, spent: measure_asked(codes, [(0, 1), (0, 1, 2)], SIZES, spent),
            (_ROWS[:-1], np.concatenate([_ROWS, [[1, 2, 0]]])),
        ),
        listed("a short list of scores", epsilon, purse.choose),
        ranked("bins by rank", epsilon, lambda cells, axis: bins_by_rank(cells, axis, 4, purse)),
        rounds_game("pairs chosen in two rounds", epsilon, in_two_rounds),
    ]


def in_two_rounds(codes: np.ndarray, purse: Purse) -> list[Measurement]:
    """Single columns with little, then pairs in two rounds; the second looks at what the first left unexplained."""
    single = measure_single(codes, SIZES, TWO_ROUNDS.part(purse, "single"))
    return single + measure_pairs(codes, candidates(SIZES), SIZES, purse, TWO_ROUNDS, single, 0, STEPS)


def rounds_game(name: str, rho: float, measured: Measured) -> Mechanism:
    """One record more in a table whose columns depend on each other; the amount is a rho."""
    purse = Purse("zcdp", Fraction(str(rho)))
    return marginal_game(name, rho, purse, measured, (_DEPENDENT, np.concatenate([_DEPENDENT, [[0, 2, 1]]])))


def marginal_game(
    name: str,
    epsilon: float,
    purse: Purse,
    measured: Measured,
    tables: Sequence[np.ndarray] = (_ROWS[:-1], _ROWS),
) -> Mechanism:
    """Two neighbours; the numbers told, how many sets were measured, and the likelihood ratio."""

    def sample(side: int, draws: int) -> np.ndarray:
        rows = []
        for _ in range(draws):
            found = measured(tables[side], purse)
            found = [each for each in found if each.scale]  # a public number tells nothing
            ratio = sum(_ratio(each, tables) for each in found)
            first = next(each.numbers.ravel()[0] for each in found)
            whole = sum(float(each.numbers.sum()) for each in found if len(each.key) < 2)
            rows.append([float(first), whole, float(sum(len(each.key) > 1 for each in found)), ratio])
        return np.array(rows)

    columns = ("first number", "sum", "sets measured", "log-likelihood ratio")
    return Mechanism(name, epsilon, sample, columns, rho=purse.currency == "zcdp")


def _ratio(each: Measurement, tables: Sequence[np.ndarray]) -> float:
    """How much more likely one measurement is without the record than with it."""
    exact = []
    for table in tables:
        counts = count_table(table, each.key, SIZES)
        if each.kind == "residual":
            counts = scaled_residual(counts)
        exact.append(block_counts(counts, each.levels) if each.kind.endswith("block") else counts)
    if each.kind == "residual":
        squares = [float(((each.numbers - here) ** 2).sum()) for here in exact]
        return (squares[1] - squares[0]) / (2 * each.scale**2)
    apart = [np.abs(each.numbers - here).sum() for here in exact]
    return float(apart[1] - apart[0]) / each.scale


def listed(name: str, epsilon: float, choose: Callable[[np.ndarray, int], np.ndarray]) -> Mechanism:
    """Scores of which one record moves every one by 1, the best down and the next up: two of four are listed."""
    scores = [np.array([7, 7, 3, 3]), np.array([6, 8, 2, 4])]

    def sample(side: int, draws: int) -> np.ndarray:
        return np.array([choose(scores[side], 2) for _ in range(draws)], dtype=np.float64)

    return Mechanism(name, epsilon, sample, ("first", "second"))


def ranked(
    name: str, epsilon: float, bins: Callable[[np.ndarray, MarginalAxis], Sequence[float]]
) -> Mechanism:
    """Numbers with and without one at the end: the ends of their bins."""
    axis = MarginalAxis(Column("x", bounds=(0, 8), step=1), (0.0, 8.0))
    tables = [np.array([0.0, 1, 1, 6]), np.array([0.0, 1, 1, 6, 7])]

    def sample(side: int, draws: int) -> np.ndarray:
        found = np.full((draws, 3), -1.0)
        for at in range(draws):
            inner = list(bins(tables[side], axis))[1:-1]
            found[at, : len(inner)] = inner
        return found

    return Mechanism(name, epsilon, sample, ("first", "second", "third"))
