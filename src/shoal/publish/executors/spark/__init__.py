"""The same stages on a Spark cluster: Parquet in, Parquet out.

Spark moves rows; what is done with them are the pure functions of `stages`, in `mapInArrow` and `applyInArrow`. A task
that is lost is run again on the same rows with the same plan and gives the same groups. Rows are numbered by file and
position, as on one machine.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.errors import InputError
from shoal.io import COMPRESSED, FORMATS
from shoal.publish.executors import Draft, GivenOut, Progress, ReplacedDraft, Replacement
from shoal.publish.executors.alone import alone
from shoal.publish.executors.spark.arrow import (
    HOME,
    ORDER,
    OURS,
    PART,
    SUMS,
    arrow_of,
    arrow_schema,
    collected,
    frame_of,
    pickled,
    published_schema,
    spark_schema,
)
from shoal.publish.executors.spark.replacing import SparkReplacement
from shoal.publish.executors.spark.session import sentences, session
from shoal.publish.request import ProtectionRequest, refuse_fields
from shoal.publish.stages import check
from shoal.publish.stages.identification import identification_of, is_measured, keys_of
from shoal.publish.stages.measure import MEASURED_RECORDS, Figures, Tally
from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.release import released
from shoal.publish.stages.roles import GUESSED_ROWS, DecidedRoles, Roles
from shoal.publish.stages.routing import added_spread, merged_parts, route, spread_of
from shoal.publish.stages.solve import solve_part
from shoal.publish.stages.survey import ROW, kept_rows
from shoal.publish.status import Status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
PART_ROWS = 100_000
# Records of a part for which linkage is measured.
MEASURED = 500
_CANNOT = {
    "certify": "the bound needs all records at once",
    "earlier": "both releases must be in one memory to be laid side by side",
    "keep_best": "Spark runs a lost task again",
    "resume": "Spark runs a lost task again",
    "labels": "groups are not numbered over the cluster",
    "memory": "the cluster's own settings say how much it may take",
    "n_jobs": "the cluster's own settings say how many tasks it runs",
}


@dataclass(frozen=True)
class Spark:
    """Runs the stages over a Parquet table on Spark.

    Parameters
    ----------
    path : str or Path
        A Parquet file or a folder of them.
    output : str or Path
        A folder that does not exist yet.
    """

    path: str | Path
    output: str | Path
    name: str = "spark"

    def refuse(self, request: ProtectionRequest) -> None:
        """Raise a sentence that names the first field which cannot be honoured on Spark."""
        refuse_fields(request, _CANNOT, "on Spark")
        if Path(self.path).suffix in {*FORMATS, *COMPRESSED} - {".parquet"}:
            raise InputError(f"Spark reads Parquet, a file or a folder of files. Got {str(self.path)!r}.")
        if Path(self.output).exists():
            raise InputError(f"The output folder must not exist yet. Got {str(self.output)!r}.")

    @contextlib.contextmanager
    def open(self, request: ProtectionRequest, tell: Progress) -> Iterator[SparkRows]:
        """Open the table; what waits on disk is removed in the end."""
        spark = session()
        output = Path(self.output)
        waiting = output.with_name(f".{output.name}.waiting")
        with sentences():
            tell(f"opening {self.path}", 0, 0)
            # Rows wait here that nobody may see yet.
            waiting.mkdir(mode=0o700, parents=True, exist_ok=True)
            with alone(waiting, output):
                try:
                    yield SparkRows(spark, read_rows(spark, self.path), output, waiting, tell)
                finally:
                    shutil.rmtree(waiting, ignore_errors=True)


class SparkRows:
    """The rows of a Spark table, for one run."""

    notes: tuple[str, ...] = ()
    labelled: Collection[str] = ()

    def __init__(
        self, spark: SparkSession, rows: DataFrame, output: Path, waiting: Path, tell: Progress
    ) -> None:
        self.spark, self.rows, self.output, self.waiting, self.tell = spark, rows, output, waiting, tell
        self.roles: Roles | None = None
        self.n_rows = 0
        self.written: DataFrame | None = None
        self.by: tuple[str, ...] = ()

    def head(self) -> pl.DataFrame:
        """The first rows, from which roles are guessed."""
        return frame_of(self.rows.orderBy(ROW).limit(GUESSED_ROWS).drop(ROW).toArrow())

    def settle(self, roles: Roles) -> int:
        """Decode all batches from now on."""
        self.roles = roles
        self.n_rows = self.rows.count()
        return self.n_rows

    def recalled(self, roles: Roles) -> PublishPlan | None:
        """Nothing is kept of an interrupted run."""
        del roles
        return None

    def fold(self, look: Callable[[pl.DataFrame], T]) -> Iterator[T]:
        """What a function makes of each decoded batch, on the cluster."""
        roles = self.roles
        assert roles is not None
        decoder = roles.decoder

        def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if batch.num_rows:
                    yield pickled(look(decoder(frame_of(batch))))

        return collected(self.rows.select(ROW, *roles.needed), each)

    def part_rows(self, roles: Roles) -> int | None:
        """Records of a part, about."""
        del roles
        return PART_ROWS

    def solve(self, plan: PublishPlan) -> None:
        """Form and aggregate the groups; the rows wait on disk as they would be published."""
        self.tell(f"forming groups in {plan.n_parts} parts", 0, 0)
        self.plan = plan

    def draft(self, plan: PublishPlan, key: bytes | None) -> Draft:
        """Write the rows where they wait, and count their classes as they lie there."""
        place = str(self.waiting / "rows")
        protect_rows(self.rows, plan, key).write.mode("overwrite").parquet(place)
        self.tell("checking", 0, 0)
        self.written = self.spark.read.parquet(place)
        self.by = (PART, ORDER) if plan.request.order == "shuffle" else (ROW,)
        home = plan.roles.household

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [
                check.class_rows(frame, plan, None if home is None else frame[HOME])
                for frame in map(frame_of, batches)
                if frame.height
            ]
            if found:
                yield pickled(check.added(found))

        classes = check.added(collected(self.written, count))
        return Draft(classes, check.verdicts_of_classes(classes, plan), self._tally(plan))

    def _tally(self, plan: PublishPlan) -> Tally:
        """The sums that each part left in its first row, and a selection of rows before and after."""
        from pyspark.sql import functions as sf

        assert self.written is not None
        tally = Tally(plan)
        sums = self.written.where(sf.col(SUMS).isNotNull()).select(PART, SUMS).orderBy(PART)
        for each in sums.collect():
            tally.add(*pickle.loads(each[SUMS]))  # noqa: S301 (made by our own tasks)
        chosen = sf.col(ROW) % tally.step == 0
        after = frame_of(self.written.where(chosen).orderBy(ROW).toArrow())
        before = frame_of(self.rows.where(chosen).orderBy(ROW).toArrow())
        before = before.filter(pl.col(ROW).is_in(after[ROW].implode()))
        shown = after.drop(OURS, strict=False)
        tally.keep(plan.roles.decoder(before), shown)
        tally.show(shown, 0)
        return tally

    def measured(self, plan: PublishPlan, figures: Figures) -> Figures:
        """The risk of being found before and after."""
        assert self.written is not None
        if not is_measured(plan.n_rows, plan):
            return figures
        self.tell("measuring the risk of being found", 1, 2)
        decoder, roles, home = plan.roles.decoder, plan.roles, plan.roles.household

        def before(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for frame in map(frame_of, batches):
                if frame.height:
                    yield pickled(keys_of(kept_rows(decoder(frame), roles.quasi), plan))

        def after(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for frame in map(frame_of, batches):
                if frame.height:
                    yield pickled(keys_of(frame, plan, None if home is None else frame[HOME]))

        keys = [
            pl.concat(collected(rows, look))
            for rows, look in ((self.rows.select(ROW, *roles.needed), before), (self.written, after))
        ]
        return replace(figures, identification=identification_of(keys[0], keys[1], plan))

    def columns(self, roles: Roles, names: Collection[str]) -> pl.DataFrame:
        """Whole columns on the driver, in the order of the rows."""
        wanted = [name for name in roles.names if name in names]
        table = frame_of(self.rows.select(ROW, *wanted).orderBy(ROW).toArrow())
        return kept_rows(roles.decoder(table), roles.quasi)

    def replaced(self, decided: DecidedRoles, replacement: Replacement, key: bytes | None) -> ReplacedDraft:
        """Write the rows with their new columns where they wait, and count their classes as they lie there."""
        made = SparkReplacement(self.spark, self.rows, self.waiting, decided, replacement, key)
        self.written = made.written
        self.by = (ORDER,) if decided.request.order == "shuffle" else (ROW,)
        return made.draft()

    def with_earlier(self, status: Status, decided: DecidedRoles) -> tuple[Status, tuple[str, ...]]:
        """An earlier release is refused on Spark before anything is read."""
        del decided
        return status, ()

    def costs(self, figures: Figures) -> Figures:
        """The cluster counts what its tasks cost."""
        return figures

    def give(self, decided: DecidedRoles) -> GivenOut:
        """Put the rows in order and give the folder its name."""
        del decided
        assert self.written is not None
        # Put in order only now: Spark looks at what it sorts before it does, which forms groups a second time
        # where they do not lie on disk yet. The published files hold neither row numbers nor parts.
        # It gets its name when it is whole: what is interrupted goes with the folder where it waits.
        whole = self.waiting / "whole"
        self.written.orderBy(*self.by).drop(*OURS).write.parquet(str(whole))
        whole.rename(self.output)
        return GivenOut()


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


def protect_rows(rows: DataFrame, plan: PublishPlan, key: bytes | None = None) -> DataFrame:
    """The rows as published, with what the check needs.

    Columns `__row__` and `__part__` are added, and what the part adds to the figures in its first row. Two passes: the
    first counts the parts, so that those which cannot be solved alone are merged before the second routes and solves
    them.
    """
    into = _merged(rows, plan)
    schema = arrow_schema(rows)

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            frame = frame_of(batch)
            parts = route(plan.roles.decoder(frame), plan)
            kept = frame.with_columns(pl.Series(PART, np.where(parts >= 0, into[parts], -1))).filter(
                pl.col(PART) >= 0
            )
            yield from arrow_of(kept, sent).to_batches()

    def solve(table: pa.Table) -> pa.Table:
        return arrow_of(solved_part(frame_of(table), plan, key), published)

    sent = schema.append(pa.field(PART, pa.int64()))
    published = published_schema(sent, plan, key)
    return (
        rows.mapInArrow(send, spark_schema(sent)).groupBy(PART).applyInArrow(solve, spark_schema(published))
    )


def solved_part(frame: pl.DataFrame, plan: PublishPlan, key: bytes | None) -> pl.DataFrame:
    """The rows of a part as published, with their own numbers and what the part adds to the figures."""
    frame = plan.roles.decoder(frame).sort(ROW)
    # A table that is one part is measured like one in memory.
    solved = solve_part(frame, plan, measured=MEASURED_RECORDS if plan.n_parts == 1 else MEASURED)
    new = released(frame, plan, solved.values[solved.labels], solved.gone[solved.labels], key)
    told = pickle.dumps((np.bincount(solved.labels), solved.sums))
    ours = [frame[ROW], frame[PART], pl.Series(SUMS, [told, *([None] * (frame.height - 1))], dtype=pl.Binary)]
    if plan.request.order == "shuffle":
        ours.append(
            new.select(pl.struct(pl.all()).hash(seed=11).reinterpret(signed=True).alias(ORDER)).to_series()
        )
    if plan.roles.household is not None:
        ours.append(frame[plan.roles.household].hash(seed=7).reinterpret(signed=True).alias(HOME))
    return new.with_columns(ours)


def _merged(rows: DataFrame, plan: PublishPlan) -> np.ndarray:
    """For each part the part it is solved with."""
    decoder = plan.roles.decoder

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            frame = decoder(frame_of(batch))
            parts = route(frame, plan)
            sizes = np.bincount(parts[parts >= 0], minlength=plan.n_parts)
            yield pickled((sizes, spread_of(frame, parts, plan)))

    sizes, spread = np.zeros(plan.n_parts, np.int64), []
    for found, values in collected(rows.select(ROW, *plan.roles.needed), count):
        sizes += found
        spread += values
    return merged_parts(sizes, plan, added_spread(spread) if spread else None)
