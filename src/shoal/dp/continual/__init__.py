"""Figures over time: rows come period by period, and the running total is told after each, for one charge at the start."""

from __future__ import annotations

from shoal.dp.continual._state import State, state_of
from shoal.dp.continual._stream import Step, Stream, open_stream, told
from shoal.dp.continual._toeplitz import Toeplitz, toeplitz
from shoal.dp.continual._tree import Tree, best_tree

__all__ = [
    "State",
    "Step",
    "Stream",
    "Toeplitz",
    "Tree",
    "best_tree",
    "open_stream",
    "state_of",
    "toeplitz",
    "told",
]
