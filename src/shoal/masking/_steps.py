"""Steps before the groups are formed: top and bottom coding, recoding along a hierarchy."""

from __future__ import annotations

from numbers import Real
from typing import Any

import polars as pl

from shoal.errors import InputError, SchemaError
from shoal.masking._kinds import changed_cells
from shoal.params import Interval, check_params
from shoal.schema.trees import set_label


def code_ends(series: Any, bottom: float | None = None, top: float | None = None) -> Any:
    """Replace values below `bottom` by it, and values above `top` by it.

    Parameters
    ----------
    series : series (pandas, polars), array or list of numbers
    bottom, top : float, optional

    Returns
    -------
    the same kind

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import code_ends
    >>> code_ends(pl.Series([1, 50, 99]), bottom=10, top=90).to_list()
    [10, 50, 90]
    """
    return changed_cells(series, lambda cells: cells.clip(lower_bound=bottom, upper_bound=top))


def round_to(series: Any, base: float) -> Any:
    """Round numbers to the nearest multiple of `base`; halves go to the even multiple.

    Parameters
    ----------
    series : series (pandas, polars), array or list of numbers
    base : float
        Above 0.

    Returns
    -------
    the same kind

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import round_to
    >>> round_to(pl.Series([1204, 1250, None]), 100).to_list()
    [1200, 1200, None]
    """
    check_params("round_to", {"base": Interval(Real, 1e-300, 1e300)}, {"base": base})

    def rounded(cells: pl.Series) -> pl.Series:
        if not cells.dtype.is_numeric():
            raise InputError(
                f"Rounding needs numbers. Column {cells.name!r} holds cells of type {cells.dtype}."
            )
        new = (cells.cast(pl.Float64) / base).round(mode="half_to_even") * base
        whole = cells.dtype.is_integer() and float(base).is_integer()
        return new.cast(cells.dtype) if whole else new

    return changed_cells(series, rounded)


def recode(series: Any, hierarchy: Any, steps: int = 1) -> Any:
    """Replace levels by the sets they are nested in, `steps` up from the leaves.

    A set is written as its name, else as its members joined by "|".

    Parameters
    ----------
    series : series (pandas, polars), array or list of levels
    hierarchy : nested tuples or lists of levels
    steps : int, default 1

    Returns
    -------
    the same kind, of texts

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import recode
    >>> recode(pl.Series(["a", "b", "c"]), (("a", "b"), ("c",)), 1).to_list()
    ['a|b', 'a|b', 'c']
    """
    paths = dict(_paths(hierarchy, ()))
    cells = {}
    for level, parents in paths.items():
        sets = [(level,), *reversed(parents)]
        cells[level] = set_label(sets[min(steps, len(sets) - 1)])
    return changed_cells(series, lambda levels: _recoded(levels, cells))


def _recoded(levels: pl.Series, cells: dict[str, str]) -> pl.Series:
    texts = levels.cast(pl.String)
    odd = texts.drop_nulls().filter(~texts.drop_nulls().is_in(list(cells)))
    if odd.len():
        raise SchemaError(
            f"The hierarchy of column {levels.name!r} must hold all its values. It lacks {odd[0]!r}."
        )
    return texts.replace_strict(cells, default=None, return_dtype=pl.String)


def _paths(node: Any, parents: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
    """Each level with the sets it lies in, the outermost first."""
    if not isinstance(node, (list, tuple)):
        return [(str(node), parents)]
    return [path for child in node for path in _paths(child, (*parents, node))]
