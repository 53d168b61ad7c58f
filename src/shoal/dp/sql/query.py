"""Queries as values: what is asked, apart from how it was written.

SQL text and Python expressions give the same `Query`, and equal questions give equal canonical text, which
is what the ledger remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

from shoal.dp.sql.expressions import (
    And,
    Call,
    Compare,
    Expr,
    FigureOf,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    as_expr,
    as_predicate,
    col,
    name_text,
    plain_name,
)
from shoal.dp.sql.statement import FromItem
from shoal.dp.sql.tree import walk
from shoal.errors import QueryError

PAIRS = ("covar", "covar_samp", "corr")  # of two columns
KINDS = ("count", "sum", "avg", "var", "var_samp", *PAIRS, "min", "max", "quantile", "distinct")
_SQL = {
    "var": "VAR_POP",
    "std": "STDDEV_POP",
    "std_samp": "STDDEV_SAMP",
    "covar": "COVAR_POP",
    "covar_samp": "COVAR_SAMP",
}
MADE = ("std", "std_samp")  # of other figures, after the noise


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One figure asked for.

    Parameters
    ----------
    kind : str
        Of `KINDS`, or made of such: std, std_samp.
    column : str or Expr, optional
        None only for a count of rows.
    q : Fraction, optional
        Of a quantile, between 0 and 1.
    label : str, default ""
        What the answer calls it; not part of the question.
    other : Expr, optional
        The second expression of a covariance or correlation.
    """

    kind: str
    column: Any = None  # str or Expr
    q: Fraction | None = None
    label: str = ""
    other: Expr | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregate) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        inner = (
            "*"
            if self.column is None
            else name_text(self.column)
            if isinstance(self.column, str)
            else str(self.column)
        )
        if self.kind == "distinct":
            return f"COUNT(DISTINCT {inner})"
        more = "" if self.q is None else f", {_decimal(self.q)}"
        more += "" if self.other is None else f", {self.other}"
        return f"{_SQL.get(self.kind, self.kind.upper())}({inner}{more})"

    @property
    def name(self) -> str:
        """The label, or one made of kind, share and column."""
        share = "" if self.q is None else f"_{float(self.q):g}"
        column = self.column.name if isinstance(self.column, col) else str(self.column).replace('"', "")
        more = "" if self.other is None else f"_{self.other}".replace('"', "")
        return self.label or (self.kind if self.column is None else f"{self.kind}{share}_{column}{more}")


@dataclass(frozen=True, eq=False)
class Output:
    """A column of the answer: an expression of figures and group labels, and its name."""

    value: Expr
    label: str = ""

    @property
    def name(self) -> str:
        """The label, or the figure's own name, or the text."""
        if self.label:
            return self.label
        return (
            self.value.aggregate.name
            if isinstance(self.value, FigureOf)
            else str(self.value).replace('"', "")
        )


@dataclass(frozen=True, eq=False)
class Order:
    """One key of ORDER BY."""

    value: Expr
    descending: bool = False
    nulls_first: bool = False

    def __str__(self) -> str:
        return f"{self.value}{' DESC' if self.descending else ''}{' NULLS FIRST' if self.nulls_first else ''}"


