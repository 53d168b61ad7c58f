"""Aggregates over tables of any size: a pure function per batch, and one that adds the results up.

Nothing random happens here: noise is drawn once, where the session is, on what comes back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from shoal.publish.executors.parts.source import BATCH_ROWS, open_source

# Partial results waiting to be added up.
WAITING = 64


def query_file(
    path: str | Path,
    partial: Callable[[pl.DataFrame], Any],
    combine: Callable[[Sequence[Any]], Any],
    *,
    columns: list[str] | None = None,
    rows: int = BATCH_ROWS,
) -> Any:
    """Combine the partial results of all batches of a file.

    Parameters
    ----------
    path : str or Path
        Parquet, Arrow or CSV, or a folder of files of one kind.
    partial : callable
        Batch to partial result, such as `dp.exact.partial` of a plan after loading.
    combine : callable
        List of partial results to one.
    columns : list of str, optional
        The only columns that are read.
    rows : int
        Rows of a batch.

    Notes
    -----
    Memory is that of one batch and 64 partial results.

    Examples
    --------
    >>> import polars as pl, tempfile, pathlib
    >>> from shoal.publish.executors.parts.queries import query_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "t.parquet"
    >>> pl.DataFrame({"x": range(10)}).write_parquet(path)
    >>> query_file(path, lambda batch: batch["x"].sum(), sum, rows=3)
    45
    """
    with tempfile.TemporaryDirectory(prefix="shoal-") as work:
        waiting: list[Any] = []
        for batch in open_source(path, Path(work)).batches(columns, rows):
            waiting.append(partial(batch))
            if len(waiting) == WAITING:
                waiting = [combine(waiting)]
        return combine(waiting)
