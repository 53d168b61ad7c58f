"""Which method, which k? Every combination measured, the front marked, one recommended with its reason."""

from __future__ import annotations

from shoal.compare._grid import DEFAULT_METHODS, Cell, Comparison, compare
from shoal.rooms import callable_as

__all__ = ["DEFAULT_METHODS", "Cell", "Comparison", "compare"]

callable_as(__name__, compare)
