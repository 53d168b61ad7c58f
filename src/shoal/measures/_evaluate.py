"""All measures of a pair of tables at once."""

from __future__ import annotations

from typing import Any

from shoal.measures._loss import il1, il2, moments, propensity
from shoal.measures._risk import dld, interval_disclosure


def evaluate(original: Any, protected: Any, *, linkage: bool = True) -> dict[str, float]:
    """Give every figure of loss, utility and risk for an original table and its protected version.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order
    linkage : bool, default True
        Whether `dld` is among them.

    Returns
    -------
    dict
        `il1` and `il2` in per cent; `dld`, `interval_disclosure` and `propensity` as shares in 0..1;
        `change_of_mean`, `..._variance`, `..._covariance`, `..._correlation`, `..._eigenvalue`.

    Examples
    --------
    >>> from shoal.measures import evaluate
    >>> X = [[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]]
    >>> figures = evaluate(X, X)
    >>> figures["il1"], figures["dld"]
    (0.0, 1.0)
    """
    figures = {
        "il1": il1(original, protected),
        "il2": il2(original, protected),
        "interval_disclosure": interval_disclosure(original, protected),
        "propensity": propensity(original, protected),
    }
    if linkage:
        figures["dld"] = dld(original, protected)
    return figures | {f"change_of_{name}": value for name, value in moments(original, protected).items()}
