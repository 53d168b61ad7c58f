"""Risk of sample uniques by a log-linear model of the table that their keys span."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Integral
from typing import Any

import numpy as np

from shoal.errors import ParameterError
from shoal.params import Interval, check_params
from shoal.privacy.cells import cells_of, names_of, opened
from shoal.privacy.classes import classes_of
from shoal.risk._measure import survey_weights
from shoal.typing import Json

# Cells of the table of all combinations that a model with interactions may hold: 160 MB.
MOST_CELLS = 20_000_000
ROUNDS = 200


@dataclass(frozen=True)
class ModelRisk:
    """What a log-linear model says about the sample uniques.

    Attributes
    ----------
    population_uniques : float
        tau 1: sample uniques expected to be unique in the population.
    correct_matches : float
        tau 2: sample uniques expected to be matched rightly with the population.
    individual : array of float64, (n_records,)
        Expectation of 1 / (class size in the population) for sample uniques, 0 for other records.
    order : int
        Interactions in the model: 1 independence, 2 all pairs.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"a": [1, 1, 2, 2], "b": [1, 1, 1, 2], "w": [10.0] * 4})
    >>> found = risk.log_linear_risk(table, ["a", "b"], weights="w", order=1)
    >>> round(found.population_uniques, 3), found.individual.round(2).tolist(), found.order
    (0.011, [0.0, 0.0, 0.07, 0.22], 1)
    """

    population_uniques: float
    correct_matches: float
    individual: np.ndarray
    order: int

    def to_dict(self) -> Json:
        """The figures without the records."""
        return {
            "population_uniques": self.population_uniques,
            "correct_matches": self.correct_matches,
            "order": self.order,
        }


def log_linear_risk(frame: Any, quasi: Sequence[str] | str, *, weights: str, order: int = 2) -> ModelRisk:
    """Estimate the risk of sample uniques from a Poisson model of all combinations of the keys.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame, pyarrow.Table
    quasi : str or sequence of str
    weights : str
        Column of survey weights; a class's sampling fraction is its records by their weights.
    order : int, default 2
        Largest interaction: 1 takes the keys as independent (fast at any size), 2 keeps all pairs as they are.

    Returns
    -------
    ModelRisk

    Notes
    -----
    With lambda the fitted count of a combination and pi its sampling fraction, the rest of the population there is
    Poisson with mean h = lambda (1 - pi) / pi; a sample unique is unique with exp(-h) and is matched rightly with
    (1 - exp(-h)) / h [1]_. sdcMicro's `modRisk` leaves the division by pi out and divides by the number of
    combinations. The fit is by iterative proportional fitting; independence overstates the risk, too many
    interactions understate it.

    References
    ----------
    .. [1] C. J. Skinner, N. Shlomo (2008). Assessing identification risk in survey microdata using log-linear models.
       JASA 103(483), 989-1001. doi:10.1198/016214507000001328

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import risk
    >>> table = pl.DataFrame({"a": [1, 1, 2, 2], "b": [1, 1, 1, 2], "w": [10.0] * 4})
    >>> found = risk.log_linear_risk(table, ["a", "b"], weights="w", order=1)
    >>> round(found.correct_matches, 3)
    0.294
    """
    names = names_of(quasi, "quasi")
    check_params("log_linear_risk", {"order": Interval(Integral, 1)}, {"order": order})
    order = min(order, len(names))
    table = opened(frame, [*names, weights])
    columns = cells_of(table, names, dense=True)
    codes = np.stack([each.codes - each.base for each in columns], axis=1).astype(np.int64)
    shape = tuple(int(column.max()) + 1 for column in codes.T)
    classes = classes_of(columns)
    fitted = _independent(codes, shape) if order == 1 else _interacting(codes, shape, order)
    around = np.bincount(classes.labels, weights=survey_weights(table, weights), minlength=classes.n_classes)
    fraction = np.minimum(classes.sizes / around, 1.0)[classes.labels]
    rest = fitted * (1.0 - fraction) / fraction
    alone = classes.sizes[classes.labels] == 1
    safe = np.where(rest > 1e-12, -np.expm1(-rest) / np.maximum(rest, 1e-12), 1.0)
    individual = np.where(alone, safe, 0.0)
    return ModelRisk(
        population_uniques=float(np.exp(-rest[alone]).sum()),
        correct_matches=float(individual.sum()),
        individual=individual,
        order=order,
    )


def _independent(codes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """N times the product of the columns' shares, for each record's combination."""
    n = codes.shape[0]
    fitted = np.full(n, float(n))
    for column, levels in zip(codes.T, shape, strict=True):
        fitted *= (np.bincount(column, minlength=levels) / n)[column]
    return fitted


def _interacting(codes: np.ndarray, shape: tuple[int, ...], order: int) -> np.ndarray:
    """Iterative proportional fitting of all margins of one order, for each record's combination."""
    if math.prod(shape) > MOST_CELLS:
        raise ParameterError(
            f"A model with interactions needs at most {MOST_CELLS:,} combinations of the keys. "
            f"Got {math.prod(shape):,}; 'order' 1 has no such limit."
        )
    seen = np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=math.prod(shape)).reshape(shape)
    fitted = np.full(shape, codes.shape[0] / math.prod(shape))
    width = len(shape)
    margins = []
    for kept in combinations(range(width), order):
        rest = tuple(axis for axis in range(width) if axis not in kept)
        margins.append((rest, seen.sum(axis=rest, keepdims=True).astype(np.float64)))
    for _ in range(ROUNDS):
        largest = 0.0
        for rest, wanted in margins:
            got = fitted.sum(axis=rest, keepdims=True)
            ratio = np.divide(wanted, got, out=np.zeros_like(got), where=got > 0)
            largest = max(largest, float(np.abs(got - wanted).max()))
            fitted *= ratio
        if largest < 1e-4:
            break
    return fitted[tuple(codes.T)]
