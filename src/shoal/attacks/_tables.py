"""The published table, the people in it and a control group, read into one coding; what does not fit is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from shoal.attacks._axes import ComparedColumn, read_axis, texts_of
from shoal.attacks._kernels import meetings, nearest_rows, tied_sums
from shoal.engine.frame import Frame
from shoal.engine.roles import settled_schema
from shoal.errors import InputError
from shoal.schema import Schema, decode_table

# Weight by which a column must agree before any other is looked at.
FIRST = 1e4
# Differences of cells that a search may look at, most of them cut short.
MOST_STEPS = 3e9
# Rows from which an order can be told from chance.
FEW_ROWS = 30


@dataclass(frozen=True)
class PublishedRows:
    """The different published rows in some columns, ready for the kernels."""

    axes: tuple[ComparedColumn, ...]
    low: np.ndarray
    high: np.ndarray
    counts: np.ndarray
    of_row: np.ndarray
    numeric: np.ndarray
    offsets: np.ndarray
    widths: np.ndarray
    fits: np.ndarray

    @classmethod
    def of(cls, axes: Sequence[ComparedColumn]) -> PublishedRows:
        """Equal published rows are held once."""
        cells = {f"{end}{at}": getattr(axis, end) for at, axis in enumerate(axes) for end in ("low", "high")}
        order = pl.DataFrame(cells).select(pl.struct(pl.all()).rank("dense").cast(pl.Int64) - 1).to_series()
        _, first, of_row, counts = np.unique(
            order.to_numpy(), return_index=True, return_inverse=True, return_counts=True
        )
        sizes = [axis.fits.size for axis in axes]
        return cls(
            tuple(axes),
            np.ascontiguousarray(np.stack([axis.low[first] for axis in axes], axis=1)),
            np.ascontiguousarray(np.stack([axis.high[first] for axis in axes], axis=1)),
            counts.astype(np.float64),
            of_row.reshape(-1).astype(np.int64),
            np.array([axis.numeric for axis in axes]),
            np.cumsum([0, *sizes[:-1]]).astype(np.int64),
            np.array([max(1, axis.fits.shape[1]) for axis in axes], np.int64),
            np.concatenate([axis.fits.reshape(-1) for axis in axes] + [np.zeros(1, np.uint8)]),
        )

    def weights(self, first: Sequence[str] = ()) -> np.ndarray:
        """Weights of the columns; the named ones go before all others."""
        return np.array([axis.weight * (FIRST if axis.name in first else 1.0) for axis in self.axes])

    def nearest(
        self, people: np.ndarray, weights: np.ndarray, own: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Least distance, rows that have it, and whether the own row is among them, for each person."""
        mine = np.full(people.shape[0], -1, np.int64) if own is None else self.of_row[own]
        return nearest_rows(
            people,
            self.low,
            self.high,
            self.numeric,
            weights,
            self.offsets,
            self.widths,
            self.fits,
            self.counts,
            mine,
        )

    def sums(
        self, people: np.ndarray, weights: np.ndarray, best: np.ndarray, of_row: np.ndarray
    ) -> np.ndarray:
        """Sums of values given for each published row over the rows nearest to each person."""
        V = np.zeros((self.counts.size, of_row.shape[1]))
        np.add.at(V, self.of_row, of_row)
        return tied_sums(
            people, self.low, self.high, self.numeric, weights, self.offsets, self.widths, self.fits, best, V
        )

    def meetings(
        self, people: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The chance that rows nearest by two halves of the columns are equal, and that they are one row."""
        near, far = (self.nearest(people, each)[0] for each in (first, second))
        return meetings(
            people, self.low, self.high, self.numeric, first, second, self.offsets, self.widths, self.fits,
            self.counts, near, far,
        )  # fmt: skip

    def affordable(self, asked: int) -> int:
        """So many people can be looked up, at least two hundred."""
        return min(asked, max(200, int(MOST_STEPS / max(1, self.low.size))))


@dataclass(frozen=True)
class Tables:
    """Everything that the attacks look at.

    Attributes
    ----------
    axes : tuple of ComparedColumn
        The columns that both tables have.
    people : array of float64, (n_original, n_axes)
        Those whose data was protected.
    control : array of float64 or None
        People from the same population who are not in the published table.
    sensitive : tuple of str
    aligned : bool
        Whether published rows are the original's, in its order.
    n_published : int
    notes : tuple of str

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.attacks import read_tables
    >>> table = pl.DataFrame({"age": [20, 20, 40, 41], "town": ["A", "A", "B", "B"]})
    >>> tables = read_tables(table.with_columns(age=pl.lit(30)), table)
    >>> tables.known, tables.untouched
    (['age', 'town'], ('town',))
    """

    axes: tuple[ComparedColumn, ...]
    people: np.ndarray
    control: np.ndarray | None
    sensitive: tuple[str, ...]
    aligned: bool
    n_published: int
    notes: tuple[str, ...] = ()
    _spaces: dict[tuple[str, ...], PublishedRows] = field(default_factory=dict, repr=False, compare=False)

    @property
    def untouched(self) -> tuple[str, ...]:
        """Columns published as they were, sensitive ones left out."""
        return tuple(axis.name for axis in self.axes if axis.untouched and axis.name not in self.sensitive)

    def places(self, names: Sequence[str]) -> np.ndarray:
        """The positions of columns."""
        return np.array([at for at, axis in enumerate(self.axes) if axis.name in set(names)], np.int64)

    @property
    def known(self) -> list[str]:
        """Columns that an intruder is taken to know: all that are not sensitive."""
        return [axis.name for axis in self.axes if axis.name not in self.sensitive]

    def space(self, names: Sequence[str]) -> PublishedRows:
        """The published rows in some columns; several attacks ask for the same ones."""
        axes = [self.axes[at] for at in self.places(names)]
        key = tuple(axis.name for axis in axes)
        if key not in self._spaces:
            self._spaces[key] = PublishedRows.of(axes)
        return self._spaces[key]

    def with_control(self, control: np.ndarray | None) -> Tables:
        """The same with another control group."""
        return replace(self, control=control)


def read_tables(
    protected: Any,
    original: Any,
    control: Any = None,
    *,
    schema: Schema | None = None,
    sensitive: Sequence[str] = (),
    rows: str = "same",
) -> Tables:
    """Read the tables; raises a sentence if they do not fit together.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal.attacks import read_tables
    >>> table = pl.DataFrame({"age": [20, 20, 40, 41], "town": ["A", "A", "B", "B"]})
    >>> tables = read_tables(table.with_columns(age=pl.lit(30)), table, sensitive=["town"])
    >>> tables.known, tables.untouched
    (['age'], ())
    """
    before = decode_table(Frame(original).to_polars(), schema)
    after = decode_table(Frame(protected).to_polars(), schema)
    for table, what in ((before, "original"), (after, "protected")):
        if table.height == 0 or table.width == 0:
            raise InputError(f"The {what} table must have rows and columns. Got {table.height} rows.")
    new = [name for name in after.columns if name not in before.columns]
    if new:
        raise InputError(
            f"The protected table must have columns of the original only. Got {new[0]!r}, which the original lacks."
        )
    aligned = rows == "same"
    if aligned and before.height != after.height:
        raise InputError(
            f"The protected table must have a row for each row of the original. Got {after.height:,} rows for "
            f"{before.height:,}; if its rows belong to nobody, give rows as 'unrelated' (--rows unrelated)."
        )
    settled = settled_schema(before, schema, {"sensitive": tuple(sensitive)})[0]
    # A hash of a name tells nobody who does not hold the key; a name published as it was tells everybody.
    hidden = {*settled.names("identifier"), *settled.names("household")}
    axes = [
        read_axis(settled.columns[name], before[name], after[name], aligned=aligned)
        for name in before.columns
        if name in after.columns
    ]
    axes = [axis for axis in axes if axis.name not in hidden or axis.untouched]
    if not axes:
        raise InputError("The protected table must share a column with the original that is no identifier.")
    people = np.stack([axis.people(before[axis.name]) for axis in axes], axis=1)
    secrets = settled.names("sensitive")
    gone = [name for name in secrets if name not in after.columns]
    notes = (
        (f"Sensitive and not published, so there is nothing of it to infer: {', '.join(gone)}.",)
        if gone
        else ()
    )
    tables = Tables(
        tuple(axes), people, None, tuple(name for name in secrets if name in after.columns), aligned, after.height,
        notes,
    )  # fmt: skip
    if aligned:
        _refuse_other_order(tables)
    return tables if control is None else _with_control(tables, before, control, schema)


def _refuse_other_order(tables: Tables) -> None:
    """Raise where a published row is no nearer to the original row beside it than to another one."""
    n = tables.people.shape[0]
    if n < FEW_ROWS:
        return
    shift = 1 + n // 3
    nearer = np.zeros(n)
    for axis, own in zip(tables.axes, tables.people.T, strict=True):
        other = np.roll(own, shift)
        nearer += _gaps(axis, other) - _gaps(axis, own)
    spread = float(nearer.std()) / np.sqrt(n)
    if spread > 0 and float(nearer.mean()) < 4 * spread:
        raise InputError(
            "The protected rows must be in the order of the original. A protected row is no nearer to the original row "
            "beside it than to another; attack the table before it is shuffled, or give rows as 'unrelated' "
            "(--rows unrelated)."
        )


def _gaps(axis: ComparedColumn, own: np.ndarray) -> np.ndarray:
    """Distance of people from the published rows beside them in one column, bounded so that no cell decides alone."""
    missing = np.isnan(own)
    if axis.numeric:
        with np.errstate(invalid="ignore"):
            gap = np.maximum(0.0, np.maximum(axis.low - own, own - axis.high))
        return np.where(missing, 0.0, np.minimum(gap, 2.0))
    fits = axis.fits[axis.low.astype(np.int64), np.where(missing, 0, own).astype(np.int64)]
    return np.where(missing, 0.0, 1.0 - fits)


def _with_control(tables: Tables, before: pl.DataFrame, control: Any, schema: Schema | None) -> Tables:
    """Add a control group; raises where it holds people of the original."""
    others = decode_table(Frame(control).to_polars(), schema)
    if others.height == 0:
        raise InputError("The control group must have rows. Got none.")
    absent = [axis.name for axis in tables.axes if axis.name not in others.columns]
    if absent:
        raise InputError(
            f"The control group must have the columns of the protected table. It lacks {absent[0]!r}."
        )
    shared = [name for name in before.columns if name in others.columns]
    first, second = (
        table.select(texts_of(table[name]).alias(name) for name in shared) for table in (before, others)
    )
    keys = first.group_by(shared).len("__rows__")
    found = int(second.join(keys, on=shared, how="semi", nulls_equal=True).height)
    # Someone who is not in the original may look like one who is, as often as people of the original look alike; where
    # nobody of n does, up to three in n still may (with 95 %).
    alike = float(keys["__rows__"].filter(keys["__rows__"] > 1).sum()) / before.height
    expected = alike * others.height
    if found > expected + 4 * np.sqrt(expected * (1 - alike)) + 3 * others.height / before.height:
        raise InputError(
            f"The control group must hold people who are not in the original. Got {found:,} of {others.height:,} rows "
            f"that the original also has, where {expected:.3g} were expected by chance."
        )
    return tables.with_control(np.stack([axis.people(others[axis.name]) for axis in tables.axes], axis=1))