@dataclass(frozen=True, eq=False)
class Query:
    """What is asked of a table.

    Parameters
    ----------
    aggregates : tuple of Aggregate
        The figures that get noise.
    condition : Predicate, optional
        A row answers only where this is true.
    groups : tuple of str or Expr, default ()
        Columns with declared levels, or expressions of finitely many values; every combination is answered.
    labels : tuple of str, default ()
        What the answer calls the groups.
    sets : tuple of tuple of int, default ()
        Grouping sets, as places in `groups`; left open, all groups together.
    outputs : tuple of Output, default ()
        What is computed of the noisy figures; left open, the figures themselves.
    kept : Expr, optional
        Which groups are shown, by noisy figures: HAVING.
    ordered : tuple of Order, default ()
    most, skipped : int, optional
        How many groups are shown, and how many before them are not.
    source : FromItem, optional
        Left open, the one table of the session.
    options : tuple of (str, value), default ()
        What a text declares about privacy, to be held against the session.
    said : tuple of str, default ()
        Which reading was taken where dialects of SQL differ.
    by_name : tuple of str, default ()
        Names given by SELECT that other parts of the text use; refused where a column has the same name.

    Examples
    --------
    >>> from shoal import dp
    >>> print(dp.count().where(dp.col("age") >= 40).group_by("region"))
    SELECT COUNT(*) FROM t WHERE "age" >= 40 GROUP BY "region"
    >>> print(dp.select(dp.count(), dp.mean("income")))
    SELECT COUNT(*), AVG("income") FROM t
    >>> print(dp.sum("income") / dp.count())
    SELECT SUM("income") / COUNT(*) FROM t
    """

    aggregates: tuple[Aggregate, ...]
    condition: Predicate | None = None
    groups: tuple[Any, ...] = ()  # str or Expr
    labels: tuple[str, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[Output, ...] = ()
    kept: Expr | None = None
    ordered: tuple[Order, ...] = ()
    most: int | None = None
    skipped: int = 0
    source: FromItem | None = None
    options: tuple[tuple[str, Any], ...] = ()
    said: tuple[str, ...] = field(default=())
    by_name: tuple[str, ...] = field(default=())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def figures(self) -> tuple[Output, ...]:
        """What the answer shows."""
        return self.outputs or tuple(Output(FigureOf(each), each.label) for each in self.aggregates)

    @property
    def plain(self) -> bool:
        """Whether figures, groups and conditions are of plain columns of one table, and nothing is made of them."""
        leaves = (
            []
            if self.condition is None
            else [each for each in walk(self.condition) if isinstance(each, Predicate)]
        )
        simple = all(
            isinstance(each, (And, Or, Not))
            or (isinstance(each, (Compare, In, IsNull)) and isinstance(each.column, str))
            for each in leaves
        ) and not any(isinstance(each, Compare) and isinstance(each.value, Expr) for each in leaves)
        figures = all(
            each.kind not in (*MADE, "distinct") and not isinstance(each.column, Expr)
            for each in self.aggregates
        )
        whole = not (self.sets or self.outputs or self.kept is not None or self.ordered or self.source)
        return (
            simple
            and figures
            and whole
            and self.most is None
            and all(isinstance(each, str) for each in self.groups)
        )

    @property
    def question(self) -> Query:
        """What is drawn with noise, without what is made of it afterwards."""
        return replace(self, outputs=(), kept=None, ordered=(), most=None, skipped=0)

    def as_figure(self) -> Expr:
        """The one figure of this query, as an expression."""
        if len(self.figures) != 1 or self.condition is not None or self.groups:
            raise QueryError(
                "Only a query of one figure, without condition and groups, can be computed with."
            )
        return self.figures[0].value

    def where(self, condition: Predicate) -> Self:
        """The same figures over the rows for which a condition is true."""
        new = as_predicate(condition)
        return replace(self, condition=new if self.condition is None else self.condition & new)

    def group_by(self, *columns: str | Expr) -> Self:
        """The same figures for every declared level of some columns, or value of some expressions."""
        return replace(self, groups=self.groups + tuple(plain_name(each) for each in columns))

    def having(self, condition: Predicate) -> Self:
        """Only the groups whose noisy figures meet a condition."""
        new = as_predicate(condition)
        return replace(self, kept=new if self.kept is None else as_predicate(self.kept) & new)

    def sort(self, *keys: Any, descending: bool = False) -> Self:
        """Groups in the order of noisy figures or labels: names of columns of the answer, or expressions."""
        orders = tuple(Order(self._shown(each), descending) for each in keys)
        return replace(self, ordered=self.ordered + orders)

    def limit(self, n: int, offset: int = 0) -> Self:
        """The first `n` groups."""
        if not all(
            isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in (n, offset)
        ):
            raise QueryError(
                f"LIMIT and OFFSET must be whole numbers of at least 0. Got {n!r} and {offset!r}."
            )
        return replace(self, most=n, skipped=offset)

    def select(self, *figures: Any) -> Self:
        """The same rows and groups with further figures."""
        return select(self, *figures)  # type: ignore[return-value]

    def _shown(self, key: Any) -> Expr:
        if not isinstance(key, str):
            return as_expr(key)
        named = {each.name: each.value for each in self.figures}
        return named[key] if key in named else col(key)

    def _combined(self, operator: str, other: Any, mirrored: bool = False) -> Query:
        left, right = self.as_figure(), as_expr(other)
        return select(Call(operator, (right, left) if mirrored else (left, right)))

    def __add__(self, other: Any) -> Query:
        return self._combined("+", other)

    def __radd__(self, other: Any) -> Query:
        return self._combined("+", other, mirrored=True)

    def __sub__(self, other: Any) -> Query:
        return self._combined("-", other)

    def __rsub__(self, other: Any) -> Query:
        return self._combined("-", other, mirrored=True)

    def __mul__(self, other: Any) -> Query:
        return self._combined("*", other)

    def __rmul__(self, other: Any) -> Query:
        return self._combined("*", other, mirrored=True)

    def __truediv__(self, other: Any) -> Query:
        return self._combined("/", other)

    def __rtruediv__(self, other: Any) -> Query:
        return self._combined("/", other, mirrored=True)

    def __gt__(self, other: Any) -> Predicate:
        return self.as_figure() > other

    def __ge__(self, other: Any) -> Predicate:
        return self.as_figure() >= other

    def __lt__(self, other: Any) -> Predicate:
        return self.as_figure() < other

    def __le__(self, other: Any) -> Predicate:
        return self.as_figure() <= other

    def named(self, label: str) -> Self:
        """The same query with its last figure labelled."""
        if self.outputs:
            return replace(self, outputs=(*self.outputs[:-1], replace(self.outputs[-1], label=label)))
        *first, last = self.aggregates
        return replace(self, aggregates=(*first, replace(last, label=label)))

    def __str__(self) -> str:
        shown = (
            ", ".join(str(each.value) for each in self.outputs)
            if self.outputs
            else ", ".join(map(str, self.aggregates))
        )
        text = f"SELECT {shown} FROM {'t' if self.source is None else self.source}"  # noqa: S608 - read by our own parser, never run
        if self.condition is not None:
            text += f" WHERE {self.condition}"
        text += self.group_text()
        text += "" if self.kept is None else f" HAVING {self.kept}"
        text += f" ORDER BY {', '.join(map(str, self.ordered))}" if self.ordered else ""
        text += "" if self.most is None else f" LIMIT {self.most}"
        return text + (f" OFFSET {self.skipped}" if self.skipped else "")

    def group_text(self) -> str:
        """The text of its grouping, as it is written after the rows."""
        names = [name_text(each) if isinstance(each, str) else str(each) for each in self.groups]
        if self.sets:
            inner = ", ".join(f"({', '.join(names[at] for at in each)})" for each in self.sets)
            return f" GROUP BY GROUPING SETS ({inner})"
        return f" GROUP BY {', '.join(names)}" if names else ""


def figure(kind: str, column: str | Expr | None = None, *more: Any) -> Query:
    """A query of one figure."""
    q = share(more[0]) if kind == "quantile" else None
    other = (
        as_expr(col(more[0]) if isinstance(more[0], str) else more[0])
        if kind.startswith("co") and more
        else None
    )
    return Query((Aggregate(kind, plain_name(column), q, other=other),))


def select(*figures: Any) -> Query:
    """Ask several figures together; each is a query of one figure, or an expression of such queries.

    Examples
    --------
    >>> from shoal import dp
    >>> print(dp.select(dp.count(), (dp.sum("rent") / dp.sum("income")).named("share")).group_by("region"))
    SELECT COUNT(*), SUM("rent") / SUM("income") FROM t GROUP BY "region"
    """
    if not figures:
        raise QueryError("A query must ask for at least one figure.")
    base = next((each for each in figures if isinstance(each, Query)), None)
    shared = (str(base.condition), str(base.group_text())) if base is not None else ("None", "")
    outputs: list[Output] = []
    for each in figures:
        if isinstance(each, Query):
            if (str(each.condition), str(each.group_text())) != shared:
                raise QueryError("Figures asked together must share one condition and the same groups.")
            outputs += each.figures
        else:
            outputs.append(Output(as_expr(each)))
    return of_outputs(outputs, base)


def of_outputs(outputs: Sequence[Output], base: Query | None = None) -> Query:
    """A query for what is made of figures: each figure is drawn once, however often it stands there."""
    found: dict[str, Aggregate] = {}
    for each in outputs:
        for node in walk(each.value):
            if isinstance(node, FigureOf):
                label = each.label if node is each.value else ""
                made = replace(node.aggregate, label=label) if label else node.aggregate
                found.setdefault(str(node), made)
    plain = [str(each.value) for each in outputs] == list(found)
    query = Query(tuple(found.values()), outputs=() if plain else tuple(outputs))
    if base is None:
        return query
    return replace(base, aggregates=query.aggregates, outputs=query.outputs)


def group_names(query: Query) -> list[str]:
    """What the answer calls the groups."""
    labels = query.labels or ("",) * len(query.groups)
    return [
        label
        or (
            group
            if isinstance(group, str)
            else group.name
            if isinstance(group, col)
            else str(group).replace('"', "")
        )
        for group, label in zip(query.groups, labels, strict=True)
    ]


def share(q: Any) -> Fraction:
    """A quantile's share as an exact fraction in (0, 1) with at most four decimals."""
    try:
        exact = q if isinstance(q, Fraction) else Fraction(str(q))
    except (ValueError, ZeroDivisionError):
        exact = Fraction(-1)
    if not 0 < exact < 1 or 10_000 % exact.denominator:
        raise QueryError(
            f"The share of a quantile must be a number in (0, 1) with at most 4 decimals. Got {q}."
        )
    return exact


def _decimal(q: Fraction) -> str:
    return f"{Decimal(q.numerator) / Decimal(q.denominator):f}"
