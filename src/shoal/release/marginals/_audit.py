"""Releases through marginals in the distinguishing game, faults planted in them, and an attack on membership."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.audit import Mechanism
from shoal.errors import ParameterError
from shoal.release.marginals._haar import block_counts, measure_blocks
from shoal.release.marginals._measure import measure, measure_single
from shoal.release.marginals._release import buy, load_codes, make_plan, model_of
from shoal.release.marginals._residuals import count_table
from shoal.release.marginals._spend import Measurement, Purse
from shoal.schema import Schema

_SIZES = (2, 3, 2)
_ROWS = np.array([[0, 0, 0]] * 3 + [[1, 1, 1]] * 3 + [[1, 2, 0]])
Measured = Callable[[np.ndarray, Purse], list[Measurement]]


def marginal_cases(epsilon: float) -> list[Mechanism]:
    """One record more: in marginals chosen for the data, in ranges, in a short list of scores."""
    purse = Purse("pure", Fraction(str(epsilon)))
    return [
        _game(
            "marginals chosen for the data",
            epsilon,
            purse,
            lambda codes, spent: measure(codes, _SIZES, spent),
        ),
        _game(
            "blocks of ranges",
            epsilon,
            purse,
            lambda codes, spent: measure_blocks(codes[:, :2], (2, 3), spent),
        ),
        _listed("a short list of scores", epsilon, purse.choose),
    ]


def unsplit_noise(epsilon: float) -> Mechanism:
    """A planted fault: every marginal gets the whole budget."""

    def measured(codes: np.ndarray, purse: Purse) -> list[Measurement]:
        keys = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
        return [purse.measure(count_table(codes, key, _SIZES), key, _SIZES) for key in keys]

    return _game(
        "noise too small by the number of marginals", epsilon, Purse("pure", Fraction(str(epsilon))), measured
    )


def unpaid_selection(epsilon: float) -> Mechanism:
    """A planted fault: the largest scores are taken as they are."""
    return _listed(
        "selection not paid for", epsilon, lambda scores, draws: np.argsort(-scores, kind="stable")[:draws]
    )


def bins_from_data(epsilon: float) -> Mechanism:
    """A planted fault: bins lie between the smallest and the largest value of the table."""
    tables = [np.array([1.0, 2, 3, 4, 5, 6]), np.array([1.0, 2, 3, 4, 5, 6, 60])]
    purse = Purse("pure", Fraction(str(epsilon)))

    def sample(side: int, draws: int) -> np.ndarray:
        values = tables[side]
        edges = np.linspace(values.min(), values.max(), 5)
        codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 3)[:, None]
        found = [measure_single(codes, (4,), purse)[0].numbers for _ in range(draws)]
        return np.array(found, dtype=np.float64)

    return Mechanism("bins from the data", epsilon, sample, ("first", "second", "third", "fourth"))


FAULTS = {
    "unsplit noise": unsplit_noise,
    "unpaid selection": unpaid_selection,
    "bins from data": bins_from_data,
}


def _game(name: str, epsilon: float, purse: Purse, measured: Measured) -> Mechanism:
    """A table with and without one record; its numbers, how many sets were measured, and the likelihood ratio."""
    tables = [_ROWS[:-1], _ROWS]

    def sample(side: int, draws: int) -> np.ndarray:
        rows = []
        for _ in range(draws):
            found = measured(tables[side], purse)
            ratio = sum(_ratio(each, tables) for each in found)
            first = next(each.numbers.ravel()[0] for each in found)
            whole = sum(float(each.numbers.sum()) for each in found if len(each.key) < 2)
            rows.append([float(first), whole, float(sum(len(each.key) > 1 for each in found)), ratio])
        return np.array(rows)

    return Mechanism(name, epsilon, sample, ("first number", "sum", "sets measured", "log-likelihood ratio"))


def _ratio(each: Measurement, tables: list[np.ndarray]) -> float:
    """How much more likely one measurement is without the record than with it."""
    exact = []
    for table in tables:
        counts = count_table(table, each.key, _SIZES)
        exact.append(block_counts(counts, each.levels) if each.kind.endswith("block") else counts)
    apart = [np.abs(each.numbers - here).sum() for here in exact]
    return float(apart[1] - apart[0]) / each.scale


def _listed(name: str, epsilon: float, choose: Callable[[np.ndarray, int], np.ndarray]) -> Mechanism:
    """Scores of which one record moves every one by 1, the best down and the next up: two of four are listed."""
    scores = [np.array([7, 7, 3, 3]), np.array([6, 8, 2, 4])]

    def sample(side: int, draws: int) -> np.ndarray:
        return np.array([choose(scores[side], 2) for _ in range(draws)], dtype=np.float64)

    return Mechanism(name, epsilon, sample, ("first", "second"))


@dataclass(frozen=True)
class Membership:
    """How well an attacker tells members of the released table from others.

    Parameters
    ----------
    advantage : float
        True less false positive rate of the best threshold, found on one half of the records and taken on the other.
    auc : float
        The chance that a member looks more like the release than another record; .5 is guessing.
    most : float
        The advantage that the guarantee allows: (e^epsilon - 1) / (e^epsilon + 1), and delta.
    records : int
        Records judged.
    """

    advantage: float
    auc: float
    most: float
    records: int


def membership(
    frame: Any, schema: Schema, epsilon: float, delta: float | None = None, *, runs: int = 4, seed: int = 0
) -> Membership:
    """Attack a release: which records were in the table, by how likely the released model finds them.

    For the owner: it reads the private table. Half of the records, drawn anew in each run, are released; the attacker
    sees the model and every record, and knows the shares of all of them.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
    schema : Schema
    epsilon : float
    delta : float, optional
    runs : int, default 4
    seed : int, default 0
        Of the halves.

    Returns
    -------
    Membership
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 2:
        raise ParameterError(f"'runs' must be an int of at least 2. Got {runs!r}.")
    rng = np.random.default_rng(seed)
    plan = replace(make_plan(schema, epsilon, delta, workload="tables"), workload="tables")
    codes = load_codes(frame, schema, plan, None)
    found = []
    for _ in range(runs):
        inside = rng.permutation(len(codes)) < len(codes) // 2
        model = model_of(plan, buy(plan, codes[inside]))
        found.append((_likeness(model.mixture, codes), inside))
    scores, members = (np.stack([each[at] for each in found]) for at in (0, 1))
    scores = scores - scores.mean(axis=0)  # how likely a record is in general
    advantage, auc = _advantage(scores.ravel(), members.ravel(), rng)
    most = np.tanh(plan.epsilon / 2) + (plan.delta or 0.0)
    return Membership(advantage, auc, float(most), int(members.size))


def _likeness(mixture: Any, codes: np.ndarray) -> np.ndarray:
    """The logarithm of each record's probability."""
    out = np.empty(len(codes))
    logs = np.log(np.maximum(mixture.shares, 1e-12)).astype(np.float64)
    for start in range(0, len(codes), 1_000):
        part = codes[start : start + 1_000]
        total = sum(logs[:, mixture.starts[at] + part[:, at]] for at in range(part.shape[1]))
        out[start : start + 1_000] = np.logaddexp.reduce(np.asarray(total), axis=0)
    return out


def _advantage(scores: np.ndarray, members: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    half = rng.permutation(len(scores)) < len(scores) // 2
    marks = np.quantile(scores[half], np.linspace(0.02, 0.98, 49))

    def gain(mark: float, which: np.ndarray) -> float:
        said, true = scores[which] >= mark, members[which]
        return float(said[true].mean() - said[~true].mean())

    best = max(marks, key=lambda mark: gain(mark, half))
    ranks = np.argsort(np.argsort(scores)) + 1.0
    ones = int(members.sum())
    auc = (ranks[members].sum() - ones * (ones + 1) / 2) / (ones * (len(members) - ones))
    return gain(best, ~half), float(auc)
