"""Which method, which k? Every combination measured, the front marked, one recommended with its reason."""

from __future__ import annotations

from shoal.comparison._grid import DEFAULT_METHODS, compare, compared
from shoal.comparison._private import TableMap, TablePoint, table_map
from shoal.comparison._result import Cell, Comparison

__all__ = [
    "DEFAULT_METHODS",
    "Cell",
    "Comparison",
    "TableMap",
    "TablePoint",
    "compare",
    "compared",
    "table_map",
]
