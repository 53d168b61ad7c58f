"""Losses named in the background of the BRKGA paper: probabilistic, and by information theory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from shoal.engine.encode import Standardiser
from shoal.measures._arrays import pair
from shoal.params import Interval, check_params

QUANTILES = np.arange(5, 100, 5) / 100


@dataclass(frozen=True)
class ProbabilisticLoss:
    """Probabilistic information loss, in per cent: 0 if nothing moved, 100 if nothing can be trusted.

    Attributes
    ----------
    means, variances, covariances, correlations, quantiles : float
        Of each kind of statistic, the mean over columns or pairs.
    average : float
        Of the five.

    Examples
    --------
    >>> from shoal.measures import pil
    >>> X = [[0.0, 1.0], [2.0, 3.0], [4.0, 8.0], [5.0, 2.0]]
    >>> loss = pil(X, [[1.0, 2.0], [1.0, 2.0], [4.5, 5.0], [4.5, 5.0]])
    >>> loss.means, loss.average > 0
    (0.0, True)
    """

    means: float
    variances: float
    covariances: float
    correlations: float
    quantiles: float

    @property
    def average(self) -> float:
        """The mean of the five."""
        return (self.means + self.variances + self.covariances + self.correlations + self.quantiles) / 5

    def __float__(self) -> float:
        return self.average


def pil(original: Any, protected: Any) -> ProbabilisticLoss:
    """Probabilistic information loss: how improbable the move of a statistic is if it were sampling error.

    A statistic whose value moved by d, with a sampling variance v in the original, loses 2 P(0 <= Z <= d / sqrt(v)) for
    a standard normal Z: 0 where it stayed, close to 1 where no sampling error explains the move. The measure is bounded,
    so that it can be put beside a disclosure risk.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order

    Returns
    -------
    ProbabilisticLoss

    Notes
    -----
    Variances of the statistics are those of large samples, from central moments of the original. Quantiles are those at
    0.05, 0.10, .., 0.95, with the density between the quantiles 0.02 below and above. A statistic without sampling
    variance counts 0 if it stayed and 100 if it moved. O(n columns^2).

    References
    ----------
    .. [1] J. M. Mateo-Sanz, J. Domingo-Ferrer, F. Sebe (2005). Probabilistic information loss measures in confidentiality
       protection of continuous microdata. Data Mining and Knowledge Discovery 11(2), 181-193.
       doi:10.1007/s10618-005-0011-9

    Examples
    --------
    >>> from shoal.measures import pil
    >>> X = [[0.0, 1.0], [2.0, 3.0], [4.0, 8.0], [5.0, 2.0]]
    >>> pil(X, X).average
    0.0
    >>> round(pil(X, [[1.0, 2.0], [1.0, 2.0], [4.5, 5.0], [4.5, 5.0]]).variances, 1)
    57.3
    """
    X, Y = pair(original, protected)
    standardiser = Standardiser.fit(X)
    A, B = standardiser.transform(X), standardiser.transform(Y)
    n, width = A.shape
    C, D = A - A.mean(axis=0), B - B.mean(axis=0)
    second, fourth = (C**2).mean(axis=0), (C**4).mean(axis=0)
    means = _loss(B.mean(axis=0) - A.mean(axis=0), second / n)
    variances = _loss((D**2).mean(axis=0) - second, (fourth - second**2) / n)
    first, other = np.triu_indices(width, 1)
    covariances, correlations = np.zeros(0), np.zeros(0)
    if first.size:
        both, after = (C[:, first] * C[:, other]).mean(axis=0), (D[:, first] * D[:, other]).mean(axis=0)
        squares = (C[:, first] ** 2 * C[:, other] ** 2).mean(axis=0)
        covariances = _loss(after - both, (squares - both**2) / n)
        correlations = _of_correlations(C, D, first, other, both, after, squares)
    quantiles = np.concatenate([_of_quantiles(a, b) for a, b in zip(A.T, B.T, strict=True)])
    told = (means, variances, covariances, correlations, quantiles)
    return ProbabilisticLoss(*(100.0 * float(each.mean()) if each.size else 0.0 for each in told))


def _loss(moved: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """2 P(0 <= Z <= |moved| / deviation)."""
    moved = np.where(np.abs(moved) < 1e-12, 0.0, np.abs(moved))
    deviation = np.sqrt(np.maximum(variance, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(moved == 0.0, 0.0, moved / deviation)
    return np.vectorize(math.erf, otypes=[float])(z / math.sqrt(2.0))


def _of_correlations(
    C: np.ndarray,
    D: np.ndarray,
    first: np.ndarray,
    other: np.ndarray,
    both: np.ndarray,
    after: np.ndarray,
    squares: np.ndarray,
) -> np.ndarray:
    """Correlations with the variance of large samples; pairs with a constant column are left out."""
    s, t = (C**2).mean(axis=0)[first], (C**2).mean(axis=0)[other]
    u, v = (D**2).mean(axis=0)[first], (D**2).mean(axis=0)[other]
    keep = (s > 0) & (t > 0) & (u > 0) & (v > 0)
    s, t, u, v, both, after, squares = (each[keep] for each in (s, t, u, v, both, after, squares))
    a, b = C[:, first[keep]], C[:, other[keep]]
    r = both / np.sqrt(s * t)
    p, q = (a**4).mean(axis=0) / s**2, (b**4).mean(axis=0) / t**2
    mixed = squares / (s * t)
    cubes = (a**3 * b).mean(axis=0) / (s * np.sqrt(s * t)) + (a * b**3).mean(axis=0) / (t * np.sqrt(s * t))
    variance = (mixed + r**2 * (p + q + 2 * mixed) / 4 - r * cubes) / C.shape[0]
    return _loss(after / np.sqrt(u * v) - r, variance)


def _of_quantiles(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    old, new = np.quantile(a, QUANTILES), np.quantile(b, QUANTILES)
    low, high = np.quantile(a, QUANTILES - 0.02), np.quantile(a, QUANTILES + 0.02)
    slope = (high - low) / 0.04  # one over the density
    return _loss(new - old, QUANTILES * (1 - QUANTILES) * slope**2 / a.size)


def information_theoretic_loss(original: Any, protected: Any, *, bins: int = 20) -> float:
    """The share of a column's information that its protected version loses, in per cent: H(X | X') / H(X).

    Cells are counted in bins that hold equally many original records. 0 where the protected bin tells the original one,
    100 where it tells nothing. The mean over columns that vary.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    bins : int, default 20

    References
    ----------
    .. [1] J. Domingo-Ferrer, A. Oganian, V. Torra (2002). Information-theoretic disclosure risk measures in statistical
       disclosure control of tabular data. SSDBM, 227-231. doi:10.1109/SSDM.2002.1029724
    .. [2] L. Willenborg, T. de Waal (2001). Elements of Statistical Disclosure Control. Springer, chapter 2.
       doi:10.1007/978-1-4613-0121-9

    Examples
    --------
    >>> from shoal.measures import information_theoretic_loss
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> information_theoretic_loss(X, X), information_theoretic_loss(X, [[1.5]] * 4)
    (0.0, 100.0)
    >>> information_theoretic_loss(X, [[0.5], [0.5], [2.5], [2.5]])
    50.0
    """
    check_params("information_theoretic_loss", {"bins": Interval(Integral, 2)}, {"bins": bins})
    X, Y = pair(original, protected)
    losses = []
    for x, y in zip(X.T, Y.T, strict=True):
        edges = np.unique(np.quantile(x, np.arange(1, bins) / bins, method="inverted_cdf"))
        own, new = np.searchsorted(edges, x, "left"), np.searchsorted(edges, y, "left")
        joint = np.zeros((edges.size + 1, edges.size + 1))
        np.add.at(joint, (own, new), 1.0)
        whole = _entropy(joint.sum(axis=1))
        if whole > 0:
            losses.append((_entropy(joint.ravel()) - _entropy(joint.sum(axis=0))) / whole)
    return 100.0 * float(np.mean(losses)) if losses else 0.0


def _entropy(counts: np.ndarray) -> float:
    share = counts[counts > 0] / counts.sum()
    return max(0.0, float(-(share * np.log2(share)).sum()))
