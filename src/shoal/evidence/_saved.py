"""A saved run as the reports read it: the facts from the file, the rows from the tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from shoal.evidence._run import Run
from shoal.publish.status import WORDS
from shoal.schema import Schema, decode_table
from shoal.typing import Json
from shoal.utility import Fitness, fitness

# Rows that a report looks at.
SHOWN_ROWS = 20_000


@dataclass(frozen=True)
class SavedFigures:
    """The figures of a saved run."""

    facts: Json

    def to_dict(self) -> Json:
        """As plain values."""
        return self.facts


def mismatches(run: Run, published: pl.DataFrame) -> tuple[str, ...]:
    """Where a file cannot be the table that the run checked: other rows, other columns, other classes.

    Classes are compared in columns without missing cells, which several readings count differently.
    """
    left_out = int(run.facts.get("suppressed_records") or 0)
    rows = run.facts.get("n_records")
    if rows is not None and published.height not in (rows, rows - left_out):
        return (f"the published file has {published.height:,} rows where the run protected {rows:,}",)
    for each in run.facts.get("verdicts", ()):
        absent = [name for name in each["quasi"] if name not in published.columns]
        if absent:
            return (f"the published file lacks {absent[0]!r}, which the run checked",)
        cells = published.select(each["quasi"])
        if cells.null_count().sum_horizontal()[0]:
            continue
        if cells.unique().height != each["n_classes"]:
            return (
                f"the published file has {cells.unique().height:,} classes on {', '.join(each['quasi'])} where the run found "
                f"{each['n_classes']:,}: it is not the table that was checked",
            )
    return ()


@dataclass(frozen=True)
class SavedProtection:
    """What a report needs of a protection, from a saved run and its two tables.

    Attributes
    ----------
    run : Run
    before, after : polars.DataFrame
    """

    run: Run
    before: pl.DataFrame
    after: pl.DataFrame

    @property
    def verdicts(self) -> tuple[Any, ...]:
        """The models checked on what is published."""
        return tuple(SimpleNamespace(**each) for each in self.run.facts.get("verdicts", ()))

    @property
    def figures(self) -> SavedFigures:
        """Loss and risk."""
        return SavedFigures(dict(self.run.facts))

    @property
    def status(self) -> str:
        """The colour."""
        return str(self.run.facts["status"])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is that colour."""
        return tuple(self.run.facts.get("reasons", ()))

    @property
    def rule(self) -> str:
        """The rule behind it."""
        return self.run.rule

    @property
    def advice(self) -> str:
        """What it asks for."""
        return WORDS[self.status]

    @property
    def schema(self) -> Schema:
        """The facts the run went by."""
        return self.run.schema

    @property
    def notes(self) -> tuple[str, ...]:
        """What was guessed, merged, dropped or left alone."""
        return tuple(self.run.facts.get("notes", ()))

    @property
    def sizes(self) -> np.ndarray:
        """Records of each group."""
        sizes, counts = list(self.run.sizes), list(self.run.sizes.values())
        return np.repeat(np.array(sizes, np.int64), counts)

    @property
    def original(self) -> pl.DataFrame:
        """An even selection of rows before."""
        return decode_table(self.before, self.run.schema)[:: _step(self.before)]

    @property
    def published(self) -> pl.DataFrame:
        """An even selection of rows after."""
        return self.after[:: _step(self.after)]

    @cached_property
    def fitness(self) -> Fitness | None:
        """The schema's indicators on all rows; None without any."""
        if not self.schema.indicators:
            return None
        return fitness(self.before, self.after, self.schema)

    def settings(self) -> Json:
        """What is needed to repeat the run."""
        return dict(self.run.facts.get("settings", {}))

    def command(self) -> str:
        """The command that repeats it."""
        return self.run.command

    def python(self, *, public: bool = False) -> str:
        """Python that repeats it."""
        return self.run.python


def _step(table: pl.DataFrame) -> int:
    return max(1, -(-table.height // SHOWN_ROWS))
