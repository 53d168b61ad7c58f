"""Benchmark tables of the correlated experiments, and random queries on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from shoal import datasets
from shoal.dp.answering.exact import expression
from shoal.dp.loading.load import load
from shoal.dp.sql import build as asked
from shoal.dp.sql.build import count
from shoal.dp.sql.expressions import Predicate, col
from shoal.dp.sql.query import Query
from shoal.schema import Column, Schema, Unit

LEAST = 0.01  # share of the rows that must answer, since a relative error is undefined at 0


@dataclass(frozen=True)
class Bench:
    """A benchmark table as the experiments use it.

    Attributes
    ----------
    name : str
    frame : polars.DataFrame
        As read.
    schema : Schema
        Bounds and levels of this public table, read off it: these are experiments on published data.
    target : str
        What the random forest explains while columns are eliminated.
    keep : int
        Columns kept, as in the dissertation.
    eps, eps_grid : float, tuple
        DBSCAN's radius, and those of the sweep.
    components, components_selected : tuple of int
        Numbers of components among which BIC chooses, over all columns and over the kept ones.
    group : Unit or int
        The unit of mode `group`.
    summed : str
        Column of SUM and AVG.
    natural : {"min-max", "raw"}, default "min-max"
        The preprocessing of DBSCAN's sweep: raw where the columns lie in [-1, 1] as they come.
    """

    name: str
    frame: pl.DataFrame
    schema: Schema
    target: str
    keep: int
    eps: float
    eps_grid: tuple[float, ...]
    components: tuple[int, ...]
    components_selected: tuple[int, ...]
    group: Unit | int
    summed: str
    natural: str = "min-max"

    def loaded(self) -> pl.DataFrame:
        """As the engine keeps it."""
        return load(self.frame, self.schema)

    @property
    def features(self) -> tuple[str, ...]:
        """Columns that records are compared on: all but the target and a unit's column."""
        unit = self.group.column if isinstance(self.group, Unit) else None
        return tuple(name for name in self.schema.columns if name not in (self.target, unit))


COARSE = (1, 2, 4, 8, 16, 32, 64, 100)
WIDE = (10, 20, 40, 80)


def bench(name: str) -> Bench:
    """The table `adult`, `ccc` or `hapt`."""
    frame = datasets.load(name)
    if name == "adult":
        return Bench(
            name, frame, _schema(name, frame), target="income", keep=8, eps=0.4,
            eps_grid=(0.2, 0.3, 0.4, 0.5, 0.6), components=COARSE, components_selected=COARSE, group=5,
            summed="hours_per_week",
        )  # fmt: skip
    if name == "ccc":
        return Bench(
            name, frame, _schema(name, frame), target="default_payment_next_month", keep=10, eps=0.5,
            eps_grid=(0.1, 0.3, 0.5, 0.7, 0.9), components=COARSE, components_selected=COARSE, group=5,
            summed="LIMIT_BAL",
        )  # fmt: skip
    frame = frame.drop("experiment", "split")
    features = [each for each in frame.columns if each not in ("subject", "activity")]
    frame = frame.with_columns(pl.col(features).cast(pl.Float64))
    return Bench(
        name, frame, _schema(name, frame), target="activity", keep=60, eps=5.0,
        eps_grid=(1.0, 2.0, 3.0, 5.0, 8.0), components=WIDE, components_selected=WIDE,
        group=Unit("subject", 500), summed=features[0], natural="raw",
    )  # fmt: skip


def _schema(name: str, frame: pl.DataFrame) -> Schema:
    columns = {}
    for each in frame.columns:
        if frame[each].dtype == pl.String or each == "activity":
            values = tuple(frame[each].unique().sort().to_list())
            columns[each] = Column(each, kind="category", levels=values)
        elif each == "subject":
            columns[each] = Column(each, kind="category")
        else:
            low, high = float(frame[each].min()), float(frame[each].max())  # type: ignore[arg-type]
            columns[each] = Column(each, bounds=(low, high if high > low else low + 1.0))
    return Schema(columns, id=name)


def random_queries(table: Bench, loaded: pl.DataFrame, how_many: int, seed: int) -> list[Query]:
    """COUNT queries with one to three random conditions, redrawn until at least 1 % of the rows answer.

    A column with more than 20 values is compared with a random record's value from above or below, another
    must equal it.
    """
    rng = np.random.default_rng(seed)
    names = [name for name in table.features if table.frame[name].n_unique() > 1]
    several = {name: table.frame[name].n_unique() > 20 for name in names}
    found: list[Query] = []
    while len(found) < how_many:
        condition: Predicate | None = None
        for name in rng.choice(names, size=rng.integers(1, 4), replace=False):
            value = table.frame[str(name)][int(rng.integers(table.frame.height))]
            column = col(str(name))
            if several[str(name)] and not isinstance(value, str):
                part = column <= value if rng.random() < 0.5 else column >= value
            else:
                part = column == value
            condition = part if condition is None else condition & part
        query = count().where(condition)  # type: ignore[arg-type]
        if answering(query, loaded, table.schema).size >= LEAST * loaded.height:
            found.append(query)
    return found


def with_figures(queries: list[Query], column: str) -> dict[str, list[Query]]:
    """The same conditions for SUM and AVG of a column."""
    return {
        "sum": [asked.sum(column).where(each.condition) for each in queries if each.condition is not None],
        "avg": [asked.mean(column).where(each.condition) for each in queries if each.condition is not None],
    }


def answering(query: Query, loaded: pl.DataFrame, schema: Schema) -> np.ndarray:
    """Positions of the answering rows."""
    if query.condition is None:
        return np.arange(loaded.height)
    mask = loaded.select(expression(query.condition, schema).fill_null(False)).to_series()
    return np.flatnonzero(mask.to_numpy())
