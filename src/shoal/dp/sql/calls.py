"""Functions of SQL text: scalar ones under one canonical name each, and the figures of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.dp.sql.expressions import Call, Case, Expr, FigureOf, Literal, as_predicate, plain_name, walk
from shoal.dp.sql.parser import UNITS, Parser, cast_to
from shoal.dp.sql.query import Aggregate, share
from shoal.errors import QueryError

ALIASES = {
    "CEILING": "CEIL",
    "POW": "POWER",
    "IFNULL": "COALESCE",
    "NVL": "COALESCE",
    "CHAR_LENGTH": "LENGTH",
    "CHARACTER_LENGTH": "LENGTH",
    "LEN": "LENGTH",
    "SUBSTRING": "SUBSTR",
    "TRUNCATE": "TRUNC",
    "STARTSWITH": "STARTS_WITH",
    "PREFIX": "STARTS_WITH",
    "ENDSWITH": "ENDS_WITH",
    "SUFFIX": "ENDS_WITH",
    "MOD": "%",
    "SAFE_DIVIDE": "/",
    "INSTR": "STRPOS",
    "DIVIDE": "/",
}
# How many arguments a function takes: at least, at most.
SCALARS = {
    **dict.fromkeys(("ABS", "SIGN", "FLOOR", "CEIL", "SQRT", "LN", "LOG10", "LOG2", "EXP"), (1, 1)),
    **dict.fromkeys(("UPPER", "LOWER", "TRIM", "LTRIM", "RTRIM", "LENGTH", "REVERSE"), (1, 1)),
    **dict.fromkeys(("ROUND", "TRUNC"), (1, 2)),
    **dict.fromkeys(
        ("POWER", "NULLIF", "DIV", "%", "/", "LEFT", "RIGHT", "STARTS_WITH", "ENDS_WITH", "STRPOS"), (2, 2)
    ),
    **dict.fromkeys(("CLAMP", "REPLACE"), (3, 3)),
    **dict.fromkeys(("GREATEST", "LEAST"), (2, 50)),
    **dict.fromkeys(("COALESCE", "CONCAT"), (1, 50)),
    "SUBSTR": (2, 3),
    "WIDTH_BUCKET": (4, 4),
    "DP_INTERVAL_LOW": (1, 1),
    "DP_INTERVAL_HIGH": (1, 1),
    "GROUPING": (1, 1),
}
FIGURES = {
    "COUNT": "count",
    "SUM": "sum",
    "AVG": "avg",
    "MEAN": "avg",
    "MIN": "min",
    "MAX": "max",
    "VAR_POP": "var",
    "VAR_SAMP": "var_samp",
    "VARIANCE": "var_samp",
    "VAR": "var_samp",
    "VARIANCE_POP": "var",
    "VARIANCE_SAMP": "var_samp",
    "STDDEV": "std_samp",
    "STDDEV_SAMP": "std_samp",
    "STDEV": "std_samp",
    "STDDEV_POP": "std",
    "STDEVP": "std",
    "VARP": "var",
    "COVAR_POP": "covar",
    "COVAR_SAMP": "covar_samp",
    "CORR": "corr",
    "MEDIAN": "median",
    "QUANTILE": "quantile",
    "QUANTILE_CONT": "quantile",
    "QUANTILE_DISC": "quantile",
    "APPROX_QUANTILE": "quantile",
    "APPROX_PERCENTILE": "quantile",
    "PERCENTILE_CONT": "quantile",
    "PERCENTILE_DISC": "quantile",
    "PERCENTILE": "quantile",
    "APPROX_QUANTILES": "quantiles",
    "QUANTILES": "quantiles",
    "APPROX_COUNT_DISTINCT": "distinct",
    "COUNTIF": "countif",
    "COUNT_IF": "countif",
    "SUMIF": "sumif",
    "AVERAGEIF": "avgif",
    "LOGICAL_OR": "refused",
}
# Others' names for what is noisy anyway; CLAMPED BETWEEN belongs to them.
_PREFIXES = ("ANON_", "DP_")
_SAMPLE = "{} is that of a sample (n - 1), as in PostgreSQL, DuckDB, BigQuery and Snowflake; MySQL means {}"
_SKIPS = "{} skips NULL, as in PostgreSQL and DuckDB"
WITHOUT = {
    "EXISTS": "write key IN (SELECT key FROM table WHERE ...)",
    "LOG": "LOG has another base in other dialects: write LN(x), LOG10(x) or LOG2(x)",
    "WEEK": "weeks are counted differently in dialects of SQL: write EXTRACT(ISOWEEK FROM d)",
    "DAYOFWEEK": "days of the week are counted differently in dialects of SQL: write EXTRACT(ISODOW FROM d)",
    "WEEKDAY": "days of the week are counted differently in dialects of SQL: write EXTRACT(ISODOW FROM d)",
    "RAND": "chance belongs to the noise alone: leave RAND out",
    "RANDOM": "chance belongs to the noise alone: leave RANDOM out",
    "MODE": "the most frequent value is asked for by SELECT x, COUNT(*) GROUP BY x ORDER BY 2 DESC LIMIT 1",
    "ARRAY_AGG": "rows do not leave the table: ask for COUNT, SUM, AVG or quantiles",
    "STRING_AGG": "rows do not leave the table: ask for COUNT, SUM, AVG or quantiles",
    "LISTAGG": "rows do not leave the table: ask for COUNT, SUM, AVG or quantiles",
    "GROUP_CONCAT": "rows do not leave the table: ask for COUNT, SUM, AVG or quantiles",
    "ANY_VALUE": "a row's value does not leave the table: ask for MIN, MAX or MEDIAN",
    "FIRST_VALUE": "a row's value does not leave the table: ask for MIN, MAX or MEDIAN",
    "ROW_NUMBER": "rows have no order here: aggregate per unit in a sub-query instead",
    "RANK": "rows have no order here: aggregate per unit in a sub-query instead",
    "LAG": "rows have no order here: aggregate per unit in a sub-query instead",
    "LEAD": "rows have no order here: aggregate per unit in a sub-query instead",
    "REGEXP_LIKE": "regular expressions differ between dialects of SQL: write LIKE, or list the levels by IN",
    "REGEXP_CONTAINS": "regular expressions differ between dialects of SQL: write LIKE, or list the levels by IN",
    "REGEXP_MATCHES": "regular expressions differ between dialects of SQL: write LIKE, or list the levels by IN",
    "TO_CHAR": "formats differ between dialects of SQL: write EXTRACT(part FROM d) or DATE_TRUNC('month', d)",
    "STRFTIME": "formats differ between dialects of SQL: write EXTRACT(part FROM d) or DATE_TRUNC('month', d)",
    "FORMAT_DATE": "formats differ between dialects of SQL: write EXTRACT(part FROM d) or DATE_TRUNC('month', d)",
    "CURRENT_DATE": "it changes from day to day, so an answer could not be kept: write DATE 'YYYY-MM-DD'",
    "NOW": "it changes from day to day, so an answer could not be kept: write DATE 'YYYY-MM-DD'",
    "GETDATE": "it changes from day to day, so an answer could not be kept: write DATE 'YYYY-MM-DD'",
}


@dataclass(frozen=True)
class Given:
    """What stands in the brackets of a figure."""

    arguments: tuple[Expr, ...]
    star: bool
    distinct: bool
    bounds: tuple[float, float] | None  # per row
    per_unit: bool  # whether the bounds were meant for all rows of a unit in a group


class CallParser(Parser):
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
                for each in _PREFIXES
                if word.startswith(each) and word[len(each) :] in FIGURES
            ),
            word,
        )
        if plain in FIGURES:
            return self._figure(plain)
        self.expect("(")
        special = getattr(self, f"_{word.lower()}", None) if word in _SPECIAL else None
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

    # Functions with a syntax of their own, the opening bracket behind

    def _cast(self) -> Expr:
        inner = self.expression()
        self.expect("AS")
        kind = self.type_name()
        self.expect(")")
        return cast_to(inner, kind)

    _safe_cast = _try_cast = _cast

    def _extract(self) -> Expr:
        unit = self._unit(self.take())
        self.expect("FROM")
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    def _if(self) -> Expr:
        found = self.arguments()
        if len(found) not in (2, 3):
            raise QueryError(f"IF takes a condition and two values. Got {len(found)} arguments.")
        return Case(((as_predicate(found[0]), found[1]),), found[2] if len(found) == 3 else None)

    _iff = _if

    def _date_trunc(self) -> Expr:
        """Either order: DATE_TRUNC('month', d), and DATE_TRUNC(d, MONTH)."""
        if self.now.kind == "text" or (self.now.word in UNITS and self.ahead().word == ","):
            unit = self._unit(self.take())
            self.expect(",")
            inner = self.expression()
        else:
            inner = self.expression()
            self.expect(",")
            unit = self._unit(self.take())
        self.expect(")")
        if unit not in ("day", "isoweek", "month", "quarter", "year"):
            raise QueryError(
                "DATE_TRUNC may be to day, ISOWEEK, month, quarter or year; weeks begin on another day elsewhere."
            )
        return Call("DATE_TRUNC", (Literal(unit), inner))

    _datetrunc = _timestamp_trunc = _date_trunc

    def _date_part(self) -> Expr:
        unit = self._unit(self.take())
        self.expect(",")
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    _datepart = _date_part

    def _date_diff(self) -> Expr:
        """DATE_DIFF('day', a, b) and DATEDIFF(day, a, b) are b - a; DATE_DIFF(b, a, DAY) and DATEDIFF(b, a) likewise."""
        if self.now.kind == "text" or (self.now.word in UNITS and self.ahead().word == ","):
            unit = self._unit(self.take())
            self.expect(",")
            first, second = self._two()
        else:
            second, first = self._two()
            unit = self._unit(self.take()) if self.skip(",") else "day"
        self.expect(")")
        if unit not in ("day", "month", "quarter", "year"):
            raise QueryError("DATE_DIFF may be in days, months, quarters or years.")
        return Call("DATE_DIFF", (Literal(unit), first, second))

    _datediff = _date_diff

    def _two(self) -> tuple[Expr, Expr]:
        first = self.expression()
        self.expect(",")
        return first, self.expression()

    def _date_add(self) -> Expr:
        """DATE_ADD(d, INTERVAL 3 DAY)."""
        first, second = self._two()
        self.expect(")")
        return Call("+", (first, second))

    def _date_sub(self) -> Expr:
        first, second = self._two()
        self.expect(")")
        return Call("-", (first, second))

    def _dateadd(self) -> Expr:
        """DATEADD(day, 3, d)."""
        unit = self._unit(self.take())
        self.expect(",")
        amount, inner = self._two()
        self.expect(")")
        if unit != "day":
            raise QueryError("DATEADD may be in days.")
        return Call("+", (inner, amount))

    def _date(self) -> Expr:
        inner = self.expression()
        self.expect(")")
        return cast_to(inner, "DATE")

    _to_date = _date

    def _part(self, unit: str) -> Expr:
        inner = self.expression()
        self.expect(")")
        return Call("DATE_PART", (Literal(unit), inner))

    def _year(self) -> Expr:
        return self._part("year")

    def _quarter(self) -> Expr:
        return self._part("quarter")

    def _month(self) -> Expr:
        return self._part("month")

    def _day(self) -> Expr:
        return self._part("day")

    _dayofmonth = _day

    def _substring(self) -> Expr:
        inner = self.expression()
        rest: list[Expr] = []
        if self.skip("FROM"):
            rest.append(self.expression())
            if self.skip("FOR"):
                rest.append(self.expression())
            self.expect(")")
        else:
            self.expect(",")
            rest = self.arguments()
        if len(rest) not in (1, 2):
            raise QueryError("SUBSTRING takes a text, a place and a length.")
        return Call("SUBSTR", (inner, *rest))

    _substr = _substring

    def _unit(self, token: Any) -> str:
        word = token.text.upper() if token.kind == "text" else token.word
        word = {
            "DAYS": "DAY",
            "MONTHS": "MONTH",
            "YEARS": "YEAR",
            "QUARTERS": "QUARTER",
            "DOY": "DAYOFYEAR",
        }.get(word, word)
        if word == "WEEK":
            raise QueryError(f"WEEK is not answered: {WITHOUT['WEEK']}.")
        if word not in UNITS:
            raise QueryError(
                f"A part of a date is YEAR, QUARTER, MONTH, ISOWEEK, DAY, DOW, ISODOW or DAYOFYEAR. Got {token.text[:20]!r}."
            )
        return str(word.lower())


_SPECIAL = [
    "CAST",
    "SAFE_CAST",
    "TRY_CAST",
    "EXTRACT",
    "IF",
    "IFF",
    "DATE_TRUNC",
    "DATETRUNC",
    "TIMESTAMP_TRUNC",
    "DATE_PART",
    "DATEPART",
    "DATE_DIFF",
    "DATEDIFF",
    "DATE_ADD",
    "DATE_SUB",
    "DATEADD",
    "DATE",
    "TO_DATE",
    "YEAR",
    "QUARTER",
    "MONTH",
    "DAY",
    "DAYOFMONTH",
    "SUBSTRING",
    "SUBSTR",
]


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
