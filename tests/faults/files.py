"""Faults planted between a file's bytes and the log: the auditor must find each from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.audit import FILES, Mechanism
from shoal.audit._outside import Deployment, beyond_the_cap, sampled, seen, yesterday
from shoal.dp.mechanisms.selection import exp_between
from shoal.schema import Schema


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


FAULTS: dict[str, Callable[[float], Mechanism]] = {
    "types-inferred-from-the-table": lambda e: seen(FILES[0], Deployment(read=_inferred), e),
    "key-unsalted": lambda e: seen(FILES[0], Deployment(version=_of_rows, key_of=_unsalted), e),
    "version-from-rows": lambda e: yesterday(FILES[0], Deployment(version=_of_rows), e),
    "cap-read-from-the-session": lambda e: beyond_the_cap(Deployment(own_caps=True), e),
    "sampler-over-distinct-values": lambda e: sampled(over_distinct, "a sampler over distinct distances", e),
}
