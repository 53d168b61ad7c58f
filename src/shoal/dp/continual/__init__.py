"""Figures over time: rows come period by period, and the running total is told after each, for one charge at the start."""

from __future__ import annotations

from shoal.dp.continual._state import OpenedStream, State, state_of
from shoal.dp.continual._stream import NUMBERS, PeriodTotal, Stream, is_paid, open_stream, reopen, told
from shoal.dp.continual._toeplitz import Toeplitz, toeplitz
from shoal.dp.continual._tree import PeriodTree, best_tree

__all__ = [
    "NUMBERS",
    "OpenedStream",
    "PeriodTotal",
    "PeriodTree",
    "State",
    "Stream",
    "Toeplitz",
    "best_tree",
    "is_paid",
    "open_stream",
    "reopen",
    "state_of",
    "toeplitz",
    "told",
]
