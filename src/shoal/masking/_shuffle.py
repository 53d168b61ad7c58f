"""Data shuffling: the values of a column redistributed by drawn ranks that keep its relations to others."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.engine.frame import refuse_infinite
from shoal.errors import InputError


def shuffle(X: Any, given: Any = None, random_state: int | np.random.Generator = 0) -> np.ndarray:
    """Redistribute the values of each column so that ranks and relations hold in expectation.

    Parameters
    ----------
    X : array of float64, (n_records, n_columns) or (n_records,)
        What is shuffled; missing cells (NaN) stay where they were.
    given : array of float64, (n_records, n_others), optional
        Columns that are published as they are: their relation to the shuffled ones is kept.
    random_state : int or numpy.random.Generator, default 0

    Returns
    -------
    float64 array of the shape of X
        Each column holds its own values, in another order.

    Notes
    -----
    Cells become normal scores; new scores are drawn from their normal distribution conditional on `given`, and
    the value of equal rank takes the place. Given those columns, nothing else of a record's own value is used.
    No guarantee: a rare value is still published, in another record.

    References
    ----------
    .. [1] K. Muralidhar, R. Sarathy (2006). Data shuffling: a new masking approach for numerical data. Management
       Science 52(5), 658-670. doi:10.1287/mnsc.1050.0503

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import shuffle
    >>> X = np.arange(8.0)[:, None]
    >>> Y = shuffle(X, random_state=1)
    >>> sorted(Y[:, 0].tolist()) == X[:, 0].tolist(), bool((Y == X).all())
    (True, False)
    """
    array = np.asarray(X)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
        raise InputError("Numbers in one or two dimensions were expected.")
    cells = np.array(array, dtype=np.float64)
    cells = cells[:, None] if cells.ndim == 1 else cells
    refuse_infinite(cells)
    n, p = cells.shape
    others = np.zeros((n, 0)) if given is None else np.asarray(given, dtype=np.float64).reshape(n, -1)
    rng = np.random.default_rng(random_state)
    scores = np.stack([_scores(column) for column in np.column_stack([cells, others]).T], axis=1)
    own, fixed = scores[:, :p], scores[:, p:]
    whole = scores.T @ scores / max(n, 1)
    factor = whole[:p, p:] @ np.linalg.pinv(whole[p:, p:]) if fixed.shape[1] else np.zeros((p, 0))
    left = whole[:p, :p] - factor @ whole[p:, :p]
    values, vectors = np.linalg.eigh((left + left.T) / 2)
    drawn = rng.normal(size=(n, p)) @ (vectors * np.sqrt(np.clip(values, 0.0, None))).T
    target = fixed @ factor.T + drawn
    out = cells.copy()
    for j in range(own.shape[1]):
        here = np.flatnonzero(~np.isnan(cells[:, j]))
        out[here[np.argsort(target[here, j], kind="stable")], j] = np.sort(cells[here, j])
    return out[:, 0] if array.ndim == 1 else out


def _scores(column: np.ndarray) -> np.ndarray:
    """Normal scores of average ranks; 0 where a cell is missing."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = np.zeros(column.size)
    here = np.flatnonzero(~np.isnan(column))
    if here.size:
        scores[here] = ndtri((rankdata(column[here]) - 0.5) / here.size)
        scores[here] -= scores[here].mean()
    return scores
