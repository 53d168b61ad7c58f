"""Runs that replace whole columns on Spark: the columns they look at come to the driver, all others stay where they are.

The new columns go back as a Parquet file beside the output and are joined to the rows by their number, so that the rest of
a table is never held in one memory. How much may come to the driver is the cluster's setting `spark.driver.maxResultSize`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from shoal.engine.pseudonyms import pseudonyms
from shoal.publish.executors import ReplacedDraft, Replacement
from shoal.publish.executors.spark.arrow import (
    HOME,
    ORDER,
    arrow_of,
    arrow_schema,
    collected,
    frame_of,
    pickled,
    spark_schema,
)
from shoal.publish.stages import check
from shoal.publish.stages.measure import MEASURED_RECORDS
from shoal.publish.stages.release import hidden, original_cells
from shoal.publish.stages.roles import DecidedRoles
from shoal.publish.stages.survey import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The published cells of a column, beside those it came with.
NEW = "__new__"


class SparkReplacement:
    """What would be published when some columns are replaced, written where it waits.

    Parameters
    ----------
    spark : SparkSession
    rows : pyspark.sql.DataFrame
        All rows, numbered.
    waiting : Path
        A folder beside the output.
    decided : DecidedRoles
    replacement : Replacement
    key : bytes or None
    """

    def __init__(
        self, spark: SparkSession, rows: DataFrame, waiting: Path, decided: DecidedRoles, replacement: Replacement,
        key: bytes | None,
    ) -> None:  # fmt: skip
        self.rows, self.decided, self.key = rows, decided, key
        self.has_homes = replacement.households is not None
        place = waiting / "new.parquet"
        _new_cells(replacement).write_parquet(place)
        joined = rows.join(spark.read.parquet(str(place)), ROW)
        sent = arrow_schema(joined)
        made = (
            self._published(frame_of(sent.empty_table()))
            .to_arrow(compat_level=pl.CompatLevel.oldest())
            .schema
        )
        schema = pa.schema(
            pa.field(each.name, pa.string() if pa.types.is_large_string(each.type) else each.type)
            for each in made
        )
        publish = self._task(schema)
        joined.mapInArrow(publish, spark_schema(schema)).write.mode("overwrite").parquet(
            str(waiting / "rows")
        )
        self.written = spark.read.parquet(str(waiting / "rows"))

    def draft(self) -> ReplacedDraft:
        """The classes of all rows as they lie on disk, and an even selection of rows before and after."""
        step = max(1, -(-self.written.count() // MEASURED_RECORDS))
        return ReplacedDraft(self._classes(), *self._selection(step))

    def _published(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a batch as they would be published, with their numbers."""
        decided, roles, key = self.decided, self.decided.roles, self.key
        decoded = roles.decoder(frame)
        changed = [name for name in frame.columns if name.startswith(NEW)]
        made = decoded.with_columns(decoded[name].alias(name.removeprefix(NEW)) for name in changed)
        gone = hidden(roles)
        if key is not None:
            made = made.with_columns(pseudonyms(decoded[name], key) for name in gone)
        names = [name for name in roles.names if decided.request.identifiers != "drop" or name not in gone]
        ours = [made[ROW]] + ([made[HOME]] if self.has_homes else [])
        shown = made.select(names)
        if decided.request.order == "shuffle":
            ours.append(
                shown.select(
                    pl.struct(pl.all()).hash(seed=11).reinterpret(signed=True).alias(ORDER)
                ).to_series()
            )
        return shown.with_columns(ours)

    def _task(self, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What each task does with its batches; it must not hold the session."""
        worker = object.__new__(SparkReplacement)
        worker.decided, worker.key, worker.has_homes = self.decided, self.key, self.has_homes

        def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for frame in map(frame_of, batches):
                yield from arrow_of(worker._published(frame), schema).to_batches()

        return publish

    def _classes(self) -> pl.DataFrame:
        """The classes of all rows as they lie on disk."""
        decided, homes = self.decided, self.has_homes

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [
                check.class_rows(frame, decided, frame[HOME] if homes else None)
                for frame in map(frame_of, batches)
                if frame.height
            ]
            if found:
                yield pickled(check.added(found))

        return check.added(collected(self.written, count))

    def _selection(self, step: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """An even selection of rows before and after."""
        from pyspark.sql import functions as sf

        roles, chosen = self.decided.roles, sf.col(ROW) % step == 0
        after = frame_of(self.written.where(chosen).orderBy(ROW).toArrow())
        before = frame_of(self.rows.where(chosen).orderBy(ROW).toArrow())
        before = roles.decoder(before.filter(pl.col(ROW).is_in(after[ROW].implode())))
        return original_cells(before, roles), after.select(n for n in roles.names if n not in hidden(roles))


def _new_cells(replacement: Replacement) -> pl.DataFrame:
    """The new cells of the kept rows, beside the numbers of these."""
    cells = [series.alias(NEW + name) for name, series in replacement.new.items()]
    if replacement.households is not None:
        cells.append(replacement.households.hash(seed=7).reinterpret(signed=True).alias(HOME))
    return replacement.table.select(ROW).with_columns(cells)
