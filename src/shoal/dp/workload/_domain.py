"""The public domain of a workload: positions of its columns, and which of them each query counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from shoal.dp.answering.exact import expression
from shoal.dp.answering.figures import labels_of
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.releases import Sums
from shoal.dp.meaning.check import has_codes, level_code, levels, number
from shoal.dp.sql.expressions import And, Compare, Expr, FigureOf, In, IsNull, Not, Or, Predicate
from shoal.errors import QueryError
from shoal.schema import Column, Schema

MOST_CELLS = 1 << 16
MOST_WORK = 40_000_000  # queries times cells
MOST_QUERIES = 20_000
_ALONE = "so ask it alone, with ask(...)"


@dataclass(frozen=True, eq=False)
class Axis:
    """The positions of one column that the workload can tell apart.

    Parameters
    ----------
    column : Column
    marks : float array
        Constants and levels it is compared with, rising; of a column kept as codes, its codes.
    place : int array
        Position of each atom: below the first mark, at it, between it and the next, ..., missing.
    """

    column: Column
    marks: np.ndarray
    place: np.ndarray

    @property
    def size(self) -> int:
        """Number of positions."""
        return int(self.place.max()) + 1

    @property
    def ordered(self) -> bool:
        """Whether ranges of it mean something."""
        return self.column.kind in ("number", "date", "ordered")

    def values(self) -> list[float | None]:
        """A value in each position, as the engine keeps it."""
        atoms = _atoms(self.marks)
        return [atoms[int(np.flatnonzero(self.place == at)[0])] for at in range(self.size)]

    def positions(self, cells: pl.Series) -> np.ndarray:
        """Where each row lies."""
        held = cells.cast(pl.Float64).to_numpy()
        missing = np.isnan(held)
        known = np.where(missing, 0.0, held)
        atom = np.searchsorted(self.marks, known, "left") + np.searchsorted(self.marks, known, "right")
        return self.place[np.where(missing, 2 * len(self.marks) + 1, atom)]


@dataclass(frozen=True, eq=False)
class Counted:
    """One query of a workload: the combinations of positions that each of its groups counts.

    Parameters
    ----------
    plan : Plan
        The query asked alone.
    labels : tuple of tuple
        Of each group; one empty tuple where there is no GROUP BY.
    """

    plan: Plan
    labels: tuple[tuple[Any, ...], ...]

    @property
    def columns(self) -> list[str]:
        """Those its condition and groups name."""
        return list(dict.fromkeys([*(str(each.column) for each in leaves(self.condition)), *self.groups]))

    @property
    def condition(self) -> Predicate | None:
        """Its WHERE."""
        return self.plan.query.condition

    @property
    def groups(self) -> list[str]:
        """Its GROUP BY."""
        return [str(each) for each in self.plan.query.groups]


@dataclass(frozen=True, eq=False)
class Domain:
    """All columns of a workload together."""

    axes: tuple[Axis, ...]
    schema: Schema
    queries: tuple[Counted, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Positions of each column."""
        return tuple(each.size for each in self.axes)

    @property
    def fits(self) -> bool:
        """Whether all combinations can be laid out."""
        cells = math.prod(self.sizes)
        return cells <= MOST_CELLS and cells * sum(len(each.labels) for each in self.queries) <= MOST_WORK

    @cached_property
    def matrix(self) -> np.ndarray:
        """What each query and group counts of each combination: float array (queries, positions of each column)."""
        return np.concatenate([self._of(each) for each in self.queries])

    def counts(self, rows: pl.DataFrame) -> np.ndarray:
        """The exact number of rows in each combination."""
        code = np.zeros(rows.height, dtype=np.int64)
        for each in self.axes:
            code = code * each.size + each.positions(rows[each.column.name])
        return np.bincount(code, minlength=math.prod(self.sizes)).reshape(self.sizes).astype(np.int64)

    @cached_property
    def _combinations(self) -> dict[tuple[str, ...], pl.DataFrame]:
        """A row for each combination of positions, for all sets of columns that a query asks about."""
        found = {}
        for names in {tuple(query.columns) for query in self.queries}:
            used = [each for each in self.axes if each.column.name in names]
            frame = pl.DataFrame({"shoal:one": [True]})
            for each in used:
                kind = pl.Int32 if has_codes(each.column) else pl.Float64
                values = pl.Series(each.column.name, each.values(), dtype=pl.Float64).cast(kind)
                frame = frame.join(values.to_frame(), how="cross", maintain_order="left_right")
            found[tuple(each.column.name for each in used)] = frame.drop("shoal:one")
        return found

    def _of(self, query: Counted) -> np.ndarray:
        """The query's condition on the combinations of its own columns, and a group's level on its column."""
        used = [each for each in self.axes if each.column.name in query.columns]
        held = np.ones([each.size for each in used], dtype=bool)
        if query.condition is not None and used:
            test = expression(query.condition, self.schema).fill_null(value=False)
            frame = self._combinations[tuple(each.column.name for each in used)]
            held = frame.select(test.alias("test"))["test"].to_numpy().reshape(held.shape)
        shape = [each.size if each in used else 1 for each in self.axes]
        whole = np.broadcast_to(held.reshape(shape), self.sizes)
        found = []
        for label in self._places(query):
            mask = whole
            for at, place in label:
                here = np.zeros(self.sizes[at], dtype=bool)
                here[place] = True
                mask = mask & here.reshape([-1 if axis == at else 1 for axis in range(len(self.axes))])
            found.append(mask)
        return np.array(found, dtype=np.float64)

    def _places(self, query: Counted) -> Iterator[list[tuple[int, int]]]:
        """Of each group the axis and position of each of its levels."""
        names = [each.column.name for each in self.axes]
        spots = []
        for group in query.groups:
            at = names.index(group)
            axis = self.axes[at]
            stored = pl.Series([_stored(axis.column, level) for level in levels(axis.column) or ()])
            spots.append([(at, int(place)) for place in axis.positions(stored)])
        yield from (list(each) for each in itertools.product(*spots))


