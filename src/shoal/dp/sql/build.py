"""Queries written in Python: a function for each figure."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shoal.dp.sql.expressions import Case, Expr, Predicate, as_expr, as_predicate
from shoal.dp.sql.query import Query, figure


def count(column: str | Expr | None = None) -> Query:
    """Number of rows, or of rows in which a column or expression is not missing."""
    return figure("count", column)


def sum(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Sum of a column or expression."""
    return figure("sum", column)


def mean(column: str | Expr) -> Query:
    """Mean of a column or expression."""
    return figure("avg", column)


def var(column: str | Expr, ddof: int = 1) -> Query:
    """Variance: of a sample, or with ``ddof=0`` of a population."""
    return figure("var_samp" if ddof else "var", column)


def std(column: str | Expr, ddof: int = 1) -> Query:
    """Standard deviation: of a sample, or with ``ddof=0`` of a population."""
    return figure("std_samp" if ddof else "std", column)


def min(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Smallest value of a column or expression, aimed a few ranks inside."""
    return figure("min", column)


def max(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Largest value of a column or expression, aimed a few ranks inside."""
    return figure("max", column)


def quantile(column: str | Expr, q: float | Fraction) -> Query:
    """The value below which a share `q` of the rows lies."""
    return figure("quantile", column, q)


def median(column: str | Expr) -> Query:
    """The value below which half of the rows lie."""
    return figure("quantile", column, "0.5")


def count_distinct(column: str | Expr) -> Query:
    """Number of different values of a column of declared domain, or of different units."""
    return figure("distinct", column)


def covar(column: str | Expr, other: str | Expr, ddof: int = 1) -> Query:
    """Covariance: of a sample, or with ``ddof=0`` of a population."""
    return figure("covar_samp" if ddof else "covar", column, other)


def corr(column: str | Expr, other: str | Expr) -> Query:
    """Coefficient of correlation."""
    return figure("corr", column, other)


def when(condition: Predicate, value: Any, otherwise: Any = None) -> Expr:
    """A value where a condition is true, else another: CASE.

    Examples
    --------
    >>> from shoal.dp import col, sum, when
    >>> print(sum(when(col("age") >= 18, col("income"), 0)))
    SELECT SUM(CASE WHEN "age" >= 18 THEN "income" ELSE 0 END) FROM t
    """
    last = None if otherwise is None else as_expr(otherwise)
    return Case(((as_predicate(condition), as_expr(value)),), last)
