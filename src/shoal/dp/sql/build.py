"""Queries written in Python: a function for each figure."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shoal.dp.sql.expressions import Case, Expr, Predicate, as_expr, as_predicate
from shoal.dp.sql.query import Query, figure


def count(column: str | Expr | None = None) -> Query:
    """Number of rows, or of rows in which a column or expression is not missing.

    Examples
    --------
    >>> from shoal.dp import col, count
    >>> print(count().where(col("age") >= 40))
    SELECT COUNT(*) FROM t WHERE "age" >= 40
    """
    return figure("count", column)


def sum(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Sum of a column or expression.

    Examples
    --------
    >>> from shoal.dp import sum
    >>> print(sum("income"))
    SELECT SUM("income") FROM t
    """
    return figure("sum", column)


def mean(column: str | Expr) -> Query:
    """Mean of a column or expression.

    Examples
    --------
    >>> from shoal.dp import col, mean
    >>> print(mean(col("income") / 12))
    SELECT AVG("income" / 12) FROM t
    """
    return figure("avg", column)


def var(column: str | Expr, ddof: int = 1) -> Query:
    """Variance: of a sample, or with ``ddof=0`` of a population.

    Examples
    --------
    >>> from shoal.dp import var
    >>> print(var("income", ddof=0))
    SELECT VAR_POP("income") FROM t
    """
    return figure("var_samp" if ddof else "var", column)


def std(column: str | Expr, ddof: int = 1) -> Query:
    """Standard deviation: of a sample, or with ``ddof=0`` of a population.

    Examples
    --------
    >>> from shoal.dp import std
    >>> print(std("income"))
    SELECT STDDEV_SAMP("income") FROM t
    """
    return figure("std_samp" if ddof else "std", column)


def min(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Smallest value of a column or expression; the answer aims a few ranks inside.

    Examples
    --------
    >>> from shoal.dp import min
    >>> print(min("age"))
    SELECT MIN("age") FROM t
    """
    return figure("min", column)


def max(column: str | Expr) -> Query:  # noqa: A001 - as in SQL and polars
    """Largest value of a column or expression; the answer aims a few ranks inside.

    Examples
    --------
    >>> from shoal.dp import max
    >>> print(max("age"))
    SELECT MAX("age") FROM t
    """
    return figure("max", column)


def quantile(column: str | Expr, q: float | Fraction) -> Query:
    """The value below which a share `q` of the rows is.

    Examples
    --------
    >>> from shoal.dp import quantile
    >>> print(quantile("income", 0.9))
    SELECT QUANTILE("income", 0.9) FROM t
    """
    return figure("quantile", column, q)


def median(column: str | Expr) -> Query:
    """The value below which half of the rows are.

    Examples
    --------
    >>> from shoal.dp import median
    >>> print(median("income"))
    SELECT QUANTILE("income", 0.5) FROM t
    """
    return figure("quantile", column, "0.5")


def count_distinct(column: str | Expr) -> Query:
    """Number of different values of a column with a declared domain, or of different units.

    Examples
    --------
    >>> from shoal.dp import count_distinct
    >>> print(count_distinct("region"))
    SELECT COUNT(DISTINCT "region") FROM t
    """
    return figure("distinct", column)


def covar(column: str | Expr, other: str | Expr, ddof: int = 1) -> Query:
    """Covariance: of a sample, or with ``ddof=0`` of a population.

    Examples
    --------
    >>> from shoal.dp import covar
    >>> print(covar("age", "income"))
    SELECT COVAR_SAMP("age", "income") FROM t
    """
    return figure("covar_samp" if ddof else "covar", column, other)


def corr(column: str | Expr, other: str | Expr) -> Query:
    """Coefficient of correlation.

    Examples
    --------
    >>> from shoal.dp import corr
    >>> print(corr("age", "income"))
    SELECT CORR("age", "income") FROM t
    """
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
