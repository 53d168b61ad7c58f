"""A SELECT as it stands in the text: its items, rows, groups and order, and the sub-queries in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.dp.sql.aliases import names_used
from shoal.dp.sql.expressions import Expr, Literal, Predicate, col
from shoal.dp.sql.grouping import GroupParser
from shoal.dp.sql.statement import FromItem, InSelect, Item, Join, NamedTable, SubSelect
from shoal.dp.sql.words import RESERVED
from shoal.errors import QueryError

_LONGEST = 18  # digits of LIMIT and OFFSET


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


class Reader(GroupParser):
    """A parser that knows SELECT."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.named: dict[str, Statement] = {}

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
        where = self.no_figure(self.expression) if self.skip("WHERE") else None
        self.inside = inside
        self.grouped = []
        groups, sets = self.groups_of(items) if self.skip("GROUP", "BY") else ((), ())
        grouped = self.grouped
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
        if token.kind != "number" or not token.text.isdigit() or len(token.text) > _LONGEST:
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
                found = Join(found, right, how, on=self.no_figure(self.expression))
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

    # ORDER BY

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
