"""How much was lost, and how much can still be found out: arrays in, numbers out."""

from __future__ import annotations

from shoal.measures._answers import mean_relative_error, relative_error
from shoal.measures._evaluate import CellMeasures, Evaluation, cell_measures, evaluate
from shoal.measures._linkage import Linkage, probabilistic_linkage
from shoal.measures._loss import il1, il2, moments, propensity
from shoal.measures._probabilistic import ProbabilisticLoss, information_theoretic_loss, pil
from shoal.measures._risk import dld, drisk, interval_disclosure, linked_share, sought_records
from shoal.measures._tables import coordinates

__all__ = [
    "CellMeasures",
    "Evaluation",
    "Linkage",
    "ProbabilisticLoss",
    "cell_measures",
    "coordinates",
    "dld",
    "drisk",
    "evaluate",
    "il1",
    "il2",
    "information_theoretic_loss",
    "interval_disclosure",
    "linked_share",
    "mean_relative_error",
    "moments",
    "pil",
    "probabilistic_linkage",
    "propensity",
    "relative_error",
    "sought_records",
]
