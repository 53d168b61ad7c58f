"""Several tables: which rows belong to which unit, and how joins and sub-queries keep them apart.

Every private row carries its unit. Rows of two private tables meet only within one unit, by a declared key, so that a
row of the result belongs to one unit and depends on that unit's rows alone; proofs in docs/theory/joins.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl

from shoal.dp.meaning.columns import typed_column
from shoal.dp.meaning.kinds import Levels, Text, Truth, Typed
from shoal.dp.meaning.perunit import per_unit
from shoal.dp.meaning.relation import (
    CELL,
    KEY,
    UNIT,
    Catalog,
    Frames,
    Known,
    Relation,
    TableFacts,
    check_names,
    in_own_order,
    known_as,
    stored,
)
from shoal.dp.meaning.rowwise import compiled, condition
from shoal.dp.meaning.texts import looked_up
from shoal.dp.sql.expressions import And, Compare, Expr, FigureOf, Test, as_predicate, col, subject
from shoal.dp.sql.statement import FromItem, InSelect, Item, Join, NamedTable, SubSelect
from shoal.dp.sql.tree import mapped, walk
from shoal.errors import QueryError

LEAST_KEPT = 64  # rows of a unit that enter a join, at least, whatever is declared


def relate(source: FromItem, catalog: Catalog) -> Relation:
    """The rows that a FROM names, each with its unit; or the reason why they have none.

    Parameters
    ----------
    source : FromItem
    catalog : Catalog

    Returns
    -------
    Relation
    """
    if isinstance(source, NamedTable):
        return _scan(source, catalog)
    if isinstance(source, Join):
        return _join(source, catalog)
    assert isinstance(source, SubSelect)  # there is no other source
    return _sub_select(source, catalog)


def _scan(source: NamedTable, catalog: Catalog) -> Relation:
    facts = catalog.find(source.name)
    alias = source.alias or source.name
    columns = []
    for name, column in facts.columns.items():
        key = f"{alias}.{name}{KEY}" if name in facts.keys else ""
        place = replace(column, name=f"{alias}.{name}")
        columns.append(
            Known(alias, name, typed_column(place, f'"{alias}"."{name}"'), key, _origin(facts, name, catalog))
        )
    for name in facts.keys:
        if name not in facts.columns:
            cells = Typed(Text(), pl.col(f"{alias}.{name}"), f'"{alias}"."{name}"')
            columns.append(Known(alias, name, cells, f"{alias}.{name}{KEY}", _origin(facts, name, catalog)))

    def make(frames: Frames) -> pl.LazyFrame:
        frame = frames[facts.name]
        return frame.lazy().rename(
            {each: f"{alias}.{each}" for each in frame.columns if each not in (UNIT, CELL)}
        )

    return Relation(tuple(columns), make, not facts.public, catalog.rows, ordered=True)


def _origin(facts: TableFacts, name: str, catalog: Catalog) -> str:
    """Which id a key column holds: that of the unit, or that of the table it points to."""
    if facts.public:
        return ""
    if name == catalog.unit:
        return "unit"
    for link in catalog.links:
        if (
            name in link.key
            and len(link.key) == 1
            and not link.public
            and facts.name in (link.from_table, link.to_table)
        ):
            return f"{link.to_table}.{name}"
    return ""


# Joins


def _join(source: Join, catalog: Catalog) -> Relation:
    left, right = relate(source.left, catalog), relate(source.right, catalog)
    how = source.how
    if how == "RIGHT":
        left, right, how = right, left, "LEFT"
    aliases = {each.alias.lower() for each in left.columns} & {each.alias.lower() for each in right.columns}
    if aliases:
        raise QueryError(
            f"Two tables of FROM are called {sorted(aliases)[0]!r}: give each a name of its own by AS."
        )
    pairs, rest = _pairs(source, left, right)
    if not pairs:
        raise QueryError("JOIN needs an equality of a column of either table: write ON a.key = b.key.")
    if rest and how != "INNER":
        raise QueryError(
            f"{how} JOIN is ON equalities of columns: write other conditions in WHERE, or join inwards."
        )
    _check_join(left, right, how, pairs)
    both = left.private and right.private
    rows = left.rows if not right.private else right.rows if not left.private else catalog.rows
    if (left.rows == 1 and right.rows == 1 and both) or (
        left.private and left.rows == 1 and not right.private and _unique(pairs, catalog, source.right)
    ):
        rows = 1
    elif not both:
        rows = catalog.rows
    made = [
        Known(each.alias, each.name, each.kind, each.key, each.origin)
        for each in (*left.columns, *right.columns)
    ]
    if source.using:
        hidden = {right.find(col(each, quoted=False)).place for each in source.using}
        made = [each for each in made if each.place not in hidden]
    _check_record(left, right, pairs, catalog, source)
    make = _joined(left, right, how, pairs, both, max(catalog.rows, LEAST_KEPT))
    joined = Relation(tuple(made), make, left.private or right.private, rows, (*left.said, *right.said))
    if not rest:
        return joined
    test = condition(And(tuple(as_predicate(each) for each in rest)), joined.scope)
    return replace(joined, make=lambda frames: make(frames).filter(test))


def _pairs(source: Join, left: Relation, right: Relation) -> tuple[list[tuple[Known, Known]], list[Expr]]:
    """Equalities between the two sides, and the other conditions."""
    if source.using:
        return [
            (left.find(col(each, quoted=False)), right.find(col(each, quoted=False))) for each in source.using
        ], []
    on = source.on
    assert on is not None  # a join has one or the other
    pairs: list[tuple[Known, Known]] = []
    rest: list[Expr] = []
    for each in on.parts if isinstance(on, And) else (on,):
        found = _pair(each, left, right)
        if found is None:
            rest.append(each)
        else:
            pairs.append(found)
    return pairs, rest


def _pair(node: Expr, left: Relation, right: Relation) -> tuple[Known, Known] | None:
    if not isinstance(node, Compare) or node.operator != "=" or not isinstance(node.value, col):
        return None
    first = subject(node.column)
    if not isinstance(first, col):
        return None
    one, two = _sides(first, left, right), _sides(node.value, left, right)
    if one[0] is not None and two[1] is not None:
        return one[0], two[1]
    if two[0] is not None and one[1] is not None:
        return two[0], one[1]
    return None


def _sides(node: col, left: Relation, right: Relation) -> tuple[Known | None, Known | None]:
    """The column of either side that a name means; one that both sides have must say which."""
    found: list[Known | None] = []
    for relation in (left, right):
        try:
            found.append(relation.find(node))
        except QueryError:
            found.append(None)
    if found[0] is not None and found[1] is not None:
        raise QueryError(
            f"Column {node.name!r} may be {found[0].place} or {found[1].place}: write the table before it."
        )
    return found[0], found[1]


def _check_join(left: Relation, right: Relation, how: str, pairs: list[tuple[Known, Known]]) -> None:
    if left.private and right.private:
        if not any(a.origin and a.origin == b.origin for a, b in pairs):
            raise QueryError(
                "Two private tables are joined by the unit, or by the key of a declared link, so that each row belongs to one "
                "unit: add it to ON, or declare the link in [links]."
            )
        return
    if how == "FULL" or (how == "LEFT" and not left.private):
        raise QueryError(
            "A join must not keep rows of a public table that belong to nobody: put the private table first in LEFT JOIN."
        )


def _check_record(
    left: Relation, right: Relation, pairs: list[tuple[Known, Known]], catalog: Catalog, source: Join
) -> None:
    """Where a record is the unit, a join must not make several of it."""
    if catalog.unit is not None:
        return
    if left.private and right.private:
        raise QueryError(
            "Two private tables can be joined only where the unit is a column: declare 'unit' in the schema."
        )
    public = source.right if left.private else source.left
    if not _unique(pairs, catalog, public):
        raise QueryError(
            "A join that may make several rows of one record needs a unit: declare 'unit', or a look-up table with one row per key."
        )


def _unique(pairs: list[tuple[Known, Known]], catalog: Catalog, public: FromItem) -> bool:
    if not isinstance(public, NamedTable):
        return False
    facts = catalog.find(public.name)
    return facts.public and any(
        each.name in facts.unique
        for pair in pairs
        for each in pair
        if each.alias == (public.alias or public.name)
    )


def _joined(
    left: Relation, right: Relation, how: str, pairs: list[tuple[Known, Known]], both: bool, most: int
) -> Callable[[Frames], pl.LazyFrame]:
    keys = [f"shoal:join{at}" for at in range(len(pairs))]

    def side(relation: Relation, at: int, frames: Frames) -> pl.LazyFrame:
        rows = relation.make(frames)
        if both:  # of a unit so many rows at most, the first in an order of its own
            rows = rows if relation.ordered else in_own_order(rows)
            rows = rows.filter(pl.int_range(pl.len()).over(UNIT) < most)
        return rows.with_columns(
            _join_value(pair[at], pair[1 - at]).alias(key) for key, pair in zip(keys, pairs, strict=True)
        )

    def make(frames: Frames) -> pl.LazyFrame:
        on = [*keys, UNIT] if both else keys
        a, b = side(left, 0, frames), side(right, 1, frames)
        if not left.private and right.private:
            a, b = b, a  # inwards: either order
        kind = {"INNER": "inner", "LEFT": "left", "FULL": "full"}[how]
        return a.join(b, on=on, how=kind, coalesce=True, nulls_equal=False).drop(keys)  # type: ignore[arg-type]

    return make


def _join_value(mine: Known, other: Known) -> pl.Expr:
    """A key as both sides write it."""
    if mine.key and other.key:
        return pl.col(mine.key)
    kinds = (mine.kind.kind, other.kind.kind)
    if all(isinstance(each, (Levels, Text)) for each in kinds):
        kind = kinds[0]
        return (
            looked_up(mine.kind.value, kind.texts, pl.String) if isinstance(kind, Levels) else mine.kind.value
        )
    if type(kinds[0]) is not type(kinds[1]):
        raise QueryError(
            f"{mine.place} is {kinds[0].word} and {other.place} {kinds[1].word}: they cannot be joined."
        )
    return mine.kind.value


# Sub-queries


def _sub_select(source: SubSelect, catalog: Catalog) -> Relation:
    inner = relate(source.source, catalog)
    alias = source.alias or "sub"
    if source.where is not None:
        inner = filtered(inner, source.where, catalog)
    if source.groups or source.distinct or any(_has_figure(each) for each in source.items):
        return per_unit(source, inner, catalog, alias)
    if source.having is not None:
        raise QueryError("HAVING in a sub-query needs GROUP BY.")
    return project(inner, source.items, alias)


def _has_figure(item: Item) -> bool:
    return item.value is not None and any(isinstance(each, FigureOf) for each in walk(item.value))


def project(inner: Relation, items: tuple[Item, ...], alias: str) -> Relation:
    """Chosen and computed columns of a relation."""
    columns: list[Known] = []
    made: list[pl.Expr] = []
    for item in items:
        known = inner.columns if item.value is None else ()
        if isinstance(item.value, col):
            known = (inner.find(item.value),)
        if item.value is not None and not known:
            found = compiled(item.value, inner.scope)
            name = item.alias or str(item.value).replace('"', "")
            columns.append(known_as(found, alias, name))
            made.append(stored(found).alias(f"{alias}.{name}"))
        for each in known:
            name = item.alias or each.name
            columns.append(
                replace(
                    known_as(each.kind, alias, name),
                    key=f"{alias}.{name}{KEY}" if each.key else "",
                    origin=each.origin,
                )
            )
            if each.key:
                made.append(pl.col(each.key).alias(f"{alias}.{name}{KEY}"))
            made.append(stored(each.kind).alias(f"{alias}.{name}"))
    check_names([each.name for each in columns])

    def make(frames: Frames) -> pl.LazyFrame:
        rows = inner.make(frames)
        units = [each for each in (UNIT, CELL) if each in rows.collect_schema()]
        return rows.select(*units, *made)

    return replace(inner, columns=tuple(columns), make=make)


def filtered(relation: Relation, where: Expr, catalog: Catalog) -> Relation:
    """The rows for which a condition is true."""
    relation, where = with_queries(relation, where, catalog)
    test, make = condition(as_predicate(where), relation.scope), relation.make
    return replace(relation, make=lambda frames: make(frames).filter(test))


def with_queries(relation: Relation, where: Expr, catalog: Catalog) -> tuple[Relation, Any]:
    """A relation with a column for each IN (SELECT ...), and the condition that reads it."""
    found = relation

    def change(node: Expr) -> Expr | None:
        nonlocal found
        if not isinstance(node, InSelect):
            return None
        name = f"in{len(found.columns)}"
        found = _with_member(found, node, name, catalog)
        return Test(col(name, "shoal"))

    changed = mapped(where, change)
    return found, changed


def _with_member(relation: Relation, node: InSelect, name: str, catalog: Catalog) -> Relation:
    inner = relate(replace(node.rows, alias="shoal_in"), catalog)
    if len(inner.columns) != 1:
        raise QueryError("A query inside IN must give one column.")
    if not isinstance(node.key, col):
        raise QueryError(f"IN (SELECT ...) needs a column before it. Got {node.key}.")
    key, other = relation.find(node.key), inner.columns[0]
    if inner.private and not (relation.private and key.origin and key.origin == other.origin):
        raise QueryError(
            "IN (SELECT ...) of a private table is of the unit, or of the key of a declared link."
        )
    value, members = _join_value(key, other), _join_value(other, key)
    place = f"shoal.{name}"
    make = relation.make

    def made(frames: Frames) -> pl.LazyFrame:
        rows = make(frames).with_columns(value.alias("shoal:member"))
        keys = ["shoal:member", UNIT] if inner.private else ["shoal:member"]
        inside = inner.make(frames).with_columns(members.alias("shoal:member")).select(keys).unique()
        missing = pl.lit(False)
        if not inner.private:  # a public NULL makes a miss unknown, as SQL has it
            open_ended = bool(inside.select(pl.col("shoal:member").is_null().any()).collect().item())
            missing = pl.lit(None, pl.Boolean) if open_ended else missing
        inside = inside.drop_nulls("shoal:member").with_columns(pl.lit(True).alias(place))
        joined = rows.join(inside, on=keys, how="left", nulls_equal=False)
        known = (
            pl.when(pl.col("shoal:member").is_null())
            .then(None)
            .otherwise(pl.coalesce(pl.col(place), missing))
        )
        return joined.with_columns(known.alias(place)).drop("shoal:member")

    flag = Known("shoal", name, Typed(Truth(), pl.col(place), f"{node.key} IN (...)"))
    return replace(relation, columns=(*relation.columns, flag), make=made, ordered=False)
