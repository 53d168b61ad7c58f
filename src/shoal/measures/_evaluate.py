"""All measures of a pair of tables at once."""

from __future__ import annotations

from typing import Any, TypedDict

from shoal.measures._loss import il1, il2, moments, propensity
from shoal.measures._risk import dld, interval_disclosure


class CellMeasures(TypedDict, total=False):
    """Figures of the change of number columns, by name; empty if there are no such columns.

    Examples
    --------
    >>> from shoal.measures import cell_measures
    >>> figures = cell_measures([[0.0], [2.0], [4.0], [6.0]], [[1.0], [1.0], [5.0], [5.0]])
    >>> round(figures["il1"], 1), round(figures["change_of_mean"], 9)
    (20.0, 0.0)
    """

    il1: float
    il2: float
    interval_disclosure: float
    propensity: float
    change_of_mean: float
    change_of_variance: float
    change_of_covariance: float
    change_of_correlation: float
    change_of_eigenvalue: float


class Evaluation(CellMeasures, total=False):
    """The same with the share of records that are linked to their own original.

    Examples
    --------
    >>> from shoal.measures import evaluate
    >>> figures = evaluate([[0.0], [2.0], [4.0], [6.0]], [[1.0], [1.0], [5.0], [5.0]])
    >>> figures["dld"]  # each published record is drawn from two that are equally near
    0.5
    """

    dld: float


def evaluate(original: Any, protected: Any) -> Evaluation:
    """Give every figure of loss, utility and risk for an original table and its protected version.

    Parameters
    ----------
    original, protected : arrays or frames of the same records in the same order

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
    return Evaluation(**cell_measures(original, protected), dld=dld(original, protected))


def cell_measures(original: Any, protected: Any) -> CellMeasures:
    """The figures of `evaluate` that take no linkage.

    Examples
    --------
    >>> from shoal.measures import cell_measures
    >>> X = [[0.0, 1.0], [2.0, 3.0], [4.0, 8.0]]
    >>> cell_measures(X, X)["il1"]
    0.0
    """
    moved = moments(original, protected)
    return CellMeasures(
        il1=il1(original, protected),
        il2=il2(original, protected),
        interval_disclosure=interval_disclosure(original, protected),
        propensity=propensity(original, protected),
        change_of_mean=moved["mean"],
        change_of_variance=moved["variance"],
        change_of_covariance=moved["covariance"],
        change_of_correlation=moved["correlation"],
        change_of_eigenvalue=moved["eigenvalue"],
    )
