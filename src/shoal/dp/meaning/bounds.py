"""Declared bounds as the engine keeps numbers."""

from __future__ import annotations

import datetime
import math

from shoal.errors import QueryError
from shoal.schema import Column


def finite_bounds(column: Column) -> tuple[float, float]:
    """Declared bounds as floats (dates in days, ordered levels by position)."""
    if column.kind == "ordered":
        return 0.0, float(len(column.levels or ()) - 1)
    assert column.bounds is not None  # query.check has seen to it
    low, high = (_as_number(each) for each in column.bounds)
    if not (math.isfinite(low) and math.isfinite(high) and max(abs(low), abs(high)) <= 1e100):
        raise QueryError(f"The declared bounds of column {column.name!r} must be numbers within 1e100.")
    return low, high


def _as_number(value: object) -> float:
    if hasattr(value, "toordinal"):
        return float(value.toordinal())
    if isinstance(value, str):
        return float(datetime.date.fromisoformat(value).toordinal())
    return float(value)  # type: ignore[arg-type]
