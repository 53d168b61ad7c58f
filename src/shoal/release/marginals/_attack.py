"""An attack on a release through marginals: telling records of the table from others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.errors import ParameterError
from shoal.release.marginals._axes import encode
from shoal.release.marginals._plan import MarginalPlan, make_plan
from shoal.release.marginals._release import buy, load_rows, model_of
from shoal.schema import Schema


@dataclass(frozen=True)
class Membership:
    """How well an attacker distinguishes members of the released table from others.

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

    Examples
    --------
    >>> from shoal.release import Membership
    >>> found = Membership(advantage=0.05, auc=0.52, most=0.46, records=1000)
    >>> found.advantage <= found.most
    True
    """

    advantage: float
    auc: float
    most: float
    records: int


def membership(
    frame: Any,
    schema: Schema,
    epsilon: float,
    delta: float | None = None,
    *,
    runs: int = 4,
    seed: int = 0,
    like: MarginalPlan | None = None,
) -> Membership:
    """Attack a release: guess which records were in the table, from their likelihood under the released model.

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
    like : MarginalPlan, optional
        Of another release, whose axes and marginals are taken.

    Returns
    -------
    Membership

    Examples
    --------
    >>> from shoal import datasets
    >>> from shoal.release import membership
    >>> found = membership(datasets.load_survey(), datasets.load_survey_schema(), 1.0, runs=2)
    >>> found.auc < 0.7, round(found.most, 2)
    (True, 0.46)
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 2:
        raise ParameterError(f"'runs' must be an int of at least 2. Got {runs!r}.")
    rng = np.random.default_rng(seed)
    plan = make_plan(schema, epsilon, delta, workload="tables")
    if like is not None:
        plan = replace(plan, axes=like.axes, sets=like.sets, zeros=like.zeros)
    rows = load_rows(frame, schema, plan, None)
    codes = encode(rows, plan.axes)
    found = []
    for _ in range(runs):
        inside = rng.permutation(len(codes)) < len(codes) // 2
        model = model_of(plan, buy(plan, rows.filter(inside)))
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
