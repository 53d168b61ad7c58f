"""Synthetic records with the means and covariances of the original, and mixtures of both."""

from __future__ import annotations

from numbers import Real

import numpy as np

from shoal.errors import InputError
from shoal.params import Interval, check_params


def synthetic(X: np.ndarray, random_state: int | np.random.Generator = 0) -> np.ndarray:
    """Draw normal records whose means and covariances are exactly those of the original.

    Normal draws are centred, made uncorrelated, and given the original's covariance: what is published tells the
    first two moments and nothing else of the records.

    Parameters
    ----------
    X : array of float, (n_records, n_columns)
        At least one record more than columns.
    random_state : int or numpy.random.Generator, default 0

    Returns
    -------
    float64 array, (n_records, n_columns)

    Notes
    -----
    No guarantee: means and covariances are published as they are. Skewness, tails and everything beyond
    second moments are lost; columns that depend on one another linearly go on doing so.

    References
    ----------
    .. [1] J. Burridge (2003). Information preserving statistical obfuscation. Statistics and Computing 13,
       321-327. doi:10.1023/A:1025658621216

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import synthetic
    >>> X = np.random.default_rng(1).normal(size=(50, 3)) @ np.ones((3, 3))
    >>> Y = synthetic(X)
    >>> bool(np.allclose(np.cov(X.T), np.cov(Y.T))), bool(np.allclose(X.mean(axis=0), Y.mean(axis=0)))
    (True, True)
    """
    X = _numbers(X)
    n, p = X.shape
    draws = np.random.default_rng(random_state).normal(size=(n, p))
    draws -= draws.mean(axis=0)
    white = draws @ _power(draws.T @ draws / (n - 1), -0.5)
    Z, centre, scale = _standardised(X)
    return centre + (white @ _power(Z.T @ Z / (n - 1), 0.5)) * scale


def hybrid(X: np.ndarray, share: float = 0.5, random_state: int | np.random.Generator = 0) -> np.ndarray:
    """Mix original and synthetic records such that means and covariances stay exactly as they are.

    Each synthetic record is drawn uncorrelated with the original ones, and the two are added with weights
    ``share`` and ``sqrt(1 - share ** 2)``.

    Parameters
    ----------
    X : array of float, (n_records, n_columns)
        More than twice as many records as columns.
    share : float, default 0.5
        Correlation of what is published with the original: 0 is `synthetic`, 1 the original.
    random_state : int or numpy.random.Generator, default 0

    Returns
    -------
    float64 array, (n_records, n_columns)

    Notes
    -----
    No guarantee; the larger the share, the easier a record is found again (`measures.dld` tells how easily).

    References
    ----------
    .. [1] K. Muralidhar, R. Sarathy (2008). Generating sufficiency-based non-synthetic perturbed data.
       Transactions on Data Privacy 1(1), 17-33.
    .. [2] R. Dandekar, J. Domingo-Ferrer, F. Sebe (2002). LHS-based hybrid microdata vs rank swapping and
       microaggregation for numeric microdata protection. LNCS 2316, 153-162. doi:10.1007/3-540-47804-3_12

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import hybrid
    >>> X = np.random.default_rng(1).normal(size=(50, 3))
    >>> Y = hybrid(X, 0.8)
    >>> bool(np.allclose(np.cov(X.T), np.cov(Y.T))), round(float(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]), 6)
    (True, 0.8)
    """
    check_params("hybrid", {"share": Interval(Real, 0, 1)}, {"share": share})
    X = _numbers(X)
    n, p = X.shape
    if n <= 2 * p:
        raise InputError(f"A mixture with synthetic records needs more than {2 * p} records. Got {n}.")
    Z, centre, scale = _standardised(X)
    rng = np.random.default_rng(random_state)
    inverse = np.linalg.pinv(Z)
    while True:
        draws = rng.normal(size=(n, p))
        draws -= draws.mean(axis=0)
        draws -= Z @ (inverse @ draws)  # what is left has nothing in common with the original
        if np.linalg.matrix_rank(draws, tol=1e-6) == p:  # not so if the original came from the same seed
            break
    white = draws @ _power(draws.T @ draws / (n - 1), -0.5)
    other = white @ _power(Z.T @ Z / (n - 1), 0.5)
    return centre + (share * Z + np.sqrt(1.0 - share**2) * other) * scale


def _standardised(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns with mean 0 and deviation 1, so that columns of very different size count alike; means and deviations."""
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (X - centre) / scale, centre, scale


def _numbers(X: np.ndarray) -> np.ndarray:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not np.isfinite(X).all():
        raise InputError("Synthetic records need a table of finite numbers.")
    if X.shape[0] <= X.shape[1]:
        raise InputError(
            f"Synthetic records need more records than columns. Got {X.shape[0]} and {X.shape[1]}."
        )
    return X


def _power(C: np.ndarray, exponent: float) -> np.ndarray:
    """A power of a covariance, directions without variance left out."""
    values, vectors = np.linalg.eigh(C)
    kept = values > 1e-12 * max(float(values[-1]), 0.0)
    powers = np.where(kept, np.where(kept, values, 1.0) ** exponent, 0.0)
    return (vectors * powers) @ vectors.T
