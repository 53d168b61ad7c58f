"""Fitness for use: the figures that must still come out of a published table, and utility in general."""

from __future__ import annotations

from shoal.utility._estimates import Estimate, overlap, quantile, ratio, total
from shoal.utility._formulas import check_formula, columns_of
from shoal.utility._general import General, general
from shoal.utility._indicators import Fitness, KeptFigure, check_indicators, figure_text, fitness
from shoal.utility._models import guessed

__all__ = [
    "Estimate",
    "Fitness",
    "General",
    "KeptFigure",
    "check_formula",
    "check_indicators",
    "columns_of",
    "figure_text",
    "fitness",
    "general",
    "guessed",
    "overlap",
    "quantile",
    "ratio",
    "total",
]
