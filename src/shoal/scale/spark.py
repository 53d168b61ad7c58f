"""The same plan, routes and parts on a Spark cluster: Parquet in, Parquet out.

Spark moves rows; what is done with them are the pure functions of `plan` and `survey`, in `mapInArrow` and
`applyInArrow`. A task that is lost is run again on the same rows with the same plan and gives the same
groups. Rows are numbered by file and position, as the local engine numbers them.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.engine.pseudonyms import pseudonyms
from shoal.errors import GuaranteeError, InputError, MissingExtraError
from shoal.privacy import Verdict
from shoal.scale.figures import facts_of
from shoal.scale.plan import Plan, draft_plan, make_plan, refuse_small, small_strata
from shoal.scale.roles import GUESSED_ROWS, Roles, settle_roles
from shoal.scale.routing import merged_parts, route, stratum_sums
from shoal.scale.solving import replaced, solve_part
from shoal.scale.survey import ROW, Survey, survey, survey_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART = "__part__"
GROUP = "__group__"
# The sums of a part, in its first row.
LOSS, TOTAL = "__loss__", "__total__"
OURS = (ROW, PART, GROUP, LOSS, TOTAL)
SAMPLE_ROWS = 60_000
PART_ROWS = 100_000


def session(master: str | None = None) -> SparkSession:
    """The running Spark session, or a new one (`local[*]` unless `SPARK_MASTER` or `master` says otherwise)."""
    try:
        from pyspark.errors import PySparkException, PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtraError("pyspark", "spark") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if shutil.which("java") is None and "JAVA_HOME" not in _environment():
        raise InputError(
            "Spark needs Java 17 or later: no 'java' was found on the path and JAVA_HOME is not set."
        )
    try:
        return (
            SparkSession.builder.master(master or _environment().get("SPARK_MASTER", "local[*]"))
            .appName("shoal")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
            .getOrCreate()
        )
    except (PySparkRuntimeError, PySparkException) as error:
        raise InputError(f"Spark cannot be started: {_line(error)}") from None


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
            found = survey_batch(_frame(batch), roles.quasi, list(roles.strata), roles.weight, share)
            yield _pickled(replace(found, sample=found.sample.sort(ROW)))

    found = _in_row_order(survey(_collected(needed, look)))
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
            yield _pickled(stratum_sums(_frame(batch), draft))

    totals: dict[tuple[Any, ...], tuple[int, np.ndarray]] = {}
    for part in _collected(needed, add):
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
    schema = _arrow_schema(rows)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _pickled(_sizes(_frame(batch), plan))

    sizes = np.sum(list(_collected(rows.select(ROW, *plan.roles.needed), count)), axis=0)
    into = merged_parts(sizes, plan)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            frame = _frame(batch)
            parts = route(frame, plan)
            kept = frame.with_columns(pl.Series(PART, np.where(parts >= 0, into[parts], -1))).filter(
                pl.col(PART) >= 0
            )
            yield from _arrow(kept, sent).to_batches()

    def solve(table: pa.Table) -> pa.Table:
        frame = _frame(table)
        solved = solve_part(frame, plan, measure=False)
        new = replaced(frame, plan, solved.values[solved.labels], solved.gone[solved.labels])
        if key is not None:
            new = new.with_columns(pseudonyms(frame[name], key) for name in plan.roles.identifiers)
        first = np.arange(frame.height) == 0
        ours = {GROUP: solved.labels, LOSS: solved.loss * first, TOTAL: solved.total * first}
        return _arrow(new.with_columns(pl.Series(name, cells) for name, cells in ours.items()), published)

    sent = schema.append(pa.field(PART, pa.int64()))
    published = _published_schema(sent, plan, key is not None)
    return (
        rows.mapInArrow(send, _spark_schema(sent)).groupBy(PART).applyInArrow(solve, _spark_schema(published))
    )


def run_spark(
    path: str | Path, output: str | Path, estimator: Any, asked: dict[str, Any], say: Callable[[str], None]
) -> dict[str, Any]:
    """Protect a Parquet table on Spark; the facts of the run."""
    output = Path(output)
    if output.exists():
        raise InputError(f"The output folder must not exist yet. Got {str(output)!r}.")
    spark = session()
    with _sentences():
        say(f"opening {path}")
        rows = read_rows(spark, path)
        head = _frame(rows.drop(ROW).limit(GUESSED_ROWS).toArrow())
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
        ordered = new if asked["any_order"] else new.orderBy(ROW)
        try:
            ordered.write.mode("overwrite").parquet(str(waiting))
            say("checking")
            written = spark.read.parquet(str(waiting))
            verdict = _checked(written, plan)
            figures = _figures(written) | {"n_records": verdict.n_records, "verdicts": [verdict]}
            if not verdict.holds:
                raise GuaranteeError(
                    f"The protected table does not keep its promise, so it is not given out: {verdict}"
                )
            # The published files hold neither row numbers nor parts nor groups.
            written.drop(*OURS).write.parquet(str(output))
        finally:
            shutil.rmtree(waiting, ignore_errors=True)
    return facts_of(plan, figures, notes)


def query_rows(
    rows: DataFrame, partial: Callable[[pl.DataFrame], Any], combine: Callable[[Sequence[Any]], Any]
) -> Any:
    """Combine the partial results of all batches of a table, for queries: no noise is drawn on the cluster."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [partial(_frame(batch)) for batch in batches]
        if found:
            yield _pickled(combine(found))

    with _sentences():
        return combine(list(_collected(rows, look)))


