"""What is told and checked about rows that Spark has written, before they are given out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import InputError
from shoal.privacy import Verdict
from shoal.scale.plan import Plan
from shoal.scale.spark_arrow import GROUP, LOSS, PART, TOTAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def figures_of(written: DataFrame) -> dict[str, Any]:
    """Groups and loss of the rows as they lie on disk; linkage is not measured on Spark."""
    from pyspark.sql import functions as sf

    groups = written.groupBy(PART, GROUP).agg(
        sf.count("*").alias("n"), sf.sum(LOSS).alias("loss"), sf.sum(TOTAL).alias("total")
    )
    found = groups.agg(
        sf.count("*").alias("groups"), sf.min("n").alias("smallest"), sf.max("n").alias("largest"),
        sf.sum("loss").alias("loss"), sf.sum("total").alias("total"),
    ).collect()[0]  # fmt: skip
    return {
        "n_groups": found["groups"],
        "smallest_group": found["smallest"],
        "largest_group": found["largest"],
        "information_loss": 100.0 * found["loss"] / found["total"] if found["total"] > 0 else 0.0,
        "il2": None,
        "dld": None,
    }


def checked(written: DataFrame, plan: Plan) -> Verdict:
    """k-anonymity of the rows as they lie on disk."""
    from pyspark.sql import functions as sf

    quasi = [*(fact.name for fact in plan.roles.quasi), *plan.roles.strata]
    k = plan.method.k
    classes = written.groupBy(*quasi).count()
    found = classes.agg(
        sf.min("count").alias("smallest"), sf.count("*").alias("classes"), sf.sum("count").alias("rows"),
        sf.sum(sf.when(sf.col("count") < k, sf.col("count")).otherwise(0)).alias("risk"),
    ).first()  # fmt: skip
    if found is None or found["smallest"] is None:
        raise InputError("The table must have rows. Got none.")
    return Verdict(
        "k-anonymity", tuple(quasi), None, found["smallest"], k, found["smallest"] >= k, found["rows"],
        found["classes"], (), found["risk"],
    )  # fmt: skip
