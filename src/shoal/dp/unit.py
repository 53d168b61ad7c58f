"""Whom an answer protects: one frozen type per unit, its sentence, and what it counts in a ledger's unit.

A unit is known to the ledger by its `key`. `times` says how often an answer's cost counts in the unit that a ledger
keeps, and `keep` which of the two is kept for life (docs/theory/composition.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from shoal import schema as declared
from shoal.errors import ParameterError
from shoal.schema import Schema

MODES = ("dp", "group", "correlated")
STATED = ("pufferfish", "dependent")  # modes under a declared model
NO_GUARANTEE = "guarantee: none (research reproduction)"
REPLACED = "record, replaced"  # the unit of releases whose number of records is public
ENDED = "; the ledger total of this data set has ended"


def as_it_stands(stamp: str, *, ended: bool) -> str:
    """A guarantee that was written down before, as it is told now.

    Examples
    --------
    >>> from shoal.dp.unit import as_it_stands
    >>> as_it_stands("guarantee: epsilon-DP, add or remove one record", ended=True)
    'guarantee: epsilon-DP, add or remove one record; the ledger total of this data set has ended'
    """
    return stamp + ENDED if ended and not stamp.endswith(ENDED) else stamp


class Protected(ABC):
    """What all units have in common.

    Attributes
    ----------
    kind : {"record", "records", "column", "cell", "other"}
        One record; any `rows` records; the rows that share a value of `column`; the rows of one cell.
    rows : int
        At most this many rows of the unit are counted: the factor on every sensitivity.
    """

    kind: ClassVar[str] = "other"
    mode: ClassVar[str] = "dp"
    rows: int = 1
    column: str | None = None
    n_cells: int = 0

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """What is promised, word for word."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The unit as the ledger knows it; how many of its rows are counted is the mechanism's affair."""

    def times(self, kept: str) -> int:
        """How often an answer's cost counts in the unit a ledger keeps; 0 if it promises nothing there."""
        return int(kept == self.key)

    def keep(self, kept: str) -> str:
        """The unit that a ledger keeps after an answer in this one: the stronger of the two."""
        return kept


@dataclass(frozen=True)
class AddRemoveRecord(Protected):
    """One record, added or removed.

    Examples
    --------
    >>> from shoal.dp import AddRemoveRecord
    >>> AddRemoveRecord().guarantee, AddRemoveRecord().times("records:3")
    ('guarantee: epsilon-DP, add or remove one record', 3)
    """

    kind: ClassVar[str] = "record"

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return "guarantee: epsilon-DP, add or remove one record"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return "record"

    def times(self, kept: str) -> int:
        """Once for a record, g times for any g records, twice for a replaced one."""
        return {"record": 1, REPLACED: 2}.get(kept, _records(kept))


@dataclass(frozen=True)
class AddRemoveUnit(Protected):
    """All rows with the same value of a column; a limited number of them count.

    Parameters
    ----------
    column : str
        The person, household or firm.
    rows : int
    jointly : bool, default False
        Said as a group (mode `group`) and not as one person.

    per_row : {1, 2}, default 2
        How often an answer counts for one row of a unit that stays: the unit taken out and put back without the row, or
        once where a plan shows that to be enough (`shoal.dp.answering.plan.Plan.unit`).
    ids : str, default ""
        How ids are read where they are not opaque texts. A session takes it from the schema: ids read otherwise make
        other units, so the ledger tells them apart.

    Examples
    --------
    >>> from shoal.dp import AddRemoveUnit
    >>> AddRemoveUnit("person", 3).guarantee
    'guarantee: epsilon-DP, add or remove one person'
    """

    column: str = field()
    rows: int = field()
    jointly: bool = False
    per_row: int = 2
    ids: str = ""
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ParameterError(f"The column of a unit must be a name. Got {self.column!r}.")
        _whole("rows", self.rows)

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        if self.jointly:
            return "guarantee: epsilon-DP for the records of one group jointly"
        return f"guarantee: epsilon-DP, add or remove one {self.column}"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return f"column:{self.column}" + (f" ({self.ids})" if self.ids else "")

    def times(self, kept: str) -> int:
        """Once in its own unit, once or twice for a record, twice that for a replaced one."""
        return 1 if kept == self.key else self.per_row * _of_a_record(kept)

    def keep(self, kept: str) -> str:
        """A unit of rows is kept before a record."""
        return self.key if kept == "record" else kept


