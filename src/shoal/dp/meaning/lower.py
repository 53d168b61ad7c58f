"""From what is asked to what is drawn: expressions become columns of their own, figures those that get noise.

The result is a query of plain columns over a schema that declares the computed ones, so that plans, exact numbers and
noise know nothing of expressions; and what is made of the noisy figures afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from shoal.dp.meaning import numbers
from shoal.dp.meaning.columns import UndeclaredGroupError, coded_levels, declared_as, scope_of, unknown_column
from shoal.dp.meaning.kinds import Number, Truth
from shoal.dp.meaning.relation import Catalog, Relation, single
from shoal.dp.meaning.rowwise import Scope, compiled, condition, truth_number
from shoal.dp.meaning.tables import relate, with_queries
from shoal.dp.sql.aliases import check_shadowed
from shoal.dp.sql.expressions import Call, Compare, Expr, FigureOf, LabelOf, col, plain_name, subject
from shoal.dp.sql.query import PAIRS, Aggregate, Order, Output, Query, group_names
from shoal.dp.sql.statement import InSelect, NamedTable
from shoal.dp.sql.tree import mapped, walk
from shoal.errors import QueryError
from shoal.schema import Column, Schema

DEEPEST = 100
MOST_PARTS = 5_000


@dataclass(frozen=True, eq=False)
class Lowered:
    """A query ready to be planned.

    Parameters
    ----------
    asked : Query
        With every name as the schema has it.
    core : Query
        Its figures, groups and condition over plain columns.
    schema : Schema
        Declares the computed columns as well.
    computed : tuple of (str, polars.Expr)
        What each computed column is in a row.
    outputs : tuple of Output
        What the answer shows, of figures of `core` and group labels.
    kept : Expr, optional
    ordered : tuple of Order
    said : tuple of str
        Which reading was taken where dialects of SQL differ.
    relation : Relation, optional
        The rows asked about, where they are not those of the one table.
    test : polars.Expr, optional
        The condition of `core` as the engine computes it.
    """

    asked: Query
    core: Query
    schema: Schema
    computed: tuple[tuple[str, pl.Expr], ...] = ()
    outputs: tuple[Output, ...] = ()
    kept: Expr | None = None
    ordered: tuple[Order, ...] = ()
    said: tuple[str, ...] = ()
    relation: Relation | None = None
    test: pl.Expr | None = None


def resolve(query: Query, schema: Schema, units: set[str] | None = None) -> Query:
    """A query with every name as the schema has it; bare names of SQL match in any case."""
    _check_size(query)
    spelled: dict[str, list[str]] = {}
    for name in (*schema.columns, *(each for each in units or () if each not in schema.columns)):
        spelled.setdefault(name.lower(), []).append(name)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, col):
            return col(_spelled(node, spelled, schema))
        if isinstance(node, FigureOf):
            return FigureOf(figure(node.aggregate))
        if isinstance(node, LabelOf):
            return LabelOf(plain(node.group), node.place)
        return None

    def plain(column: Any) -> Any:
        return column if not isinstance(column, Expr) else plain_name(mapped(column, change))

    def figure(one: Aggregate) -> Aggregate:
        other = None if one.other is None else mapped(one.other, change)
        return replace(one, column=plain(one.column), other=other)

    resolved = replace(
        query,
        aggregates=tuple(figure(each) if isinstance(each, Aggregate) else each for each in query.aggregates),
        condition=None if query.condition is None else mapped(query.condition, change),
        groups=tuple(plain(each) for each in query.groups),
        outputs=tuple(replace(each, value=mapped(each.value, change)) for each in query.outputs),
        kept=None if query.kept is None else mapped(query.kept, change),
        ordered=tuple(replace(each, value=mapped(each.value, change)) for each in query.ordered),
    )
    check_shadowed(query.by_name, schema.columns)
    return resolved


def _spelled(node: col, spelled: dict[str, list[str]], schema: Schema) -> str:
    if not isinstance(node.name, str):
        raise QueryError(f"A column's name must be a text. Got {type(node.name).__name__}.")
    if node.name in spelled.get(node.name.lower(), []):
        return node.name
    found = spelled.get(node.name.lower(), [])
    if node.quoted or not found:
        unknown_column(node.name, schema)
    if len(found) > 1:
        raise QueryError(
            f"Column {node.name!r} may be {' or '.join(map(repr, found))}: write it in double quotes."
        )
    return found[0]


def _check_size(query: Query) -> None:
    """Depth and size of all expressions, without recursion."""
    roots = [each for each in (query.condition, query.kept, *query.groups) if isinstance(each, Expr)]
    roots += [each.value for each in query.outputs] + [each.value for each in query.ordered]
    for one in query.aggregates:
        roots += [
            each
            for each in (getattr(one, "column", None), getattr(one, "other", None))
            if isinstance(each, Expr)
        ]
    from shoal.dp.sql.tree import children

    waiting, seen = [(each, 1) for each in roots], 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > DEEPEST or seen > MOST_PARTS:
            raise QueryError(
                f"The conditions and expressions of a query may be nested at most {DEEPEST} deep, with {MOST_PARTS} parts."
            )
        waiting += [(each, depth + 1) for each in children(node)]


def lower(
    query: Query,
    schema: Schema,
    unit: str | None = None,
    rows: int = 1,
    catalog: Catalog | None = None,
    keys: Mapping[str, tuple[Any, ...]] | None = None,
) -> Lowered:
    """A query over plain columns, with the columns that have to be computed.

    Parameters
    ----------
    query : Query
    schema : Schema
    unit : str, optional
        The column of the unit, whose different values may be counted.
    rows : int, default 1
        At most so many rows of a unit are counted.
    catalog : Catalog, optional
        The tables of a session that has several.
    keys : mapping of str to tuple, optional
        Values that were drawn, of columns that declare none.

    Returns
    -------
    Lowered
    """
    relation, units, original = None, {unit} if unit else set(), query
    if query.source is not None or _asks_within(query):
        relation, query, schema, units = _related(query, schema, catalog or single(schema, unit, rows))
    asked = resolve(query, schema, units)
    work = _Work(schema, units, keys or {}, relation is None)
    exchanged = {str(each): work.figure(each) for each in asked.aggregates}
    groups = tuple(work.group(each) for each in asked.groups)

    def change(node: Expr) -> Expr | None:
        return exchanged[str(node)] if isinstance(node, FigureOf) else None

    outputs = tuple(Output(mapped(each.value, change), each.name) for each in asked.figures)
    kept = None if asked.kept is None else mapped(asked.kept, change)
    ordered = tuple(replace(each, value=mapped(each.value, change)) for each in asked.ordered)
    where, test = asked.condition, None
    if where is not None:
        work.seen(where)
        test = condition(where, work.scope)  # or the reason to refuse, if there is one
    core = Query(tuple(work.figures.values()), where, groups)
    facts = replace(schema, columns={**schema.columns, **work.columns}) if work.columns else schema
    said = (*asked.said, *work.said)
    if relation is not None:
        asked = original
    computed = tuple(work.computed.items())
    return Lowered(asked, core, facts, computed, outputs, kept, ordered, said, relation, test)


def _asks_within(query: Query) -> bool:
    return query.condition is not None and any(isinstance(each, InSelect) for each in walk(query.condition))


def _related(query: Query, schema: Schema, catalog: Catalog) -> tuple[Relation, Query, Schema, set[str]]:
    """A query over the columns of its source, each under its place in the rows."""
    _check_size(query)
    relation = relate(query.source or NamedTable(catalog.main, "t"), catalog)
    if not relation.private:
        raise QueryError("The tables of this query are public: read them, and spend nothing.")
    check_shadowed(query.by_name, {each.name for each in relation.columns})
    if query.condition is not None:
        relation, where = with_queries(relation, query.condition, catalog)
        query = replace(query, condition=where)

    def change(node: Expr) -> Expr | None:
        if isinstance(node, col):
            return col(relation.find(node).place)
        if isinstance(node, FigureOf):
            return FigureOf(figure(node.aggregate))
        if isinstance(node, LabelOf):
            return LabelOf(plain(node.group), node.place)
        return None

    def plain(column: Any) -> Any:
        if column is None:
            return None
        return plain_name(mapped(col(column) if isinstance(column, str) else column, change))

    def figure(one: Aggregate) -> Aggregate:
        other = None if one.other is None else mapped(one.other, change)
        return replace(one, column=plain(one.column), other=other, label=one.name)

    changed = replace(
        query,
        aggregates=tuple(figure(each) for each in query.aggregates),
        condition=None if query.condition is None else mapped(query.condition, change),
        groups=tuple(plain(each) for each in query.groups),
        labels=tuple(group_names(query)),
        outputs=tuple(Output(mapped(each.value, change), each.name) for each in query.outputs),
        kept=None if query.kept is None else mapped(query.kept, change),
        ordered=tuple(replace(each, value=mapped(each.value, change)) for each in query.ordered),
        source=None,
    )
    columns = {each.place: declared_as(each.kind.kind, each.place) for each in relation.columns}
    facts = replace(schema, columns=columns, cells=None, rules=(), indicators=())
    return relation, changed, facts, {each.place for each in relation.columns if each.origin == "unit"}


@dataclass
class _Work:
    """Columns and figures found on the way."""

    schema: Schema
    units: set[str]
    keys: Mapping[str, tuple[Any, ...]]
    alone: bool
    columns: dict[str, Column] = field(default_factory=dict)
    computed: dict[str, pl.Expr] = field(default_factory=dict)
    figures: dict[str, Aggregate] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        return scope_of(self.schema)

    def seen(self, node: Expr) -> None:
        """Say how a division is read."""
        if numbers.DIVIDED not in self.said and any(
            isinstance(each, Call) and each.function == "/" for each in walk(node)
        ):
            self.said.append(numbers.DIVIDED)
        for each in walk(node):
            if isinstance(each, Compare) and each.operator not in ("=", "<>", "!="):
                self._say_order(plain_name(subject(each.column)))

    def _say_order(self, name: Any) -> None:
        column = self.schema.columns.get(name) if isinstance(name, str) else None
        said = f"{name} is compared in the order of its declared levels, not as a text"
        if column is not None and column.kind == "ordered" and said not in self.said:
            self.said.append(said)

    def figure(self, asked: Aggregate) -> Expr:
        """What stands for a figure, made of figures that get noise."""
        if not isinstance(asked, Aggregate):
            raise QueryError(f"A figure must be an Aggregate. Got {type(asked).__name__}.")
        if asked.kind in ("std", "std_samp"):
            inner = self.figure(
                replace(asked, kind="var" if asked.kind == "std" else "var_samp", label=asked.name)
            )
            return Call("SQRT", (inner,))
        if asked.kind in PAIRS:
            return self._pair(asked)
        column = asked.column
        if asked.kind in ("min", "max", "quantile"):
            self._say_order(column)
        if asked.kind == "distinct":
            column = self._distinct(column)
        elif isinstance(column, Expr) or (asked.kind in ("sum", "avg") and self._is_truth(column)):
            column = self._computed(column if isinstance(column, Expr) else col(str(column)), asked.kind)
        made = replace(asked, column=column, label=asked.name)
        self.figures.setdefault(str(made), made)
        return FigureOf(made)

    def _is_truth(self, column: Any) -> bool:
        return (
            isinstance(column, str)
            and column in self.schema.columns
            and self.schema.columns[column].kind == "boolean"
        )

    def _computed(self, node: Expr, kind: str) -> str:
        """An expression as a column of its own."""
        self.seen(node)
        found = compiled(node, self.scope)
        if isinstance(found.kind, Truth) and kind not in ("min", "max", "quantile"):
            found = truth_number(found, found.text)
        name = str(node)
        if isinstance(found.kind, Number) and not found.kind.bounded and kind != "count":
            raise QueryError(
                f"The bounds of {name[:80]} cannot be derived from declared ones: write CLAMP({name[:80]}, low, high), or declare bounds."
            )
        if name not in self.columns:
            self.columns[name] = declared_as(found.kind, name)
            self.computed[name] = found.value
        return name

    def group(self, group: Any) -> str:
        """A group's column: a declared one, or the place of each row among finitely many values."""
        if isinstance(group, str):
            if group not in self.schema.columns:
                unknown_column(group, self.schema)
            from shoal.dp.meaning.check import levels

            if levels(self.schema.columns[group]) is not None:
                return group
            if group in self.keys:
                return self._keyed(group)
            try:
                return self._coded(col(group), "GROUP BY")
            except QueryError:
                if not self.alone:
                    raise
                raise UndeclaredGroupError(group, self.schema) from None
        if not isinstance(group, Expr):
            raise QueryError("The groups of a query must be a tuple of columns' names or expressions.")
        return self._coded(group, "GROUP BY")

    def _keyed(self, group: str) -> str:
        """The place of each row among the values that were drawn."""
        name = f"{group} (keys)"
        labels = self.keys[group]
        from shoal.dp.meaning.check import number

        column = self.schema.columns[group]
        kept = (
            [number(column, each) for each in labels] if column.kind in ("number", "date") else list(labels)
        )
        kind = pl.Float64 if column.kind in ("number", "date") else pl.String
        places = pl.Series(list(range(len(kept))), dtype=pl.Int32)
        self.columns[name] = Column(name, kind="category", levels=labels)
        self.computed[name] = pl.col(group).replace_strict(
            pl.Series(kept, dtype=kind), places, default=None, return_dtype=pl.Int32
        )
        return name

    def _coded(self, node: Expr, what: str) -> str:
        self.seen(node)
        found = compiled(node, self.scope)
        name = f"{node} (levels)"
        if name not in self.columns:
            labels, place = coded_levels(found, what)
            self.columns[name] = Column(name, kind="category", levels=labels)
            self.computed[name] = place
        return name

    def _distinct(self, column: Any) -> Any:
        """The column of a count of different values: the unit itself, or one of declared domain."""
        if isinstance(column, str) and column in self.units:
            return column
        if isinstance(column, str) and column not in self.schema.columns:
            unknown_column(column, self.schema)
        return self._coded(column if isinstance(column, Expr) else col(column), "COUNT(DISTINCT ...)")

    def _pair(self, asked: Aggregate) -> Expr:
        """Covariance and correlation: both expressions as columns, over the rows in which neither is missing."""
        if asked.other is None or asked.column is None:
            raise QueryError(f"{asked.kind.upper()} needs two columns.")
        names = []
        for node in (asked.column if isinstance(asked.column, Expr) else col(asked.column), asked.other):
            kind = compiled(node, self.scope).kind
            if not isinstance(kind, Number) or not kind.bounded or kind.low >= kind.high:
                raise QueryError(f"{asked.kind.upper()} needs two numbers with declared bounds. Got {node}.")
            names.append(node.name if isinstance(node, col) else self._computed(node, asked.kind))
        made = replace(asked, column=names[0], other=col(names[1]), label=asked.name)
        self.figures.setdefault(str(made), made)
        return FigureOf(made)
