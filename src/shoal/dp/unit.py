"""Whom an answer protects: the unit of a mode, its sentence on the stamp, and its place in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.errors import ParameterError
from shoal.schema import Schema, Unit

MODES = ("dp", "group", "correlated", "heuristic")
HEURISTIC_STAMP = "guarantee: none (research reproduction)"
REPLACED = "record, replaced"  # the unit of releases whose number of records is public
ENDED = "; the ledger total of this data set has ended"


@dataclass(frozen=True)
class Protected:
    """The rows that an answer hides jointly.

    Parameters
    ----------
    mode : {"dp", "group", "correlated"}
    kind : {"record", "records", "column", "cell"}
        One record; any `rows` records; the rows that share a value of `column`; the rows of one cell.
    rows : int
        At most this many rows of the unit are counted: the factor on every sensitivity.
    column : str, optional
    model : str, default ""
        Name of the map to cells.
    fingerprint : str, default ""
        What tells one map to cells from another.
    n_cells : int, default 0

    Examples
    --------
    >>> from shoal.dp.unit import Protected
    >>> Protected("dp", "record", 1).stamp
    'guarantee: epsilon-DP, add or remove one record'
    """

    mode: str
    kind: str
    rows: int
    column: str | None = None
    model: str = ""
    fingerprint: str = ""
    n_cells: int = 0

    @property
    def stamp(self) -> str:
        """What is promised, word for word."""
        if self.mode == "group":
            return "guarantee: epsilon-DP for the records of one group jointly"
        if self.mode == "correlated":
            return (
                "guarantee: epsilon-DP, add or remove all rows of one look-alike cell "
                f"({self.model}, {self.n_cells} cells, at most {self.rows} counted per cell)"
            )
        return f"guarantee: epsilon-DP, add or remove one {self.column or 'record'}"

    @property
    def key(self) -> str:
        """The unit as the ledger knows it; how many of its rows are counted is the mechanism's affair."""
        return {
            "record": "record",
            "records": f"records:{self.rows}",
            "column": f"column:{self.column}",
            "cell": f"cell:{self.fingerprint}",
        }[self.kind]

    def times(self, kept: str) -> int:
        """How often an answer's epsilon counts in the unit a ledger keeps; 0 if it promises nothing there.

        One row of a person or group with at most m counted rows moves an answer by one swap, at most twice a
        row's own share, which m >= 2 covers. A replaced record is one removed and one added, so that an answer
        counts double (docs/theory/composition.md).
        """
        if kept == self.key:
            return 1
        if kept in ("record", REPLACED):
            hidden = self.kind != "column" or self.rows >= 2
            return int(hidden) * (2 if kept == REPLACED else 1)
        if kept.startswith("records:"):
            return int(self.kind == "records" and self.rows >= int(kept.removeprefix("records:")))
        return 0

    def to_keep(self, schema: Schema) -> str:
        """The unit a new ledger keeps: the schema's own where this unit covers it, else this one."""
        column = schema.unit.column
        declared = "record" if column is None else f"column:{column}"
        return declared if self.times(declared) == 1 else self.key


def resolve(
    mode: str, schema: Schema, group: Unit | int | None = None, model: Any = None, tau: int | None = None
) -> Protected:
    """The unit of a mode over a schema; raises `ParameterError` where something has to be declared first."""
    if mode == "dp":
        unit = schema.unit
        return Protected(
            "dp", "column" if unit.column else "record", unit.rows if unit.column else 1, unit.column
        )
    if mode == "group":
        return _group(group if group is not None else schema.group, schema)
    if mode == "correlated":
        if model is None:
            raise ParameterError(
                "Mode 'correlated' needs a public map to cells: declare 'cells', or give a model."
            )
        if not getattr(model, "frozen", False):
            raise ParameterError(
                f"Mode 'correlated' needs a frozen model, given by the owner or fitted on public data. "
                f"Got {model.name!r}, which depends on the private table."
            )
        rows = _whole("tau", tau)
        return Protected("correlated", "cell", rows, None, model.name, model.fingerprint, model.n_cells)
    raise ParameterError(f"'mode' must be one of {', '.join(MODES)}. Got {mode!r}.")


def _group(group: Unit | int | None, schema: Schema) -> Protected:
    if group is None and schema.unit.column is not None:
        group = schema.unit
    if isinstance(group, Unit) and group.column is not None:
        return Protected("group", "column", group.rows, group.column)
    if group is None or isinstance(group, Unit):
        raise ParameterError(
            "Mode 'group' needs a number of records, or a group column and its rows: declare 'group' in the schema."
        )
    return Protected("group", "records", _whole("group", group))


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**30:
        raise ParameterError(f"{name!r} must be an int in [1, 2^30], declared or bought. Got {value!r}.")
    return value
