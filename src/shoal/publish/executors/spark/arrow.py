"""Between Spark's rows and frames: batches, schemas, and what tasks send back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from shoal.publish.stages.plan import PublishPlan
from shoal.publish.stages.release import released
from shoal.publish.stages.survey import ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PART = "__part__"
# What a part adds to the figures, in its first row; a row's household, and its place where rows are mixed.
SUMS, HOME, ORDER = "__sums__", "__home__", "__order__"
OURS = (ROW, PART, SUMS, HOME, ORDER)


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


def published_schema(sent: pa.Schema, plan: PublishPlan, key: bytes | None) -> pa.Schema:
    """Types of the published columns: what the stages make of those that came."""
    empty = plan.roles.decoder(frame_of(sent.empty_table()))
    width = len(plan.templates) + (plan.roles.weight is not None)
    made = released(empty, plan, np.empty((0, width)), np.empty((0, width), bool), key)
    new = made.to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    changed = {each.name for each in plan.templates} | {*plan.roles.decoder.written(empty)}
    changed |= {plan.roles.weight or "", plan.roles.household or "", *plan.roles.identifiers}
    fields = []
    for name in made.columns:
        kind = new.field(name).type if name in changed else sent.field(name).type
        fields.append(pa.field(name, pa.string() if pa.types.is_large_string(kind) else kind))
    fields += [pa.field(ROW, pa.int64()), pa.field(PART, pa.int64()), pa.field(SUMS, pa.binary())]
    fields += [pa.field(ORDER, pa.int64())] if plan.request.order == "shuffle" else []
    fields += [pa.field(HOME, pa.int64())] if plan.roles.household else []
    return pa.schema(fields)