def _figures(written: DataFrame) -> dict[str, Any]:
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


def _checked(written: DataFrame, plan: Plan) -> Verdict:
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


def _sizes(frame: pl.DataFrame, plan: Plan) -> np.ndarray:
    parts = route(frame, plan)
    return np.bincount(parts[parts >= 0], minlength=plan.n_parts)


def _in_row_order(found: Survey) -> Survey:
    """The sample in the order of rows, whatever order tasks ended in."""
    return replace(found, sample=found.sample.sort(ROW))


def _collected(rows: DataFrame, look: Callable[..., Any]) -> Iterator[Any]:
    """Results of a function over batches, gathered on the driver in the order of partitions."""
    for each in rows.mapInArrow(look, "result binary").collect():
        yield pickle.loads(each["result"])  # noqa: S301 (made by our own tasks)


def _pickled(value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], ["result"])


def _frame(data: Any) -> pl.DataFrame:
    frame = pl.from_arrow(data)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def _arrow(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    return frame.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)


def _arrow_schema(rows: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([pa.field(each.name, each.type) for each in to_arrow_schema(rows.schema)])


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _published_schema(sent: pa.Schema, plan: Plan, hashed: bool) -> pa.Schema:
    """Types of the published columns: what aggregation makes of those that came."""
    empty = _frame(sent.empty_table())
    nothing = np.empty((0, len(plan.templates)))
    new = replaced(empty, plan, nothing, nothing.astype(bool))
    made = new.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    fields = []
    for field in sent:
        if field.name in plan.roles.identifiers:
            if hashed:
                fields.append(pa.field(field.name, pa.string()))
        elif any(field.name == each.name for each in plan.templates):
            kind = made.field(field.name).type
            fields.append(pa.field(field.name, pa.string() if pa.types.is_large_string(kind) else kind))
        else:
            fields.append(field)
    ours = [pa.field(GROUP, pa.int64()), pa.field(LOSS, pa.float64()), pa.field(TOTAL, pa.float64())]
    return pa.schema([*fields, *ours])


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Errors of Spark, and ours that come through it, as one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        for kind in ("InputError: ", "ParameterError: "):
            if kind in text:
                raise InputError(text.split(kind, 1)[1].splitlines()[0]) from None
        raise InputError(f"Spark could not finish: {_line(error)}") from None


def _environment() -> Any:
    import os

    return os.environ


def _line(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return text if text.endswith(".") else text + "."
