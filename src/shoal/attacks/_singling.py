"""Singling out: conditions read off the published table that exactly one person meets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.attacks._axes import ComparedColumn
from shoal.attacks._rates import Rate
from shoal.attacks._tables import Tables

# Fewest columns of a condition on several.
SMALLEST = 2


@dataclass(frozen=True)
class SinglingCondition:
    """Limits on some columns: of a number from `low` to `high`, of a category the code of a published label.

    Attributes
    ----------
    columns : array of int64
    low, high : arrays of float64
    row : int
        The published row it was read off, or -1.
    """

    columns: np.ndarray
    low: np.ndarray
    high: np.ndarray
    row: int = -1


def matches(condition: SinglingCondition, axes: tuple[ComparedColumn, ...], people: np.ndarray) -> int:
    """How many people meet a condition; a missing cell meets none.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.attacks._singling import SinglingCondition, matches
    >>> from types import SimpleNamespace
    >>> matches(SinglingCondition(np.array([0]), np.array([1.0]), np.array([np.inf])), (SimpleNamespace(numeric=True),),
    ...         np.array([[0.0], [2.0], [3.0]]))
    2
    """
    left: np.ndarray | slice = slice(None)  # who meets all so far: few after the first columns
    found = people.shape[0]
    for column, low, high in zip(condition.columns, condition.low, condition.high, strict=True):
        cells = people[left, column]
        if axes[column].numeric:
            kept = (cells >= low) & (cells <= high)
        else:
            known = ~np.isnan(cells)
            fits = axes[column].fits[int(low)]
            kept = known & (fits[np.where(known, cells, 0).astype(np.int64)] == 1)
        left = np.flatnonzero(kept) if isinstance(left, slice) else left[kept]
        found = left.size
        if found == 0:
            break
    return found


def univariate(tables: Tables, most: int, rng: np.random.Generator) -> list[SinglingCondition]:
    """Values that one published row has alone, and the ends of columns of numbers; at most so many, drawn."""
    columns, rows, ends = [], [], []
    for at, axis in enumerate(tables.axes):
        alone = _alone(axis)
        columns.append(np.full(alone.size, at))
        rows.append(alone)
        if axis.numeric and np.isfinite(axis.high).any() and np.isfinite(axis.low).any():
            ends.append(_on(at, -np.inf, float(axis.high[np.isfinite(axis.high)].min())))
            ends.append(_on(at, float(axis.low[np.isfinite(axis.low)].max()), np.inf))
    places = np.column_stack([np.concatenate(columns), np.concatenate(rows)])
    total = places.shape[0] + len(ends)
    chosen = np.arange(total) if total <= most else np.sort(rng.choice(total, most, replace=False))
    found = []
    for at in chosen:
        if at >= places.shape[0]:
            found.append(ends[at - places.shape[0]])
            continue
        column, row = places[at]
        axis = tables.axes[column]
        found.append(_on(column, axis.low[row], axis.high[row], int(row)))
    return found


def _alone(axis: ComparedColumn) -> np.ndarray:
    """Published rows whose cell no other row has, cells that may be anything left out."""
    order = np.lexsort((axis.high, axis.low))
    low, high = axis.low[order], axis.high[order]
    first = np.r_[True, (low[1:] != low[:-1]) | (high[1:] != high[:-1])]
    alone = first & np.r_[first[1:], True]
    if axis.numeric:
        alone &= ~(np.isinf(low) & np.isinf(high))
    return order[alone]


def _on(column: int, low: float, high: float, row: int = -1) -> SinglingCondition:
    return SinglingCondition(np.array([column]), np.array([low]), np.array([high]), row)


def multivariate(
    tables: Tables, most: int, rng: np.random.Generator, rows: np.ndarray | None = None, *, joint: bool = True
) -> list[SinglingCondition]:
    """Several cells of one published row: its categories, its numbers as limits away from the middle.

    With `joint=False` every cell comes from another row: a guess that knows the columns but no row.
    """
    width = len(tables.axes)
    if width < SMALLEST:
        return []
    middles = [np.median(axis.low[np.isfinite(axis.low)]) if axis.numeric and np.isfinite(axis.low).any() else 0.0
               for axis in tables.axes]  # fmt: skip
    chosen = np.arange(tables.n_published) if rows is None else rows
    found = []
    for _ in range(most):
        size = int(rng.integers(SMALLEST, width + 1))
        columns = np.sort(rng.choice(width, size, replace=False))
        row = int(rng.choice(chosen))
        low, high = np.empty(size), np.empty(size)
        for place, column in enumerate(columns):
            axis = tables.axes[column]
            source = row if joint else int(rng.choice(chosen))
            low[place], high[place] = axis.low[source], axis.high[source]
            if axis.numeric:
                if axis.low[source] >= middles[column]:
                    high[place] = np.inf
                else:
                    low[place] = -np.inf
        found.append(SinglingCondition(columns, low, high, row if joint else -1))
    return found


def naive_univariate(tables: Tables, most: int, rng: np.random.Generator) -> list[SinglingCondition]:
    """A published value of any column, however many rows have it."""
    found = []
    for _ in range(most):
        at, row = int(rng.integers(len(tables.axes))), int(rng.integers(tables.n_published))
        found.append(_on(at, tables.axes[at].low[row], tables.axes[at].high[row]))
    return found


def singled(conditions: list[SinglingCondition], tables: Tables, people: np.ndarray) -> Rate:
    """The share of conditions that exactly one of these people meets."""
    people = np.asfortranarray(people)  # looked through by columns
    return Rate.of(np.array([matches(each, tables.axes, people) == 1 for each in conditions], np.float64))
