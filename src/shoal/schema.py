"""Public facts about a table: what each column is, and who must be protected.

One schema serves both jobs. It holds nothing that was read from private data: bounds and levels come from
the codebook, and a guessed schema leaves them open.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from shoal.errors import SchemaError

ROLES = ("identifier", "quasi", "sensitive", "weight", "stratum", "group", "untouched")
KINDS = ("number", "ordered", "category", "date", "boolean")
AGGREGATES = ("mean", "median", "mode", "medoid")
MISSING_POLICIES = ("error", "impute", "category", "drop")


@dataclass(frozen=True)
class Unit:
    """Whom a guarantee protects: one record, or all rows that share a value of a column.

    Parameters
    ----------
    column : str, optional
        The person, household or firm; None means a single record.
    rows : int, default 1
        At most this many rows of one unit are counted.
    """

    column: str | None = None
    rows: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise SchemaError(f"'rows' of a unit must be an int of at least 1. Got {self.rows!r}.")

    def __str__(self) -> str:
        return "record" if self.column is None else self.column


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
    """

    columns: tuple[str, ...]
    bins: int | tuple[int, ...] = 16
    tau: int | None = None

    def __post_init__(self) -> None:
        bins = self.bins if isinstance(self.bins, tuple) else (self.bins,) * len(self.columns)
        if not self.columns or len(bins) != len(self.columns):
            raise SchemaError(f"'bins' of cells must be an int, or one int per column. Got {self.bins!r}.")
        for name, value in [("bins", each) for each in bins] + [("tau", 1 if self.tau is None else self.tau)]:
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SchemaError(f"{name!r} of cells must be an int of at least 1. Got {value!r}.")


