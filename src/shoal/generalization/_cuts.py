"""Hierarchies of numbers and dates: intervals with readable names, months and years."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shoal.errors import SchemaError
from shoal.generalization._hierarchy import Hierarchy

# Numbers without breaks of their own: intervals of so many steps, each level within the next.
WIDTHS = (5, 10, 20, 40, 80)


def from_breaks(name: str, values: Sequence[Any], breaks: Sequence[Any]) -> Hierarchy:
    """Cut numbers at breaks: 18, 35, 65 gives "below 18", "18-34", "35-64" and "65+" for whole numbers.

    Parameters
    ----------
    name : str
    values : sequence of numbers
        The values that occur.
    breaks : sequence of numbers, or of such sequences
        Where an interval begins; several sequences are several levels, each one's breaks among those below it.

    Examples
    --------
    >>> from shoal.generalization import from_breaks
    >>> from_breaks("age", [16, 17, 40, 50, 70], [18, 35, 65]).labels  # 65+ is 70 alone
    ('16', '17', '40', '50', '70', 'below 18', '35-64', '*')
    """
    several = (
        [list(each) for each in breaks] if _is_list(breaks[0] if len(breaks) else None) else [list(breaks)]
    )
    numbers = np.asarray([float(value) for value in values])
    whole = bool(np.all(numbers == np.rint(numbers)))
    finer: set[float] | None = None
    levels, inner = [], np.arange(numbers.size)
    for cuts in several:
        edges = [_number(name, cut) for cut in cuts]
        if not edges or any(b <= a for a, b in itertools.pairwise(edges)):
            raise SchemaError(f"The breaks of column {name!r} must rise. Got {cuts!r}.")
        if finer is not None and not set(edges) <= finer:
            raise SchemaError(
                f"The breaks of column {name!r} must be among those of the level below. Got {cuts!r}."
            )
        finer = set(edges)
        inner = np.searchsorted(np.asarray(edges), numbers, side="right")
        texts = interval_labels(edges, whole=whole and all(edge == int(edge) for edge in edges))
        levels.append([texts[place] for place in inner])
    return _weighed(Hierarchy.built(name, list(values), levels), numbers, whole)


def intervals(name: str, values: Sequence[Any]) -> Hierarchy:
    """Nested intervals of 5, 10, 20, ... steps for numbers without breaks, until one holds them all.

    Examples
    --------
    >>> from shoal.generalization import intervals
    >>> intervals("age", [31, 34, 52]).labels
    ('31', '34', '52', '30-34', '*')
    """
    numbers = np.asarray([float(value) for value in values])
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool(np.all(numbers == np.rint(numbers)))
    spread = high - low
    step = (
        1.0
        if whole and spread <= 200
        else 10.0 ** math.floor(math.log10(spread / 100 or 1.0))
        if spread
        else 1.0
    )
    levels = []
    for width in (each * step for each in WIDTHS):
        if width >= spread + step:
            break
        first = math.floor(low / width)
        edges = [float(f"{(first + at) * width:.12g}") for at in range(math.floor(high / width) - first + 2)]
        inner = np.searchsorted(np.asarray(edges), numbers, side="right")
        texts = interval_labels(edges, whole=whole and width >= 1)
        levels.append([texts[place] for place in inner])
    return _weighed(Hierarchy.built(name, list(values), levels), numbers, whole)


def from_dates(name: str, values: Sequence[datetime.date | datetime.datetime]) -> Hierarchy:
    """Dates to month, year and decade.

    Examples
    --------
    >>> import datetime
    >>> from shoal.generalization import from_dates
    >>> from_dates("born", [datetime.date(1980, 5, 17), datetime.date(1981, 2, 1)]).labels
    ('1980-05-17', '1981-02-01', '1980-1989')
    """
    day = [value.isoformat()[:10] for value in values]
    month = [text[:7] for text in day]
    year = [text[:4] for text in day]
    decade = [f"{text[:3]}0-{text[:3]}9" for text in day]
    moments = (
        [day, month, year, decade]
        if any(isinstance(v, datetime.datetime) for v in values)
        else [month, year, decade]
    )
    numbers = np.asarray([_days(value) for value in values])
    return _weighed(Hierarchy.built(name, list(values), moments), numbers, whole=True)


def interval_labels(edges: Sequence[float], *, whole: bool) -> list[str]:
    """Names of the intervals below, between and above edges: 35-64 for whole numbers, 1.5 to <2 else."""
    shown = [f"{edge:.12g}" for edge in edges]
    texts = [f"below {shown[0]}"]
    for at in range(len(edges) - 1):
        low, high = edges[at], edges[at + 1]
        if not whole:
            texts.append(f"{shown[at]} to <{shown[at + 1]}")
        else:
            last = f"{high - 1:.12g}"
            between = f"{shown[at]}-{last}" if low >= 0 else f"{shown[at]} to {last}"
            texts.append(shown[at] if high - 1 == low else between)
    texts.append(f"{shown[-1]}+" if whole else f"from {shown[-1]}")
    return texts


def _weighed(tree: Hierarchy, numbers: np.ndarray, whole: bool) -> Hierarchy:
    """Loss by the width of an interval, not by the number of values that happen to occur in it."""
    unit = 1.0 if whole else 0.0
    total = float(np.ptp(numbers)) + unit
    covered = np.full(tree.n_nodes, unit)
    for nodes in tree.up[1:]:
        order = np.argsort(nodes, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(nodes[order]) > 0])
        spans = np.maximum.reduceat(numbers[order], starts) - np.minimum.reduceat(numbers[order], starts)
        covered[nodes[order][starts]] = spans + unit
    return replace(tree, covered=covered, domain=total)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SchemaError(f"The breaks of column {name!r} must be numbers. Got {value!r}.") from None


def _days(value: datetime.date | datetime.datetime) -> float:
    return float(value.toordinal())
