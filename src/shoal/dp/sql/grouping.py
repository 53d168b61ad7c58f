"""GROUP BY: columns, ROLLUP, CUBE and GROUPING SETS, and what they stand for."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from shoal.dp.sql.aliases import key_text, referred
from shoal.dp.sql.calls import CallParser, has_figure
from shoal.dp.sql.expressions import Call, Expr
from shoal.dp.sql.statement import Item
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError

Place = Callable[[Expr], int]  # the number of a grouped expression, which is new or stood there before


class GroupParser(CallParser):
    """A parser that knows GROUP BY."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.grouped: list[Expr] = []  # what GROUP BY says, as written

    def groups_of(self, items: list[Item]) -> tuple[tuple[Expr, ...], tuple[tuple[int, ...], ...]]:
        """What GROUP BY says, behind its words: the expressions, and the sets of them where there are several."""
        if self.skip("ALL"):
            found = tuple(
                each.value for each in items if each.value is not None and not asks_figure(each.value)
            )
            return found, ()
        names: dict[str, int] = {}
        groups: list[Expr] = []

        def place(node: Expr) -> int:
            self.grouped.append(node)
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

    def _element(self, place: Place) -> list[tuple[int, ...]]:
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

    def _sets(self, place: Place) -> list[tuple[int, ...]]:
        found = [self._set(place)]
        while self.skip(","):
            found.append(self._set(place))
        self.expect(")")
        return found

    def _set(self, place: Place) -> tuple[int, ...]:
        """One column, or several in brackets."""
        if self.at("(", ")"):
            self.place += 2
            return ()
        if not self.at("("):
            return (place(self.no_figure(self.expression)),)
        start = self.place
        self.take()
        first = self.no_figure(self.expression)
        if not self.at(","):
            self.place = start
            return (place(self.no_figure(self.expression)),)
        found = [place(first)]
        while self.skip(","):
            found.append(place(self.no_figure(self.expression)))
        self.expect(")")
        return tuple(found)

    def no_figure(self, read: Callable[[], Expr]) -> Expr:
        """What is read where no figure may stand."""
        outside = self.inside
        self.inside = True
        found = read()
        self.inside = outside
        return found


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
