"""Models that guess one column from others: for train-here-test-there, and for whoever attacks a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from shoal.typing import Keywords

TRAINED = 20_000
FEW_LEVELS = 6
_MISSING = -99.0


def guessed(
    features: np.ndarray, target: np.ndarray, asked: list[np.ndarray], *, numeric: bool, random_state: int = 0
) -> list[np.ndarray]:
    """Train on some rows and guess for others.

    Parameters
    ----------
    features : array of float64, (n, d)
        Numbers and codes of levels; NaN where missing.
    target : array of float64, (n,)
        Numbers, or codes of levels; rows in which it is NaN are left out.
    asked : list of arrays, (m, d)
        Rows to guess for.
    numeric : bool
        Whether the target is a number: then its median is guessed, else its most likely level.
    random_state : int, default 0

    Notes
    -----
    Boosted trees for numbers and few levels, else a forest of random trees; at most 20,000 rows are trained on.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.utility import guessed
    >>> features = np.repeat([[0.0], [1.0]], 30, axis=0)
    >>> target = np.repeat([0.0, 1.0], 30)
    >>> guessed(features, target, [np.array([[0.0], [1.0]])], numeric=False)[0].tolist()
    [0.0, 1.0]
    """
    rows = np.flatnonzero(~np.isnan(target))
    if rows.size > TRAINED:
        rows = np.sort(np.random.default_rng(random_state).choice(rows, TRAINED, replace=False))
    known = target[rows]
    if rows.size < 2 or np.unique(known).size < 2:
        return [np.full(each.shape[0], known[0] if known.size else 0.0) for each in asked]
    model = _model(known, numeric)
    # One thread: boosted trees wait for their threads at every split, very long where others use the cores.
    with threadpool_limits(1):
        model.fit(np.nan_to_num(features[rows], nan=_MISSING), known)
        return [model.predict(np.nan_to_num(each, nan=_MISSING)).astype(np.float64) for each in asked]


def _model(target: np.ndarray, numeric: bool) -> Any:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    common: Keywords = {"max_iter": 60, "random_state": 0, "early_stopping": False}
    if numeric:
        return HistGradientBoostingRegressor(loss="absolute_error", **common)
    if np.unique(target).size <= FEW_LEVELS:
        return HistGradientBoostingClassifier(**common)
    return ExtraTreesClassifier(80, min_samples_leaf=2, max_features=0.5, random_state=0)
