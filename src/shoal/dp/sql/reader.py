"""A SELECT as it stands in the text: its items, rows, groups and order, and the sub-queries in it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from shoal.dp.sql.calls import CallParser, has_figure
from shoal.dp.sql.expressions import Call, Expr, Literal, Predicate, col
from shoal.dp.sql.shadows import names_used
from shoal.dp.sql.statement import FromItem, InSelect, Item, Join, NamedTable, SubSelect
from shoal.dp.sql.tree import mapped, walk
from shoal.dp.sql.words import RESERVED
from shoal.errors import QueryError


@dataclass(frozen=True, eq=False)
class Statement:
    """A SELECT as it was read."""

    items: tuple[Item, ...]
    source: FromItem | None
    where: Expr | None
    groups: tuple[Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    having: Expr | None
    order: tuple[tuple[Expr, bool, bool], ...]
    limit: int | None
    offset: int
    distinct: bool
    options: tuple[tuple[str, Any], ...]
    by_name: tuple[str, ...] = ()  # names that SELECT gives and other parts use


class Reader(CallParser):
    """A parser that knows SELECT."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.named: dict[str, Statement] = {}
        self._grouped: list[Expr] = []  # what GROUP BY says, as written

    def statement(self) -> Statement:
        """A SELECT, with the sub-queries named before it."""
        return self.deeper(self._statement)

    def _statement(self) -> Statement:
        outside, self.named = self.named, dict(self.named)  # names of this WITH hold in this statement alone
        if self.skip("WITH"):
            self._with()
        found = self._select()
        self.named = outside
        return found

    def _with(self) -> None:
        if self.at("RECURSIVE"):
            raise QueryError("WITH RECURSIVE is not answered: its work would depend on the rows.")
        here = set()
        while True:
            name = self.name("a name after WITH").lower()
            if name in here:
                raise QueryError(f"Two queries of WITH are called {name!r}: give each a name of its own.")
            here.add(name)
            self.expect("AS")
            self.expect("(")
            self.named[name] = self.statement()
            self.expect(")")
            if not self.skip(","):
                break

    def _select(self) -> Statement:
        self.expect("SELECT")
        options = self._options()
        limit = self._top()
        distinct = self.skip("DISTINCT")
        self.skip("ALL")
        items = [self._item()]
        while self.skip(","):
            if self.at("FROM"):
                break
            items.append(self._item())
        source = self._from() if self.skip("FROM") else None
        inside, self.inside = self.inside, True
        where = self._no_figure(self.expression) if self.skip("WHERE") else None
        self.inside = inside
        self._grouped = []
        groups, sets = self._groups(items) if self.skip("GROUP", "BY") else ((), ())
        grouped = self._grouped
        having = self.expression() if self.skip("HAVING") else None
        order = self._order() if self.skip("ORDER", "BY") else ()
        limit, offset = self._limit(limit)
        others = [] if having is None else [having]
        # A name alone in ORDER BY is what SELECT calls so, everywhere.
        others += [each[0] for each in order if not isinstance(each[0], col)]
        by_name = names_used(grouped, others, groups, items)
        return Statement(
            tuple(items),
            source,
            where,
            groups,
            sets,
            having,
            order,
            limit,
            offset,
            distinct,
            options,
            by_name,
        )

    def _no_figure(self, read: Any) -> Expr:
        outside = self.inside
        self.inside = True
        found = read()
        self.inside = outside
        return found

    def _options(self) -> tuple[tuple[str, Any], ...]:
        """WITH DIFFERENTIAL_PRIVACY OPTIONS (...), as others write it."""
        if not self.skip("WITH"):
            return ()
        if self.now.word not in ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION"):
            self.wrong("DIFFERENTIAL_PRIVACY")
        self.take()
        found: list[tuple[str, Any]] = [("privacy_clause", True)]
        if self.skip("OPTIONS"):
            self.expect("(")
            while not self.skip(")"):
                name = self.name("an option").lower()
                self.expect("=")
                value = self.sum()
                if isinstance(value, Literal):
                    found.append((name, value.value))
                elif isinstance(value, col):
                    found.append((name, value.name))
                else:
                    raise QueryError(f"Option {name!r} must be a constant or a column.")
                if not self.at(")"):
                    self.expect(",")
        return tuple(found)

    def _top(self) -> int | None:
        if self.at("TOP") and self.ahead().kind == "number":
            self.take()
            return self._whole()
        if self.at("TOP", "(") and self.ahead(2).kind == "number":
            self.place += 2
            found = self._whole()
            self.expect(")")
            return found
        return None

    def _whole(self) -> int:
        token = self.take()
        if token.kind != "number" or not token.text.isdigit():
            raise QueryError(f"LIMIT, TOP and OFFSET need a whole number. Got {token.text[:20]!r}.")
        return int(token.text)

    def _limit(self, limit: int | None) -> tuple[int | None, int]:
        offset = 0
        while True:
            if self.skip("LIMIT"):
                limit = self._whole()
                if self.skip(","):
                    raise QueryError("LIMIT a, b is written LIMIT b OFFSET a.")
            elif self.skip("OFFSET"):
                offset = self._whole()
                self.skip("ROWS") or self.skip("ROW")
            elif self.skip("FETCH"):
                self.skip("FIRST") or self.skip("NEXT")
                limit = self._whole() if self.now.kind == "number" else 1
                self.skip("ROWS") or self.skip("ROW")
                self.expect("ONLY")
            else:
                return limit, offset

    def _item(self) -> Item:
        if self.skip("*"):
            return Item(None)
        if self.now.kind in ("word", "quoted") and self.ahead().word == "." and self.ahead(2).word == "*":
            raise QueryError("Columns of a sub-query are listed one by one, or all by *. Got table.*.")
        value = self.expression()
        if self.skip("AS"):
            alias = self.take().text if self.now.kind == "text" else self.name("a name after AS")
        elif self.now.kind == "quoted" or (self.now.kind == "word" and self.now.word not in _AFTER):
            alias = self.name()
        else:
            alias = ""
        return Item(value, alias)

    # FROM

    def _from(self) -> FromItem:
        found = self._primary()
        while True:
            if self.at(","):
                raise QueryError("A comma between tables would pair all rows: write JOIN ... ON the key.")
            how = self._how()
            if how is None:
                return found
            right = self._primary()
            if self.skip("ON"):
                found = Join(found, right, how, on=self._no_figure(self.expression))
            elif self.skip("USING"):
                self.expect("(")
                names = [self.name("a column")]
                while self.skip(","):
                    names.append(self.name("a column"))
                self.expect(")")
                found = Join(found, right, how, using=tuple(names))
            else:
                raise QueryError("JOIN needs ON or USING with the key that links the two tables.")

    def _how(self) -> str | None:
        if self.at("CROSS") or self.at("NATURAL"):
            raise QueryError(
                f"{self.now.word} JOIN is not answered: write JOIN ... ON the key that links the two tables."
            )
        for how in ("LEFT", "RIGHT", "FULL"):
            if self.at(how, "JOIN") or self.at(how, "OUTER", "JOIN"):
                self.take()
                self.skip("OUTER")
                self.take()
                return how
        if self.skip("INNER", "JOIN") or self.skip("JOIN"):
            return "INNER"
        return None

    def _primary(self) -> FromItem:
        if self.skip("("):
            if not (self.at("SELECT") or self.at("WITH")):
                found = self._from()
                self.expect(")")
                return found
            inner = self.statement()
            self.expect(")")
            return sub_select(inner, self._alias())
        name = self.name("a table")
        if self.at("."):
            raise QueryError(f"A table is named by one word. Got {name!r} with a dot.")
        if self.at("("):
            raise QueryError(f"A table is named by one word. Got the function {name!r}.")
        alias = self._alias()
        if name.lower() in self.named:
            return sub_select(self.named[name.lower()], alias or name)
        return NamedTable(name, alias)

    def _alias(self) -> str:
        if self.skip("AS"):
            return self.name("a name after AS")
        if self.now.kind == "quoted" or (self.now.kind == "word" and self.now.word not in _AFTER):
            return self.name()
        return ""

    def in_query(self, left: Expr) -> Predicate:
        """IN (SELECT key FROM ...), the opening bracket behind."""
        outside, self.inside = self.inside, False
        inner = sub_select(self.statement(), "")
        self.inside = outside
        self.expect(")")
        return InSelect(left, inner)

    # GROUP BY, ORDER BY

    def _groups(self, items: list[Item]) -> tuple[tuple[Expr, ...], tuple[tuple[int, ...], ...]]:
        if self.skip("ALL"):
            found = tuple(
                each.value for each in items if each.value is not None and not asks_figure(each.value)
            )
            return found, ()
        names: dict[str, int] = {}
        groups: list[Expr] = []

        def place(node: Expr) -> int:
            self._grouped.append(node)
            node = referred(node, items)
            if key_text(node) not in names:
                names[key_text(node)] = len(groups)
                groups.append(node)
            return names[key_text(node)]

        elements = [self._element(place)]
        while self.skip(","):
            elements.append(self._element(place))
        if self.skip("WITH", "ROLLUP"):
            elements = [_rollup([each[0] for each in elements])]
        if all(len(each) == 1 for each in elements):
            return tuple(groups), ()
        sets = tuple(tuple(sorted(set(itertools.chain(*chosen)))) for chosen in itertools.product(*elements))
        return tuple(groups), sets

    def _element(self, place: Any) -> list[tuple[int, ...]]:
        """The sets that one element of GROUP BY stands for."""
        for word in ("ROLLUP", "CUBE"):
            if self.skip(word, "("):
                parts = self._sets(place)
                return _rollup(parts) if word == "ROLLUP" else _cube(parts)
        if self.skip("GROUPING", "SETS"):
            self.expect("(")
            found: list[tuple[int, ...]] = []
            while True:
                if self.at("ROLLUP") or self.at("CUBE"):
                    found += self._element(place)
                else:
                    found.append(self._set(place))
                if self.skip(")"):
                    return found
                self.expect(",")
        return [self._set(place)]

    def _sets(self, place: Any) -> list[tuple[int, ...]]:
        found = [self._set(place)]
        while self.skip(","):
            found.append(self._set(place))
        self.expect(")")
        return found

    def _set(self, place: Any) -> tuple[int, ...]:
        """One column, or several in brackets."""
        if self.at("(", ")"):
            self.place += 2
            return ()
        if not self.at("("):
            return (place(self._no_figure(self.expression)),)
        start = self.place
        self.take()
        first = self._no_figure(self.expression)
        if not self.at(","):
            self.place = start
            return (place(self._no_figure(self.expression)),)
        found = [place(first)]
        while self.skip(","):
            found.append(place(self._no_figure(self.expression)))
        self.expect(")")
        return tuple(found)

    def _order(self) -> tuple[tuple[Expr, bool, bool], ...]:
        found = []
        while True:
            value = self.expression()
            descending = self.skip("DESC")
            self.skip("ASC")
            first = self.skip("NULLS", "FIRST")
            self.skip("NULLS", "LAST")
            found.append((value, descending, first))
            if not self.skip(","):
                return tuple(found)


