"""Local suppression: cells made missing until no combination of values is rare."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from shoal.engine.frame import Frame, is_frame


def suppress(codes: Any, k: int) -> Any:
    """Which cells to make missing so that every class has at least `k` records.

    Missing counts as a value of its own, as in the checks. Greedy: of the records in classes below k, the
    column is suppressed that leaves the fewest at risk; what is then left at risk loses one column more.

    Parameters
    ----------
    codes : array of int, (n_records, n_columns), or table (pandas, polars, pyarrow)
        Values as numbers; in a table of any type.
    k : int
        Smallest class; needs n_records >= k.

    Returns
    -------
    array of bool, (n_records, n_columns), or a table of truth values of the same kind

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.masking import suppress
    >>> suppress(np.array([[0, 0], [0, 0], [0, 1], [0, 2]]), 2).tolist()
    [[False, False], [False, False], [False, True], [False, True]]
    """
    if is_frame(codes):
        frame = Frame(codes)
        cells = frame.to_polars()
        ranks = cells.select(pl.all().rank("dense").fill_null(0).cast(pl.Int64)).to_numpy()
        gone = suppress(ranks, k)
        return frame.replaced({name: pl.Series(gone[:, j]) for j, name in enumerate(frame.columns)})
    work = np.array(codes, dtype=np.int64)
    gone = np.zeros(work.shape, dtype=bool)
    while True:
        sizes = _class_sizes(work)
        risky = np.flatnonzero(sizes < k)
        if risky.size == 0:
            return gone
        open_columns = [j for j in range(work.shape[1]) if not gone[risky, j].all()]
        if not open_columns:
            # Only a few records are left, all their cells gone: others must join them.
            joining = _company(work, sizes, np.asarray(gone.all(axis=1)), k)
            work[joining], gone[joining] = -1, True
            continue
        left = []
        for j in open_columns:
            trial = work.copy()
            trial[risky, j] = -1
            left.append(int((_class_sizes(trial)[risky] < k).sum()))
        best = open_columns[int(np.argmin(left))]
        work[risky, best] = -1
        gone[risky, best] = True


def _company(work: np.ndarray, sizes: np.ndarray, bare: np.ndarray, k: int) -> np.ndarray:
    """Records to lose all their cells beside those that have: what a large class can spare, else a small class."""
    wanted = k - int(bare.sum())
    others = np.flatnonzero(~bare)
    rich = others[sizes[others] >= k + wanted]
    chosen = rich[np.argmax(sizes[rich])] if rich.size else others[np.argmin(sizes[others])]
    members = np.flatnonzero((work == work[chosen]).all(axis=1))
    return members[:wanted] if rich.size else members


def _class_sizes(work: np.ndarray) -> np.ndarray:
    """Number of records like each record."""
    key = np.zeros(work.shape[0], np.int64)
    for column in work.T:
        # Numbered again after each column, so that keys stay small.
        key = np.unique(key * (int(column.max()) + 2) + column + 1, return_inverse=True)[1].reshape(-1)
    return np.bincount(key)[key]
