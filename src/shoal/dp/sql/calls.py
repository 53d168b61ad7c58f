"""Functions of SQL text: scalar ones under one canonical name each, and the figures of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.dp.sql.expressions import Call, Case, Expr, FigureOf, Literal, as_predicate, plain_name
from shoal.dp.sql.names import ALIASES, FIGURES, PREFIXES, SCALARS, WITHOUT
from shoal.dp.sql.query import Aggregate, share
from shoal.dp.sql.special import SPECIAL, SpecialCalls
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError

_SAMPLE = "{} is that of a sample (n - 1), as in PostgreSQL, DuckDB, BigQuery and Snowflake; MySQL means {}"
_SKIPS = "{} skips NULL, as in PostgreSQL and DuckDB"


@dataclass(frozen=True)
class Given:
    """What stands in the brackets of a figure."""

    arguments: tuple[Expr, ...]
    star: bool
    distinct: bool
    bounds: tuple[float, float] | None  # per row
    per_unit: bool  # whether the bounds were meant for all rows of a unit in a group


class CallParser(SpecialCalls):
    """A parser that knows functions."""

    clamped_units = False
    inside = False  # of a figure

    def function(self, word: str) -> Expr:
        """A function whose name is behind, by its canonical name."""
        if word in WITHOUT:
            raise QueryError(f"{word} is not answered: {WITHOUT[word]}.")
        plain = next(
            (
                word[len(each) :]
                for each in PREFIXES
                if word.startswith(each) and word[len(each) :] in FIGURES
            ),
            word,
        )
        if plain in FIGURES:
            return self._figure(plain)
        self.expect("(")
        special = getattr(self, f"_{word.lower()}", None) if word in SPECIAL else None
        if special is not None:
            return special()
        name = ALIASES.get(word, word)
        if name not in SCALARS:
            raise QueryError(
                f"The function {word[:40]} is not known here; docs/howto/sql lists those that are."
            )
        found = self.arguments()
        least, most = SCALARS[name]
        if not least <= len(found) <= most:
            raise QueryError(
                f"{word} takes {least if least == most else f'{least} to {most}'} arguments. Got {len(found)}."
            )
        if name in ("GREATEST", "LEAST", "CONCAT"):
            self.say(_SKIPS.format(name))
        self._no_over(word)
        return Call(name, tuple(found))

    def say(self, sentence: str) -> None:
        """Note which reading was taken."""
        if sentence not in self.said:
            self.said.append(sentence)

    def _no_over(self, word: str) -> None:
        if self.at("OVER"):
            raise QueryError(
                f"{word} OVER (...) is a window function, which is not answered: use GROUP BY, or a sub-query per unit."
            )

    # Figures

    def _figure(self, word: str) -> Expr:
        if self.inside:
            raise QueryError(
                f"{word} stands inside another figure: write a sub-query that groups by the unit."
            )
        self.inside = True
        self.expect("(")
        given = self._given(word)
        given = self._within(word, given)
        self.inside = False
        if self.skip("FILTER"):
            self.expect("(")
            self.expect("WHERE")
            self.inside = True
            test = as_predicate(self.expression())
            self.inside = False
            self.expect(")")
            given = _filtered(given, test)
        self._no_over(word)
        if self.at("IGNORE", "NULLS") or self.at("RESPECT", "NULLS"):
            raise QueryError(f"{word} always skips NULL: leave {self.now.word} NULLS out.")
        return self._made(word, given)

    def _given(self, word: str) -> Given:
        distinct, star = self.skip("DISTINCT"), False
        self.skip("ALL")
        arguments: list[Expr] = []
        bounds: tuple[float, float] | None = None
        per_unit = False
        while not self.skip(")"):
            if self.skip("*"):
                star = True
            elif self.ahead().word == "=>":
                name = self.take().text.lower()
                self.take()
                found, per_unit_here = self._bounds(name)
                bounds, per_unit = (bounds, per_unit) if found is None else (found, per_unit_here)
            else:
                arguments.append(self.expression())
            if self.skip("CLAMPED", "BETWEEN"):
                low = self.sum()
                self.expect("AND")
                bounds, per_unit = _pair(low, self.sum()), True
            if not self.at(")"):
                self.expect(",")
        if star and word != "COUNT":
            raise QueryError(f"{word} needs a column. Got *.")
        return Given(tuple(arguments), star, distinct, bounds, per_unit)

    def _bounds(self, name: str) -> tuple[tuple[float, float] | None, bool]:
        if name not in ("contribution_bounds_per_row", "contribution_bounds_per_group"):
            raise QueryError(
                f"A figure may be given contribution_bounds_per_row or _per_group. Got {name!r}."
            )
        if self.skip("NULL"):
            return None, False
        self.expect("(")
        low = self.sum()
        self.expect(",")
        high = self.sum()
        self.expect(")")
        return _pair(low, high), name.endswith("group")

    def _within(self, word: str, given: Given) -> Given:
        """PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
        if not self.skip("WITHIN"):
            return given
        self.expect("GROUP")
        self.expect("(")
        self.expect("ORDER", "BY")
        column = self.expression()
        descending = self.skip("DESC")
        self.skip("ASC")
        self.expect(")")
        if not word.startswith("PERCENTILE") or len(given.arguments) != 1:
            raise QueryError(
                f"WITHIN GROUP belongs to PERCENTILE_CONT(q) and PERCENTILE_DISC(q). Got {word}."
            )
        q: Any = _constant(given.arguments[0], word)
        q = share(q) if not descending else 1 - share(q)
        return Given((column, Literal(q)), False, given.distinct, given.bounds, given.per_unit)

    def _made(self, word: str, given: Given) -> Expr:
        kind, arguments = FIGURES[word], list(given.arguments)
        if word in ("VARIANCE", "STDDEV", "VAR"):
            self.say(_SAMPLE.format(word, f"{'STDDEV' if word == 'STDDEV' else 'VAR'}_POP by it"))
        if given.distinct:
            if kind != "count" or len(arguments) != 1:
                raise QueryError(f"DISTINCT is answered in COUNT(DISTINCT x) of one column. Got {word}.")
            kind = "distinct"
        if given.star or (
            kind == "count"
            and arguments
            and isinstance(arguments[0], Literal)
            and arguments[0].value is not None
        ):
            if kind != "count" or len(arguments) > (not given.star):
                raise QueryError(f"{word} needs one column. Got *.")
            self.clamped_units |= given.bounds is not None
            return FigureOf(Aggregate("count"))
        if kind.endswith("if"):
            return self._conditional(kind, arguments)
        wanted = 2 if kind in ("quantile", "quantiles", "covar", "covar_samp", "corr") else 1
        if len(arguments) != wanted:
            raise QueryError(f"{word} takes {wanted} argument{'s' * (wanted > 1)}. Got {len(arguments)}.")
        column: Any = arguments[0]
        if given.bounds is not None and kind not in ("count", "distinct"):
            column = Call("CLAMP", (column, Literal(given.bounds[0]), Literal(given.bounds[1])))
        self.clamped_units |= given.per_unit and given.bounds is not None
        name = plain_name(column)
        if kind in ("quantile", "median"):
            q = share("0.5" if kind == "median" else _constant(arguments[1], word))
            return FigureOf(Aggregate("quantile", name, q))
        if kind == "quantiles":
            return Call("QUANTILES", (column, Literal(_parts(arguments[1], word))))
        return FigureOf(Aggregate(kind, name, other=arguments[1] if wanted == 2 else None))

    def _conditional(self, kind: str, arguments: list[Expr]) -> Expr:
        if len(arguments) != (1 if kind == "countif" else 2):
            raise QueryError(
                f"{kind.upper()} takes {1 if kind == 'countif' else 2} arguments. Got {len(arguments)}."
            )
        test = as_predicate(arguments[-1])
        value = Literal(1) if kind == "countif" else arguments[0]
        return FigureOf(
            Aggregate({"countif": "count", "sumif": "sum", "avgif": "avg"}[kind], Case(((test, value),)))
        )

    def subscript(self, inner: Expr) -> Expr:
        """APPROX_QUANTILES(x, 100)[OFFSET(50)]."""
        self.expect("[")
        word = self.take().word
        self.expect("(")
        place = _constant(self.expression(), "OFFSET")
        self.expect(")")
        self.expect("]")
        if not (
            isinstance(inner, Call)
            and inner.function == "QUANTILES"
            and word in ("OFFSET", "ORDINAL", "SAFE_OFFSET")
        ):
            raise QueryError("Square brackets are read behind APPROX_QUANTILES(x, n) only: [OFFSET(i)].")
        column, parts = inner.arguments[0], inner.arguments[1].value  # type: ignore[attr-defined]
        at = place - (word == "ORDINAL")
        if not isinstance(at, int) or not 0 <= at <= parts:
            raise QueryError(
                f"{word} of APPROX_QUANTILES(x, {parts}) must lie among its {parts + 1} values. Got {place}."
            )
        return quantile_of(column, at, parts)


