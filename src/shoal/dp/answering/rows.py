"""The rows that a session asks about: held in memory, or read from a source for each question.

Both ways use the same steps for the exact whole numbers: `partial` for each part, `combine`, `finish`. A source is
read in batches, and only the columns that a plan needs. The division into batches changes nothing, because each row
is decoded by itself and whole numbers are added. Joins and sub-queries need all rows of a unit together. These rows
are gathered first, in memory or, if they are too many, in files, some units at a time. The numbers of a unit depend
only on its rows, so this changes nothing either.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.answering.exact import (
    Partial,
    Totals,
    combine,
    combine_apart,
    combine_keys,
    compute,
    finish,
    finish_keys,
    partial,
    partial_keys,
    related_rows,
)
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import columns_of
from shoal.dp.loading.linked import GivenTable, Linked, load_linked
from shoal.dp.loading.load import check_names, decode, in_order, load, protect_rows, with_units
from shoal.dp.loading.parts import UnitParts
from shoal.dp.loading.shared import shared_rows
from shoal.dp.loading.sources import Source, is_location, open_table
from shoal.dp.meaning.relation import UNIT, Catalog
from shoal.dp.unit import Protected
from shoal.errors import ParameterError, SchemaError
from shoal.schema import Schema


@dataclass
class Held:
    """Rows in memory, decoded once.

    Parameters
    ----------
    frame : polars.DataFrame
        As `protect_rows` gives it.
    """

    frame: pl.DataFrame

    def ready(self) -> None:
        """There is nothing to reach."""

    def exact(self, plan: Plan) -> tuple[Totals, ...]:
        """The exact whole numbers of a plan."""
        return compute(self.frame, plan)

    def related(self, plan: Plan, names: Sequence[str]) -> pl.DataFrame:
        """Some columns of the rows that a plan asks about, in memory, with their units."""
        return related_rows(self.frame, plan, names)

    def keys(self, plan: Plan, column: str, most: int) -> tuple[list[Any], np.ndarray]:
        """The values of a column that are there, and the number of units of each."""
        return finish_keys(partial_keys(self.frame, plan, column), most)


@dataclass(frozen=True)
class Several:
    """Linked tables, decoded once; asked some units at a time where one of them has too many rows for memory.

    Parameters
    ----------
    main : str
        Name of the first table.
    tables : Linked
    """

    main: str
    tables: Linked

    def ready(self) -> None:
        """There is nothing to reach."""

    @property
    def frame(self) -> pl.DataFrame:
        """The first table in memory."""
        found = self.tables.private[self.main].whole()
        return in_order(found) if self.tables.spilled else found

    def exact(self, plan: Plan) -> tuple[Totals, ...]:
        """The exact whole numbers of a plan."""
        if not self.tables.spilled:
            return compute(self.tables.whole, plan)
        return finish(combine_apart((partial(each, plan) for each in self.tables.parts()), plan), plan)

    def related(self, plan: Plan, names: Sequence[str]) -> pl.DataFrame:
        """Some columns of the rows that a plan asks about, in memory, with their units."""
        parts = self.tables.parts() if self.tables.spilled else [self.tables.whole]
        return pl.concat([related_rows(each, plan, names) for each in parts])

    def keys(self, plan: Plan, column: str, most: int) -> tuple[list[Any], np.ndarray]:
        """The values of a column that are there, and the number of units of each."""
        if not self.tables.spilled:
            return finish_keys(partial_keys(self.tables.whole, plan, column), most)
        parts = [partial_keys(frames, plan, column) for frames in self.tables.parts()]
        return finish_keys(combine_keys(parts), most)


@dataclass(frozen=True)
class Streamed:
    """Rows of a source, read and decoded for each question.

    Parameters
    ----------
    source : Source
    schema : Schema
    protected : Protected
    model : Model, optional
        Of cells.
    """

    source: Source
    schema: Schema
    protected: Protected
    model: Any = None

    def ready(self) -> None:
        """Raise, before anything is charged, unless the table is there with every declared column."""
        found = self.source.columns
        for name in self.schema.columns:
            if name not in found:
                raise SchemaError(
                    f"The schema declares column {name!r}, which the table does not have. (Of a text file, [file] of the "
                    "schema declares encoding, separator and decimal mark.)"
                )
        if self._unit and self._unit not in found:
            raise SchemaError(f"The unit is column {self._unit!r}, which the table does not have.")

    @property
    def wanted(self) -> list[str]:
        """The columns that are read: those declared, and that of the units."""
        return list(dict.fromkeys([*self.schema.columns, *([self._unit] if self._unit else [])]))

    @property
    def frame(self) -> pl.DataFrame:
        """All declared columns of all rows in memory, as `Held` has them."""
        together = pl.concat(list(self._decoded(tuple(self.schema.columns))))
        return in_order(together) if self.protected.kind in ("column", "cell") else together

    def exact(self, plan: Plan) -> tuple[Totals, ...]:
        """The exact whole numbers of a plan."""
        if plan.lowered.relation is not None and self._unit:
            return self._gathered(plan)
        total = _Sum()
        names = self._needed(plan) if plan.lowered.relation is None else tuple(self.schema.columns)
        with contextlib.closing(self._decoded(names)) as parts:
            for rows in parts:
                total.add(partial(rows, plan))
        return finish(total.whole(), plan)

    def _gathered(self, plan: Plan) -> tuple[Totals, ...]:
        """The same for sub-queries over units, which need all rows of a unit together."""
        gathered = UnitParts([UNIT])
        with contextlib.closing(self._decoded(tuple(self.schema.columns))) as batches:
            for rows in batches:
                gathered.add(rows)
        if not gathered.spilled:
            return compute(in_order(gathered.whole()), plan)
        parts = (partial(in_order(each), plan) for each in gathered.parts())
        return finish(combine_apart(parts, plan), plan)

    def related(self, plan: Plan, names: Sequence[str]) -> pl.DataFrame:
        """Some columns of the rows that a plan asks about, in memory, with their units."""
        return related_rows(self.frame, plan, names)

    def keys(self, plan: Plan, column: str, most: int) -> tuple[list[Any], np.ndarray]:
        """The values of a column that are there, and the number of units of each."""
        parts: list[pl.DataFrame] = []
        with contextlib.closing(self._decoded((*self._needed(plan), column))) as batches:
            for rows in batches:
                parts.append(partial_keys(rows, plan, column))
                if len(parts) > 64:
                    parts = [combine_keys(parts)]
        return finish_keys(combine_keys(parts), most)

    @property
    def _unit(self) -> str:
        return (self.protected.column or "") if self.protected.kind == "column" else ""

    def _needed(self, plan: Plan) -> tuple[str, ...]:
        """The declared columns that a plan reads: at least one, and all of them if a model uses the whole row."""
        if self.protected.kind == "cell":
            return tuple(self.schema.columns)
        read = [] if plan.lowered.test is None else [plan.lowered.test]
        read += [each for _, each in plan.lowered.computed]
        named = {name for each in read for name in each.meta.root_names()}
        named |= {str(each) for each in plan.query.groups}
        named |= {name for each in plan.releases for name in columns_of(each)}
        return tuple(name for name in self.schema.columns if name in named)

    def _decoded(self, names: tuple[str, ...]) -> Generator[pl.DataFrame]:
        """The batches, decoded. The first one has no rows, so there is always one."""
        names = (
            tuple(dict.fromkeys(names)) or tuple(self.schema.columns)[:1]
        )  # without a column the number of rows is lost
        schema = Schema({name: self.schema.columns[name] for name in names}, id=self.schema.id)
        wanted = list(dict.fromkeys([*names, *([self._unit] if self._unit else [])]))
        nothing = pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        with contextlib.closing(
            self.source.batches(wanted)
        ) as batches:  # whatever happens, a database is let go
            for batch in itertools.chain([nothing], batches):
                yield with_units(decode(batch, schema), batch, self.schema, self.protected, self.model)


class _Sum:
    """Adds up partial results, each time they have grown to twice their size."""

    def __init__(self) -> None:
        self._parts: list[Partial] = []
        self._waiting, self._held = 0, 0

    def add(self, part: Partial) -> None:
        """Take a part in."""
        self._parts.append(part)
        self._waiting += sum(each.height for each in part)
        if len(self._parts) > 64 or self._waiting > max(1 << 20, 2 * self._held):
            self._parts = [self.whole()]
            self._held = self._waiting = sum(each.height for each in self._parts[0])

    def whole(self) -> Partial:
        """What all parts add up to."""
        return combine(self._parts)


def asked_rows(
    data: Any,
    schema: Schema,
    tables: Mapping[str, tuple[Any, Schema | str | Path]] | None,
    protected: Protected,
    model: Any = None,
) -> tuple[Catalog | None, Held | Several | Streamed]:
    """The tables of a session, given or named, and a catalog if there are several.

    Parameters
    ----------
    data : pandas.DataFrame, polars.DataFrame, pyarrow.Table, str, Path, Source, SharedTable or pyspark.sql.DataFrame
    schema : Schema
    tables : mapping of str to (data, schema), optional
    protected : Protected
    model : Model, optional
    """
    if tables:
        if protected.kind == "cell":
            raise ParameterError("Several tables are asked in modes 'dp' and 'group'. Got mode 'correlated'.")
        facts = {name: Schema.of(each) for name, (_, each) in tables.items()}
        given = {name: GivenTable(_opened(tables[name][0], facts[name]), facts[name]) for name in tables}
        catalog, linked = load_linked(_opened(data, schema), schema, given, protected)
        return catalog, Several(schema.id, linked)
    if is_location(data):
        data = open_table(data, schema)
    if isinstance(data, Source):
        check_names(schema)
        found = Streamed(data, schema, protected, model)
        found.ready()
        data.check_types(found.wanted)
        return None, found
    by_unit = protected.kind in ("column", "cell")
    rows = shared_rows(
        data,
        f"rows by {protected.key}" if by_unit else "rows",
        lambda cells: protect_rows(load(cells, schema), cells, schema, protected, model),
    )
    return None, Held(rows)


def _opened(data: Any, schema: Schema) -> Any:
    return open_table(data, schema, also=True) if is_location(data) else data
