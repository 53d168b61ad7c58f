"""How far noisy answers lie from the true ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.errors import InputError


def relative_error(true: Any, noisy: Any) -> np.ndarray:
    """``|f'(D) - f(D)| / |f(D)|`` of each answer (definition 10 of the correlated-DP dissertation).

    Parameters
    ----------
    true, noisy : array of float
        Exact and noisy answers. The exact ones are the owner's: so are these errors.

    Returns
    -------
    float64 array
        NaN where the true answer is 0, for which it is not defined.

    References
    ----------
    .. [1] X. Xiao, G. Bender, M. Hay, J. Gehrke (2011). iReduct: differential privacy with reduced relative
       errors. SIGMOD, 229-240. doi:10.1145/1989323.1989348

    Examples
    --------
    >>> from shoal.measures import relative_error
    >>> relative_error([12.0, 0.0], [15.0, 1.0]).tolist()
    [0.25, nan]
    """
    exact, found = np.asarray(true, dtype=np.float64), np.asarray(noisy, dtype=np.float64)
    if exact.shape != found.shape:
        raise InputError(f"True and noisy answers must go in pairs. Got {exact.shape} and {found.shape}.")
    return np.abs(found - exact) / np.where(exact == 0, np.nan, np.abs(exact))


def mean_relative_error(true: Any, noisy: Any) -> float:
    """Mean of the relative errors over the answers whose true value is not 0; NaN if there are none.

    Parameters
    ----------
    true, noisy : array of float

    Returns
    -------
    float

    Examples
    --------
    >>> from shoal.measures import mean_relative_error
    >>> mean_relative_error([12.0, 10.0], [15.0, 9.0])
    0.175
    """
    errors = relative_error(true, noisy)
    known = errors[~np.isnan(errors)]
    return float(known.mean()) if known.size else float("nan")
