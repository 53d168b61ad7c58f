"""How likely a draw is under a table, if the plan is what was drawn by: the most telling statistic there is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shoal.dp.answering.exact import Totals
from shoal.dp.answering.noise import (
    contributions,
    cut_sums,
    distances,
    histograms,
    mean_scores,
    outermost,
    rows_of_units,
)
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import LimitChoices, Mean, Ranks, Release, Sums
from shoal.dp.answering.truncation import cut_scores
from shoal.dp.mechanisms.currency import PURE

Likelihood = Callable[[np.ndarray], np.ndarray]
_NODES, _PARTS = np.polynomial.legendre.leggauss(80)


def log_likelihood(plan: Plan, exact: tuple[Totals, ...]) -> Callable[[tuple[np.ndarray, ...]], np.ndarray]:
    """Draws of `add_noise` to the logarithm of their probability, up to a constant that no table moves."""
    parts = [_of(release, totals) for release, totals in zip(plan.releases, exact, strict=True)]
    return lambda noisy: np.sum([part(drawn) for part, drawn in zip(parts, noisy, strict=True)], axis=0)


def _of(release: Release, totals: Totals) -> Likelihood:
    if isinstance(release, Sums):
        return _sums(release, totals)
    return _mean(release, totals) if isinstance(release, Mean) else _ranks(release, totals)


def _sums(release: Sums, totals: Totals) -> Likelihood:
    if release.steps is None:
        values = cut_sums(release, totals, None if release.limit.column is None else release.most)
        noise = release.noise()
        return lambda drawn: noise.log_density(drawn - values).sum(axis=1)
    steps = release.steps
    chosen = _log_shares(cut_scores(contributions(release, totals)[1], steps.limits), release, steps)
    tables = {limit: cut_sums(release, totals, limit) for limit in steps.limits}
    noises = {limit: release.noise(limit) for limit in steps.limits}

    def likelihood(drawn: np.ndarray) -> np.ndarray:
        found = np.empty(len(drawn))
        for place, limit in enumerate(steps.limits):
            rows = drawn[:, 0] == limit
            apart = drawn[rows, 1:] - tables[limit]
            found[rows] = chosen[place] + noises[limit].log_density(apart).sum(axis=1)
        return found

    return likelihood


def _mean(release: Mean, totals: Totals) -> Likelihood:
    """Of limit and average; the width, drawn after them, is left to the other events."""
    scores = mean_scores(release, totals).astype(np.float64)
    weights = np.log([float(each) for each in release.steps.weights])[:, None]
    logs = _normalised(weights - float(release.rate) * scores)
    return lambda drawn: logs[drawn[:, 0], drawn[:, 1]]


def _ranks(release: Ranks, totals: Totals) -> Likelihood:
    kept = outermost(release, totals)

    def tables(limit: int | None) -> list[np.ndarray]:
        rate = float(release.rate(limit))
        found = histograms(release, kept, limit)
        logs = flip_logs if release.currency == PURE else lambda nats: _normalised(-nats)
        return [logs(rate * distances(release, each, limit).astype(np.float64)) for each in found]

    if release.steps is None:
        logs = tables(None)
        return lambda drawn: np.sum([each[drawn[:, at]] for at, each in enumerate(logs)], axis=0)
    steps = release.steps
    chosen = _log_shares(cut_scores(rows_of_units(kept), steps.limits), release, steps)
    by_limit = {limit: tables(limit) for limit in steps.limits}

    def likelihood(drawn: np.ndarray) -> np.ndarray:
        found = np.empty(len(drawn))
        for place, limit in enumerate(steps.limits):
            rows = drawn[:, 0] == limit
            logs = [each[drawn[rows, 1 + at]] for at, each in enumerate(by_limit[limit])]
            found[rows] = chosen[place] + np.sum(logs, axis=0)
        return found

    return likelihood


def _log_shares(scores: np.ndarray, release: Sums | Ranks, steps: LimitChoices) -> np.ndarray:
    weights = np.log([float(each) for each in steps.weights])
    return _normalised(weights - float(release.score_rate) * scores)


def _normalised(logs: np.ndarray) -> np.ndarray:
    largest = logs.max()
    return logs - largest - np.log(np.exp(logs - largest).sum())


def flip_logs(nats: np.ndarray) -> np.ndarray:
    """Logarithms of permute-and-flip's probabilities, p_i * integral over [0, 1] of prod_{j != i} (1 - p_j t)."""
    heads = np.exp(-(nats - nats.min()))
    nodes = (_NODES + 1) / 2
    apart = np.log1p(-np.outer(heads, nodes))
    others = apart.sum(axis=0) - apart
    return np.log(np.maximum(heads * (np.exp(others) @ (_PARTS / 2)), 1e-300))
