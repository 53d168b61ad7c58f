"""Faults planted between a file's bytes and the log: the auditor must find each from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.audit._game import Mechanism
from shoal.audit._outside import FILES, House, beyond_the_cap, seen, timed, yesterday
from shoal.dp.mechanisms.selection import exp_between, permute_and_flip
from shoal.schema import Schema

_RATE_STEPS = 4000


def _inferred(path: Path, schema: Schema) -> Any:
    """A reader that takes a column's type from the whole table."""
    try:
        return pl.read_csv(path, infer_schema_length=None)
    except pl.exceptions.PolarsError:
        return pl.read_csv(path, infer_schema_length=None, encoding="utf8-lossy")


def _of_rows(table: Any) -> str:
    return hashlib.sha256(table.write_csv().encode()).hexdigest()[:32]


def _unsalted(facts: str) -> str:
    return hashlib.sha256(facts.encode()).hexdigest()


def over_distinct(distances: np.ndarray, rate: Any) -> int:
    """A sampler whose work goes with the number of different distances."""
    steps, where = np.unique(distances, return_inverse=True)
    weights = [exp_between(rate * int(step - steps[0]), 64)[1] for step in steps]
    reached = list(accumulate(weight * int((where == at).sum()) for at, weight in enumerate(weights)))
    return int(np.searchsorted(np.array(reached, dtype=object), reached[-1] // 2))


def quantile_tables() -> list[np.ndarray]:
    """Distances of a median's candidates, without and with a person whose 300 rows all differ."""
    from fractions import Fraction

    from shoal.dp.answering.noise import distances
    from shoal.dp.answering.releases import Grid, Limit, Ranks

    release = Ranks("quantile", 1_000_000, "x", Grid(0.0, 1.0, 1001), Limit(300), 1, Fraction(1, 2))
    heap, spread = np.zeros(1001, dtype=np.int64), np.zeros(1001, dtype=np.int64)
    heap[500] = 2000
    spread[np.arange(300) * 3] = 1
    return [distances(release, each) for each in (heap, heap + spread)]


def sampled(sampler: Callable[..., Any], name: str, epsilon: float) -> Mechanism:
    """The timing game on one sampler."""
    from fractions import Fraction

    tables, rate = quantile_tables(), Fraction(1, _RATE_STEPS)
    return timed(lambda side: sampler(tables[side], rate), name, epsilon)


OUTSIDE_FAULTS: dict[str, Callable[[float], Mechanism]] = {
    "types-inferred-from-the-table": lambda e: seen(FILES[0], House(read=_inferred), e),
    "key-unsalted": lambda e: seen(FILES[0], House(version=_of_rows, key_of=_unsalted), e),
    "version-from-rows": lambda e: yesterday(FILES[0], House(version=_of_rows), e),
    "cap-read-from-the-session": lambda e: beyond_the_cap(House(own_caps=True), e),
    "sampler-over-distinct-values": lambda e: sampled(over_distinct, "a sampler over distinct distances", e),
}
OUTSIDE: tuple[Callable[[float], Mechanism], ...] = (
    *(lambda e, pair=pair: seen(pair, None, e) for pair in FILES),
    lambda e: yesterday(FILES[0], None, e),
    lambda e: beyond_the_cap(None, e),
    lambda e: sampled(permute_and_flip, "permute-and-flip on a grid of a thousand", e),
)
