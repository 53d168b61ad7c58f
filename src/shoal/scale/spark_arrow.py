"""Between Spark's rows and frames: batches, schemas, and what tasks send back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.scale.plan import Plan
from shoal.scale.solving import replaced
from shoal.scale.survey import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART = "__part__"
GROUP = "__group__"
# The sums of a part, in its first row.
LOSS, TOTAL = "__loss__", "__total__"
OURS = (ROW, PART, GROUP, LOSS, TOTAL)


def collected(rows: DataFrame, look: Callable[..., Any]) -> Iterator[Any]:
    """Results of a function over batches, gathered on the driver in the order of partitions."""
    for each in rows.mapInArrow(look, "result binary").collect():
        yield pickle.loads(each["result"])  # noqa: S301 (made by our own tasks)


def pickled(value: Any) -> pa.RecordBatch:
    """A result of a task as the batch it is sent in."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], ["result"])


def frame_of(data: Any) -> pl.DataFrame:
    """A batch or table of Arrow as a frame."""
    frame = pl.from_arrow(data)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def arrow_of(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """A frame as a table of the schema that Spark was told."""
    return frame.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)


def arrow_schema(rows: DataFrame) -> pa.Schema:
    """Names and types of the columns in Arrow."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([pa.field(each.name, each.type) for each in to_arrow_schema(rows.schema)])


def spark_schema(schema: pa.Schema) -> Any:
    """The same in Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def published_schema(sent: pa.Schema, plan: Plan, hashed: bool) -> pa.Schema:
    """Types of the published columns: what aggregation makes of those that came."""
    empty = frame_of(sent.empty_table())
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