@dataclass(frozen=True)
class Records(Protected):
    """Any fixed number of records jointly.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> from shoal.dp import Records
    >>> Records(4).times("record"), Records(4).times("records:6"), Records(4).keep("records:3")
    (1, 2, 'records:4')
    """

    n: int
    kind: ClassVar[str] = "records"

    def __post_init__(self) -> None:
        _whole("group", self.n)

    @property
    def rows(self) -> int:  # type: ignore[override]
        """The factor on every sensitivity."""
        return self.n

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return "guarantee: epsilon-DP for the records of one group jointly"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return f"records:{self.n}"

    def times(self, kept: str) -> int:
        """Once for at most n records; for g records as often as n goes into g, rounded up."""
        return -(-_records(kept) // self.n) if _records(kept) else _of_a_record(kept)

    def keep(self, kept: str) -> str:
        """The larger number of records is kept."""
        return self.key if kept == "record" or 0 < _records(kept) < self.n else kept


@dataclass(frozen=True)
class AddRemoveCell(Protected):
    """All rows of one cell of a public partition, of which at most tau count.

    Parameters
    ----------
    model : Model
        A frozen map to cells; only its public facts are read.
    tau : int
    per_row : {1, 2}, default 2
        As of `AddRemoveUnit`.

    Examples
    --------
    >>> from shoal.dp import AddRemoveCell
    >>> from shoal.dp.correlation import Grid
    >>> from shoal.schema import Column, Schema
    >>> AddRemoveCell(Grid(Schema({"age": Column("age", bounds=(0, 100))}), ("age",), 400), 4).guarantee
    'guarantee: epsilon-DP, add or remove all rows of one look-alike cell (grid(age), 401 cells, at most 4 counted per cell)'
    """

    model: Any
    tau: int
    per_row: int = 2
    kind: ClassVar[str] = "cell"

    def __post_init__(self) -> None:
        if not getattr(self.model, "frozen", False):
            raise ParameterError(
                "Mode 'correlated' needs a frozen model, given by the owner or fitted on public data. "
                f"Got {getattr(self.model, 'name', self.model)!r}, which depends on the private table."
            )
        _whole("tau", self.tau)

    @property
    def rows(self) -> int:  # type: ignore[override]
        """The factor on every sensitivity."""
        return self.tau

    @property
    def n_cells(self) -> int:  # type: ignore[override]
        """Cells of the map."""
        return int(self.model.n_cells)

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return (
            "guarantee: epsilon-DP, add or remove all rows of one look-alike cell "
            f"({self.model.name}, {self.n_cells} cells, at most {self.tau} counted per cell)"
        )

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return f"cell:{self.model.fingerprint}"

    def times(self, kept: str) -> int:
        """Once in its own unit, once or twice for a record, twice that for a replaced one."""
        return 1 if kept == self.key else self.per_row * _of_a_record(kept)

    def keep(self, kept: str) -> str:
        """A cell is kept before a record."""
        return self.key if kept == "record" else kept


@dataclass(frozen=True)
class ReplaceRecord(Protected):
    """One record replaced by another, their number being public: the unit of table releases."""

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return "guarantee: epsilon-DP, replace one record, number of records public"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return REPLACED


@dataclass(frozen=True)
class Edges(Protected):
    """Any k edges of a graph jointly, its vertices being public.

    Parameters
    ----------
    k : int
    """

    k: int

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return "guarantee: epsilon-DP for any k edges jointly, vertices public"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return f"edges:{self.k}"

    def times(self, kept: str) -> int:
        """Once for at most k edges."""
        return int(kept.startswith("edges:") and int(kept.removeprefix("edges:")) <= self.k)


@dataclass(frozen=True)
class Stated(Protected):
    """Secrets and scenarios, or coefficients, as somebody stated them: one release, and nothing beside it.

    Parameters
    ----------
    name : str
        Of the framework, and a digest of what was stated.
    guarantee : str
    """

    name: str
    promise: str

    @property
    def guarantee(self) -> str:
        """What is promised, word for word."""
        return self.promise

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""
        return self.name

    def times(self, kept: str) -> int:
        """Never: such answers do not add up, not even with their like."""
        return 0


def ids_read(column: declared.Column | None) -> str:
    """How the ids of a column are read; nothing for opaque texts."""
    if column is None:
        return ""
    words = {"as numbers": column.numeric_id, "in NFC": column.normalize}
    return ", ".join(word for word, said in words.items() if said)


def read_by(unit: Protected, schema: Schema) -> Protected:
    """A unit whose ids are read as a schema declares it."""
    if isinstance(unit, AddRemoveUnit):
        return replace(unit, ids=ids_read(schema.columns.get(unit.column)))
    return unit


def resolve(
    mode: str,
    schema: Schema,
    group: declared.Unit | int | None = None,
    model: Any = None,
    tau: int | None = None,
) -> Protected:
    """The unit of a mode over a schema; raises `ParameterError` where something has to be declared first."""
    if mode == "dp":
        unit = schema.unit
        return (
            AddRemoveRecord()
            if unit.column is None
            else read_by(AddRemoveUnit(unit.column, unit.rows), schema)
        )
    if mode == "group":
        return read_by(_group(group if group is not None else schema.group, schema), schema)
    if mode == "correlated":
        if model is None:
            raise ParameterError(
                "Mode 'correlated' needs a public map to cells: declare 'cells', or give a model."
            )
        return AddRemoveCell(model, _whole("tau", tau))
    raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")


def _group(group: declared.Unit | int | None, schema: Schema) -> Protected:
    if group is None and schema.unit.column is not None:
        group = schema.unit
    if isinstance(group, declared.Unit) and group.column is not None:
        return AddRemoveUnit(group.column, group.rows, jointly=True)
    if group is None or isinstance(group, declared.Unit):
        raise ParameterError(
            "Mode 'group' needs a number of records, or a group column and its rows: declare 'group' in the schema."
        )
    return Records(group)


def _records(kept: str) -> int:
    """How many records jointly a ledger keeps; 0 where it keeps something else."""
    return int(kept.removeprefix("records:")) if kept.startswith("records:") else 0


def _of_a_record(kept: str) -> int:
    return {"record": 1, REPLACED: 2}.get(kept, 0)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**30:
        raise ParameterError(f"{name!r} must be an int in [1, 2^30], declared or bought. Got {value!r}.")
    return value
