"""Information loss and utility: what an analysis of the protected table will miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.engine.encode import Standardiser
from shoal.measures._arrays import pair
from shoal.measures._logistic import probabilities


def il1(original: Any, protected: Any) -> float:
    """Share of the total variation that is lost, in per cent: 100 * SSE / SST on standardised columns.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002). Practical data-oriented microaggregation for
       statistical disclosure control. IEEE TKDE 14(1), 189-201. doi:10.1109/69.979982

    Examples
    --------
    >>> from shoal.measures import il1
    >>> il1([[0.0], [2.0], [10.0], [12.0]], [[1.0], [1.0], [11.0], [11.0]])
    3.846...
    """
    X, Y = pair(original, protected)
    standardiser = Standardiser.fit(X)
    Z = standardiser.transform(X)
    total = float(np.einsum("ij,ij->", Z, Z))
    gone = Z - standardiser.transform(Y)
    return 100.0 * float(np.einsum("ij,ij->", gone, gone)) / total if total > 0 else 0.0


def il2(original: Any, protected: Any) -> float:
    """Mean absolute change of a cell in units of sqrt(2) sample deviations, in per cent.

    Constant columns add nothing to the sum (they cannot be changed by a mean).

    References
    ----------
    .. [1] W. Yancey, W. Winkler, R. Creecy (2002). Disclosure risk assessment in perturbative microdata
       protection. LNCS 2316, 135-152. doi:10.1007/3-540-47804-3_11

    Examples
    --------
    >>> from shoal.measures import il2
    >>> round(il2([[0.0], [2.0]], [[1.0], [1.0]]), 3)
    50.0
    """
    X, Y = pair(original, protected)
    unit = np.abs(X).max(axis=0)
    unit[unit == 0] = 1.0
    deviation = (X / unit).std(axis=0, ddof=1) if X.shape[0] > 1 else np.zeros(X.shape[1])
    change = np.abs(X / unit - Y / unit).mean(axis=0)
    return 100.0 * float(
        np.where(deviation > 0, change / np.where(deviation > 0, np.sqrt(2) * deviation, 1.0), 0.0).mean()
    )


def moments(original: Any, protected: Any) -> dict[str, float]:
    """How far means, variances, covariances, correlations and eigenvalues moved.

    Each figure is a mean over columns (or pairs): means in units of the original deviation, variances and
    eigenvalues relative to the original, covariances relative to the product of deviations, correlations
    as absolute differences. All are 0 for identical tables.

    Examples
    --------
    >>> from shoal.measures import moments
    >>> X = [[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]]
    >>> set(moments(X, X).values())
    {0.0}
    """
    X, Y = pair(original, protected)
    standardiser = Standardiser.fit(X)
    A, B = standardiser.transform(X), standardiser.transform(Y)
    varies = A.std(axis=0) > 0
    A, B = A[:, varies], B[:, varies]
    names = ("mean", "variance", "covariance", "correlation", "eigenvalue")
    if A.shape[1] == 0:
        return dict.fromkeys(names, 0.0)
    # Columns are in units of the original deviation, so the original variances are one.
    covariance_a, covariance_b = (np.atleast_2d(np.cov(each, rowvar=False, bias=True)) for each in (A, B))
    off = ~np.eye(A.shape[1], dtype=bool)
    both = (B.std(axis=0) > 0) & (A.std(axis=0) > 0)
    pairs = off & np.outer(both, both)
    correlation_a, correlation_b = _correlation(covariance_a), _correlation(covariance_b)
    eigen_a, eigen_b = np.linalg.eigvalsh(covariance_a), np.linalg.eigvalsh(covariance_b)
    figures = (
        np.abs(B.mean(axis=0) - A.mean(axis=0)).mean(),
        np.abs(np.diag(covariance_b) - np.diag(covariance_a)).mean(),
        np.abs(covariance_b - covariance_a)[off].mean() if off.any() else 0.0,
        np.abs(correlation_b - correlation_a)[pairs].mean() if pairs.any() else 0.0,
        np.abs(eigen_b - eigen_a).sum() / np.abs(eigen_a).sum(),
    )
    return dict(zip(names, (float(each) for each in figures), strict=True))


def propensity(original: Any, protected: Any, *, max_records: int = 20_000) -> float:
    """How well a logistic model distinguishes protected from original rows: 0 not at all, 1 perfectly.

    The propensity-score mean squared error of Woo et al. (2009) over columns and their squares, divided by
    its largest value 1/4. Above `max_records` an even selection of rows stands for the whole.

    References
    ----------
    .. [1] M.-J. Woo, J. P. Reiter, A. Oganian, A. F. Karr (2009). Global measures of data utility for
       microdata masked for disclosure limitation. Journal of Privacy and Confidentiality 1(1), 111-124.
       doi:10.29012/jpc.v1i1.568

    Examples
    --------
    >>> from shoal.measures import propensity
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> round(propensity(X, X), 6)
    0.0
    """
    X, Y = pair(original, protected)
    rows = np.unique(np.linspace(0, X.shape[0] - 1, min(max_records, X.shape[0])).astype(np.int64))
    standardiser = Standardiser.fit(X)
    A, B = standardiser.transform(X[rows]), standardiser.transform(Y[rows])
    features = np.vstack([A, B])
    features = np.hstack([features, features**2])
    features = Standardiser.fit(features).transform(features)
    which = np.repeat([0, 1], [A.shape[0], B.shape[0]])
    score = probabilities(features, which)
    return float(4.0 * np.mean((score - 0.5) ** 2))


def _correlation(covariance: np.ndarray) -> np.ndarray:
    deviation = np.sqrt(np.diag(covariance))
    scale = np.outer(deviation, deviation)
    return np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
