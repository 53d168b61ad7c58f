"""The distance between two distributions on the line that the Wasserstein mechanism needs, in exact fractions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction


def w_infinity(first: Mapping[Fraction, Fraction], second: Mapping[Fraction, Fraction]) -> Fraction:
    """The least t for which one distribution can be moved onto the other with no mass going farther than t.

    Parameters
    ----------
    first, second : mapping of value to probability
        Each adding up to one.

    Returns
    -------
    Fraction
        On the line this is the largest gap between the two quantile functions.

    References
    ----------
    .. [1] S. Song, Y. Wang, K. Chaudhuri (2017). Pufferfish privacy mechanisms for correlated data. SIGMOD,
       1291-1306, section 3.

    Examples
    --------
    >>> from fractions import Fraction as F
    >>> from shoal.dp.pufferfish import w_infinity
    >>> w_infinity({F(0): F(1, 2), F(10): F(1, 2)}, {F(3): F(1)})
    Fraction(7, 1)
    """
    left, right = sorted(first.items()), sorted(second.items())
    worst, i, j = Fraction(0), 0, 0
    mine, theirs = left[0][1], right[0][1]
    while True:
        if mine and theirs:
            worst = max(worst, abs(left[i][0] - right[j][0]))
        step = min(mine, theirs)
        mine, theirs = mine - step, theirs - step
        if not mine:
            i += 1
            if i == len(left):
                return worst
            mine = left[i][1]
        if not theirs:
            j += 1
            if j == len(right):
                return worst
            theirs = right[j][1]
