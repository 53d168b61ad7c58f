"""Questions to a bought release: free, since it is public; with an interval where the error is known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from shoal.dp.answering.answer import Answer
from shoal.dp.answering.figures import labels_of
from shoal.dp.meaning.check import plain_query
from shoal.dp.sql.expressions import Compare, Predicate
from shoal.dp.sql.parse import parse
from shoal.dp.sql.query import Aggregate, Query
from shoal.dp.unit import Protected
from shoal.errors import QueryError
from shoal.release.marginals._model import BoughtModel
from shoal.release.marginals._refine import Met, leaves, meet
from shoal.schema import Schema

FREE = "answered from a release that was bought before: costs nothing"
MODELLED = "not measured together: read from the fitted model, whose error is not known"
CUT = "counts at most the declared rows of a unit: the interval is of that figure"
FILLED = "a missing cell of {} counts as a value, as the schema declares none to be missing"
CLAMPED = "values beyond the declared bounds count as the bounds"
_KINDS = ("count", "sum", "avg")
_MOST_GROUPS = 2_000
_QUANTILE = {
    "zcdp": 1.96,
    "pure": 2.2,
}  # of noise with deviation 1; sums of Laplace noise stay within the second


@dataclass(frozen=True)
class MarginalFigure:
    """An estimate and the interval that holds the true figure with 95 %, None where that is not known."""

    value: float
    interval: tuple[float, float] | None


def ask_release(
    model: BoughtModel,
    schema: Schema,
    query: str | Query,
    guarantee: str,
    currency: str,
    remaining: float = 0.0,
    unit: Protected | None = None,
) -> Answer:
    """Answer a query from a release.

    Parameters
    ----------
    model : BoughtModel
    schema : Schema
        Of the private table.
    query : str or Query
        COUNT, SUM and AVG with conditions and GROUP BY on released columns.
    guarantee : str
        Of the release.
    currency : {"pure", "zcdp"}
        What its noise is.
    remaining : float
        What is left of the budget, for the answer to say.
    unit : Protected, optional
        Of the release; where its rows were cut, the interval is of what was counted.

    Returns
    -------
    Answer
        Its epsilon is 0.
    """
    asked = parse(query, schema.id) if isinstance(query, str) else query
    if not isinstance(asked, Query):
        raise QueryError(f"A query must be SQL text or a Query. Got {type(query).__name__}.")
    asked = plain_query(asked, schema)
    _check_released(asked, model)
    said: set[str] = set()
    groups, figures = _groups(asked, schema), []
    for group in groups:
        met = meet(group.condition, model.axes)
        found = {each.name: _figure(model, met, each, _QUANTILE[currency], said) for each in asked.aggregates}
        figures.append(found)
    value, interval = _laid_out(groups, figures)
    filled = [each.name for each in model.axes if not each.missing and each.name in _named(asked)]
    notes = (FREE, CLAMPED, *(FILLED.format(name) for name in filled), *sorted(said))
    if unit is not None and unit.kind in ("column", "cell"):
        return Answer(value, guarantee, 0.0, remaining, None, (*notes, CUT), interval, (CUT,))
    return Answer(value, guarantee, 0.0, remaining, interval, notes)


def asked_of(model: BoughtModel, schema: Schema, query: str | Query) -> Query | None:
    """A query as a release understands it, if every figure of it lies in a marginal that was measured."""
    try:
        asked = parse(query, schema.id) if isinstance(query, str) else query
        asked = plain_query(asked, schema)
        if math.prod(len(labels_of(schema.columns[name])) for name in asked.groups) > _MOST_GROUPS:
            return None
    except QueryError:
        return None
    return asked if covered(model, asked) else None


def _named(query: Query) -> set[str]:
    named = {str(leaf.column) for leaf in leaves(query.condition)} | set(query.groups)
    return named | {each.column for each in query.aggregates if each.column is not None}


def covered(model: BoughtModel, query: Query) -> bool:
    """Whether every figure of a query lies in a marginal that was measured, so that its error is known."""
    named = _named(query)
    kinds = all(each.kind in _KINDS for each in query.aggregates)
    return kinds and named <= set(model.names) and model.measured(model.key(sorted(named)))


def _check_released(query: Query, model: BoughtModel) -> None:
    named = [str(leaf.column) for leaf in leaves(query.condition)] + list(query.groups)
    for aggregate in query.aggregates:
        if aggregate.kind not in _KINDS:
            raise QueryError(f"A release answers COUNT, SUM and AVG. Got {aggregate.kind.upper()}.")
        named += [aggregate.column] if aggregate.column is not None else []
    for name in named:
        if name not in model.names:
            raise QueryError(f"Column {name!r} is not in the release. It has: {', '.join(model.names)}.")


@dataclass(frozen=True)
class _Group:
    """One group of a query: the condition that its rows meet, and its level of each column of GROUP BY."""

    condition: Predicate | None
    labels: Mapping[str, Any]


def _groups(query: Query, schema: Schema) -> list[_Group]:
    """All groups of a query; one group without labels where it has no GROUP BY."""
    if not query.groups:
        return [_Group(query.condition, {})]
    levels = [labels_of(schema.columns[name]) for name in query.groups]
    if math.prod(len(each) for each in levels) > _MOST_GROUPS:
        raise QueryError(f"GROUP BY on a release may make at most {_MOST_GROUPS} groups.")
    found = []
    for chosen in product(*levels):
        label = dict(zip(query.groups, chosen, strict=True))
        condition = query.condition
        for name, level in label.items():
            here = Compare(name, "=", level)
            condition = here if condition is None else condition & here
        found.append(_Group(condition, label))
    return found


def _figure(model: BoughtModel, met: Met, aggregate: Aggregate, z: float, said: set[str]) -> MarginalFigure:
    if aggregate.kind != "avg":
        return _linear(model, met, aggregate, z, said)
    from scipy.stats import norm

    wider = z * float(norm.ppf(1 - 0.0125) / norm.ppf(1 - 0.025))  # the sum and the count both hold with 95 %
    total = _linear(model, met, Aggregate("sum", aggregate.column), wider, said)
    count = _linear(model, met, Aggregate("count", aggregate.column), wider, said)
    low, high = _bounds(model, aggregate)
    mean = min(max(total.value / max(1.0, count.value), low), high)
    if total.interval is None or count.interval is None:
        return MarginalFigure(mean, None)
    counts = [max(1.0, each) for each in count.interval]
    ends = [one / other for one in total.interval for other in counts]
    return MarginalFigure(mean, (max(low, min(ends)), min(high, max(ends))))


def _bounds(model: BoughtModel, aggregate: Aggregate) -> tuple[float, float]:
    low, high = model.axes[model.names.index(aggregate.column or "")].ends()
    return float(low.min()), float(high.max())


def _linear(model: BoughtModel, met: Met, aggregate: Aggregate, z: float, said: set[str]) -> MarginalFigure:
    """A count or sum: what each cell adds, at least, at most, and if its values are spread evenly."""
    columns = list(met.columns)
    if aggregate.column is not None and aggregate.column not in columns:
        columns.append(aggregate.column)
    key = model.key(columns)
    order = [columns.index(model.names[at]) for at in key]
    low, middle, high = (_laid(each, met, aggregate, columns, order, model) for each in range(3))
    value = model.linear(key, middle)
    if not model.measured(key):
        said.add(MODELLED)
        return MarginalFigure(value[0], None)
    least, most = model.linear(key, low), model.linear(key, high)
    ends = least[0] - z * math.sqrt(least[1] or 0.0), most[0] + z * math.sqrt(most[1] or 0.0)
    return MarginalFigure(value[0], ends)


def _laid(
    which: int,
    met: Met,
    aggregate: Aggregate,
    columns: Sequence[str],
    order: Sequence[int],
    model: BoughtModel,
) -> np.ndarray:
    """What each cell of the key adds: least (0), expected (1) or most (2)."""
    extra = len(columns) - len(met.columns)
    surely, possibly, share = (
        each.reshape(each.shape + (1,) * extra) for each in (met.surely, met.possibly, met.share)
    )
    one = np.ones(())
    if aggregate.column is not None:
        axis = model.axes[model.names.index(aggregate.column)]
        low, high = axis.ends()
        ends = [np.ones(axis.known)] * 3 if aggregate.kind == "count" else [low, (low + high) / 2, high]
        cells = np.zeros(axis.size)
        cells[: axis.known] = ends[which]
        place = columns.index(aggregate.column)
        one = cells.reshape([-1 if at == place else 1 for at in range(len(columns))])
    if which == 1:
        out = share * one
    elif which == 0:
        out = np.where(surely, one, np.where(possibly, np.minimum(one, 0), 0))
    else:
        out = np.where(surely, one, np.where(possibly, np.maximum(one, 0), 0))
    return np.transpose(out, order) if order else out


def _laid_out(groups: Sequence[_Group], figures: Sequence[Mapping[str, MarginalFigure]]) -> tuple[Any, Any]:
    """Values and intervals in the shape of an `Answer`."""
    values, intervals = [], []
    for group, found in zip(groups, figures, strict=True):
        values.append({**group.labels, **{name: each.value for name, each in found.items()}})
        intervals.append({**group.labels, **{name: each.interval for name, each in found.items()}})
    known = any(each.interval is not None for found in figures for each in found.values())
    if groups[0].labels:
        return values, intervals if known else None
    if len(values[0]) == 1:
        return next(iter(values[0].values())), next(iter(intervals[0].values()))
    return values[0], intervals[0] if known else None
