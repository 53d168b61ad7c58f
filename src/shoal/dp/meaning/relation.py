"""Rows with their units: what a table, a join or a sub-query gives, and what is publicly known of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from shoal.dp.meaning.kinds import Nothing, Number, Text, Truth, Typed
from shoal.dp.sql.expressions import col
from shoal.errors import QueryError
from shoal.schema import Column, Link, Schema

UNIT, CELL = "shoal:unit", "shoal:cell"
KEY = "#key"
Frames = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class TableFacts:
    """What is public about one table.

    Parameters
    ----------
    name : str
    columns : mapping of str to Column
    keys : tuple of str
        Columns that hold ids: of the unit, or of a link.
    public : bool
    unique : tuple of str
        Keys of a public table that occur once each.
    """

    name: str
    columns: Mapping[str, Column]
    keys: tuple[str, ...]
    public: bool = False
    unique: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalog:
    """The tables of a session, their links, and the column that is the unit."""

    main: str
    tables: Mapping[str, TableFacts]
    links: tuple[Link, ...] = ()
    unit: str | None = None
    rows: int = 1

    def find(self, name: str) -> TableFacts:
        """A table by its name in any case; the first one is also called t or data."""
        wanted = name.lower()
        if wanted in ("t", "data") and wanted not in (each.lower() for each in self.tables):
            wanted = self.main.lower()
        for each in self.tables.values():
            if each.name.lower() == wanted:
                return each
        shown = ", ".join(repr(each) for each in (*self.tables, "t"))
        raise QueryError(f"The table of this query must be one of {shown}. Got {name!r}.")


@dataclass(frozen=True)
class Known:
    """A column of a relation: what it is called, where it lies in the frame, and what is known of it."""

    alias: str
    name: str
    kind: Typed
    key: str = ""  # where its ids lie
    origin: str = ""  # which key of which table it is: equal origins may be joined

    @property
    def place(self) -> str:
        """Where its cells lie."""
        return f"{self.alias}.{self.name}"


@dataclass(frozen=True, eq=False)
class Relation:
    """Rows to be asked about.

    Parameters
    ----------
    columns : tuple of Known
    make : callable
        Frames of the tables to rows.
    private : bool
    rows : int
        At most so many rows of a unit are counted; 1 where there is one row for each unit.
    said : tuple of str
    ordered : bool
        Whether the rows of a unit come in an order of their own, whatever other units hold. Joins and groups come in any.
    """

    columns: tuple[Known, ...]
    make: Callable[[Frames], pl.LazyFrame]
    private: bool
    rows: int
    said: tuple[str, ...] = field(default=())
    ordered: bool = False

    def find(self, node: col) -> Known:
        """The column that a name means."""
        found = [
            each
            for each in self.columns
            if (not node.table or each.alias.lower() == node.table.lower())
            and (each.name == node.name or (not node.quoted and each.name.lower() == node.name.lower()))
        ]
        if not found:
            shown = ", ".join(dict.fromkeys(each.name for each in self.columns))
            raise QueryError(f"Column {node!s} is not in FROM. It has: {shown[:200]}.")
        exact = [each for each in found if each.name == node.name] or found
        if len(exact) > 1:
            places = " or ".join(each.place for each in exact[:3])
            raise QueryError(f"Column {node.name!r} may be {places}: write the table before it.")
        return exact[0]

    def scope(self, node: col) -> Typed:
        """A column as expressions see it."""
        return self.find(node).kind


def known_as(found: Typed, alias: str, name: str) -> Known:
    """A computed column of a sub-query as the outer query sees it."""
    if isinstance(found.kind, Nothing):
        raise QueryError(f"Column {name!r} of a sub-query is always NULL.")
    place, text = f"{alias}.{name}", f'"{alias}"."{name}"'
    if isinstance(found.kind, Text):
        return Known(alias, name, Typed(Text(), pl.col(place), text))
    cells = pl.col(place).cast(pl.Boolean) if isinstance(found.kind, Truth) else pl.col(place)
    return Known(alias, name, Typed(found.kind, cells, text))


def stored(found: Typed) -> pl.Expr:
    """A value as a column of a frame."""
    return found.value.cast(pl.Float64) if isinstance(found.kind, Number) else found.value


def in_own_order(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows by a hash of each, so that which of a unit come first depends on that unit alone."""
    hashed = rows.with_columns(pl.struct(pl.all()).hash(seed=1).alias("shoal:hash"))
    return hashed.sort("shoal:hash").drop("shoal:hash")


def check_names(names: list[str]) -> None:
    """Raise unless the columns of a sub-query have different names."""
    for each in names:
        if names.count(each) > 1:
            raise QueryError(f"A sub-query has two columns called {each!r}: name them apart by AS.")


def single(schema: Schema, unit: str | None, rows: int) -> Catalog:
    """The catalog of a session with one table."""
    keys = () if unit is None else (unit,)
    return Catalog(schema.id, {schema.id: TableFacts(schema.id, schema.columns, keys)}, (), unit, rows)


def single_frame(frame: pl.DataFrame, catalog: Catalog) -> dict[str, pl.DataFrame]:
    """The one table of a session, with its unit as a key."""
    if catalog.unit is not None and UNIT in frame.columns:
        keys = [pl.col(UNIT).alias(f"{catalog.unit}{KEY}")]
        keys += [pl.col(UNIT).alias(catalog.unit)] if catalog.unit not in frame.columns else []
        frame = frame.with_columns(keys)
    return {catalog.main: frame}
