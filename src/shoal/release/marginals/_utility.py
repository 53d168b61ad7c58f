"""What a release through marginals keeps, for the owner: figures computed from the private table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.errors import ParameterError
from shoal.release.marginals._axes import MarginalAxis, encode
from shoal.release.marginals._mixture import total_variation
from shoal.release.marginals._residuals import Key, Sizes, count_table, keys_of

if TYPE_CHECKING:
    from shoal.release.marginals._attack import Membership
    from shoal.release.marginals._release import MarginalRelease
    from shoal.schema import Schema

MOST_TABLES = 2_000  # of one size, over which a mean is taken
MOST_CELLS = 1 << 20
RANGES = 300


@dataclass(frozen=True)
class RiskUtility:
    """What a release at one epsilon keeps, and what an attacker gains; for the owner only.

    Parameters
    ----------
    epsilon : float
    utility : Utility
    attack : Membership or None
        None of a release of ranges.

    Examples
    --------
    >>> from shoal.release import Membership, RiskUtility, Utility
    >>> kept = Utility((0.02, 0.05), ("age", "sex"), 0.08, None)
    >>> point = RiskUtility(1.0, kept, Membership(0.05, 0.52, 0.46, 1000))
    >>> point.epsilon, point.utility.total_variation[0], point.attack.auc
    (1.0, 0.02, 0.52)
    """

    epsilon: float
    utility: Utility
    attack: Membership | None


@dataclass(frozen=True)
class Utility:
    """How far the released rows are from the private table; for the owner only.

    Parameters
    ----------
    total_variation : tuple of float
        Mean over all tables of one, two and three columns (as many as there are).
    worst_pair : tuple of str
        The two columns whose table is furthest off, and `worst`, how far.
    ranges : float or None
        Median relative error of counts of ranges on one or two columns with an order, each met by a tenth of the
        records or more.
    subgroups : tuple of (str, float)
        Mean total variation of single columns within each level of the column asked for.
    accuracy : tuple of float or None
        Of a classifier trained on the released rows and of one trained on half of the private table, both tried on the
        other half; and of always guessing the most frequent level.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import release_marginals, utility
    >>> from shoal.schema import Column, Schema
    >>> answers = Column("answer", role="quasi", kind="category", levels=("no", "yes"))
    >>> schema = Schema({"answer": answers}, id="poll", budget=2.0)
    >>> table = pl.DataFrame({"answer": ["no"] * 40 + ["yes"] * 60})
    >>> kept = utility(release_marginals(table, schema, 2.0), table)
    >>> 0 <= kept.total_variation[0] <= 1
    True
    """

    total_variation: tuple[float, ...]
    worst_pair: tuple[str, ...]
    worst: float
    ranges: float | None
    subgroups: tuple[tuple[str, float], ...] = ()
    accuracy: tuple[float, float, float] | None = None

    @property
    def information_loss(self) -> float:
        """A hundred times the mean total variation of tables of two columns (of one where there is only one)."""
        return 100 * self.total_variation[min(1, len(self.total_variation) - 1)]


def utility(
    release: MarginalRelease,
    frame: Any,
    *,
    target: str | None = None,
    within: str | None = None,
    seed: int = 0,
) -> Utility:
    """Measure a release against the private table it was made from; for the owner only.

    Parameters
    ----------
    release : MarginalRelease
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The private table.
    target : str, optional
        A released column that a classifier is to predict.
    within : str, optional
        A released column for whose levels the figures are also given one by one.
    seed : int, default 0
        Of the ranges and halves.

    Returns
    -------
    Utility

    Examples
    --------
    >>> from shoal.datasets import load_survey, load_survey_schema
    >>> from shoal.release import release_marginals, utility
    >>> out = release_marginals(load_survey(), load_survey_schema(), 1.0)
    >>> len(utility(out, load_survey()).total_variation)
    3
    """
    from shoal.release.marginals._release import load_codes

    model = release.model
    true = load_codes(frame, release.schema, replace(release.plan, unit=_every_row(), axes=model.axes), None)
    ours = _codes(release.frame, release)
    sizes, rng = model.sizes, np.random.default_rng(seed)
    means = tuple(_mean(true, ours, sizes, way) for way in range(1, min(3, len(sizes)) + 1))
    worst, pair = _worst(true, ours, sizes)
    return Utility(
        means,
        tuple(model.names[at] for at in pair),
        worst,
        _ranges(true, ours, release, rng),
        () if within is None else _subgroups(true, ours, release, within),
        None if target is None else _accuracy(true, ours, release, target, rng),
    )


def _every_row() -> Any:
    from shoal.dp.unit import AddRemoveRecord

    return AddRemoveRecord()


def coded_rows(frame: Any, axes: Sequence[MarginalAxis]) -> np.ndarray:
    """Positions of the rows of any table that has the columns of some axes, read as their schema says.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.release import MarginalAxis, coded_rows
    >>> from shoal.schema import Column
    >>> axis = MarginalAxis(Column("sex", kind="category", levels=("female", "male")))
    >>> coded_rows(pl.DataFrame({"sex": ["male", "female"]}), [axis]).tolist()
    [[1], [0]]
    """
    from shoal.dp.loading.load import load
    from shoal.schema import Schema as Facts

    return encode(load(frame, Facts({each.name: each.column for each in axes})), axes)


def _codes(frame: pl.DataFrame, release: MarginalRelease) -> np.ndarray:
    return coded_rows(frame, release.model.axes)


def _apart(true: np.ndarray, ours: np.ndarray, key: Key, sizes: Sizes) -> float:
    first, second = (count_table(each, key, sizes) / max(1, len(each)) for each in (true, ours))
    return total_variation(first, second)


def _tables(sizes: Sizes, way: int) -> list[Key]:
    keys = (key for key in keys_of(len(sizes), (way,)) if np.prod([sizes[at] for at in key]) <= MOST_CELLS)
    return list(islice(keys, MOST_TABLES))


def _mean(true: np.ndarray, ours: np.ndarray, sizes: Sizes, way: int) -> float:
    found = [_apart(true, ours, key, sizes) for key in _tables(sizes, way)]
    return float(np.mean(found)) if found else float("nan")


def _worst(true: np.ndarray, ours: np.ndarray, sizes: Sizes) -> tuple[float, Key]:
    keys = _tables(sizes, min(2, len(sizes)))
    return max((_apart(true, ours, key, sizes), key) for key in keys)


def _ranges(
    true: np.ndarray, ours: np.ndarray, release: MarginalRelease, rng: np.random.Generator
) -> float | None:
    ordered = [at for at, each in enumerate(release.model.axes) if each.ordered and each.known > 1]
    if not ordered or not len(true):
        return None
    errors: list[float] = []
    for _ in range(20 * RANGES):
        columns = rng.choice(ordered, size=min(len(ordered), int(rng.integers(1, 3))), replace=False)
        inside = [np.ones(len(each), dtype=bool) for each in (true, ours)]
        for at in columns:
            low, high = np.sort(rng.integers(0, release.model.axes[at].known, 2))
            inside = [
                met & (each[:, at] >= low) & (each[:, at] <= high)
                for met, each in zip(inside, (true, ours), strict=True)
            ]
        count = int(inside[0].sum())
        if count >= len(true) / 10:
            errors.append(abs(int(inside[1].sum()) * len(true) / max(1, len(ours)) - count) / count)
        if len(errors) == RANGES:
            break
    return float(np.median(errors)) if errors else None


def _subgroups(
    true: np.ndarray, ours: np.ndarray, release: MarginalRelease, within: str
) -> tuple[tuple[str, float], ...]:
    from shoal.release.marginals._tables import labels

    at = release.model.key([within])[0]
    sizes, found = release.model.sizes, []
    for level, name in enumerate(labels(release.model.axes[at])):
        parts = [each[each[:, at] == level] for each in (true, ours)]
        if len(parts[0]):
            others = [key for key in _tables(sizes, 1) if key != (at,)]
            found.append(
                (
                    name,
                    float(np.mean([_apart(parts[0], parts[1], key, sizes) for key in others]))
                    if others
                    else 0.0,
                )
            )
    return tuple(found)


def _accuracy(
    true: np.ndarray, ours: np.ndarray, release: MarginalRelease, target: str, rng: np.random.Generator
) -> tuple[float, float, float]:
    from sklearn.ensemble import RandomForestClassifier

    at = release.model.key([target])[0]
    if len(release.model.axes) < 2 or len(true) < 4:
        raise ParameterError("A classifier needs two columns and four records or more.")
    half = rng.permutation(len(true)) < len(true) // 2
    train, trial = true[half], true[~half]
    scores = []
    for rows in (ours, train):
        forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
        forest.fit(np.delete(rows, at, axis=1), rows[:, at])
        scores.append(float(forest.score(np.delete(trial, at, axis=1), trial[:, at])))
    guess = np.bincount(train[:, at]).argmax()
    return scores[0], scores[1], float((trial[:, at] == guess).mean())


def risk_utility(
    frame: Any,
    schema: Schema,
    epsilons: Sequence[float],
    *,
    delta: float | None = None,
    runs: int = 2,
    like: MarginalRelease | None = None,
    **options: Any,
) -> tuple[RiskUtility, ...]:
    """What releases at several epsilons keep, and what a membership attack gains. Nothing is charged, so never show it.

    Parameters
    ----------
    frame, schema
        As released.
    epsilons : sequence of float
    delta : float, optional
    runs : int, default 2
        Of the attack at each epsilon.
    like : MarginalRelease, optional
        Its columns, bins and marginals are taken.
    **options
        Of `release_marginals`.

    Returns
    -------
    tuple of RiskUtility
    """
    from shoal.release.marginals._attack import membership
    from shoal.release.marginals._release import release_marginals

    if like is not None:
        edges = {each.name: list(each.edges[1:-1]) for each in like.model.axes if each.edges}
        options = {"columns": like.model.names, "bins": edges, "workload": like.plan.workload, **options}
    found = []
    for each in epsilons:
        own = replace(schema, per_analyst=None, budget=None)
        out = release_marginals(frame, own, each, delta=delta, **{**options, "budget": each, "ledger": None})
        attack = None if out.model.ranges else membership(frame, own, each, delta, runs=runs, like=out.plan)
        found.append(RiskUtility(each, utility(out, frame), attack))
    return tuple(found)
