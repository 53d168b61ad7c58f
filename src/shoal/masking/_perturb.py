"""Noise addition, rank swapping and PRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
import polars as pl

from shoal.engine.columns import TypedColumn
from shoal.errors import ParameterError
from shoal.masking._kinds import changed_cells, perturbed
from shoal.masking._synthetic import hybrid, synthetic
from shoal.params import Interval, check_params

# Name: default strength, and what the strength is.
MASKS: dict[str, tuple[float | None, str]] = {
    "noise": (0.1, "deviation of the noise, in deviations of the column"),
    "correlated-noise": (0.1, "deviation of the noise, in deviations of the column"),
    "rank-swap": (0.05, "largest difference of ranks, as a share of the records"),
    "pram": (0.1, "probability that a level is drawn again"),
    "synthetic": (None, "none: normal records with the means and covariances of the original"),
    "hybrid": (0.5, "correlation of what is published with the original, between 0 and 1"),
}


def mask(
    name: str, columns: Sequence[TypedColumn], strength: float | None = None, random_state: int = 0
) -> list[TypedColumn]:
    """Mask columns by one of `MASKS`.

    Numbers, dates and ordered kinds are perturbed by noise and rank swapping or drawn anew, categories by PRAM; columns of
    another kind stay as they are.
    """
    if name not in MASKS:
        raise ParameterError(f"The masking must be one of {', '.join(MASKS)}. Got {name!r}.")
    rng = np.random.default_rng(random_state)
    amount: float = (MASKS[name][0] or 0.0) if strength is None else strength
    check_params(name, {"strength": Interval(Real, 0)}, {"strength": amount})
    out = list(columns)
    if name == "pram":
        for j in [j for j, column in enumerate(columns) if column.is_coded]:
            values, here = columns[j].values.copy(), ~columns[j].missing
            values[here] = pram(values[here], amount, rng)
            out[j] = replace(columns[j], values=values)
        return out
    numbers = [j for j, column in enumerate(columns) if not column.is_coded]
    if numbers:
        X = np.stack([np.where(columns[j].missing, np.nan, columns[j].values) for j in numbers], axis=1)
        if name == "rank-swap":
            X = rank_swap(X, amount, rng)
        elif name in ("synthetic", "hybrid"):
            X = synthetic(X, rng) if name == "synthetic" else hybrid(X, amount, rng)
        else:
            X = add_noise(X, amount, rng, correlated=name == "correlated-noise")
        for position, j in enumerate(numbers):
            values = np.where(columns[j].missing, columns[j].values, X[:, position])
            levels = columns[j].levels
            if levels is not None:
                values = np.clip(np.rint(values), 0, levels.len() - 1)
            out[j] = replace(columns[j], values=values)
    return out


def add_noise(
    X: Any, scale: float, random_state: int | np.random.Generator = 0, *, correlated: bool = False
) -> Any:
    """Add normal noise with `scale` times each column's deviation; correlated noise follows the covariance.

    Parameters
    ----------
    X : array, series or table (pandas, polars, pyarrow)
        Of a table the numeric columns are changed. Missing cells stay missing.
    scale : float
        Deviation of the noise, in deviations of the column.
    random_state : int or Generator, default 0
    correlated : bool, default False

    Returns
    -------
    the same kind

    References
    ----------
    .. [1] R. Brand (2002). Microdata protection through noise addition. LNCS 2316, 97-116.
       doi:10.1007/3-540-47804-3_8

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import add_noise
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> bool((add_noise(X, 0.0) == X).all())
    True
    """
    check_params("add_noise", {"scale": Interval(Real, 0)}, {"scale": scale})
    rng = np.random.default_rng(random_state)
    return perturbed(X, lambda cells: _noisy(cells, scale, rng, correlated))


def _noisy(X: np.ndarray, scale: float, rng: np.random.Generator, correlated: bool) -> np.ndarray:
    n, p = X.shape
    here = ~np.isnan(X)
    drawn = rng.normal(size=(n, p))
    complete = X[here.all(axis=1)]
    if not correlated or p == 1 or complete.shape[0] == 0:
        deviation = np.array(
            [column[known].std() if known.any() else 0.0 for column, known in zip(X.T, here.T, strict=True)]
        )
        return X + scale * deviation * drawn
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(complete, rowvar=False, bias=True)))
    return X + scale * (drawn * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def rank_swap(X: Any, share: float, random_state: int | np.random.Generator = 0) -> Any:
    """Swap each value of a column with one whose rank differs by at most `share` of the records.

    Parameters
    ----------
    X : array, series or table (pandas, polars, pyarrow)
        Of a table the numeric columns are changed. Missing cells stay where they were, and so does everything
        at share 0.
    share : float in [0, 1]
    random_state : int or Generator, default 0

    Returns
    -------
    the same kind

    References
    ----------
    .. [1] R. A. Moore (1996). Controlled data-swapping techniques for masking public use microdata sets.
       U.S. Bureau of the Census, Statistical Research Division.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import rank_swap
    >>> X = np.arange(10.0)[:, None]
    >>> sorted(rank_swap(X, 0.2)[:, 0].tolist()) == X[:, 0].tolist()
    True
    """
    check_params("rank_swap", {"share": Interval(Real, 0, 1)}, {"share": share})
    rng = np.random.default_rng(random_state)
    return perturbed(X, lambda cells: _swapped(cells, share, rng))


def _swapped(X: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    out = X.copy()
    for j in range(X.shape[1]):
        here = np.flatnonzero(~np.isnan(X[:, j]))
        reach = int(share * here.size)
        if reach == 0:
            continue
        order = here[np.argsort(X[here, j], kind="stable")]
        # Cut the ranks into runs with a random first border, and shuffle inside each: no value moves farther.
        runs = (np.arange(here.size) + int(rng.integers(0, reach + 1))) // (reach + 1)
        shuffled = order[np.lexsort((rng.random((here.size,)), runs))]
        out[order, j] = X[shuffled, j]
    return out


def pram(
    codes: Any,
    probability: float | None = None,
    random_state: int | np.random.Generator = 0,
    *,
    matrix: Any = None,
    levels: Sequence[Any] | None = None,
    invariant: bool = False,
) -> Any:
    """Draw levels again: with some probability from the column's own shares, or by a matrix of transitions.

    Parameters
    ----------
    codes : array, list or series (pandas, polars) of levels of any type
        Missing cells stay where they were.
    probability : float in [0, 1], optional
        That a level is drawn anew from the column's shares, which is an invariant matrix.
    random_state : int or Generator, default 0
    matrix : array, (n_levels, n_levels), optional
        For each level the probabilities of what it becomes; used instead of a probability.
    levels : sequence, optional
        The levels in the matrix's order; those that occur, in ascending order, if left open.
    invariant : bool, default False
        Follow the matrix by the one that leads back, so that the expected shares of the levels stay as they are.

    Returns
    -------
    the same kind

    References
    ----------
    .. [1] J. M. Gouweleeuw, P. Kooiman, L. Willenborg, P.-P. de Wolf (1998). Post randomisation for
       statistical disclosure control. Journal of Official Statistics 14(4), 463-478.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import pram
    >>> pram(np.array([0.0, 1.0, 1.0]), 0.0).tolist()
    [0.0, 1.0, 1.0]
    """
    if (probability is None) == (matrix is None):
        raise ParameterError("'pram' needs either a probability or a matrix.")
    rng = np.random.default_rng(random_state)
    if matrix is not None:
        return changed_cells(codes, lambda cells: _by_matrix(cells, matrix, levels, invariant, rng))
    check_params("pram", {"probability": Interval(Real, 0, 1)}, {"probability": probability})
    chance = float(probability or 0.0)

    def drawn(cells: pl.Series) -> pl.Series:
        gone = cells.is_null() | (cells.is_nan() if cells.dtype.is_float() else False)
        here = np.flatnonzero(~gone.to_numpy())
        change = rng.random(here.size) < chance
        rows = np.arange(cells.len())
        rows[here] = np.where(change, here[rng.integers(0, max(here.size, 1), here.size)], here)
        return cells.gather(rows)

    return changed_cells(codes, drawn)


def invariant_matrix(matrix: Any, shares: Any) -> np.ndarray:
    """The matrix that applies `matrix` and then its inverse by Bayes' rule. It keeps the expected shares.

    Parameters
    ----------
    matrix : array, (n_levels, n_levels)
        Rows of probabilities.
    shares : array, (n_levels,)
        Of the levels, summing to 1.

    Returns
    -------
    array, (n_levels, n_levels)

    References
    ----------
    .. [1] A. van den Hout, P. G. M. van der Heijden (2002). Randomized response, statistical disclosure control and
       misclassification: a review. International Statistical Review 70(2), 269-288.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import invariant_matrix
    >>> shares = np.array([0.8, 0.2])
    >>> R = invariant_matrix([[0.9, 0.1], [0.3, 0.7]], shares)
    >>> np.allclose(shares @ R, shares), np.allclose(R.sum(axis=1), 1)
    (True, True)
    """
    P = _checked_matrix(matrix)
    t = np.asarray(shares, dtype=np.float64)
    reached = t @ P
    back = np.divide(P.T * t, reached[:, None], out=np.zeros_like(P), where=reached[:, None] > 0)
    back[reached <= 0] = np.eye(t.size)[reached <= 0]
    return P @ back


def _checked_matrix(matrix: Any) -> np.ndarray:
    P = np.asarray(matrix, dtype=np.float64)
    if P.ndim != 2 or P.shape[0] != P.shape[1] or not (P >= 0).all() or not np.allclose(P.sum(axis=1), 1.0):
        raise ParameterError("'matrix' of pram must be square, its rows probabilities that sum to 1.")
    return P


def _by_matrix(
    cells: pl.Series, matrix: Any, levels: Sequence[Any] | None, invariant: bool, rng: np.random.Generator
) -> pl.Series:
    P = _checked_matrix(matrix)
    known = cells.fill_nan(None) if cells.dtype.is_float() else cells
    order = known.drop_nulls().unique().sort() if levels is None else pl.Series(levels).cast(known.dtype)
    if order.len() != P.shape[0]:
        raise ParameterError(
            f"'matrix' of pram must have a row for each level. Got {P.shape[0]} rows for {order.len()} levels."
        )
    codes = known.replace_strict(
        order, pl.Series(np.arange(order.len())), default=None, return_dtype=pl.Int64
    )
    odd = codes.is_null() & known.is_not_null()
    if odd.any():
        raise ParameterError(
            f"'levels' of pram must hold all values. They lack those of {int(odd.sum())} cells."
        )
    here = np.flatnonzero(known.is_not_null().to_numpy())
    was = codes.gather(here).to_numpy()
    if invariant and here.size:
        P = invariant_matrix(P, np.bincount(was, minlength=order.len()) / here.size)
    ends = np.cumsum(P, axis=1)
    new = np.minimum((rng.random(here.size)[:, None] >= ends[was]).sum(axis=1), order.len() - 1)
    rows = np.zeros(cells.len(), np.int64)
    rows[here] = new
    return order.gather(rows).set(known.is_null(), None).alias(cells.name)
