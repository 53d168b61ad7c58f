"""The table as a whole: its columns, whom it protects, its budget, rules, links and steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from shoal.errors import SchemaError
from shoal.params import Options
from shoal.schema.checks import Finite, Maybe, TextValue, TruthValue, Whole, check_fields, plain, shown
from shoal.schema.column import Column
from shoal.schema.parts import FileFormat, Indicator, Link, Rule
from shoal.schema.steps import Step, Steps
from shoal.schema.unit import Cells, Keys, Unit
from shoal.typing import Json

CURRENCIES = ("pure", "zcdp")


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
    path : str, optional
        The file that it was read from, beside which its ledger lies.

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
    path: str | None = field(default=None, compare=False, repr=False)

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

        return replace(cls.from_toml_text(read_text(path), source=str(path)), path=str(Path(path).absolute()))

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
