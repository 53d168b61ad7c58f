"""Where private rows come from: files, folders of Parquet, DuckDB, PostgreSQL, Spark.

Every source gives its cells, as texts or as stored, in batches; one decoder (`shoal.dp.loading.load`) makes of each
row what the schema says. No source adds anything up itself, so that none of its rules about missing values, text
order, rounding or division reaches a figure.
"""

from __future__ import annotations

from shoal.dp.loading.sources._files import read_cells, read_private, wanted_columns
from shoal.dp.loading.sources._open import (
    is_location,
    located_table,
    open_source,
    open_table,
    whole_table,
    without_password,
)
from shoal.dp.loading.sources._source import BATCH_ROWS, Source

__all__ = [
    "BATCH_ROWS",
    "Source",
    "is_location",
    "located_table",
    "open_source",
    "open_table",
    "read_cells",
    "read_private",
    "wanted_columns",
    "whole_table",
    "without_password",
]
