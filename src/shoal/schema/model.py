"""The facts themselves: frozen values, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from shoal.errors import SchemaError
from shoal.params import Options
from shoal.schema.checks import (
    Ascending,
    CellList,
    Finite,
    LimitValue,
    Maybe,
    TextList,
    TextValue,
    TreeValue,
    TruthValue,
    Whole,
    as_date,
    check_fields,
    is_number,
    leaves_of,
    plain,
    shown,
)
from shoal.schema.parts import FileFormat, Indicator, Link, Rule
from shoal.schema.steps import Step, Steps
from shoal.typing import Json

ROLES = ("identifier", "quasi", "sensitive", "weight", "stratum", "household", "leave")
KINDS = ("number", "ordered", "category", "date", "boolean")
AGGREGATES = ("mean", "median", "mode", "medoid")
MISSING_POLICIES = ("error", "impute", "category", "drop")
CURRENCIES = ("pure", "zcdp")


@dataclass(frozen=True)
class Unit:
    """Whom a guarantee protects: one record, or all rows that share a value of a column.

    Parameters
    ----------
    column : str, optional
        The person, household or firm; None means a single record.
    rows : int, default 1
        At most this many rows of one unit are counted.

    Examples
    --------
    >>> from shoal.schema import Unit
    >>> Unit("household", rows=8)
    Unit(column='household', rows=8)
    """

    column: str | None = None
    rows: int = 1

    def __post_init__(self) -> None:
        _make_plain(self)
        check_fields("a unit", {"column": Maybe(TextValue()), "rows": Whole(1)}, vars(self))
        if self.column is None and self.rows != 1:
            raise SchemaError(f"'rows' of a unit needs a column whose rows they are. Got rows = {self.rows}.")

    def __str__(self) -> str:
        return "record" if self.column is None else self.column


@dataclass(frozen=True)
class Keys:
    """What groups that no schema declares may use of a data set's delta (docs/theory/keys.md).

    Parameters
    ----------
    delta : float
        In all; part of the table's delta.
    questions : int
        How many questions with such groups share it, in equal parts.

    Examples
    --------
    >>> from shoal.schema import Keys
    >>> Keys(delta=1e-7, questions=5)
    Keys(delta=1e-07, questions=5)
    """

    delta: float
    questions: int

    def __post_init__(self) -> None:
        _make_plain(self)
        check_fields("keys", {"delta": Finite(0, above=True, below=1), "questions": Whole(1)}, vars(self))
        if self.delta / self.questions < 1e-15:
            raise SchemaError(
                "'keys' must leave each question a delta of at least 1e-15. "
                f"Got {self.delta:g} for {self.questions} questions."
            )


@dataclass(frozen=True)
class Cells:
    """A public grid of look-alike cells: one answer protects all rows of a cell jointly.

    Parameters
    ----------
    columns : tuple of str
        Columns with declared bounds (cut into bins) or declared levels (one bin each).
    bins : int or tuple of int, default 16
        Bins per column; columns with levels take no notice.
    tau : int, optional
        At most this many rows of a cell are counted; left open, it must be bought.

    Examples
    --------
    >>> from shoal.schema import Cells
    >>> Cells(("age", "income"), bins=(20, 16), tau=8)
    Cells(columns=('age', 'income'), bins=(20, 16), tau=8)
    """

    columns: tuple[str, ...]
    bins: int | tuple[int, ...] = 16
    tau: int | None = None

    def __post_init__(self) -> None:
        _make_plain(self)
        check_fields("cells", {"columns": TextList()}, vars(self))
        bins = self.bins if isinstance(self.bins, tuple) else (self.bins,) * len(self.columns)
        if len(bins) != len(self.columns):
            raise SchemaError(
                f"'bins' of cells must be an int, or one int per column. Got {shown(self.bins)}."
            )
        for each in bins:
            check_fields("cells", {"bins": Whole(1)}, {"bins": each})
        check_fields("cells", {"tau": Maybe(Whole(1))}, vars(self))


@dataclass(frozen=True)
class Column:
    """Public facts about one column.

    Parameters
    ----------
    name : str
    role : {"identifier", "quasi", "sensitive", "weight", "stratum", "household", "leave"}, optional
        What it is for publishing; left open, it is a quasi-identifier.
    kind : {"number", "ordered", "category", "date", "boolean"}, default "number"
    bounds : (low, high), optional
        Declared smallest and largest value of a number or date.
    levels : tuple of values, optional
        Declared values of a category; of an ordered kind, in order.
    hierarchy : nested tuples of levels, optional
        Levels nested by likeness.
    breaks : tuple of numbers or dates, optional
        Ascending limits of the intervals to which a number or date is recoded.
    missing_codes : tuple, default ()
        Values that stand for a missing cell. Nothing else does.
    on_missing : {"error", "impute", "category", "drop"}, default "error"
        What to do with missing cells when publishing.
    aggregate : {"mean", "median", "mode", "medoid"}, optional
        How a group's value is formed; by kind if left open.
    importance : float, default 1.0
        Weight in distances.
    step : float, optional
        Spacing of the public grid on which a minimum, maximum or quantile is answered.
    bottom, top : float, optional
        Values beyond are replaced by these limits before publishing (bottom and top coding).
    recode : int, default 0
        Steps up the hierarchy by which levels are replaced before publishing.
    numeric_id : bool, default False
        Whether ids are compared as numbers, so that 7, "007" and 7.0 are one person.
    normalize : bool, default False
        Whether ids are compared in Unicode's composed form (NFC).
    reason : str, default ""
        Why a guessed column was taken for what it is.

    Examples
    --------
    >>> from shoal.schema import Column
    >>> age = Column("age", role="quasi", bounds=(0, 110), missing_codes=("-9",), on_missing="impute")
    >>> age.kind, age.bounds
    ('number', (0, 110))
    >>> region = Column("region", kind="category", levels=("north", "south"))
    >>> region.levels
    ('north', 'south')
    """

    name: str
    role: str | None = None
    kind: str = "number"
    bounds: tuple[Any, Any] | None = None
    levels: tuple[Any, ...] | None = None
    hierarchy: tuple[Any, ...] | None = None
    breaks: tuple[Any, ...] | None = None
    missing_codes: tuple[Any, ...] = ()
    on_missing: str = "error"
    aggregate: str | None = None
    importance: float = 1.0
    step: float | None = None
    bottom: Any = None
    top: Any = None
    recode: int = 0
    numeric_id: bool = False
    normalize: bool = False
    reason: str = ""

    def __post_init__(self) -> None:
        _make_plain(self)
        check_fields("a column", {"name": TextValue(blank=True)}, vars(self))
        check_fields(f"column {self.name!r}", _COLUMN_RULES, vars(self))
        for name, kinds in _FITTING_KINDS.items():
            if getattr(self, name) not in (None, 0) and self.kind not in kinds:
                raise SchemaError(
                    f"{name!r} of column {self.name!r} needs the kind {' or '.join(kinds)}. Got {self.kind!r}."
                )
        self._check_values()
        self._check_together()

    def _check_values(self) -> None:
        """Bounds, breaks, ends and levels are numbers in a column of numbers, dates in a column of dates."""
        fits = is_number if self.kind == "number" else as_date
        what = "numbers" if self.kind == "number" else "dates"
        names = ("bounds", "breaks", "bottom", "top", "levels")
        for name in names if self.kind in ("number", "date") else ():
            value = getattr(self, name)
            each = value if isinstance(value, tuple) else (value,)
            if value is not None and any(fits(one) in (None, False) for one in each):
                raise SchemaError(
                    f"{name!r} of column {self.name!r}, a {self.kind}, must be {what}. Got {shown(value)}."
                )

    def _check_together(self) -> None:
        """Fields that contradict each other."""
        where = f"column {self.name!r}"
        if self.role == "weight" and self.kind != "number":
            raise SchemaError(f"The role 'weight' of {where} needs the kind number. Got {self.kind!r}.")
        needed = {"mean": ("number", "date"), "median": ("number", "date", "ordered")}
        if self.aggregate in needed and self.kind not in needed[self.aggregate]:
            raise SchemaError(
                f"'aggregate' of {where}, a {self.kind}, must be mode or medoid. Got {self.aggregate!r}."
            )
        if None not in (self.bottom, self.top) and not _value(self.bottom) < _value(self.top):
            raise SchemaError(
                f"'bottom' of {where} must be below 'top'. Got {shown(self.bottom)} and {shown(self.top)}."
            )
        if self.recode and self.hierarchy is None:
            raise SchemaError(f"'recode' of {where} needs a hierarchy. The schema has none.")
        texts = {str(each) for each in self.levels or ()}
        codes = [each for each in self.missing_codes if str(each) in texts]
        if codes:
            raise SchemaError(f"A value of {where} is a level or missing. Got {shown(codes[0])} as both.")
        if self.levels is not None and self.hierarchy is not None:
            lacking = sorted(texts - {str(each) for each in leaves_of(self.hierarchy)})
            if lacking:
                raise SchemaError(
                    f"'hierarchy' of {where} must hold all its levels. It lacks {lacking[0]!r}."
                )

    @property
    def effective_role(self) -> str:
        """The role; a column without one is a quasi-identifier, so that what nobody spoke of is protected."""
        return self.role or "quasi"


_COLUMN_RULES = {
    "role": Maybe(Options(ROLES)),
    "kind": Options(KINDS),
    "bounds": Maybe(Ascending(2)),
    "levels": Maybe(CellList()),
    "hierarchy": Maybe(TreeValue()),
    "breaks": Maybe(Ascending()),
    "missing_codes": CellList(empty=True),
    "on_missing": Options(MISSING_POLICIES),
    "aggregate": Maybe(Options(AGGREGATES)),
    "importance": Finite(0),
    "step": Maybe(Finite(0, above=True)),
    "bottom": Maybe(LimitValue()),
    "top": Maybe(LimitValue()),
    "recode": Whole(),
    "numeric_id": TruthValue(),
    "normalize": TruthValue(),
    "reason": TextValue(blank=True),
}
_FITTING_KINDS: dict[str, tuple[str, ...]] = {
    "bounds": ("number", "date"),
    "hierarchy": ("category", "ordered"),
    "breaks": ("number", "date"),
    "step": ("number", "date", "ordered"),
    "bottom": ("number", "date"),
    "top": ("number", "date"),
    "recode": ("category", "ordered"),
}


@dataclass(frozen=True)
class Schema:
    """All public facts about a table.

    Parameters
    ----------
    columns : mapping of str to Column
    id : str, default "table"
        Names the data set in the ledger, whatever its file is called.
    unit : Unit
        Whom a guarantee protects.
    budget, per_analyst : float, optional
        Total epsilon of the data set, and of each analyst.
    private : bool, default True
        Whether the data are about real people.
    version : str, optional
        The owner's word for this state of the data.
    group : Unit or int, optional
        Whose records the `group` mode protects jointly: those that share a column, or any so many.
    cells : Cells, optional
        The look-alike cells of the `correlated` mode.
    file : FileFormat, optional
        How the bytes of a text file are read.
    steps : tuple of Step, default ()
        How different columns are treated in one run, in order.
    rules : tuple of Rule, default ()
        What must stay true of every record.
    links : tuple of Link, default ()
        How this table and others point to each other.
    indicators : tuple of Indicator, default ()
        Figures that must still come out.
    currency : {"pure", "zcdp"}, default "pure"
        What the budget is counted in.
    delta : float, optional
        The failure probability that may be stated beside an epsilon.
    keys : Keys, optional
        What part of delta groups may use that are not declared; of a table counted in zCDP.

    Examples
    --------
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> Schema.from_toml_text(schema.to_toml()) == schema
    True
    >>> Schema.of({"columns": {"age": {"bounds": [0, 110]}}, "table": {"id": "survey"}}) == schema
    True
    """

    columns: Mapping[str, Column]
    id: str = "table"
    unit: Unit = field(default_factory=Unit)
    budget: float | None = None
    per_analyst: float | None = None
    private: bool = True
    version: str | None = None
    group: Unit | int | None = None
    cells: Cells | None = None
    file: FileFormat | None = None
    steps: Steps = Steps()  # noqa: RUF009 (an empty tuple never changes)
    rules: tuple[Rule, ...] = ()
    links: tuple[Link, ...] = ()
    indicators: tuple[Indicator, ...] = ()
    currency: str = "pure"
    delta: float | None = None
    keys: Keys | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise SchemaError(f"'columns' of a table must map names to columns. Got {shown(self.columns)}.")
        for name in ("id", "budget", "per_analyst", "group", "delta", "rules", "links", "indicators"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        check_fields("a table", _TABLE_RULES, vars(self))
        for name, each in self.columns.items():
            if not isinstance(each, Column) or each.name != name:
                raise SchemaError(
                    f"'columns' of a table must map names to columns of that name. Got {name!r}: {each!r}."
                )
        self._check_parts()
        for role in ("weight", "household"):
            found = self.names(role)
            if len(found) > 1:
                raise SchemaError(
                    f"A table has at most one column of the role {role!r}. Got {found[0]!r} and {found[1]!r}."
                )
        undeclared = [name for name in (self.cells.columns if self.cells else ()) if name not in self.columns]
        if undeclared:
            raise SchemaError(f"'cells' of a table must name declared columns. Got {undeclared[0]!r}.")

    def _check_parts(self) -> None:
        """The values inside are of their own types."""
        for name, kind in (
            ("unit", Unit),
            ("cells", Cells | None),
            ("file", FileFormat | None),
            ("keys", Keys | None),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise SchemaError(f"{name!r} of a table must be a {_PARTS[name]}. Got {shown(value)}.")
        if self.keys is not None and not (self.currency == "zcdp" and self.keys.delta < (self.delta or 0)):
            raise SchemaError(
                "'keys' of a table needs currency = \"zcdp\" and a delta above that of the keys. "
                f"Got {self.currency!r}, {self.delta} and {self.keys.delta}."
            )
        object.__setattr__(self, "steps", Steps.of(self.steps))
        for name, many in (
            ("rules", Rule),
            ("links", Link),
            ("indicators", Indicator),
            ("steps", Step),
        ):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(each, many) for each in value):
                raise SchemaError(
                    f"{name!r} of a table must be a list of {many.__name__}. Got {shown(value)}."
                )
        named = [each.name for each in self.links]
        if len(set(named)) < len(named):
            raise SchemaError(f"'links' of a table must have different names. Got {shown(tuple(named))}.")
        if isinstance(self.group, Unit):
            if self.group.column is None:
                raise SchemaError("'group' of a table needs a column, or a number of records. Got a record.")
        else:
            check_fields("a table", {"group": Maybe(Whole(1))}, vars(self))

    def names(self, role: str) -> list[str]:
        """Columns of one role, in order."""
        return [name for name, column in self.columns.items() if column.effective_role == role]

    def with_columns(self, **changes: Mapping[str, Any]) -> Self:
        """A schema in which some columns' facts are changed (or columns added)."""
        columns = dict(self.columns)
        for name, facts in changes.items():
            columns[name] = replace(columns.get(name, Column(name)), **facts)
        return replace(self, columns=columns)

    @classmethod
    def of(cls, given: Any) -> Self:
        """A schema as it is, from a dict of its parts, or read from the file at a path."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str | Path):
            return cls.from_toml(given)
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        raise SchemaError(
            f"A schema, a dict of its parts or the path of its file was expected. Got {type(given).__name__}."
        )

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a schema file."""
        from shoal.schema.toml import read_text

        return cls.from_toml_text(read_text(path), source=str(path))

    @classmethod
    def from_toml_text(cls, text: str, source: str = "the schema") -> Self:
        """Read a schema from TOML text."""
        from shoal.schema.toml import loads

        return cls.from_dict(loads(text, source), source)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "the schema") -> Self:
        """A schema from the parts that its file has: table, file, columns, steps, rules, links, indicators."""
        from shoal.schema.toml import from_dict

        return cls(**from_dict(data, source))

    def to_dict(self) -> Json:
        """The parts of the schema's file; `from_dict` reads them back."""
        from shoal.schema.toml import to_dict

        return to_dict(self)

    def to_toml(self) -> str:
        """Write the schema as TOML text that `from_toml_text` reads back."""
        from shoal.schema.toml import dumps

        return dumps(self)


_PARTS = {
    "unit": 'Unit (in a file "record" or {column = "...", rows = ...})',
    "cells": "Cells (in a file {columns = [...], bins = ..., tau = ...})",
    "keys": "Keys (in a file {delta = ..., questions = ...})",
    "file": "FileFormat (in a file the part [file])",
}
_TABLE_RULES = {
    "id": TextValue(),
    "budget": Maybe(Finite(0, above=True)),
    "per_analyst": Maybe(Finite(0, above=True)),
    "private": TruthValue(),
    "version": Maybe(TextValue()),
    "currency": Options(CURRENCIES),
    "delta": Maybe(Finite(0, above=True, below=1)),
}


def _make_plain(value: Any) -> None:
    """Set every field of a frozen value to Python's own types."""
    for each in fields(value):
        object.__setattr__(value, each.name, plain(getattr(value, each.name)))


def _value(limit: Any) -> Any:
    return limit if is_number(limit) else as_date(limit)
