"""Spark: a table whose partitions come to this machine one after the other, as Arrow batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import polars as pl

from shoal.dp.loading.sources._source import Source
from shoal.errors import InputError


class SparkSource(Source):
    """A table of Spark.

    Parameters
    ----------
    table : pyspark.sql.DataFrame

    Notes
    -----
    Spark selects columns and hands partitions over; it adds nothing up. The package must be installed on the workers.
    """

    def __init__(self, table: Any) -> None:
        self.table = table

    def __str__(self) -> str:
        return "The table of Spark"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        names = tuple(self.table.columns)
        if len(set(names)) < len(names):
            raise InputError(f"{self} must have a name of its own for each column. Got one twice.")
        return names

    def check_types(self, names: Sequence[str]) -> None:
        """See `Source.check_types`."""
        for name, kind in self.table.dtypes:
            if name in names and kind.startswith(("array", "map", "struct", "interval", "variant")):
                raise self.not_plain(name, kind)

    def batches(self, names: Sequence[str]) -> Generator[pl.DataFrame]:
        """See `Source.batches`."""
        some = list(names) or list(self.columns[:1])  # without a column the number of rows is lost
        chosen = self.table.select(*(f"`{name.replace('`', '``')}`" for name in some))
        try:
            for row in chosen.mapInArrow(packed, "batch binary").toLocalIterator(prefetchPartitions=False):
                found = pl.read_ipc_stream(bytes(row[0]))
                yield found if names else found.select()
        except Exception as error:
            if isinstance(error, InputError):
                raise
            # What Spark says may quote a cell.
            raise InputError(f"{self} cannot be read to its end.") from None


def packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Each Arrow batch as one cell that holds its bytes: the way in which Spark hands batches on unchanged."""
    import pyarrow as pa

    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])
