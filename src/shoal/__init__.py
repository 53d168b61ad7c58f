"""Shoal protects people in data, the way a shoal hides a fish.

Two jobs, each with one spine:

- publish: `protect` turns a table of individuals into groups of at least k (`shoal.publish.pipeline`);
- answer: `Session` answers queries on a table kept in the house (`shoal.dp.session`).

The rooms, from top to bottom; each uses only what stands below it:

- `cli`, `server`, `client`, `reproduce`, `compare`: the doors
- `publish`, `release`, `report`: the first job, at any size
- `bounds`, `audit`: certificates and attacks
- `microaggregation`, `masking`, `measures`, `privacy`, `risk`, `dp`, `datasets`: the science
- `relaxation`: partitions as a linear programme, for the bounds and the search
- `io`, `engine`, `schema`, `params`, `errors`: the ground floor
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.compare import compare
    from shoal.dp.session import Session
    from shoal.microaggregation import methods
    from shoal.publish import protect
    from shoal.reproduce import reproduce

__version__ = "0.1.0"

__all__ = ["Client", "Session", "__version__", "compare", "methods", "protect", "reproduce"]

# Public names and where they live: loaded when first used, so that the command starts fast.
_LAZY = {
    "Client": "shoal.client",
    "Session": "shoal.dp.session",
    "methods": "shoal.microaggregation",
    "protect": "shoal.publish.calls",
}
# Rooms to be used by their names; `compare` and `reproduce` can be called as well.
_ROOMS = (
    "bounds",
    "compare",
    "datasets",
    "dp",
    "masking",
    "measures",
    "microaggregation",
    "privacy",
    "publish",
    "release",
    "reproduce",
    "risk",
)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"shoal.{name}")
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
