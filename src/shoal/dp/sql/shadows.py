"""Names that SELECT gives, used elsewhere in the statement: what they mean where a column has the same name."""

from __future__ import annotations

from collections.abc import Collection

from shoal.dp.sql.expressions import Expr, col
from shoal.dp.sql.statement import Item
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError


def names_used(nodes: list[Expr], items: list[Item]) -> tuple[str, ...]:
    """Names that SELECT gives to something else than the column of that name, where other parts use them."""
    given = {
        item.alias.lower()
        for item in items
        if item.alias and not (isinstance(item.value, col) and item.value.name.lower() == item.alias.lower())
    }
    found = [each for node in nodes for each in walk(node) if isinstance(each, col) and not each.table]
    for item in items:  # of its own name an item says the column
        within = () if item.value is None else walk(item.value)
        found += [
            each
            for each in within
            if isinstance(each, col) and not each.table and each.name.lower() != item.alias.lower()
        ]
    return tuple(dict.fromkeys(each.name for each in found if each.name.lower() in given))


def check_shadowed(by_name: tuple[str, ...], columns: Collection[str]) -> None:
    """Raise where a name that is used means a column as well: dialects of SQL differ in which of the two they take."""
    taken = {each.lower() for each in columns}
    for name in by_name:
        if name.lower() in taken:
            raise QueryError(
                f"{name!r} is the name of a column and of something else in SELECT: give it another name, or group by its position."
            )
