"""The query builder: every figure, filter and expression equals its SQL."""

from __future__ import annotations

import pytest

from shoal import dp
from shoal.dp import col, count, when
from shoal.dp.meaning.check import check
from shoal.dp.sql.parse import parse
from shoal.errors import QueryError

EQUAL = [
    (count("age"), "SELECT COUNT(age) FROM t"),
    (dp.sum("age"), "SELECT SUM(age) FROM t"),
    (dp.mean("age"), "SELECT AVG(age) FROM t"),
    (dp.min("age"), "SELECT MIN(age) FROM t"),
    (dp.max("age"), "SELECT MAX(age) FROM t"),
    (dp.median("age"), "SELECT MEDIAN(age) FROM t"),
    (dp.quantile("age", 0.9), "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age) FROM t"),
    (dp.std("age"), "SELECT STDDEV(age) FROM t"),
    (dp.std("age", ddof=0), "SELECT STDDEV_POP(age) FROM t"),
    (dp.var("age"), "SELECT VARIANCE(age) FROM t"),
    (dp.var("age", ddof=0), "SELECT VAR_POP(age) FROM t"),
    (dp.count_distinct("region"), "SELECT COUNT(DISTINCT region) FROM t"),
    (dp.covar("age", "income"), "SELECT COVAR_SAMP(age, income) FROM t"),
    (dp.corr("age", "income"), "SELECT CORR(age, income) FROM t"),
    (col("age").sum(), "SELECT SUM(age) FROM t"),
    (col("age").mean(), "SELECT AVG(age) FROM t"),
    (col("age").std(), "SELECT STDDEV(age) FROM t"),
    (col("age").quantile(0.25), "SELECT QUANTILE(age, 0.25) FROM t"),
    (col("region").n_unique(), "SELECT COUNT(DISTINCT region) FROM t"),
    ((col("income") / 12 - col("age")).mean(), "SELECT AVG(income / 12 - age) FROM t"),
    (dp.sum(when(col("age") >= 65, 1, 0)), "SELECT SUM(CASE WHEN age >= 65 THEN 1 ELSE 0 END) FROM t"),
    (dp.sum("age") / count(), "SELECT SUM(age) / COUNT(*) FROM t"),
    (100 * count("age") / count(), "SELECT 100 * COUNT(age) / COUNT(*) FROM t"),
    (count().where(col("age") > col("income")), "SELECT COUNT(*) FROM t WHERE age > income"),
    (count().where(col("region").like("n%")), "SELECT COUNT(*) FROM t WHERE region LIKE 'n%'"),
    (
        dp.select(count(), dp.mean("age")).group_by((col("age") / 10).call("floor") * 10),
        "SELECT COUNT(*), AVG(age) FROM t GROUP BY FLOOR(age / 10) * 10",
    ),
    (
        dp.select(count().named("n"))
        .group_by("region")
        .having(count() > 5)
        .sort("n", descending=True)
        .limit(2),
        "SELECT region, COUNT(*) AS n FROM t GROUP BY region HAVING n > 5 ORDER BY n DESC LIMIT 2",
    ),
    (dp.sum(col("income").clamp(0, 9)), "SELECT SUM(CLAMP(income, 0, 9)) FROM t"),
]


@pytest.mark.parametrize(("built", "sql"), EQUAL, ids=[sql for _, sql in EQUAL])
def test_the_builder_equals_sql(built, sql, schema):
    one, two = check(built, schema), check(parse(sql), schema)
    assert str(one.asked) == str(two.asked)
    assert [str(each) for each in one.core.aggregates] == [str(each) for each in two.core.aggregates]


def test_figures_with_different_conditions_are_not_asked_together():
    with pytest.raises(QueryError, match="share one condition"):
        dp.select(count().where(col("age") > 3), count("age"))
    with pytest.raises(QueryError, match="without condition"):
        count().where(col("age") > 3) / count()
    with pytest.raises(QueryError, match="at least one figure"):
        dp.select()