# Words that end an item of SELECT: all but those that stand inside an expression or begin a query.
_AFTER = RESERVED - frozenset(
    [
        "AND",
        "BETWEEN",
        "BY",
        "CASE",
        "DISTINCT",
        "ELSE",
        "END",
        "ILIKE",
        "IN",
        "IS",
        "LIKE",
        "NOT",
        "OR",
        "SELECT",
        "THEN",
        "VALUES",
        "WHEN",
        "WITH",
    ]
)


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


def _rollup(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(itertools.chain(*parts[:size])) for size in range(len(parts), -1, -1)]


def _cube(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if len(parts) > 8:
        raise QueryError(f"CUBE may be of at most 8 columns. Got {len(parts)}.")
    return [
        tuple(itertools.chain(*chosen))
        for size in range(len(parts), -1, -1)
        for chosen in itertools.combinations(parts, size)
    ]


def asks_figure(node: Expr) -> bool:
    """Whether an expression holds a figure, or a list of quantiles."""
    return has_figure(node) or any(
        isinstance(each, Call) and each.function == "QUANTILES" for each in walk(node)
    )


def referred(node: Expr, items: Any) -> Expr:
    """What a position or an alias in GROUP BY, HAVING or ORDER BY stands for."""
    if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
        if not 1 <= node.value <= len(items) or items[node.value - 1].value is None:
            raise QueryError(f"Position {node.value} is not among the {len(items)} columns of SELECT.")
        return items[node.value - 1].value
    return unaliased(node, items) if isinstance(node, col) else node


def unaliased(node: Expr, items: Any) -> Expr:
    """An expression with the names that SELECT gives replaced by what they stand for."""

    def change(each: Expr) -> Expr | None:
        if isinstance(each, col) and not each.table:
            for item in items:
                if item.alias and item.alias.lower() == each.name.lower() and item.value is not None:
                    return item.value
        return None

    return mapped(node, change)


def sub_select(statement: Statement, alias: str) -> SubSelect:
    """A SELECT as a source of rows."""
    if statement.order or statement.limit is not None or statement.offset:
        raise QueryError(
            "A sub-query has no ORDER BY, LIMIT or TOP: which rows come first would depend on other people's."
        )
    if statement.sets:
        raise QueryError(
            "A sub-query groups by plain columns: ROLLUP, CUBE and GROUPING SETS stand in the outer query."
        )
    if statement.source is None:
        raise QueryError("A sub-query needs FROM and a table.")
    return SubSelect(
        statement.items,
        statement.source,
        statement.where,
        statement.groups,
        statement.having,
        statement.distinct,
        alias,
        statement.by_name,
    )
