"""The first stages: declared codes become missing cells, ends are coded, levels recoded; row by row.

If the ends of a column are coded or its levels recoded, its cells are kept beside it, because the loss is measured
from them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

import polars as pl

from shoal.engine.columns import read_column
from shoal.errors import SchemaError
from shoal.masking import code_ends, recode
from shoal.schema import Column, Schema, decode_missing

RAW = "__raw__"


@dataclass(frozen=True)
class Decoder:
    """What is done first to the cells of a table, by declared column.

    Attributes
    ----------
    columns : tuple of Column
        The declared columns whose cells change.
    alike : tuple of str
        Columns on which groups are alike: cells that are equal are made one, so that nothing tells -0.0 from 0.0 or a
        missing number from one that is none.
    """

    columns: tuple[Column, ...]
    alike: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: Schema | None, names: Collection[str]) -> Self:
        """The declared columns of a table whose cells change."""
        declared = () if schema is None else schema.columns.values()
        for column in declared:
            if column.recode and column.hierarchy is None:
                raise SchemaError(
                    f"'recode' of column {column.name!r} needs a hierarchy. The schema has none."
                )
        return cls(tuple(c for c in declared if c.name in names and (c.missing_codes or _changes(c))))

    @property
    def changed(self) -> tuple[str, ...]:
        """Columns whose values are coded at the ends or recoded."""
        return tuple(column.name for column in self.columns if _changes(column))

    def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Some rows of the table, decoded; columns that are not among them are passed over."""
        new: list[pl.Series] = []
        for column in self.columns:
            if column.name not in batch.columns:
                continue
            series = decode_missing(batch[column.name], column)
            if _changes(column):
                new.append(series.alias(RAW + column.name))
                series = _coded(series, column)
            new.append(series.alias(column.name))
        decoded = batch.with_columns(new) if new else batch
        return decoded.with_columns(_alike(decoded[name]) for name in self._numbers(decoded))

    def written(self, batch: pl.DataFrame) -> list[str]:
        """Columns of decoded rows whose cells are published as decoded where nothing else is done to them."""
        declared = [column.name for column in self.columns if column.name in batch.columns]
        return list(dict.fromkeys([*declared, *self._numbers(batch)]))

    def _numbers(self, batch: pl.DataFrame) -> list[str]:
        return [name for name in self.alike if name in batch.columns and batch.schema[name].is_float()]

    def notes(self) -> list[str]:
        """What was done, one sentence each."""
        said = []
        for column in self.columns:
            ends = (("bottom", column.bottom), ("top", column.top))
            said += [
                f"Column {column.name!r} was {word} coded at {end}." for word, end in ends if end is not None
            ]
            if column.recode:
                said.append(f"Column {column.name!r} was recoded {column.recode} up its hierarchy.")
        return said


def decoded_facts(column: Column) -> Column:
    """The facts of a column after decoding: no codes are left, and its levels are those it was recoded to."""
    levels = column.levels
    if column.recode and levels is not None:
        recoded = recode(pl.Series([str(level) for level in levels]), column.hierarchy, column.recode)
        levels = tuple(recoded.unique(maintain_order=True).to_list())
    return replace(
        column, missing_codes=(), bottom=None, top=None, recode=0, levels=levels,
        hierarchy=None if column.recode else column.hierarchy,
    )  # fmt: skip


def raw_facts(column: Column) -> Column:
    """The facts of the cells that are kept beside a changed column."""
    return replace(
        column,
        name=RAW + column.name,
        missing_codes=(),
        bottom=None,
        top=None,
        recode=0,
        on_missing="category",
    )


def _alike(cells: pl.Series) -> pl.Series:
    """Numbers of which equal ones are written alike."""
    zero = cells == 0
    return cells.set(zero, 0.0).fill_nan(None) if zero.any() else cells.fill_nan(None)


def _changes(column: Column) -> bool:
    return column.bottom is not None or column.top is not None or bool(column.recode)


def _coded(series: pl.Series, column: Column) -> pl.Series:
    if column.bottom is not None or column.top is not None:
        typed = read_column(series, replace(column, missing_codes=(), on_missing="category"))
        cells = typed.native(typed.values, typed.missing, round_integers=True)
        series = code_ends(cells, column.bottom, column.top)
    return recode(series, column.hierarchy, column.recode) if column.recode else series
