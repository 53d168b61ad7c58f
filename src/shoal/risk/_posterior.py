"""What a class of the sample says about its size in the population: the expectation of one over that size."""

from __future__ import annotations

import numpy as np

from shoal.engine.compile import kernel

FORMULAS = ("exact", "sdcmicro")
# Below this class size the recursion is used where the sampling fraction is below a half, above it the series.
_SMALL = 16


def posterior_risk(sizes: np.ndarray, around: np.ndarray, formula: str = "exact") -> np.ndarray:
    """Expectation of 1 / F for classes of f records whose weights sum to F^, F - f being negative binomial.

    Parameters
    ----------
    sizes : array of int, (n_classes,)
        Records of each class in the table.
    around : array of float, (n_classes,)
        The sum of their weights. Where it lies below the class size the class is taken as complete.
    formula : {"exact", "sdcmicro"}, default "exact"
        The expectation itself, or what sdcMicro computes: the same up to two records, p / (f - (1 - p)) beyond.

    Returns
    -------
    array of float64

    Notes
    -----
    With p = f / F^ the expectation is the integral of p t^(f-1) / (p + (1-p) t) over 0..1 [1]_, that is
    (p / f) 2F1(1, 1; f + 1; 1 - p). Evaluated by I(f+1) = p/(1-p) (1/f - I(f)) from I(1) = p log(1/p) / (1-p) where
    that shrinks errors (p < 1/2, small f), else by the series of positive terms: no overflow at any size.

    References
    ----------
    .. [1] R. Benedetti, L. Franconi (1998). Statistical and technological solutions for controlled data
       dissemination. Pre-proceedings of New Techniques and Technologies for Statistics 1, 225-232.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.risk import posterior_risk
    >>> posterior_risk(np.array([1, 5, 1_000_000]), np.array([100.0, 500.0, 1e12])).round(8).tolist()
    [0.04651687, 0.00249175, 0.0]
    """
    f = np.asarray(sizes, np.float64)
    p = np.minimum(f / np.asarray(around, np.float64), 1.0)
    if formula == "sdcmicro":
        exact = _expectations(np.minimum(f, 2.0), p)
        return np.where(f <= 2.0, exact, p / (f - (1.0 - p)))
    return _expectations(f, p)


# Kernels: class sizes f >= 1 and fractions 0 < p <= 1 in, the expectation of each out.


@kernel()
def _expectations(f, p):
    out = np.empty(f.shape[0], np.float64)
    for c in range(f.shape[0]):
        q = 1.0 - p[c]
        if p[c] < 0.5 and f[c] <= _SMALL:
            value = p[c] * -np.log(p[c]) / q
            for size in range(1, int(f[c])):
                value = p[c] / q * (1.0 / size - value)
            out[c] = value
            continue
        term, total, n = 1.0, 1.0, 0.0
        while term > 1e-17 * total:
            term *= (n + 1.0) / (f[c] + n + 1.0) * q
            total += term
            n += 1.0
        out[c] = p[c] / f[c] * total
    return out
