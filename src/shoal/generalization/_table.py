"""Columns of a table as leaves of hierarchies, and classes as cells again."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.errors import InputError, ParameterError, SchemaError
from shoal.generalization._cuts import from_breaks, from_dates, intervals
from shoal.generalization._hierarchy import Hierarchy, read_hierarchies

# A column with more values than this starts at its first level with fewer nodes.
MOST_LEAVES = 2_048


@dataclass(frozen=True)
class CodedColumn:
    """One column as leaves.

    Attributes
    ----------
    tree : Hierarchy
        Of the values that occur.
    codes : array of int64, (n_records,)
    cells : polars.Series
        As they came.
    start : int
        The level its leaves stand at in the whole hierarchy: above 0 where there were too many values.
    """

    tree: Hierarchy
    codes: np.ndarray
    cells: pl.Series
    start: int = 0


def code_column(
    series: pl.Series, tree: Hierarchy | None, breaks: Sequence[Any] | None = None
) -> CodedColumn:
    """Code a column by its hierarchy; without one numbers get intervals, dates months, the rest nothing between."""
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    values = series.drop_nulls().unique().sort()
    if tree is None:
        tree = _made(series, values, breaks)
        places = {value: at for at, value in enumerate(tree.leaves)}
        positions = [places[value] for value in values.to_list()]
    else:
        by_text = {str(leaf): at for at, leaf in enumerate(tree.leaves)}
        texts = values.cast(pl.String).to_list()
        odd = [text for text in texts if text not in by_text]
        if odd:
            raise SchemaError(
                f"The hierarchy of column {series.name!r} must hold all its values. "
                f"It lacks {len(odd)} of {len(texts)}, {odd[0]!r} for one."
            )
        positions = [by_text[text] for text in texts]
    missing = int(series.null_count())
    if missing:
        tree = tree.with_missing()
    where = np.asarray([*positions, len(tree.leaves) - 1] if missing else positions, np.int64)
    numbers = series.replace_strict(
        values, pl.Series(np.arange(values.len())), default=values.len(), return_dtype=pl.Int64
    )
    leaves = where[numbers.fill_null(values.len()).to_numpy()]
    level = 0
    while level < tree.n_levels - 1 and np.unique(tree.up[level][where]).size > MOST_LEAVES:
        level += 1
    kept = tree.restricted(np.unique(where), level)
    at_level = tree.up[level]
    bottom = np.unique(at_level[where])
    return CodedColumn(kept, np.searchsorted(bottom, at_level[leaves]), series, level)


def _made(series: pl.Series, values: pl.Series, breaks: Sequence[Any] | None) -> Hierarchy:
    """A hierarchy from the values themselves."""
    listed = values.to_list()
    if breaks is not None:
        if not series.dtype.is_numeric():
            raise SchemaError(
                f"Breaks cut numbers. Column {series.name!r} holds cells of type {series.dtype}."
            )
        return from_breaks(series.name, listed, breaks)
    if not listed:
        return Hierarchy.flat(series.name, [""])
    if series.dtype.is_numeric():
        return intervals(series.name, listed)
    if isinstance(listed[0], (datetime.date, datetime.datetime)):
        return from_dates(series.name, listed)
    return Hierarchy.flat(series.name, listed)


def hierarchies_of(given: Mapping[str, Any] | str | Path | None) -> dict[str, Hierarchy]:
    """Hierarchies by column: a folder of CSV files, or objects, nested lists, named parents or files."""
    if given is None:
        return {}
    if isinstance(given, (str, Path)):
        return read_hierarchies(given)
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"'hierarchies' must be a folder or map columns to hierarchies. Got {type(given).__name__}."
        )
    found = {}
    for name, each in given.items():
        if isinstance(each, Hierarchy):
            found[name] = each
        elif isinstance(each, Mapping):
            found[name] = Hierarchy.from_parents(name, each)
        elif isinstance(each, (str, Path)):
            found[name] = Hierarchy.from_csv(each, name)
        elif isinstance(each, (list, tuple)):
            found[name] = Hierarchy.nested(name, each)
        else:
            raise ParameterError(
                f"The hierarchy of column {name!r} must be nested lists, parents or a file. Got {each!r}."
            )
    return found


def released(column: CodedColumn, nodes: np.ndarray) -> pl.Series:
    """The cells of a column when each record stands at a node; -1 for a suppressed one."""
    tree, name = column.tree, column.cells.name
    leaves = len(tree.leaves)
    exact = (nodes >= 0) & (nodes < leaves)
    if column.start == 0 and bool(exact.all()):
        return column.cells
    texts = np.array([*(label or None for label in tree.labels), None], dtype=object)
    cells = pl.Series(name, texts[nodes].tolist(), dtype=pl.String)
    if column.start == 0 and exact.any():
        own = column.cells.cast(pl.String)
        cells = pl.select(pl.when(pl.Series(exact)).then(own).otherwise(cells)).to_series().alias(name)
    if column.start == 0 and not ((nodes >= 0) & ~exact).any():  # only blanks: the kind of the column stays
        return column.cells.set(pl.Series(nodes < 0), None)
    return cells


def sets_of(column: CodedColumn, labels: np.ndarray) -> tuple[pl.Series, np.ndarray]:
    """Each class as the values present in it, and how many of the domain's values that is.

    Values of a category are joined by "|"; numbers and dates are given from the smallest to the largest.
    """
    tree, groups = column.tree, int(labels.max(initial=-1)) + 1
    spread = column.cells.dtype.is_numeric() or column.cells.dtype.is_temporal()
    spread = spread and column.start == 0
    # The leaves of a hierarchy from a file are texts: a range is of the cells themselves.
    leaves, first = np.unique(column.codes, return_index=True)
    values = dict(zip(leaves.tolist(), column.cells.gather(first).to_list(), strict=True))
    pairs = np.unique(np.stack([labels, column.codes]), axis=1)
    pairs = pairs[:, pairs[0] >= 0]
    texts: list[str | None] = [None] * groups
    covered = np.ones(groups)
    starts = np.searchsorted(pairs[0], np.arange(groups + 1))
    for g in range(groups):
        inside = pairs[1][starts[g] : starts[g + 1]]
        if inside.size == 1:
            texts[g] = tree.labels[inside[0]] or None
            continue
        covered[g] = tree.covered[inside].sum()
        if spread and all(values[at] is not None for at in inside):
            low, high = min(values[at] for at in inside), max(values[at] for at in inside)
            texts[g] = _from_to(low, high)
            if isinstance(tree.leaves[inside[0]], str):  # a hierarchy of names counts what the range takes in
                taken = [at for at in values if values[at] is not None and low <= values[at] <= high]
                covered[g] = tree.covered[taken].sum()
            elif not isinstance(low, (datetime.date, datetime.datetime)):
                covered[g] = float(high - low) + tree.covered[inside[0]]
        else:
            texts[g] = "|".join(tree.labels[at] or "missing" for at in inside)
    cells = np.array([*texts, None], dtype=object)[labels].tolist()
    return pl.Series(column.cells.name, cells, dtype=pl.String), covered


def _from_to(low: Any, high: Any) -> str:
    if isinstance(low, (datetime.date, datetime.datetime)):
        return f"{low.isoformat()[:10]} to {high.isoformat()[:10]}"
    return f"{low:.12g}-{high:.12g}" if low >= 0 else f"{low:.12g} to {high:.12g}"


def table_of(X: Any, columns: Sequence[str] | None) -> pl.DataFrame:
    """The columns to recode as polars; an array gets names x0, x1, ..."""
    from shoal.engine.frame import Frame, is_frame

    if is_frame(X):
        frame = Frame(X)
        if columns is not None:
            frame.require(list(columns))
        table = frame.to_polars()
        return table if columns is None else table.select(columns)
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InputError(
            f"The records must be a table or an array of two dimensions. Got shape {array.shape}."
        )
    if columns is not None:
        raise ParameterError("'columns' names columns of a table. Got an array.")
    parts = [pl.Series(f"x{c}", array[:, c].tolist(), strict=False) for c in range(array.shape[1])]
    return pl.DataFrame(parts)
