"""Runs that replace whole columns on Spark: the columns they look at come to the driver, all others stay where they are.

The new columns go back as a Parquet file beside the output and are joined to the rows by their number, so that the rest of
a table is never held in one memory. How much may come to the driver is the cluster's setting `spark.driver.maxResultSize`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.engine.pseudonyms import pseudonyms
from shoal.publish.executors import GivenOut
from shoal.publish.executors.spark import SparkRows
from shoal.publish.executors.spark.arrow import (
    HOME,
    ORDER,
    OURS,
    arrow_of,
    arrow_schema,
    collected,
    frame_of,
    pickled,
    spark_schema,
)
from shoal.publish.result import original_cells
from shoal.publish.stages import check
from shoal.publish.stages.release import hidden
from shoal.publish.stages.roles import DecidedRoles, Roles
from shoal.publish.stages.survey import ROW, kept_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The published cells of a column, beside those it came with.
NEW = "__new__"


def needed_columns(rows: SparkRows, roles: Roles, names: Collection[str]) -> pl.DataFrame:
    """The decoded columns a run looks at, on the driver, in the order of the rows."""
    wanted = [name for name in roles.names if name in names]
    table = frame_of(rows.rows.select(ROW, *wanted).orderBy(ROW).toArrow())
    return kept_rows(roles.decoder(table), roles.quasi)


class Replaced:
    """What would be published when some columns are replaced, written where it waits.

    Parameters
    ----------
    rows : SparkRows
    settled : DecidedRoles
    table : polars.DataFrame
        As `needed_columns` gave it.
    new : mapping of str to polars.Series
    key : bytes or None
    households : polars.Series or None
    """

    def __init__(
        self, rows: SparkRows, settled: DecidedRoles, table: pl.DataFrame, new: Mapping[str, pl.Series], key: bytes | None,
        households: pl.Series | None,
    ) -> None:  # fmt: skip
        self.rows, self.settled, self.key = rows, settled, key
        self.has_homes = households is not None
        joined = self._joined(table, new, households)
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
            str(rows.waiting / "rows")
        )
        self.written = rows.spark.read.parquet(str(rows.waiting / "rows"))

    def _joined(
        self, table: pl.DataFrame, new: Mapping[str, pl.Series], households: pl.Series | None
    ) -> DataFrame:
        """All columns of the kept rows, with the new cells beside them."""
        cells = [series.alias(NEW + name) for name, series in new.items()]
        if households is not None:
            cells.append(households.hash(seed=7).reinterpret(signed=True).alias(HOME))
        self.rows.waiting.mkdir(parents=True, exist_ok=True)
        place = self.rows.waiting / "new.parquet"
        table.select(ROW).with_columns(cells).write_parquet(place)
        return self.rows.rows.join(self.rows.spark.read.parquet(str(place)), ROW)

    def _published(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a batch as they would be published, with their numbers."""
        settled, roles, key = self.settled, self.settled.roles, self.key
        decoded = roles.decoder(frame)
        changed = [name for name in frame.columns if name.startswith(NEW)]
        made = decoded.with_columns(decoded[name].alias(name.removeprefix(NEW)) for name in changed)
        gone = hidden(roles)
        if key is not None:
            made = made.with_columns(pseudonyms(decoded[name], key) for name in gone)
        names = [name for name in roles.names if settled.request.identifiers != "drop" or name not in gone]
        ours = [made[ROW]] + ([made[HOME]] if self.has_homes else [])
        shown = made.select(names)
        if settled.request.order == "shuffle":
            ours.append(
                shown.select(
                    pl.struct(pl.all()).hash(seed=11).reinterpret(signed=True).alias(ORDER)
                ).to_series()
            )
        return shown.with_columns(ours)

    def _task(self, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What each task does with its batches; it must not hold the session."""
        worker = object.__new__(Replaced)
        worker.settled, worker.key, worker.has_homes = self.settled, self.key, self.has_homes

        def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for frame in map(frame_of, batches):
                yield from arrow_of(worker._published(frame), schema).to_batches()

        return publish

    def classes(self) -> pl.DataFrame:
        """The classes of all rows as they lie on disk."""
        settled, homes = self.settled, self.has_homes

        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [
                check.class_rows(frame, settled, frame[HOME] if homes else None)
                for frame in map(frame_of, batches)
                if frame.height
            ]
            if found:
                yield pickled(check.added(found))

        return check.added(collected(self.written, count))

    def selection(self, step: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """An even selection of rows before and after."""
        from pyspark.sql import functions as sf

        roles, chosen = self.settled.roles, sf.col(ROW) % step == 0
        after = frame_of(self.written.where(chosen).orderBy(ROW).toArrow())
        before = frame_of(self.rows.rows.where(chosen).orderBy(ROW).toArrow())
        before = roles.decoder(before.filter(pl.col(ROW).is_in(after[ROW].implode())))
        return original_cells(before, roles), after.select(n for n in roles.names if n not in hidden(roles))

    def give(self, labels: np.ndarray) -> GivenOut:
        """Put the rows in order and give the folder its name."""
        del labels
        by = ORDER if self.settled.request.order == "shuffle" else ROW
        self.written.orderBy(by).drop(*OURS).write.parquet(str(self.rows.output))
        return GivenOut()
