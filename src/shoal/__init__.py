"""Shoal protects people in data, as a shoal protects a fish.

It does two jobs:

- publish: `protect` puts individuals into groups of at least k and publishes the groups (`shoal.publish.pipeline`);
- answer: `Session` answers queries about a table that stays private (`shoal.dp.session`).

The packages, from top to bottom. Each uses only packages below it:

- `cli`, `server`, `client`, `research`, `comparison`: what users call
- `evidence`: attacks on what is published, saved runs, the dossier
- `publish`, `release`, `attacks`, `report`: the first job, for tables of any size, and what an intruder would find
- `bounds`, `audit`: proofs of how good a result is, and tests of our own privacy claims
- `risk`, `utility`: what an intruder is expected to find, and what analysts can still do
- `microaggregation`, `generalization`, `rules`, `masking`, `measures`, `privacy`, `dp`, `datasets`: the methods
- `relaxation`: partitions as a linear programme, for the bounds and the search
- `io`, `engine`, `schema`, `params`, `scenarios`, `errors`, `typing`, `lazy`: what all others use
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

# Public names and their modules. They are loaded when first used, so the command starts fast. No module of this package may
# have one of these names, because importing it would replace the object.
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
