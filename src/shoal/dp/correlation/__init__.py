"""Models of which records go together.

A model serves two modes. In `heuristic` it reads the private table (`fit`) and gives each answering record
the weight of those it goes with (`row_influence`); that carries no guarantee. In `correlated` it is a frozen,
public, row-wise map to cells (`cell`), and the guarantee is for all rows of a cell.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from shoal.dp.correlation._dbscan import DBSCANModel
from shoal.dp.correlation._frozen import FrozenMixture
from shoal.dp.correlation._gaussian import GaussianMixtureModel, SelectedMixture
from shoal.dp.correlation._given import GivenDegrees
from shoal.dp.correlation._grid import Grid
from shoal.dp.correlation._groups import Groups
from shoal.dp.correlation._matrix import correlated_sensitivity, degree_matrix, threshold_sweep
from shoal.dp.correlation._mixture import BoundaryWarning
from shoal.dp.correlation._named import named_model
from shoal.dp.correlation._saved import load_model, save_model
from shoal.dp.correlation._similarity import Pearson, Spearman

__all__ = [
    "BoundaryWarning",
    "DBSCANModel",
    "FrozenMixture",
    "GaussianMixtureModel",
    "GivenDegrees",
    "Grid",
    "Groups",
    "Model",
    "Pearson",
    "SelectedMixture",
    "Spearman",
    "correlated_sensitivity",
    "degree_matrix",
    "load_model",
    "named_model",
    "save_model",
    "threshold_sweep",
]


@runtime_checkable
class Model(Protocol):
    """What a correlation model offers.

    Attributes
    ----------
    name : str
        Short text for the guarantee, such as ``grid(age, income)``.
    fingerprint : str
        Changes with every public fact that the map to cells depends on.
    frozen : bool
        Whether `cell` depends on nothing but the row and public facts; only then may `correlated` use it.
    n_cells : int
        Number of cells, public.
    """

    name: str
    fingerprint: str
    frozen: bool
    n_cells: int

    def fit(self, frame: pl.DataFrame) -> Model:
        """Learn the degrees from the loaded table (see `shoal.dp.loading.load.load`); for `heuristic` only."""

    def row_influence(self, weights: np.ndarray, answer: np.ndarray) -> np.ndarray | float:
        """(|Delta| w)_i for the answering rows i, or already their maximum; never through an n x n matrix.

        Parameters
        ----------
        weights : float64 array
            w_j = |f(D) - f(D without j)| per answering row.
        answer : int64 array
            Positions of the answering rows in the fitted table, rising.
        """

    def cell(self, frame: pl.DataFrame) -> np.ndarray:
        """The cell of each row of a loaded table, int64 in [0, n_cells); raises if the model is not frozen."""
