"""What all sources have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence

import polars as pl
import pyarrow as pa

from shoal.dp.loading.cells import spelled_out
from shoal.errors import InputError

BATCH_ROWS = 1 << 19  # rows decoded at a time


class Source(ABC):
    """A table that is read batch by batch, each time it is asked about, and only the columns that are needed.

    Notes
    -----
    Names and stored types of columns are public facts. What a batch holds is not: how long it takes to read depends on
    the columns asked for and on the number of rows.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the stored columns; raises `InputError` where the table cannot be reached."""

    def check_types(self, names: Sequence[str]) -> None:  # noqa: B027 - few kinds of sources have such types
        """Raise `InputError` where a column is stored in a type that holds no plain values."""

    @abstractmethod
    def batches(self, names: Sequence[str]) -> Generator[pl.DataFrame | pa.Table]:
        """All rows, in any order, a batch at a time, with the named columns as stored; a table of Arrow where texts are coded."""

    @abstractmethod
    def __str__(self) -> str:
        """Where it lies, without a password."""

    def not_plain(self, name: str, kind: object) -> InputError:
        """The error of a column that holds no plain values."""
        return InputError(f"Column {name!r} of {self} must hold plain values. Got {kind}.")

    def frame(self, names: Sequence[str] | None = None) -> pl.DataFrame:
        """The whole table in memory."""
        wanted = list(self.columns if names is None else names)
        parts = [pl.DataFrame(spelled_out(part, wanted)) for part in self.batches(wanted)]
        if not parts:
            return pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))
        for name in wanted:
            if len({part.schema[name] for part in parts}) > 1:
                raise InputError(f"Column {name!r} of {self} must be stored in one type. Got several.")
        return pl.concat(parts)
