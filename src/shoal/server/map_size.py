"""How much of a table the page's map is drawn from: a look before the run must end in about a minute, whatever came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.schema import Schema

if TYPE_CHECKING:
    import polars as pl

# Squares of rows times coordinates: most methods look at every pair of records, coordinate by coordinate.
MOST_WORK = 1e9
MOST_WORK_OF_SLOW = 1e8
SLOW = ("fdm", "kckw")
"""Methods that go over all pairs a hundred times."""
MANY_VALUES = 1000


@dataclass(frozen=True)
class MapSample:
    """What the map is drawn from.

    Attributes
    ----------
    frame : polars.DataFrame
        The table, or rows of it drawn by chance, households whole.
    methods : tuple of str
    notes : tuple of str
        What was left out, and why.
    """

    frame: pl.DataFrame
    methods: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, frame: pl.DataFrame, schema: Schema, methods: tuple[str, ...]) -> MapSample:
        """As much of a table as can be compared in about a minute."""
        part, notes = _fewer_rows(frame, schema), []
        if part.height < frame.height:
            notes.append(
                f"Compared on {part.height:,} rows drawn by chance, of {frame.height:,}: with all of them losses are lower."
            )
        slow = [each for each in methods if each in SLOW]
        if slow and _work(part, schema) > MOST_WORK_OF_SLOW:
            notes.append(f"Left out, since they take minutes on this table: {', '.join(slow)}.")
            methods = tuple(each for each in methods if each not in SLOW)
        return cls(part, methods, tuple(notes))


def many_values(schema: Schema, frame: pl.DataFrame) -> list[str]:
    """A sentence for each category that is protected and has so many values that groups say little of it."""
    return [
        f"{name!r} has {values:,} different values: as a quasi-identifier it makes the work long and the groups poor."
        " Leave it out as an identifier, or bring it to fewer values first."
        for name, values in _categories(schema, frame).items()
        if values > MANY_VALUES
    ]


def _fewer_rows(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    if _work(frame, schema) <= MOST_WORK:
        return frame
    import polars as pl

    home = next((each.name for each in schema.columns.values() if each.effective_role == "household"), None)
    units = frame.select(pl.int_range(pl.len()).alias("unit") if home is None else pl.col(home).alias("unit"))
    drawn = units["unit"].unique(maintain_order=True).shuffle(seed=0)
    part, count = frame, drawn.len()
    while _work(part, schema) > MOST_WORK and count > 2:
        count = int(0.8 * count)
        part = frame.filter(units["unit"].is_in(drawn.head(count)))
    return part


def _work(frame: pl.DataFrame, schema: Schema) -> float:
    """Squares of rows times coordinates: one for a number, one for each value of a category."""
    categories = _categories(schema, frame)
    quasi = [each.name for each in schema.columns.values() if each.effective_role == "quasi"]
    coordinates = sum(categories.get(name, 1) for name in quasi)
    return float(frame.height) ** 2 * max(1, coordinates)


def _categories(schema: Schema, frame: pl.DataFrame) -> dict[str, int]:
    """The protected categories of a table, each with the number of its values."""
    return {
        each.name: frame[each.name].n_unique()
        for each in schema.columns.values()
        if each.effective_role == "quasi" and each.kind == "category" and each.name in frame.columns
    }
