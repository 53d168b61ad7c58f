"""Names that SELECT gives, used elsewhere in the statement: what they mean where a column has the same name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from shoal.dp.sql.expressions import Expr, col
from shoal.dp.sql.statement import Item
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError


def names_used(
    grouped: Iterable[Expr], others: Iterable[Expr], groups: Iterable[Expr], items: Sequence[Item]
) -> tuple[str, ...]:
    """Names that SELECT gives to something else than the column of that name, used where they could mean the column.

    Parameters
    ----------
    grouped : iterable of Expr
        What GROUP BY says, as written: a name alone may be either.
    others : iterable of Expr
        HAVING, and what ORDER BY makes of names. There a column stands only if it is grouped by.
    groups : iterable of Expr
        What GROUP BY means.
    items : sequence of Item
        Of SELECT; in its own item a name is the column's.
    """
    given = {
        item.alias.lower()
        for item in items
        if item.alias and not (isinstance(item.value, col) and item.value.name.lower() == item.alias.lower())
    }
    inside = {each.name.lower() for group in groups for each in _columns(group)}
    alone = [each.name for each in grouped if isinstance(each, col) and not each.table]
    within = [each.name for node in others for each in _columns(node)]
    for item in items:
        mine = () if item.value is None else _columns(item.value)
        within += [each.name for each in mine if each.name.lower() != item.alias.lower()]
    found = [*alone, *(each for each in within if each.lower() in inside)]
    return tuple(dict.fromkeys(each for each in found if each.lower() in given))


def _columns(node: Expr) -> list[col]:
    return [each for each in walk(node) if isinstance(each, col) and not each.table]


def check_shadowed(by_name: tuple[str, ...], columns: Collection[str]) -> None:
    """Raise where a name that is used means a column as well: dialects of SQL differ in which of the two they take."""
    taken = {each.lower() for each in columns}
    for name in by_name:
        if name.lower() in taken:
            raise QueryError(
                f"{name!r} is the name of a column and of something else in SELECT: give it another name, or group by its position."
            )
