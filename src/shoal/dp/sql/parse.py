"""SQL text to `Query`: one SELECT, with what it is made of.

Whether and how a text is refused depends on the text alone; `shoal.dp.meaning.check` then looks at the schema.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from shoal.dp.sql.aliases import key_text, referred, unaliased
from shoal.dp.sql.calls import has_figure, quantile_of
from shoal.dp.sql.expressions import (
    And,
    Call,
    Expr,
    FigureOf,
    LabelOf,
    Literal,
    as_predicate,
    col,
    plain_name,
)
from shoal.dp.sql.grouping import asks_figure
from shoal.dp.sql.query import Order, Output, Query, of_outputs
from shoal.dp.sql.reader import Reader, Statement
from shoal.dp.sql.statement import Item, NamedTable, SubSelect
from shoal.dp.sql.tree import mapped, walk
from shoal.errors import QueryError

SHAPE = "A query must be one SELECT of figures such as COUNT, SUM, AVG, MIN, MAX or MEDIAN FROM a table"
_UNKNOWN = {
    "UNION": "sets of rows are not joined: ask two queries, or list the conditions by OR",
    "INTERSECT": "sets of rows are not joined: ask two queries, or list the conditions by AND",
    "EXCEPT": "sets of rows are not joined: list the conditions by AND NOT",
    "QUALIFY": "windows over rows are not answered: use HAVING, or a sub-query per unit",
    "WINDOW": "windows over rows are not answered: use GROUP BY, or a sub-query per unit",
    "TABLESAMPLE": "chance belongs to the noise alone: leave it out",
    "FOR": "rows are not locked: leave it out",
    "INTO": "answers are not written to tables: leave it out",
    "LATERAL": "write a sub-query that keeps the unit",
}


@lru_cache(maxsize=1024)
def parse(text: str, table: str = "t") -> Query:
    """Read one SELECT statement.

    Parameters
    ----------
    text : str
    table : str, default "t"
        The data set's name; ``t`` and ``data`` are always understood.

    Returns
    -------
    Query

    Examples
    --------
    >>> from shoal.dp.sql.parse import parse
    >>> print(parse("select count(*) from t where 40 <= age and sex in ('f')"))
    SELECT COUNT(*) FROM t WHERE ("age" >= 40) AND ("sex" IN ('f'))
    """
    reader = Reader(text)
    if not (reader.at("SELECT") or reader.at("WITH")):
        raise QueryError(f"{SHAPE}. Got {text[:80]!r}.")
    statement = reader.statement()
    reader.skip(";")
    if reader.now.kind != "end":
        word = reader.now.word
        raise QueryError(
            f"{word} is not answered: {_UNKNOWN[word]}."
            if word in _UNKNOWN
            else f"A query ends before {reader.now.text[:40]!r}."
        )
    query = _query(statement, (table.lower(), "t", "data"), reader.qualified)
    if reader.clamped_units:
        query = replace(query, options=(*query.options, ("clamped_units", True)))
    return replace(query, said=tuple(reader.said)) if reader.said else query


# From a statement to a question


def _query(statement: Statement, tables: tuple[str, ...], qualified: bool) -> Query:
    if statement.source is None:
        raise QueryError(f"{SHAPE}. Got no FROM.")
    if statement.distinct:
        raise QueryError("SELECT DISTINCT is not answered: write GROUP BY, or COUNT(DISTINCT x).")
    if isinstance(statement.source, SubSelect) and not any(
        each.value is not None and asks_figure(each.value) for each in statement.items
    ):
        statement = _merged(statement)
    assert statement.source is not None  # a sub-query has one
    statement = _one_table(statement) if qualified else statement
    items = [each for item in statement.items for each in _expanded(item)]
    texts = {key_text(group): place for place, group in enumerate(statement.groups)}
    labels = [""] * len(statement.groups)

    def labelled(node: Expr) -> Any:
        return mapped(node, lambda each: _label(each, texts, statement.groups))

    outputs = []
    for item in items:
        if item.value is None:
            raise QueryError(
                "SELECT * would give out rows: ask for figures such as COUNT(*), or AVG(column)."
            )
        place = texts.get(key_text(item.value))
        if place is not None:
            labels[place] = labels[place] or item.alias
        else:
            outputs.append(Output(labelled(_meant(item, items)), item.alias))
    if not any(has_figure(each.value) for each in outputs):
        _no_figures(outputs)
    having = None if statement.having is None else labelled(unaliased(statement.having, items))
    meant = [replace(item, value=_meant(item, items)) for item in items]
    order = tuple(
        Order(
            labelled(
                referred(value, meant) if isinstance(value, (col, Literal)) else unaliased(value, meant)
            ),
            descending,
            first,
        )
        for value, descending, first in statement.order
    )
    extra = [
        Output(each)
        for each in ((having,) if having is not None else ()) + tuple(each.value for each in order)
    ]
    for each in (*outputs, *extra):
        _only_figures(each.value)
    query = of_outputs(outputs)
    needed = of_outputs([*outputs, *extra]) if extra else query
    if len(needed.aggregates) > len(query.aggregates):
        query = replace(query, aggregates=needed.aggregates, outputs=tuple(outputs))
    where = None if statement.where is None else as_predicate(statement.where)
    return replace(
        query,
        condition=where,
        groups=tuple(plain_name(each) for each in statement.groups),
        labels=tuple(labels),
        sets=statement.sets,
        kept=having,
        ordered=order,
        most=statement.limit,
        skipped=statement.offset,
        source=None
        if isinstance(statement.source, NamedTable) and statement.source.name.lower() in tables
        else statement.source,
        options=statement.options,
        by_name=statement.by_name,
    )


def _meant(item: Item, items: list[Item]) -> Any:
    """What an item says, without the names of others in it."""
    others = [each for each in items if each is not item]
    return None if item.value is None else unaliased(item.value, others)


def _expanded(item: Item) -> list[Item]:
    """APPROX_QUANTILES(x, n) as its n + 1 figures."""
    if not (isinstance(item.value, Call) and item.value.function == "QUANTILES"):
        return [item]
    column, parts = item.value.arguments[0], item.value.arguments[1].value  # type: ignore[attr-defined]
    if parts > 40:
        raise QueryError(
            f"APPROX_QUANTILES(x, {parts}) would split the budget over {parts + 1} figures: ask for one by [OFFSET(i)]."
        )
    stem = item.alias or "quantiles"
    return [Item(quantile_of(column, at, parts), f"{stem}_{at}") for at in range(parts + 1)]


def _label(node: Expr, texts: dict[str, int], groups: tuple[Expr, ...]) -> Expr | None:
    if isinstance(node, FigureOf):
        return node
    place = texts.get(key_text(node))
    return None if place is None else LabelOf(plain_name(groups[place]), place)


def _only_figures(node: Expr) -> None:
    for each in walk(node):
        if isinstance(each, col):
            raise QueryError(f"Column {each.name!r} stands beside figures, so it must be in GROUP BY.")
        if isinstance(each, Call) and each.function == "QUANTILES":
            raise QueryError("APPROX_QUANTILES(x, n) inside an expression needs [OFFSET(i)] behind it.")


def _no_figures(outputs: list[Output]) -> None:
    for each in outputs:
        _only_figures(each.value)
    raise QueryError(f"{SHAPE}. Got no figure.")


def _one_table(statement: Statement) -> Statement:
    """Where there is one table, its name before a column says nothing."""
    source = statement.source
    if not isinstance(source, NamedTable):
        return statement
    names = {(source.alias or source.name).lower()}

    def bare(node: Expr) -> Expr | None:
        if isinstance(node, col) and node.table:
            if node.table.lower() not in names:
                raise QueryError(f"Column {node.name!r} is asked of {node.table!r}, which is not in FROM.")
            return replace(node, table="")
        if isinstance(node, FigureOf):
            one = node.aggregate
            column = mapped(one.column, bare) if isinstance(one.column, Expr) else one.column
            other = None if one.other is None else mapped(one.other, bare)
            return FigureOf(replace(one, column=plain_name(column), other=other))
        return None

    def each(node: Any) -> Any:
        return None if node is None else mapped(node, bare)

    return replace(
        statement,
        items=tuple(replace(item, value=each(item.value)) for item in statement.items),
        where=each(statement.where),
        groups=tuple(each(group) for group in statement.groups),
        having=each(statement.having),
        order=tuple((each(value), descending, first) for value, descending, first in statement.order),
    )


def _merged(outer: Statement) -> Statement:
    """A query that only filters, computes and orders the figures of a sub-query is that sub-query, so arranged."""
    inner = outer.source
    assert isinstance(inner, SubSelect)  # the caller has seen to it
    if outer.groups or not any(each.value is not None and asks_figure(each.value) for each in inner.items):
        raise QueryError(f"{SHAPE}. Got no figure.")
    named = {_item_name(each).lower(): each.value for each in inner.items if each.value is not None}

    def meant(node: Any) -> Any:
        def change(each: Expr) -> Expr | None:
            if not isinstance(each, col):
                return None
            if (each.table and each.table.lower() != inner.alias.lower()) or each.name.lower() not in named:
                raise QueryError(
                    f"Column {each.name!r} is not one of the sub-query's. It has: {', '.join(named)}."
                )
            return named[each.name.lower()]

        return None if node is None else mapped(node, change)

    items: list[Item] = []
    for item in outer.items:
        items += (
            inner.items if item.value is None else [Item(meant(item.value), item.alias or _item_name(item))]
        )
    having = [each for each in (inner.having, meant(outer.where), meant(outer.having)) if each is not None]
    kept = (
        None
        if not having
        else having[0]
        if len(having) == 1
        else And(tuple(as_predicate(each) for each in having))
    )
    order = tuple(
        (
            meant(unaliased(referred(value, items), ()))
            if isinstance(value, col)
            else referred(value, items),
            d,
            f,
        )
        for value, d, f in outer.order
    )
    return replace(
        outer,
        items=tuple(items),
        source=inner.source,
        where=inner.where,
        groups=inner.groups,
        having=kept,
        order=order,
    )


def _item_name(item: Item) -> str:
    return item.alias or (item.value.name if isinstance(item.value, col) else str(item.value))