@dataclass(frozen=True)
class Column:
    """Public facts about one column.

    Parameters
    ----------
    name : str
    role : {"identifier", "quasi", "sensitive", "weight", "stratum", "group", "untouched"}, optional
        What it is for publishing; left open, numbers are quasi-identifiers and the rest is untouched.
    kind : {"number", "ordered", "category", "date", "boolean"}, default "number"
    bounds : (low, high), optional
        Declared smallest and largest value of a number or date.
    levels : tuple of values, optional
        Declared values of a category; of an ordered kind, in order.
    hierarchy : nested tuples of levels, optional
        Levels nested by likeness.
    missing : tuple, default ()
        Values that stand for a missing cell. Nothing else does.
    policy : {"error", "impute", "category", "drop"}, default "error"
        What to do with missing cells when publishing.
    aggregate : {"mean", "median", "mode", "medoid"}, optional
        How a group's value is formed; by kind if left open.
    weight : float, default 1.0
        Importance in distances.
    step : float, optional
        Spacing of the public grid on which a minimum, maximum or quantile is answered.
    bottom, top : float, optional
        Values beyond are replaced by these limits before publishing (bottom and top coding).
    recode : int, default 0
        Steps up the hierarchy by which levels are replaced before publishing.
    reason : str, default ""
        Why a guessed column was taken for what it is.
    """

    name: str
    role: str | None = None
    kind: str = "number"
    bounds: tuple[float, float] | None = None
    levels: tuple[Any, ...] | None = None
    hierarchy: tuple[Any, ...] | None = None
    missing: tuple[Any, ...] = ()
    policy: str = "error"
    aggregate: str | None = None
    weight: float = 1.0
    step: float | None = None
    bottom: float | None = None
    top: float | None = None
    recode: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        for value, allowed, what in (
            (self.role, (None, *ROLES), "role"),
            (self.kind, KINDS, "kind"),
            (self.policy, MISSING_POLICIES, "policy"),
            (self.aggregate, (None, *AGGREGATES), "aggregate"),
        ):
            if value not in allowed:
                names = ", ".join(str(each) for each in allowed if each is not None)
                raise SchemaError(f"{what!r} of column {self.name!r} must be one of {names}. Got {value!r}.")
        if self.bounds is not None and not _ordered_pair(self.bounds):
            raise SchemaError(
                f"'bounds' of column {self.name!r} must be [low, high] with low < high. Got {self.bounds!r}."
            )
        if self.levels is not None and (not self.levels or len(set(self.levels)) < len(self.levels)):
            raise SchemaError(
                f"'levels' of column {self.name!r} must be a list of different values. Got {list(self.levels)}."
            )
        if not self.weight >= 0:
            raise SchemaError(
                f"'weight' of column {self.name!r} must be a number of at least 0. Got {self.weight!r}."
            )
        if self.step is not None and not self.step > 0:
            raise SchemaError(f"'step' of column {self.name!r} must be a number above 0. Got {self.step!r}.")

    @property
    def effective_role(self) -> str:
        """The role, or what follows from the kind where none was given."""
        return self.role or ("quasi" if self.kind == "number" else "untouched")


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
    group : Unit or int, optional
        Whose records the `group` mode protects jointly: those that share a column, or any so many.
    cells : Cells, optional
        The look-alike cells of the `correlated` mode.

    Examples
    --------
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> Schema.from_toml_text(schema.to_toml()) == schema
    True
    """

    columns: Mapping[str, Column]
    id: str = "table"
    unit: Unit = field(default_factory=Unit)
    budget: float | None = None
    per_analyst: float | None = None
    private: bool = True
    group: Unit | int | None = None
    cells: Cells | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():
            raise SchemaError(f"'id' of a table must be a non-empty text. Got {self.id!r}.")
        odd = [each for each in self.columns.values() if not isinstance(each, Column)]
        if odd:
            raise SchemaError(f"'columns' of a table must map names to columns. Got {odd[0]!r}.")
        for name, value in (("budget", self.budget), ("per_analyst", self.per_analyst)):
            if value is not None and not 0 < value < float("inf"):
                raise SchemaError(f"{name!r} of a table must be a number above 0. Got {value!r}.")

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
    def from_toml(cls, path: str | Path) -> Self:
        """Read a schema file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise SchemaError(f"No schema file {str(path)!r}.") from None
        except OSError as error:
            raise SchemaError(f"The schema file {str(path)!r} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise SchemaError(f"The schema file {str(path)!r} must be UTF-8 text.") from None
        return cls.from_toml_text(text, source=str(path))

    @classmethod
    def of(cls, given: Self | str | Path) -> Self:
        """A schema as it is, or read from the file at a path."""
        if isinstance(given, str | Path):
            return cls.from_toml(given)
        if not isinstance(given, cls):
            raise SchemaError(f"A schema, or the path of its file, was expected. Got {type(given).__name__}.")
        return given

    @classmethod
    def from_toml_text(cls, text: str, source: str = "the schema") -> Self:
        """Read a schema from TOML text."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{source} must be a TOML file: {error}.") from None
        unknown = set(data) - {"table", "columns"}
        if unknown:
            raise SchemaError(
                f"{source} may have the parts [table] and [columns.*]. Got [{sorted(unknown)[0]}]."
            )
        table = dict(data.get("table", {}))
        _only(
            table,
            {"id", "unit", "budget", "per_analyst", "private", "group", "cells"},
            f"[table] of {source}",
        )
        if "unit" in table:
            table["unit"] = _unit(table["unit"])
        if "group" in table:
            table["group"] = _group(table["group"])
        if "cells" in table:
            table["cells"] = _cells(table["cells"])
        columns = {}
        for name, facts in data.get("columns", {}).items():
            if not isinstance(facts, dict):
                raise SchemaError(f"[columns.{name}] of {source} must be a table of facts. Got {facts!r}.")
            _only(facts, {each.name for each in fields(Column)} - {"name"}, f"[columns.{name}] of {source}")
            columns[name] = Column(name, **{key: _frozen(value) for key, value in facts.items()})
        return cls(columns, **table)

    def to_toml(self) -> str:
        """Write the schema as TOML text that `from_toml_text` reads back."""
        lines = ["[table]", f"id = {_toml(self.id)}"]
        if self.unit.column is not None:
            lines.append(f"unit = {{column = {_toml(self.unit.column)}, rows = {self.unit.rows}}}")
        else:
            lines.append('unit = "record"')
        for name in ("budget", "per_analyst"):
            if getattr(self, name) is not None:
                lines.append(f"{name} = {_toml(getattr(self, name))}")
        lines.append(f"private = {_toml(self.private)}")
        if isinstance(self.group, Unit):
            lines.append(f"group = {{column = {_toml(self.group.column)}, rows = {self.group.rows}}}")
        elif self.group is not None:
            lines.append(f"group = {self.group}")
        if self.cells is not None:
            tau = "" if self.cells.tau is None else f", tau = {self.cells.tau}"
            facts = f"columns = {_toml(self.cells.columns)}, bins = {_toml(self.cells.bins)}"
            lines.append(f"cells = {{{facts}{tau}}}")
        plain = Column("")
        for name, column in self.columns.items():
            lines += ["", f"[columns.{name if name.isidentifier() and name.isascii() else _toml(name)}]"]
            for each in fields(Column):
                value = getattr(column, each.name)
                if each.name == "kind" or (each.name != "name" and value != getattr(plain, each.name)):
                    lines.append(f"{each.name} = {_toml(value)}")
        return "\n".join(lines) + "\n"


def _ordered_pair(bounds: Any) -> bool:
    try:
        return isinstance(bounds, tuple) and len(bounds) == 2 and bool(bounds[0] < bounds[1])
    except TypeError:
        return False


def _only(found: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(found) - allowed)
    if unknown:
        raise SchemaError(f"{where} may have {', '.join(sorted(allowed))}. Got {unknown[0]!r}.")


def _unit(value: Any) -> Unit:
    if value == "record":
        return Unit()
    if isinstance(value, dict) and set(value) <= {"column", "rows"} and isinstance(value.get("column"), str):
        return Unit(**value)
    raise SchemaError(f'\'unit\' must be "record" or {{column = "...", rows = ...}}. Got {value!r}.')


def _group(value: Any) -> Unit | int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    if isinstance(value, dict):
        return _unit(value)
    raise SchemaError(
        f"'group' must be a number of records, or {{column = \"...\", rows = ...}}. Got {value!r}."
    )


def _cells(value: Any) -> Cells:
    if not isinstance(value, dict) or not set(value) <= {"columns", "bins", "tau"} or "columns" not in value:
        raise SchemaError(f"'cells' must be {{columns = [...], bins = ..., tau = ...}}. Got {value!r}.")
    return Cells(**{name: _frozen(fact) for name, fact in value.items()})


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return repr(value)
