"""Truthful protection of categorical keys: values coarsened along hierarchies, or single cells made missing.

One engine serves both: suppression is recoding with two levels, the value and nothing. Nothing is averaged
or drawn, so that every released cell is true.
"""

from __future__ import annotations

from shoal.generalization._base import Recoder
from shoal.generalization._conditions import Conditions
from shoal.generalization._cuts import from_breaks, from_dates, intervals
from shoal.generalization._generalize import OBJECTIVES, Generalize
from shoal.generalization._hierarchy import Hierarchy, read_hierarchies
from shoal.generalization._suppress import READINGS, Suppress

__all__ = [
    "OBJECTIVES",
    "READINGS",
    "Conditions",
    "Generalize",
    "Hierarchy",
    "Recoder",
    "Suppress",
    "from_breaks",
    "from_dates",
    "intervals",
    "read_hierarchies",
]
