"""The matrix of degrees for the owner's eyes: small tables only, since it is what the models never build."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from shoal.dp.correlation._dbscan import DBSCANModel
from shoal.dp.correlation._gaussian import MixtureModel
from shoal.dp.correlation._given import GivenDegrees
from shoal.dp.correlation._largest import Profiles
from shoal.dp.correlation._similarity import Similarity
from shoal.errors import ParameterError

READABLE = 2000


def degree_matrix(model: Any) -> np.ndarray:
    """Delta, the degrees between all records of a fitted model: the owner's, and private.

    Parameters
    ----------
    model : Spearman, Pearson, DBSCANModel, GaussianMixtureModel, SelectedMixture or GivenDegrees
        Fitted on at most 2,000 records.

    Returns
    -------
    float64 array (n, n)
        In [-1, 1], ones on the diagonal. The sensitivity takes their absolute values; given degrees were
        stored without a sign.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.dp.correlation import Spearman, degree_matrix
    >>> frame = pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 1.0], "c": [7.0, 8.0, 0.0]})
    >>> degree_matrix(Spearman(preprocessing="raw").fit(frame)).round(3).tolist()
    [[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    degrees = _degrees(model)
    np.fill_diagonal(degrees, 1.0)
    return degrees


def correlated_sensitivity(values: Any, degrees: np.ndarray) -> tuple[np.ndarray, float]:
    """CS_i of each record and CS_f, their maximum, from |f(D) - f(D without j)| and the degrees.

    Parameters
    ----------
    values : array (n,)
        What the answer changes by when record j is taken out.
    degrees : array (n, n)

    Returns
    -------
    (float64 array (n,), float)

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.dp.correlation import correlated_sensitivity
    >>> correlated_sensitivity([3, 1, 2, 6], np.eye(4))[1]
    6.0
    """
    each = np.abs(np.asarray(degrees, dtype=np.float64)) @ np.abs(np.asarray(values, dtype=np.float64))
    return each, float(each.max(initial=0.0))


def _degrees(model: Any) -> np.ndarray:
    if isinstance(model, GivenDegrees):
        factor, matrix = model._factor, model._matrix
        if matrix is not None:
            return matrix.copy()
        assert factor is not None  # one of the two was given
        _check(len(factor))
        return factor @ factor.T
    if isinstance(model, MixtureModel):
        memberships = model.memberships_
        if memberships is None:
            raise ParameterError("The model must be fitted before its degrees can be read.")
        _check(len(memberships))
        shared = memberships @ memberships.T
        profiles = getattr(model, "_profiles", None)
        return shared if profiles is None else shared * _cosines(profiles)
    if isinstance(model, Similarity | DBSCANModel):
        if model._profiles is None:
            raise ParameterError("The model must be fitted before its degrees can be read.")
        _check(len(model._profiles))
        degrees = _cosines(model._profiles)
        if isinstance(model, Similarity):
            return np.where(np.abs(degrees) >= model.threshold * (1 - 1e-12), degrees, 0.0)
        together = (model.labels_[:, None] == model.labels_) & (model.labels_[:, None] >= 0)
        return np.where(together, degrees, 0.0)
    raise ParameterError(f"Degrees can be read of the dissertation's models. Got {type(model).__name__}.")


def _cosines(profiles: Profiles) -> np.ndarray:
    product = profiles.square[:, None] * profiles.square
    dot = profiles.values @ profiles.values.T
    return np.where(product > 0, dot / np.sqrt(np.where(product > 0, product, 1.0)), 0.0)


def _check(n: int) -> None:
    if n > READABLE:
        raise ParameterError(f"Degrees are shown for at most {READABLE} records. Got {n}.")


def threshold_sweep(
    model: type[Similarity], frame: pl.DataFrame, weights: Any, thresholds: Any, **options: Any
) -> dict[float, float]:
    """CS_f of a whole table for several thresholds delta_0: what leaving weak degrees out does to the noise.

    Parameters
    ----------
    model : Spearman or Pearson
    frame : polars.DataFrame
        The loaded table: the owner's.
    weights : array (n,)
        |f(D) - f(D without j)| of each record; ones for COUNT.
    thresholds : sequence of float
    **options
        Of the model.

    Examples
    --------
    >>> import numpy as np, polars as pl
    >>> from shoal.dp.correlation import Spearman, threshold_sweep
    >>> frame = pl.DataFrame({"a": [1.0, 2.0, 9.0], "b": [4.0, 1.0, 5.0], "c": [2.0, 3.0, 4.0]})
    >>> threshold_sweep(Spearman, frame, np.ones(3), (0.0, 0.9), preprocessing="raw")
    {0.0: 2.0, 0.9: 1.0}
    """
    weights = np.asarray(weights, dtype=np.float64)
    rows = np.arange(frame.height)
    found = {}
    for threshold in thresholds:
        fitted = model(float(threshold), **options).fit(frame)
        found[float(threshold)] = float(np.max(fitted.row_influence(weights, rows)))
    return found
