"""Shoal protects people in data, the way a shoal hides a fish.

Two jobs:

- publish: `protect` turns a table of individuals into groups of at least k (`shoal.publish.pipeline`);
- answer: `Session` answers queries on a table that stays where it is (`shoal.dp.session`).

The packages, from top to bottom; each uses only those below it:

- `cli`, `server`, `client`, `research`, `comparison`: the ways in
- `evidence`: attacks on what is published, saved runs, the dossier
- `publish`, `release`, `attacks`, `report`: the first job, at any size, and what an intruder would find
- `bounds`, `audit`: certificates and the auditor
- `microaggregation`, `generalization`, `masking`, `measures`, `privacy`, `risk`, `utility`, `dp`, `datasets`: the science
- `relaxation`: partitions as a linear programme, for the bounds and the search
- `io`, `engine`, `schema`, `params`, `scenarios`, `errors`, `lazy`: what all others use
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import loaded_when_used

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.comparison import compare
    from shoal.dp.session import Session
    from shoal.evidence import attack
    from shoal.microaggregation import methods
    from shoal.publish import protect
    from shoal.research import reproduce
    from shoal.schema import Schema

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Schema",
    "Session",
    "__version__",
    "attack",
    "compare",
    "methods",
    "protect",
    "reproduce",
]

# Public names and where they live: loaded when first used, so that the command starts fast. No module of this package
# may have one of these names, since importing it would replace the object.
_LAZY = {
    "Client": "shoal.client",
    "Schema": "shoal.schema",
    "Session": "shoal.dp.session",
    "attack": "shoal.evidence",
    "compare": "shoal.comparison",
    "methods": "shoal.microaggregation",
    "protect": "shoal.publish",
    "reproduce": "shoal.research",
}
# Packages that can be used without importing them by name.
_PACKAGES = (
    "attacks",
    "bounds",
    "comparison",
    "datasets",
    "dp",
    "evidence",
    "masking",
    "measures",
    "microaggregation",
    "privacy",
    "publish",
    "release",
    "research",
    "risk",
    "utility",
)


__getattr__ = loaded_when_used(__name__, _LAZY | dict.fromkeys(_PACKAGES, ""))


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
