"""Names that SELECT gives, used elsewhere in the statement: what they stand for, also where a column has the same name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from shoal.dp.sql.expressions import Expr, Literal, col
from shoal.dp.sql.statement import Item
from shoal.dp.sql.tree import mapped, walk
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


def referred(node: Expr, items: Sequence[Item]) -> Expr:
    """What a position or an alias in GROUP BY, HAVING or ORDER BY stands for."""
    if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
        meant = items[node.value - 1].value if 1 <= node.value <= len(items) else None
        if meant is None:
            raise QueryError(f"Position {node.value} is not among the {len(items)} columns of SELECT.")
        return meant
    return unaliased(node, items) if isinstance(node, col) else node


def unaliased(node: Expr, items: Sequence[Item]) -> Expr:
    """An expression with the names that SELECT gives replaced by what they stand for."""

    def change(each: Expr) -> Expr | None:
        if isinstance(each, col) and not each.table:
            for item in items:
                if item.alias and item.alias.lower() == each.name.lower() and item.value is not None:
                    return item.value
        return None

    return mapped(node, change)


def key_text(node: Expr) -> str:
    """The text of an expression in which bare names are alike in any case."""
    return str(
        mapped(
            node,
            lambda each: (
                col(each.name.lower(), each.table.lower())
                if isinstance(each, col) and not each.quoted
                else None
            ),
        )
    )
