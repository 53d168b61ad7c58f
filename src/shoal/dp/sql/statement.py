"""Where rows come from: tables, joins and sub-queries, as SQL text or Python names them."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.dp.sql.expressions import Expr, Predicate, enclosed, name_text


class FromItem:
    """A table, a join of two, or a sub-query."""


@dataclass(frozen=True, eq=False)
class NamedTable(FromItem):
    """A table by its name, and what the query calls it."""

    name: str
    alias: str = ""

    def __str__(self) -> str:
        return name_text(self.name) + (f" AS {name_text(self.alias)}" if self.alias else "")


@dataclass(frozen=True, eq=False)
class Join(FromItem):
    """Rows of two sources side by side.

    Parameters
    ----------
    left, right : FromItem
    how : {"INNER", "LEFT", "RIGHT", "FULL"}
    on : Expr, optional
    using : tuple of str, default ()
        Columns of equal names, in place of `on`.
    """

    left: FromItem
    right: FromItem
    how: str
    on: Expr | None = None
    using: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = "" if self.how == "INNER" else f"{self.how} "
        rule = (
            f"ON {self.on}"
            if self.on is not None
            else f"USING ({', '.join(name_text(each) for each in self.using)})"
        )
        right = f"({self.right})" if isinstance(self.right, Join) else str(self.right)
        return f"{self.left} {how}JOIN {right} {rule}"


@dataclass(frozen=True, eq=False)
class Item:
    """A column of a sub-query: its expression (None: every column) and its name."""

    value: Expr | None
    alias: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return "*"
        return str(self.value) + (f" AS {name_text(self.alias)}" if self.alias else "")


@dataclass(frozen=True, eq=False)
class SubSelect(FromItem):
    """A query whose rows are asked about: filtered, computed, or one for each unit."""

    items: tuple[Item, ...]
    source: FromItem
    where: Expr | None = None
    groups: tuple[Expr, ...] = ()
    having: Expr | None = None
    distinct: bool = False
    alias: str = ""
    by_name: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(str(each) for each in self.items)} FROM {self.source}"  # noqa: S608 - read by our own parser
        text += "" if self.where is None else f" WHERE {self.where}"
        text += f" GROUP BY {', '.join(str(each) for each in self.groups)}" if self.groups else ""
        text += "" if self.having is None else f" HAVING {self.having}"
        return f"({text})" + (f" AS {name_text(self.alias)}" if self.alias else "")


@dataclass(frozen=True, eq=False)
class InSelect(Predicate):
    """Whether a key is among those of a sub-query."""

    key: Expr
    rows: SubSelect

    def __str__(self) -> str:
        return f"{enclosed(self.key)} IN {self.rows}"
