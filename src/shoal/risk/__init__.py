"""The risk that people are found by what an intruder knows: in the sample and in the population behind it."""

from __future__ import annotations

from shoal.risk._composition import Composition, composition
from shoal.risk._earlier import Intersection, intersection, joint_classes
from shoal.risk._loglinear import ModelRisk, log_linear_risk
from shoal.risk._measure import Risk, column_risks, measure, survey_weights, weights_in
from shoal.risk._population import PopulationUniqueness, population_uniqueness
from shoal.risk._posterior import posterior_risk
from shoal.risk._uniques import MOST_SUBSETS, Suda, suda

__all__ = [
    "MOST_SUBSETS",
    "Composition",
    "Intersection",
    "ModelRisk",
    "PopulationUniqueness",
    "Risk",
    "Suda",
    "column_risks",
    "composition",
    "intersection",
    "joint_classes",
    "log_linear_risk",
    "measure",
    "population_uniqueness",
    "posterior_risk",
    "suda",
    "survey_weights",
    "weights_in",
]
