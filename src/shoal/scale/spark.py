"""The same plan, routes and parts on a Spark cluster: Parquet in, Parquet out.

Spark moves rows; what is done with them are the pure functions of `plan` and `survey`, in `mapInArrow` and
`applyInArrow`. A task that is lost is run again on the same rows with the same plan and gives the same
groups. Rows are numbered by file and position, as the local engine numbers them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import GuaranteeError, InputError
from shoal.scale.figures import facts_of
from shoal.scale.plan import Plan, draft_plan, make_plan, refuse_small, small_strata
from shoal.scale.roles import GUESSED_ROWS, Roles, settle_roles
from shoal.scale.routing import merged_parts, route, stratum_sums
from shoal.scale.solving import replaced, solve_part
from shoal.scale.spark_arrow import (
    GROUP,
    LOSS,
    OURS,
    PART,
    TOTAL,
    arrow_of,
    arrow_schema,
    collected,
    frame_of,
    pickled,
    published_schema,
    spark_schema,
)
from shoal.scale.spark_checks import checked, figures_of
from shoal.scale.spark_session import sentences, session
from shoal.scale.survey import ROW, Survey, survey, survey_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE_ROWS = 60_000
PART_ROWS = 100_000


def read_rows(spark: SparkSession, path: str | Path) -> DataFrame:
    """A Parquet file or folder with the row numbers of the whole table, files in the order of their names."""
    from pyspark.sql import functions as sf

    rows = spark.read.parquet(str(path)).select("*", sf.col("_metadata.file_path").alias("__file__"),
                                                sf.col("_metadata.row_index").alias("__index__"))  # fmt: skip
    counts = sorted(
        (each["__file__"], each["n"])
        for each in rows.groupBy("__file__").agg(sf.count("*").alias("n")).collect()
    )
    if not counts:
        raise InputError(f"The table {str(path)!r} must have rows and columns. Got 0 rows.")
    start, offsets = 0, []
    for file, n in counts:
        offsets.append((file, start))
        start += n
    if len(offsets) == 1:
        return rows.withColumnRenamed("__index__", ROW).drop("__file__")
    begins = spark.createDataFrame(offsets, f"__file__ string, {ROW} long")
    joined = rows.join(sf.broadcast(begins), "__file__")
    return joined.withColumn(ROW, sf.col(ROW) + sf.col("__index__")).drop("__file__", "__index__")


def plan_rows(
    rows: DataFrame,
    roles: Roles,
    method: Any,
    part_rows: int = PART_ROWS,
    small: str = "merge",
    **options: Any,
) -> Plan:
    """Survey the rows on the cluster and plan their parts on the driver."""
    needed = rows.select(ROW, *roles.needed)
    n_rows = needed.count()
    share = min(1.0, SAMPLE_ROWS / max(1, n_rows))

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = survey_batch(frame_of(batch), roles.quasi, list(roles.strata), roles.weight, share)
            yield pickled(replace(found, sample=found.sample.sort(ROW)))

    found = _in_row_order(survey(collected(needed, look)))
    if not found.weighted:
        raise InputError(
            f"The weights {roles.weight!r} must be finite numbers of at least 0, some above 0, none missing."
        )
    little = small_strata(found, method.k)
    if not little:
        return make_plan(found, roles, method, part_rows, **options)
    if small == "refuse":
        raise refuse_small(found, little, method.k)
    draft = draft_plan(found, roles, method)

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pickled(stratum_sums(frame_of(batch), draft))

    totals: dict[tuple[Any, ...], tuple[int, np.ndarray]] = {}
    for part in collected(needed, add):
        for key, (count, sums) in part.items():
            before = totals.get(key, (0, 0.0))
            totals[key] = (before[0] + count, before[1] + sums)
    centres = {key: sums / count for key, (count, sums) in totals.items()}
    return make_plan(found, roles, method, part_rows, centres=centres, **options)


def protect_rows(rows: DataFrame, plan: Plan, key: bytes | None = None) -> DataFrame:
    """The rows as published, with what the check needs.

    Columns `__row__`, `__part__` and `__group__` are added, and the part's sums of loss and total in its
    first row. Two passes: the first counts the parts, so that small ones are merged before the second routes and
    solves them.
    """
    schema = arrow_schema(rows)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pickled(_sizes(frame_of(batch), plan))

    sizes = np.sum(list(collected(rows.select(ROW, *plan.roles.needed), count)), axis=0)
    into = merged_parts(sizes, plan)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            frame = frame_of(batch)
            parts = route(frame, plan)
            kept = frame.with_columns(pl.Series(PART, np.where(parts >= 0, into[parts], -1))).filter(
                pl.col(PART) >= 0
            )
            yield from arrow_of(kept, sent).to_batches()

    def solve(table: pa.Table) -> pa.Table:
        frame = frame_of(table)
        solved = solve_part(frame, plan, measure=False)
        new = replaced(frame, plan, solved.values[solved.labels], solved.gone[solved.labels])
        if key is not None:
            new = new.with_columns(pseudonyms(frame[name], key) for name in plan.roles.identifiers)
        first = np.arange(frame.height) == 0
        ours = {GROUP: solved.labels, LOSS: solved.loss * first, TOTAL: solved.total * first}
        return arrow_of(new.with_columns(pl.Series(name, cells) for name, cells in ours.items()), published)

    sent = schema.append(pa.field(PART, pa.int64()))
    published = published_schema(sent, plan, key is not None)
    return (
        rows.mapInArrow(send, spark_schema(sent)).groupBy(PART).applyInArrow(solve, spark_schema(published))
    )


def run_spark(
    path: str | Path, output: str | Path, estimator: Any, asked: dict[str, Any], say: Callable[[str], None]
) -> dict[str, Any]:
    """Protect a Parquet table on Spark; the facts of the run."""
    output = Path(output)
    if output.exists():
        raise InputError(f"The output folder must not exist yet. Got {str(output)!r}.")
    spark = session()
    with sentences():
        say(f"opening {path}")
        rows = read_rows(spark, path)
        head = frame_of(rows.drop(ROW).limit(GUESSED_ROWS).toArrow())
        roles, notes = settle_roles(
            head, asked["schema"], asked["columns"], asked["strata"], asked["weights"], asked["missing"]
        )
        say("looking through the table")
        limit = asked["time_limit"]
        plan = plan_rows(
            rows, roles, estimator, small=asked["small"], round_integers=asked["round"],
            share_of_time=None if limit is None else limit / max(1, rows.count()),
        )  # fmt: skip
        say(f"forming groups in {plan.n_parts} parts")
        new = protect_rows(rows, plan, asked["secret"])
        waiting = output.with_name(f".{output.name}.waiting")
        try:
            new.write.mode("overwrite").parquet(str(waiting))
            say("checking")
            written = spark.read.parquet(str(waiting))
            verdict = checked(written, plan)
            figures = figures_of(written) | {"n_records": verdict.n_records, "verdicts": [verdict]}
            if not verdict.holds:
                raise GuaranteeError(
                    f"The protected table does not keep its promise, so it is not given out: {verdict}"
                )
            # Put in order only now: Spark looks at what it sorts before it does, which forms groups a second time
            # where they do not lie on disk yet. The published files hold neither row numbers nor parts nor groups.
            ordered = written if asked["any_order"] else written.orderBy(ROW)
            ordered.drop(*OURS).write.parquet(str(output))
        finally:
            shutil.rmtree(waiting, ignore_errors=True)
    return facts_of(plan, figures, notes)


def query_rows(
    rows: DataFrame, partial: Callable[[pl.DataFrame], Any], combine: Callable[[Sequence[Any]], Any]
) -> Any:
    """Combine the partial results of all batches of a table, for queries: no noise is drawn on the cluster."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [partial(frame_of(batch)) for batch in batches]
        if found:
            yield pickled(combine(found))

    with sentences():
        return combine(list(collected(rows, look)))


def _sizes(frame: pl.DataFrame, plan: Plan) -> np.ndarray:
    parts = route(frame, plan)
    return np.bincount(parts[parts >= 0], minlength=plan.n_parts)


def _in_row_order(found: Survey) -> Survey:
    """The sample in the order of rows, whatever order tasks ended in."""
    return replace(found, sample=found.sample.sort(ROW))
