"""Loading several tables: every private row gets its unit, from its own column or along declared links."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from shoal.dp.loading.cells import cells_of
from shoal.dp.loading.load import decode, ids_of, in_order, load
from shoal.dp.loading.parts import UnitParts
from shoal.dp.loading.shared import KeptFrames, SharedTable
from shoal.dp.loading.sources import Source
from shoal.dp.meaning.relation import KEY, UNIT, Catalog, TableFacts
from shoal.dp.unit import Protected, ids_read
from shoal.engine.frame import Frame
from shoal.errors import SchemaError
from shoal.schema import Column, Link, Schema


@dataclass(frozen=True)
class GivenTable:
    """A further table as it was handed in."""

    data: Any
    schema: Schema

    def opened(self) -> GivenTable:
        """With the cells of a table that processes share."""
        return GivenTable(self.data.cells, self.schema) if isinstance(self.data, SharedTable) else self


@dataclass(frozen=True)
class Linked:
    """The tables of a session as the engine keeps them: private ones in parts by their units, public ones in memory.

    Parameters
    ----------
    private : mapping of str to UnitParts
    public : mapping of str to polars.DataFrame
    """

    private: Mapping[str, UnitParts]
    public: Mapping[str, pl.DataFrame]

    @cached_property
    def spilled(self) -> bool:
        """Whether a table has too many rows for memory; then all are asked part by part."""
        return any(each.spilled for each in self.private.values())

    @cached_property
    def whole(self) -> dict[str, pl.DataFrame]:
        """All tables in memory."""
        return {**{name: each.whole() for name, each in self.private.items()}, **self.public}

    def parts(self) -> Generator[dict[str, pl.DataFrame]]:
        """All tables, with some units at a time."""
        for some in zip(*(each.parts() for each in self.private.values()), strict=True):
            yield {**dict(zip(self.private, some, strict=True)), **self.public}


def load_linked(
    data: Any, schema: Schema, tables: Mapping[str, GivenTable], protected: Protected
) -> tuple[Catalog, Linked]:
    """All tables of a session as the engine keeps them, each private row with its unit.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame, pyarrow.Table, Source or SharedTable
        The first table.
    schema : Schema
        Its schema, with the unit and the links.
    tables : mapping of str to Given
        The others, by the names that links and queries use.
    protected : Protected

    Returns
    -------
    Catalog, Linked
        Rows whose unit is not found belong to nobody and are left out.
    """
    unit = protected.column if protected.kind == "column" else None
    given = {name: each.opened() for name, each in {schema.id: GivenTable(data, schema), **tables}.items()}
    _check_links(schema.links, given, unit)
    public = {link.to_table for link in schema.links if link.public}
    keys = {name: _keys(name, schema.links, unit, each) for name, each in given.items()}
    _check_ids(keys, given)
    ways = _ways(given, keys, public, schema.links, unit)

    def make() -> Linked:
        return Linked(
            _with_units(given, keys, ways),
            {name: pl.concat(list(_loaded(given[name], keys[name]))) for name in given if name in public},
        )

    linked = make() if not isinstance(data, SharedTable) else _kept(data.kept, given, ways, protected, make)
    facts = {
        name: TableFacts(
            name,
            each.schema.columns,
            keys[name],
            name in public,
            _unique(linked.public[name], keys[name]) if name in public else (),
        )
        for name, each in given.items()
    }
    return Catalog(schema.id, facts, schema.links, unit, protected.rows), linked


def _kept(
    kept: KeptFrames,
    given: Mapping[str, GivenTable],
    ways: Mapping[str, Link | str | None],
    protected: Protected,
    make: Callable[[], Linked],
) -> Linked:
    """What `make` loads, kept for all processes; tables in parts lie on the disk, so that each has its own."""
    of = {name: f"rows of {name} by {protected.key}" for name in given}
    made = None if kept.has(of.values()) else make()
    if made is not None and made.spilled:
        return made
    frames = {} if made is None else {of[name]: frame for name, frame in made.whole.items()}
    found = kept.frames(list(of.values()), lambda: frames)
    private = {name: UnitParts([UNIT] if way else []) for name, way in ways.items()}
    for name, rows in private.items():
        rows.add(found[of[name]])
    return Linked(private, {name: found[of[name]] for name in given if name not in ways})


def _with_units(
    given: Mapping[str, GivenTable],
    keys: Mapping[str, tuple[str, ...]],
    ways: Mapping[str, Link | str | None],
) -> dict[str, UnitParts]:
    """The private tables, each row with its unit, in an order that is each row's own affair."""
    private = {name: _private(given[name], keys[name], way) for name, way in ways.items()}
    for name, way in ways.items():
        if isinstance(way, Link):
            private[name] = _owned(private[name], private[way.to_table], way)
        private[name].sort(in_order)
    return private


def _check_links(links: tuple[Link, ...], given: Mapping[str, GivenTable], unit: str | None) -> None:
    for link in links:
        for name in (link.from_table, link.to_table):
            if name not in given:
                raise SchemaError(
                    f"Link {link.name!r} names the table {name!r}, which was not given. Given are: {', '.join(given)}."
                )
    linked = {name for link in links for name in (link.from_table, link.to_table)}
    loose = [name for name in given if name not in linked and len(given) > 1]
    if loose:
        raise SchemaError(f"The table {loose[0]!r} has no link in [links] of the schema.")
    public = {link.to_table for link in links if link.public}
    mixed = [link.name for link in links if not link.public and link.to_table in public]
    if mixed:
        raise SchemaError(f"Link {mixed[0]!r} points to a table that another link declares public.")
    if unit is None and any(name not in public for name in list(given)[1:]):
        raise SchemaError(
            "Several private tables need a unit that is a column: declare 'unit' in the schema."
        )