def quantile_of(column: Expr, at: int, parts: int) -> Expr:
    """The at-th of the values that cut a column in equal parts: the first is the minimum, the last the maximum."""
    name: Any = plain_name(column)
    if at in (0, parts):
        return FigureOf(Aggregate("min" if at == 0 else "max", name))
    from fractions import Fraction

    return FigureOf(Aggregate("quantile", name, share(Fraction(at, parts))))


def has_figure(node: Expr) -> bool:
    """Whether an expression holds a figure."""
    return any(isinstance(each, FigureOf) for each in walk(node))


def _filtered(given: Given, test: Any) -> Given:
    first = Literal(1) if given.star else given.arguments[0]
    arguments = (Case(((test, first),)), *given.arguments[1:])
    return Given(arguments, False, given.distinct, given.bounds, given.per_unit)


def _constant(node: Expr, word: str) -> Any:
    if not isinstance(node, Literal) or isinstance(node.value, (bool, str)) or node.value is None:
        raise QueryError(f"{word} needs a number here. Got {node}.")
    return node.value


def _parts(node: Expr, word: str) -> int:
    parts = _constant(node, word)
    if not isinstance(parts, int) or not 1 <= parts <= 10_000 or 10_000 % parts:
        raise QueryError(
            f"{word} needs a number of parts that divides 10000, such as 4, 10 or 100. Got {parts}."
        )
    return parts


def _pair(low: Expr, high: Expr) -> tuple[float, float]:
    ends = (_constant(low, "CLAMPED BETWEEN"), _constant(high, "CLAMPED BETWEEN"))
    if not ends[0] <= ends[1]:
        raise QueryError(f"The bounds of a figure must rise. Got {ends[0]} and {ends[1]}.")
    return ends