def counted(plan: Plan, text: str) -> Counted:
    """A query of a workload, or a refusal that names what cannot be asked together with others."""
    release = plan.releases[0]
    one = len(plan.releases) == 1 and isinstance(release, Sums) and release.figure == "count"
    plain = len(plan.lowered.outputs) == 1 and isinstance(plan.lowered.outputs[0].value, FigureOf)
    if not one or not plain or release.column is not None:
        raise QueryError(f"A workload takes queries of one COUNT(*). Got {text}, {_ALONE}.")
    if plan.lowered.computed or plan.lowered.asked.most is not None:
        raise QueryError(f"A workload counts rows by columns as they are. Got {text}, {_ALONE}.")
    if plan.lowered.kept is not None or plan.lowered.asked.sets:
        raise QueryError(f"A workload takes neither HAVING nor grouping sets. Got {text}, {_ALONE}.")
    for each in leaves(plan.query.condition):
        column = plan.schema.columns.get(each.column) if isinstance(each.column, str) else None
        value = getattr(each, "value", None)
        if column is None or isinstance(value, Expr) or (column.kind == "category" and not column.levels):
            raise QueryError(
                f"Conditions of a workload compare a number, date or column of declared levels with constants. Got "
                f"{each}, {_ALONE}."
            )
    shown = [labels_of(plan.schema.columns[str(each)]) for each in plan.query.groups]
    return Counted(plan, tuple(itertools.product(*shown)))


def domain_of(schema: Schema, queries: Sequence[Counted]) -> Domain:
    """The positions that the queries tell apart; public."""
    names = list(dict.fromkeys(name for each in queries for name in each.columns))
    return Domain(
        tuple(_axis(schema.columns[name], schema, queries) for name in names), schema, tuple(queries)
    )


def leaves(condition: Predicate | None) -> Iterator[Any]:
    """The comparisons, lists and null tests in a condition; whatever else there is comes as it is."""
    if isinstance(condition, (And, Or)):
        for part in condition.parts:
            yield from leaves(part)
    elif isinstance(condition, Not):
        yield from leaves(condition.part)
    elif isinstance(condition, (Compare, In, IsNull)):
        yield condition
    elif condition is not None:
        raise QueryError(
            f"Conditions of a workload compare columns with constants. Got {condition}, {_ALONE}."
        )


def _axis(column: Column, schema: Schema, queries: Sequence[Counted]) -> Axis:
    tests = [leaf for each in queries for leaf in leaves(each.condition) if str(leaf.column) == column.name]
    grouped = any(column.name in each.groups for each in queries)
    marks = {
        _stored(column, value)
        for leaf in tests
        if not isinstance(leaf, IsNull)
        for value in (leaf.values if isinstance(leaf, In) else (leaf.value,))
        if value is not None
    }
    if grouped or has_codes(column):
        marks |= {_stored(column, each) for each in levels(column) or ()}
    rising = np.array(sorted(marks), dtype=np.float64)
    return Axis(column, rising, _merged(column, rising, tests, schema, grouped))


def _merged(column: Column, marks: np.ndarray, tests: list[Any], schema: Schema, grouped: bool) -> np.ndarray:
    """Atoms that no test of the workload tells apart share a position; they keep their order."""
    atoms = _atoms(marks)
    kind = pl.Int32 if has_codes(column) else pl.Float64
    frame = pl.DataFrame({column.name: pl.Series(atoms, dtype=pl.Float64)}).with_columns(
        pl.col(column.name).cast(kind, strict=False)
    )
    told: list[tuple[Any, ...]] = []
    columns = [frame.select(expression(each, schema).alias("test"))["test"].to_list() for each in tests]
    for at, atom in enumerate(atoms):
        marked = at % 2 == 1 and atom is not None
        seen = at if marked or not has_codes(column) else len(atoms) - 1  # between two codes nothing lies
        told.append((atom if grouped and marked else None, *(each[seen] for each in columns)))
    places: dict[tuple[Any, ...], int] = {}
    return np.array([places.setdefault(each, len(places)) for each in told])


def _atoms(marks: np.ndarray) -> list[float | None]:
    """A value below the first mark, each mark, a value between it and the next, ..., and a missing one."""
    if not len(marks):
        return [0.0, None]
    between = [*(marks[:-1] / 2 + marks[1:] / 2), np.nextafter(marks[-1], np.inf)]
    found: list[float | None] = [float(np.nextafter(marks[0], -np.inf))]
    for mark, above in zip(marks, between, strict=True):
        found += [float(mark), float(above)]
    return [*found, None]


def _stored(column: Column, value: Any) -> float:
    """A constant as the engine keeps it."""
    return float(level_code(column, value)) if has_codes(column) else number(column, value)
