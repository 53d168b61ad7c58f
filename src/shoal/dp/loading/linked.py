"""Loading several tables: every private row gets its unit, from its own column or along declared links."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.loading.cells import cells_of
from shoal.dp.loading.load import decode, ids_of, load, row_hashes
from shoal.dp.loading.sources import Source
from shoal.dp.meaning.relation import KEY, UNIT, Catalog, Facts
from shoal.dp.unit import Protected, ids_read
from shoal.engine.frame import Frame
from shoal.errors import SchemaError
from shoal.schema import Column, Link, Schema


@dataclass(frozen=True)
class Given:
    """A further table as it was handed in."""

    data: Any
    schema: Schema


def load_linked(
    data: Any, schema: Schema, tables: Mapping[str, Given], protected: Protected
) -> tuple[Catalog, dict[str, pl.DataFrame]]:
    """All tables of a session as the engine keeps them, each private row with its unit.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        The first table.
    schema : Schema
        Its schema, with the unit and the links.
    tables : mapping of str to Given
        The others, by the names that links and queries use.
    protected : Protected

    Returns
    -------
    Catalog, dict of polars.DataFrame
        Rows whose unit is not found belong to nobody and are left out.
    """
    unit = protected.column if protected.kind == "column" else None
    given = {schema.id: Given(data, schema), **tables}
    _check_links(schema.links, given, unit)
    public = {link.to_table for link in schema.links if link.public}
    keys = {name: _keys(name, schema.links, unit, each) for name, each in given.items()}
    _check_ids(keys, given)
    frames = {name: _loaded(each, keys[name]) for name, each in given.items()}
    private = [name for name in given if name not in public]
    if unit is not None:
        _give_units(frames, private, schema.links, unit)
    for name in private:
        frames[name] = frames[name][np.argsort(row_hashes(frames[name]), kind="stable")]
    facts = {
        name: Facts(
            name,
            each.schema.columns,
            keys[name],
            name in public,
            _unique(frames[name], keys[name], name in public),
        )
        for name, each in given.items()
    }
    return Catalog(schema.id, facts, schema.links, unit, protected.rows), frames


def _check_links(links: tuple[Link, ...], given: Mapping[str, Given], unit: str | None) -> None:
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


def _keys(name: str, links: tuple[Link, ...], unit: str | None, each: Given) -> tuple[str, ...]:
    found = [key for link in links if name in (link.from_table, link.to_table) for key in link.key]
    if unit is not None and unit in _names(each.data):
        found.append(unit)
    return tuple(dict.fromkeys(found))


def _names(data: Any) -> Sequence[str]:
    return data.columns if isinstance(data, (Source, pl.DataFrame)) else Frame(data).columns


def _check_ids(keys: Mapping[str, tuple[str, ...]], given: Mapping[str, Given]) -> None:
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


def _loaded(each: Given, keys: tuple[str, ...]) -> pl.DataFrame:
    """The declared columns of a table and its keys; a source is decoded batch by batch."""
    missing = [key for key in keys if key not in _names(each.data)]
    if missing:
        raise SchemaError(
            f"A link names the column {missing[0]!r}, which the table {each.schema.id!r} does not have."
        )
    if not isinstance(each.data, Source):
        return _with_keys(load(each.data, each.schema), each.data, each.schema, keys)
    wanted = list(dict.fromkeys([*each.schema.columns, *keys]))
    absent = [name for name in wanted if name not in each.data.columns]
    if absent:
        raise SchemaError(f"The schema declares column {absent[0]!r}, which the table does not have.")
    nothing = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
    batches = itertools.chain([nothing], each.data.batches(wanted))
    return pl.concat([_with_keys(decode(part, each.schema), part, each.schema, keys) for part in batches])


def _with_keys(frame: pl.DataFrame, data: Any, schema: Schema, keys: tuple[str, ...]) -> pl.DataFrame:
    native, made = cells_of(data, keys), []
    for key in keys:
        ids = ids_of(native[key], schema.columns.get(key, Column(key, kind="category")))
        made.append(ids.alias(f"{key}{KEY}"))
        if key not in frame.columns:
            made.append(ids.alias(key))
    return frame.with_columns(made) if frame.width else pl.DataFrame(made)


def _give_units(
    frames: dict[str, pl.DataFrame], private: list[str], links: tuple[Link, ...], unit: str
) -> None:
    """The unit of every private row: its own column, else that of the rows it points to, as often as there are."""
    waiting = []
    for name in private:
        if f"{unit}{KEY}" in frames[name].columns:
            frames[name] = frames[name].with_columns(pl.col(f"{unit}{KEY}").alias(UNIT)).drop_nulls(UNIT)
        else:
            waiting.append(name)
    while waiting:
        ready = [
            (name, link)
            for name in waiting
            for link in links
            if link.from_table == name and link.to_table not in waiting and not link.public
        ]
        if not ready:
            raise SchemaError(
                f"The table {waiting[0]!r} has neither the unit {unit!r} nor a link to a table that has it, or its links go in a circle."
            )
        name, link = ready[0]
        on = [f"{key}{KEY}" for key in link.key]
        owners = frames[link.to_table].select(*on, UNIT).unique()
        frames[name] = frames[name].join(owners, on=on, how="inner", nulls_equal=False)
        waiting.remove(name)


def _unique(frame: pl.DataFrame, keys: tuple[str, ...], public: bool) -> tuple[str, ...]:
    """Keys of a public table that occur once each; a private one is not looked at."""
    if not public:
        return ()
    return tuple(key for key in keys if frame[f"{key}{KEY}"].drop_nulls().is_duplicated().sum() == 0)
