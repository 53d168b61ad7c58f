"""Steps before the groups are formed: top and bottom coding, recoding along a hierarchy."""

from __future__ import annotations

from typing import Any

import polars as pl

from shoal.errors import SchemaError


def code_ends(series: pl.Series, bottom: float | None = None, top: float | None = None) -> pl.Series:
    """Replace values below `bottom` by it, and values above `top` by it.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.masking import code_ends
    >>> code_ends(pl.Series([1, 50, 99]), bottom=10, top=90).to_list()
    [10, 50, 90]
    """
    return series.clip(lower_bound=bottom, upper_bound=top)


def recode(series: pl.Series, hierarchy: Any, steps: int = 1) -> pl.Series:
    """Replace levels by the sets they are nested in, `steps` up from the leaves.

    A set is written as its members joined by "|".

    Parameters
    ----------
    series : polars.Series of texts
    hierarchy : nested tuples or lists of levels
    steps : int, default 1

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
        cells[level] = "|".join(str(each) for each in sets[min(steps, len(sets) - 1)])
    odd = [value for value in series.drop_nulls().unique().to_list() if str(value) not in cells]
    if odd:
        raise SchemaError(
            f"The hierarchy of column {series.name!r} must hold all its values. It lacks {odd[0]!r}."
        )
    return series.cast(pl.String).replace_strict(cells, default=None, return_dtype=pl.String)


def _paths(node: Any, parents: tuple[tuple[str, ...], ...]) -> list[tuple[str, tuple[tuple[str, ...], ...]]]:
    if not isinstance(node, (list, tuple)):
        return [(str(node), parents)]
    inside = tuple(_leaves(node))
    return [path for child in node for path in _paths(child, (*parents, inside))]


def _leaves(node: Any) -> list[str]:
    if not isinstance(node, (list, tuple)):
        return [str(node)]
    return [leaf for child in node for leaf in _leaves(child)]
