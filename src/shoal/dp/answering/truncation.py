"""How much of a unit counts: the scores of possible limits, and contributions cut to a limit.

All whole numbers; proofs in docs/theory/truncation.md.
"""

from __future__ import annotations

import numpy as np

from shoal.dp.answering.releases import ROW, SCORE, Mean


def cut_scores(sizes: np.ndarray, limits: tuple[int, ...]) -> np.ndarray:
    """Per limit T the score ceil(1024 * sum over units of clamp(2 (size - T) / T, 0, 1)).

    One unit more or less moves all scores in the same direction, each by at most 1024.
    """
    over = (int(np.clip(2 * (sizes - limit), 0, limit).sum()) for limit in limits)
    scores = [-(-SCORE * each // limit) for each, limit in zip(over, limits, strict=True)]
    return np.array(scores, dtype=np.int64)


def cut(values: np.ndarray, unit: np.ndarray, sizes: np.ndarray, limit: int) -> np.ndarray:
    """Each unit's numbers brought to an L1 size of at most `limit`, signs and proportions kept.

    Parameters
    ----------
    values : int64 array (entries, terms)
        Of one unit the entries of all its groups, one after the other.
    unit : int64 array (entries,)
        Rising.
    sizes : int64 array (units,)
        L1 size of each unit's numbers.
    limit : int

    Returns
    -------
    int64 array like `values`

    Notes
    -----
    What a unit keeps of its first j numbers is floor(limit * (their size) / (the unit's size)), so the pieces add
    up to `limit` where the unit is larger, and nothing changes where it is not.
    """
    flat = np.abs(values).ravel()
    owner = np.repeat(unit, values.shape[1])
    reached = np.cumsum(flat)
    before = np.concatenate([[0], np.cumsum(sizes)])[owner]
    size = np.maximum(sizes[owner], 1)
    upto, since = reached - before, reached - before - flat
    kept = _share(limit, upto, size) - _share(limit, since, size)
    kept = np.where(size > limit, kept, flat)
    return (np.sign(values.ravel()) * kept).reshape(values.shape)


def _share(limit: int, part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """floor(limit * part / whole) for part <= whole < 2^62, within int64 by Python's whole numbers where needed."""
    if limit.bit_length() + int(whole.max(initial=1)).bit_length() <= 62:
        return limit * part // whole
    return np.array(
        [limit * one // all_ for one, all_ in zip(part.tolist(), whole.tolist(), strict=True)], dtype=np.int64
    )


def row_weights(rows: np.ndarray, limit: int) -> np.ndarray:
    """What a row of each unit counts, in parts of a row: all of it, or the limit shared among the unit's rows."""
    return np.minimum(ROW, limit * ROW // np.maximum(rows, 1))


def pulls(n: np.ndarray, s: np.ndarray, release: Mean, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """At every candidate y: the sum over units of clamp(s - y n, -limit, limit), and how many are cut.

    Parameters
    ----------
    n, s : int64 arrays (units,)
        Rows of each unit and the sum of their whole numbers, 0 <= s <= n * most.
    release : Mean
    limit : int

    Returns
    -------
    two int64 arrays (points,)

    Notes
    -----
    s - y n falls in y: a unit is cut from above, then counts as it is, then is cut from below. The two places
    where this changes are found by division, and everything is added up along the grid.
    """
    points, step = release.points, release.spacing
    rows = np.maximum(n, 1) * step
    enters = np.clip(-((limit - s) // rows), 0, points)  # first place with s - y n <= limit
    leaves = np.maximum(np.clip((s + limit) // rows + 1, 0, points), enters)  # first with s - y n < -limit
    enters, leaves = np.where(n > 0, enters, 0), np.where(n > 0, leaves, points)
    constant, slope, cut_above, cut_below = (np.zeros(points + 1, dtype=np.int64) for _ in range(4))
    np.add.at(constant, enters, s)
    np.add.at(constant, leaves, -s)
    np.add.at(slope, enters, n)
    np.add.at(slope, leaves, -n)
    np.add.at(cut_above, enters, 1)
    np.add.at(cut_below, leaves, 1)
    y = step * np.arange(points, dtype=np.int64)
    above = len(n) - np.cumsum(cut_above)[:points]
    below = np.cumsum(cut_below)[:points]
    pull = np.cumsum(constant)[:points] - y * np.cumsum(slope)[:points] + limit * (above - below)
    return pull, above + below


def parts_of(pull: np.ndarray, limit: int) -> np.ndarray:
    """ceil(1024 * |pull| / limit), within int64."""
    whole, rest = np.divmod(np.abs(pull), limit)
    return SCORE * whole - (-(SCORE * rest) // limit)
