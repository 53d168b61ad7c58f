"""Lists of neighbours where many records are alike: a record's copies must not fill its list.

Who sees nothing but copies of itself is never exchanged with anything else.
"""

from __future__ import annotations

import numpy as np

COPIES = 4
"""Records of one value in a list, at most."""

FEWEST = 8
"""Different values in a list below which it is drawn anew."""


def see_past_copies(X: np.ndarray, near: np.ndarray, seed: int = 0) -> np.ndarray:
    """Lists of neighbours, nearest first, those drawn anew that hold few different values.

    Parameters
    ----------
    X : array of float32, (n, p)
    near : array of int32, (n, m)
        The nearest records of each, itself left out.
    seed : int
        Which of the records of a value are listed is drawn for each record of its own.

    Examples
    --------
    >>> X = np.array([[0.0]] * 5 + [[1.0]] * 5, np.float32)
    >>> near = np.array([[1, 2, 3, 4]] * 5 + [[6, 7, 8, 9]] * 5, np.int32)
    >>> see_past_copies(X, near)[0] >= 5
    array([False, False,  True,  True])
    """
    values, value_of, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    value_of, m = value_of.reshape(-1), near.shape[1]
    copies = min(COPIES, max(1, m // 2))
    listed = np.sort(value_of[near], axis=1)
    different = 1 + (np.diff(listed, axis=1) != 0).sum(axis=1)
    few = different < min(FEWEST, values.shape[0], m)
    if counts.max() <= copies or not few.any():
        return near
    rng = np.random.default_rng(seed)
    by_value = np.argsort(value_of, kind="stable")
    first, place = np.cumsum(counts) - counts, np.empty_like(by_value)
    place[by_value] = np.arange(by_value.size)
    near = near.copy()
    for value in np.unique(value_of[few]):
        records = np.flatnonzero(few & (value_of == value))
        order = np.argsort(((values - values[value]) ** 2).sum(axis=1), kind="stable")
        others = counts[order]
        others[order == value] -= 1
        given = np.minimum(others, copies)
        of = np.repeat(np.arange(order.size), given)[:m]  # which value each entry of the list has
        rank = np.arange(of.size) - (np.cumsum(given) - given)[of]
        # The entries of a value follow each other from one that is drawn, so that none is listed twice.
        drawn = rng.integers(0, others[of], (records.size, of.size))[:, np.arange(of.size) - rank]
        at = (drawn + rank) % others[of]
        own = order[of] == value
        after = (place[records, None] - first[value] + 1 + at) % counts[value]  # past itself
        near[records, : of.size] = by_value[first[order[of]] + np.where(own, after, at)]
    return near
