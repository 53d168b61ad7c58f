"""Associations between columns that were released one by one: bought Kendall coefficients, a Gaussian copula."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from shoal.dp import budget
from shoal.dp.mechanisms.discrete_laplace import laplace
from shoal.engine.compile import kernel


def concordance(x: np.ndarray, y: np.ndarray) -> int:
    """Concordant less discordant pairs of two columns, ties counting zero.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.release._copula import concordance
    >>> concordance(np.array([1, 2, 3]), np.array([1, 3, 2]))
    1
    """
    order = np.lexsort((y, x))
    ranks = np.unique(y[order], return_inverse=True)[1].astype(np.int64)
    discordant = int(_inversions(np.ascontiguousarray(ranks)))
    both = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)[1]
    ties = [_pairs(np.unique(each, return_counts=True)[1]) for each in (x, y)]
    n = len(x)
    return n * (n - 1) // 2 - ties[0] - ties[1] + _pairs(both) - 2 * discordant


def noisy_concordances(table: np.ndarray, micros: tuple[int, ...]) -> np.ndarray:
    """Noisy concordance of each pair of columns.

    One replaced record changes n - 1 pairs of records, each by at most 2: sensitivity 2 (n - 1), which is 4/n of
    Kendall's coefficient.
    """
    n, found = len(table), []
    for (i, j), micro in zip(combinations(range(table.shape[1]), 2), micros, strict=True):
        exact = np.array([concordance(table[:, i], table[:, j])])
        found.append(int(laplace(exact, Fraction(2 * (n - 1) * budget.MICRO, micro))[0]))
    return np.array(found, dtype=np.int64)


def copula_ranks(concordances: np.ndarray, n: int, columns: int, seed: int) -> np.ndarray:
    """Ranks of n drawn records in each column, associated as the noisy coefficients say: post-processing.

    The draws touch no data, so that an ordinary generator may make them.
    """
    tau = np.eye(columns)
    pairs = list(combinations(range(columns), 2))
    for (i, j), value in zip(pairs, concordances, strict=True):
        tau[i, j] = tau[j, i] = np.clip(value / (n * (n - 1) / 2), -1, 1)
    correlation = np.sin(np.pi / 2 * tau)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 1e-9, None))  # the nearest matrix that is a correlation
    draws = np.random.default_rng(seed).standard_normal((n, columns)) @ root.T
    return np.argsort(np.argsort(draws, axis=0, kind="stable"), axis=0, kind="stable")


def _pairs(counts: np.ndarray) -> int:
    return int((counts.astype(np.int64) * (counts - 1) // 2).sum())


@kernel()
def _inversions(ranks):
    """Pairs in which an earlier rank is larger, by a tree of counts."""
    size = ranks.max() + 1
    tree = np.zeros(size + 1, dtype=np.int64)
    total = 0
    for seen in range(ranks.shape[0]):
        rank = ranks[seen]
        at, below = rank + 1, 0
        while at > 0:  # earlier ranks up to this one
            below += tree[at]
            at -= at & -at
        total += seen - below
        at = rank + 1
        while at <= size:
            tree[at] += 1
            at += at & -at
    return total
