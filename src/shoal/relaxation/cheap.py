"""The cheap bound: nearest neighbours only, for any number of records."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

_BLOCK = 65_536


def cheap_duals(Z: np.ndarray, k: int) -> np.ndarray:
    """A share of the sum of squares for each record that no partition can go below.

    For a group S of size s the sum of squares is sum_{i in S} (sum_{j in S} d_ij) / (2 s), d being squared
    distances; the inner sum has s - 1 terms besides d_ii = 0, so it is at least the sum of the s - 1
    smallest distances from i. The least of that over s in k..2k-1 is therefore a share that record i
    costs in whatever group it lands, and the shares add up to a lower bound.

    Parameters
    ----------
    Z : array of float64, (n, p)
        Standardised records, n >= 2k - 1.
    k : int
        Smallest group size.

    Returns
    -------
    array of float64, (n,)

    Notes
    -----
    A k-d tree asked in blocks: O(n log n) time in few columns, O(n k) memory at most per block.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.relaxation.cheap import cheap_duals
    >>> cheap_duals(np.array([[0.0], [1.0], [5.0], [6.0]]), 2).round(6).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    n = Z.shape[0]
    sizes = np.arange(k, min(2 * k - 1, n) + 1)
    tree = cKDTree(Z)
    shares = np.empty(n)
    for start in range(0, n, _BLOCK):
        # The record itself is among its nearest, at distance 0; so s of them hold s - 1 others.
        near = tree.query(Z[start : start + _BLOCK], k=int(sizes[-1]), workers=-1)[0]
        sums = np.cumsum(near * near, axis=1)[:, sizes - 1]
        shares[start : start + _BLOCK] = (sums / (2 * sizes)).min(axis=1)
    # Rounding in distances and sums is below (p + 2k + 4) units in the last place.
    return shares * (1.0 - (Z.shape[1] + 2 * k + 8) * 2.3e-16)
