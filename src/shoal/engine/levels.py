"""What a frame carries beside its cells: the levels of categories, and words about the table.

A published frame lists only levels that occur in it. A list of all levels would tell values that were averaged,
suppressed or dropped with their rows.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa


def bare(native: Any) -> Any:
    """A pandas, polars or pyarrow table whose categories list the levels that occur, without words beside the cells.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.engine.levels import bare
    >>> frame = pl.DataFrame({"town": ["ash", "ash"]}, schema={"town": pl.Enum(["ash", "elm"])})
    >>> bare(frame).schema["town"]
    Enum(categories=['ash'])
    """
    if isinstance(native, pl.DataFrame):
        listed = [name for name, dtype in native.schema.items() if dtype == pl.Enum]
        return native.with_columns(_of_enum(native[name]) for name in listed)
    if isinstance(native, pa.Table):
        columns = [_of_arrow(each) for each in native.columns]
        fields = [
            pa.field(each.name, column.type, each.nullable)
            for each, column in zip(native.schema, columns, strict=True)
        ]
        return pa.table(columns, schema=pa.schema(fields))
    return _of_pandas(native) if hasattr(native, "attrs") else native


def texts(frame: pl.DataFrame) -> pl.DataFrame:
    """A batch of a table with texts in place of columns whose type lists levels, as other batches may have others."""
    return frame.with_columns(
        pl.col(name).cast(pl.String) for name, dtype in frame.schema.items() if dtype == pl.Enum
    )


def as_before(values: Any, before: Any) -> Any:
    """A pandas column as the categories it was: those that occur, in their order where all of them had a place in it."""
    import pandas as pd

    present = set(values.dropna().unique())
    if not present <= set(before.categories):
        return values.astype("category")
    levels = [each for each in before.categories if each in present]
    return values.astype(pd.CategoricalDtype(levels, ordered=before.ordered))


def _of_enum(series: pl.Series) -> pl.Series:
    present = set(series.drop_nulls().unique().cast(pl.String).to_list())
    levels = [each for each in series.dtype.categories.to_list() if each in present]  # type: ignore[attr-defined]
    return series.cast(pl.String).cast(pl.Enum(levels))


def _of_arrow(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    import pyarrow.compute as pc  # takes a while, and few tables have dictionaries

    kind = column.type
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    present = pc.unique(whole.indices.drop_null()).sort()
    indices = pc.index_in(whole.indices, present).cast(kind.index_type)
    levels = whole.dictionary.take(present)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, levels, ordered=kind.ordered)], kind)


def _of_pandas(frame: Any) -> Any:
    frame = frame.rename_axis(index=None)
    frame.attrs = {}
    for at, dtype in enumerate(frame.dtypes):
        name = frame.columns[at]
        if type(dtype).__name__ == "CategoricalDtype":
            frame[name] = frame[name].cat.remove_unused_categories()
        elif type(dtype).__name__ == "ArrowDtype" and pa.types.is_dictionary(dtype.pyarrow_dtype):
            cells = frame[name].array.__arrow_array__()
            chunked = cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])
            frame[name] = type(frame[name].array)(_of_arrow(chunked))
    return frame
