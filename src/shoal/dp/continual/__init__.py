"""Figures over time: rows come period by period, and the running total is told after each, for one charge at the start."""

from __future__ import annotations

from shoal.dp.continual._state import State, state_of
from shoal.dp.continual._stream import Step, Stream, is_paid, open_stream, reopen, told
from shoal.dp.continual._toeplitz import Toeplitz, toeplitz
from shoal.dp.continual._tree import Tree, best_tree

__all__ = [
    "State",
    "Step",
    "Stream",
    "Toeplitz",
    "Tree",
    "best_tree",
    "is_paid",
    "open_stream",
    "reopen",
    "state_of",
    "toeplitz",
    "told",
]
