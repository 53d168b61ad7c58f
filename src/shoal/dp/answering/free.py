"""Answers that cost nothing, because they follow from what was bought before. A session looks here before it spends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from shoal.dp.answering.answer import Answer
from shoal.dp.sql.query import Query

LAPLACE = math.log(20)  # scales of a bought count or sum that hold 95 % of its noise
GAUSSIAN = 1.96


class Bought(Protocol):
    """A release about a data set that can answer questions."""

    def free(self, query: str | Query, dataset: str, analyst: str, version: str) -> Answer | None:
        """The answer, if it follows from what this analyst holds and its error is known; else None."""


def free_answer(
    releases: Sequence[Bought],
    query: str | Query,
    dataset: str,
    analyst: str,
    version: str,
    widths: Callable[[], Mapping[str, float]],
) -> Answer | None:
    """A free answer that is at least as exact as the one to be paid for.

    Parameters
    ----------
    releases : sequence of Bought
    query : str or Query
    dataset, analyst, version : str
    widths : callable
        Gives half of the 95 % interval that each figure of the answer to be paid for would have, where that is known.

    Returns
    -------
    Answer or None
    """
    for each in releases:
        found = each.free(query, dataset, analyst, version)
        if found is not None and _exact_enough(found, widths()):
            return found
    return None


def _exact_enough(answer: Answer, widths: Mapping[str, float]) -> bool:
    """Whether no interval is wider than the noise to be paid for would make it."""
    interval = answer.interval if answer.cut_interval is None else answer.cut_interval
    if interval is None:
        return False
    rows = interval if isinstance(interval, list) else [interval]
    return all(_narrow(row, widths) for row in rows)


def _narrow(row: Any, widths: Mapping[str, float]) -> bool:
    if not isinstance(row, Mapping):
        return _within(row, next(iter(widths.values()), None))
    figures = {name: ends for name, ends in row.items() if isinstance(ends, tuple) or ends is None}
    return all(_within(ends, widths.get(name)) for name, ends in figures.items())


def _within(ends: Any, half: float | None) -> bool:
    if ends is None or None in tuple(ends):
        return False
    return half is None or ends[1] - ends[0] <= 2 * half