def _keys(name: str, links: tuple[Link, ...], unit: str | None, each: GivenTable) -> tuple[str, ...]:
    found = [key for link in links if name in (link.from_table, link.to_table) for key in link.key]
    if unit is not None and unit in _names(each.data):
        found.append(unit)
    return tuple(dict.fromkeys(found))


def _names(data: Any) -> Sequence[str]:
    return data.columns if isinstance(data, (Source, pl.DataFrame)) else Frame(data).columns


def _check_ids(keys: Mapping[str, tuple[str, ...]], given: Mapping[str, GivenTable]) -> None:
    """One key is read in one way: ids that differ between two tables would be two units where one is meant."""
    seen: dict[str, tuple[str, str]] = {}
    for name, of_table in keys.items():
        for key in of_table:
            read = ids_read(given[name].schema.columns.get(key))
            other, before = seen.setdefault(key, (name, read))
            if read != before:
                ways = [f"{where!r} {how or 'as texts'}" for where, how in ((other, before), (name, read))]
                raise SchemaError(
                    f"Column {key!r} must be read alike in all tables ('numeric_id', 'normalize'). Got {' and '.join(ways)}."
                )


def _ways(
    given: Mapping[str, GivenTable],
    keys: Mapping[str, tuple[str, ...]],
    public: Collection[str],
    links: tuple[Link, ...],
    unit: str | None,
) -> dict[str, Link | str | None]:
    """How the rows of each private table get their unit: by their own column, or by a link to a table that comes before."""
    private = [name for name in given if name not in public]
    ways: dict[str, Link | str | None] = {
        name: unit for name in private if unit is None or unit in keys[name]
    }
    while len(ways) < len(private):
        waiting = [name for name in private if name not in ways]
        ready = [
            link for name in waiting for link in links if link.from_table == name and link.to_table in ways
        ]
        if not ready:
            raise SchemaError(
                f"The table {waiting[0]!r} has neither the unit {unit!r} nor a link to a table that has it, or its links go in a circle."
            )
        ways[ready[0].from_table] = ready[0]
    return ways


def _private(each: GivenTable, keys: tuple[str, ...], way: Link | str | None) -> UnitParts:
    """A private table, by its units where its rows have them, else by the key that will give them."""
    if isinstance(way, Link):
        rows = UnitParts(_on(way))
        for part in _loaded(each, keys):
            rows.add(part.drop_nulls(_on(way)))
        return rows
    rows = UnitParts([UNIT] if way else [])
    for part in _loaded(each, keys):
        rows.add(part.with_columns(pl.col(f"{way}{KEY}").alias(UNIT)).drop_nulls(UNIT) if way else part)
    return rows


def _on(link: Link) -> list[str]:
    return [f"{key}{KEY}" for key in link.key]


def _owned(rows: UnitParts, others: UnitParts, link: Link) -> UnitParts:
    """Rows with the units of those that they point to, as often as there are."""
    on = _on(link)
    if not rows.spilled and not others.spilled:
        owners, found = others.whole().select(*on, UNIT).unique(), UnitParts([UNIT])
        found.add(rows.whole().join(owners, on=on, how="inner", nulls_equal=False))
        return found
    owners_of, found = UnitParts(on, most=0), UnitParts([UNIT], most=0)
    for part in others.parts():
        owners_of.add(part.select(*on, UNIT).drop_nulls(on).unique())
    for part, owners in zip(rows.parts(), owners_of.parts(), strict=True):
        found.add(part.join(owners, on=on, how="inner", nulls_equal=False))
    return found


def _loaded(each: GivenTable, keys: tuple[str, ...]) -> Generator[pl.DataFrame]:
    """The declared columns of a table and its keys; a source is decoded batch by batch."""
    missing = [key for key in keys if key not in _names(each.data)]
    if missing:
        raise SchemaError(
            f"A link names the column {missing[0]!r}, which the table {each.schema.id!r} does not have."
        )
    if not isinstance(each.data, Source):
        yield _with_keys(load(each.data, each.schema), each.data, each.schema, keys)
        return
    wanted = list(dict.fromkeys([*each.schema.columns, *keys]))
    absent = [name for name in wanted if name not in each.data.columns]
    if absent:
        raise SchemaError(f"The schema declares column {absent[0]!r}, which the table does not have.")
    nothing = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    for part in itertools.chain([nothing], each.data.batches(wanted)):
        yield _with_keys(decode(part, each.schema), part, each.schema, keys)


def _with_keys(frame: pl.DataFrame, data: Any, schema: Schema, keys: tuple[str, ...]) -> pl.DataFrame:
    native, made = cells_of(data, keys), []
    for key in keys:
        ids = ids_of(native[key], schema.columns.get(key, Column(key, kind="category")))
        made.append(ids.alias(f"{key}{KEY}"))
        if key not in frame.columns:
            made.append(ids.alias(key))
    return frame.with_columns(made) if frame.width else pl.DataFrame(made)


def _unique(frame: pl.DataFrame, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Keys of a public table that occur once each."""
    return tuple(key for key in keys if frame[f"{key}{KEY}"].drop_nulls().is_duplicated().sum() == 0)
