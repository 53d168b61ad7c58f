"""Noise addition, rank swapping and PRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real

import numpy as np

from shoal.engine.columns import TypedColumn
from shoal.errors import ParameterError
from shoal.masking._suppress import suppress
from shoal.masking._synthetic import hybrid, synthetic
from shoal.params import Interval, check_params

# Name: default strength, and what the strength is.
MASKS: dict[str, tuple[float | None, str]] = {
    "noise": (0.1, "deviation of the noise, in deviations of the column"),
    "correlated-noise": (0.1, "deviation of the noise, in deviations of the column"),
    "rank-swap": (0.05, "largest difference of ranks, as a share of the records"),
    "pram": (0.1, "probability that a level is drawn anew"),
    "synthetic": (None, "none: normal records with the means and covariances of the original"),
    "hybrid": (0.5, "correlation of what is published with the original, between 0 and 1"),
    "suppression": (None, "none: cells are made missing until every class has k records"),
}


def mask(
    name: str, columns: Sequence[TypedColumn], k: int, strength: float | None = None, random_state: int = 0
) -> list[TypedColumn]:
    """Mask columns by one of `MASKS`.

    Numbers, dates and ordered kinds are perturbed by noise and rank swapping or drawn anew, categories by PRAM; columns of
    another kind stay as they are. Suppression takes all.
    """
    if name not in MASKS:
        raise ParameterError(f"The masking must be one of {', '.join(MASKS)}. Got {name!r}.")
    rng = np.random.default_rng(random_state)
    if name == "suppression":
        codes = np.stack(
            [np.unique(_cells(column), return_inverse=True)[1].reshape(-1) for column in columns], axis=1
        )
        gone = suppress(codes, k)
        return [replace(column, missing=column.missing | gone[:, j]) for j, column in enumerate(columns)]
    amount: float = (MASKS[name][0] or 0.0) if strength is None else strength
    check_params(name, {"strength": Interval(Real, 0)}, {"strength": amount})
    out = list(columns)
    if name == "pram":
        for j in [j for j, column in enumerate(columns) if column.is_coded]:
            out[j] = replace(columns[j], values=pram(columns[j].values, amount, rng))
        return out
    numbers = [j for j, column in enumerate(columns) if not column.is_coded]
    if numbers:
        X = np.stack([columns[j].values for j in numbers], axis=1)
        if name == "rank-swap":
            X = rank_swap(X, amount, rng)
        elif name in ("synthetic", "hybrid"):
            X = synthetic(X, rng) if name == "synthetic" else hybrid(X, amount, rng)
        else:
            X = add_noise(X, amount, rng, correlated=name == "correlated-noise")
        for position, j in enumerate(numbers):
            values = X[:, position]
            levels = columns[j].levels
            if levels is not None:
                values = np.clip(np.rint(values), 0, levels.len() - 1)
            out[j] = replace(columns[j], values=values)
    return out


def add_noise(
    X: np.ndarray, scale: float, random_state: int | np.random.Generator = 0, *, correlated: bool = False
) -> np.ndarray:
    """Add normal noise with `scale` times each column's deviation; correlated noise follows the covariance.

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
    rng, X = np.random.default_rng(random_state), np.asarray(X, np.float64)
    n, p = X.shape
    deviation = X.std(axis=0)
    if not correlated or p == 1:
        return X + scale * deviation * rng.normal(size=(n, p))
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(X, rowvar=False, bias=True)))
    return X + scale * (rng.normal(size=(n, p)) * np.sqrt(np.clip(values, 0, None))) @ vectors.T


def rank_swap(X: np.ndarray, share: float, random_state: int | np.random.Generator = 0) -> np.ndarray:
    """Swap each value of a column with one whose rank differs by at most `share` of the records.

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
    rng, X = np.random.default_rng(random_state), np.asarray(X, np.float64)
    n, p = X.shape
    reach = max(1, int(share * n))
    out = X.copy()
    for j in range(p):
        order = np.argsort(X[:, j], kind="stable")
        # Cut the ranks into runs with a random first border, and shuffle inside each: no value moves farther.
        runs = (np.arange(n) + int(rng.integers(0, reach + 1))) // (reach + 1)
        shuffled = order[np.lexsort((rng.random((n,)), runs))]
        out[order, j] = X[shuffled, j]
    return out


def pram(codes: np.ndarray, probability: float, random_state: int | np.random.Generator = 0) -> np.ndarray:
    """Draw a level anew, from the column's own shares, with some probability (an invariant PRAM matrix).

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
    rng, codes = np.random.default_rng(random_state), np.asarray(codes)
    change = rng.random(codes.size) < probability
    return np.where(change, codes[rng.integers(0, codes.size, codes.size)], codes)


def _cells(column: TypedColumn) -> np.ndarray:
    """Values with one number of its own for missing cells."""
    return np.where(column.missing, np.inf, column.values)
