"""What the order of the rows reveals, if it is kept."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

SORTED = 20
"""Rows from which a sorted column is no accident."""


def order_notes(head: pl.DataFrame, hidden: Iterable[str], protected: Iterable[str] = ()) -> tuple[str, ...]:
    """Sentences on an order that reveals what the cells hide.

    For hidden columns: which rows belong together, or the order of identifiers. For protected ones: who has more than whom.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.publish.stages.order import order_notes
    >>> order_notes(pl.DataFrame({"home": [7, 7, 2, 2, 4]}), ["home"])[0].partition(".")[0]
    "Rows with the same 'home' are next to each other, so the order of the rows shows them"
    >>> order_notes(pl.DataFrame({"home": [7, 2, 7, 4, 2]}), ["home"])
    ()
    """
    if head.height < 3:
        return ()
    said = []
    for name in hidden:
        cells = head[name]
        if cells.dtype == pl.Object:  # nothing can be told about these
            continue
        distinct = cells.n_unique()
        if 1 < distinct < head.height and cells.rle_id().n_unique() == distinct:
            said.append(
                f"Rows with the same {name!r} are next to each other, so the order of the rows shows them. --order shuffle "
                "hides it."
            )
        elif distinct == head.height and (cells.is_sorted() or cells.is_sorted(descending=True)):
            said.append(
                f"The rows are in the order of the identifier {name!r}, so anyone who knows that order knows who is who. "
                "--order shuffle hides it."
            )
    by = [name for name in protected if head.height >= SORTED and _is_sorted(head[name])]
    if by:
        said.append(
            f"The rows are sorted by {', '.join(map(repr, by))}, so their order shows who in a group has more than whom. "
            "--order shuffle hides it."
        )
    return tuple(said)


def _is_sorted(cells: pl.Series) -> bool:
    if cells.dtype == pl.Object or cells.dtype.is_nested() or cells.n_unique() < 3:
        return False
    present = cells.drop_nulls()
    return present.is_sorted() or present.is_sorted(descending=True)
