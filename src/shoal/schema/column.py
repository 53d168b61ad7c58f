"""One column of a table: the facts that a codebook has about it, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.errors import SchemaError
from shoal.params import Options
from shoal.schema.checks import (
    Ascending,
    CellList,
    Finite,
    LimitValue,
    Maybe,
    TextValue,
    TreeValue,
    TruthValue,
    Whole,
    as_date,
    check_fields,
    is_cell,
    is_number,
    make_plain,
    shown,
)
from shoal.schema.trees import leaves_of, tree_of

ROLES = ("identifier", "quasi", "sensitive", "weight", "stratum", "household", "leave")
KINDS = ("number", "ordered", "category", "date", "boolean")
AGGREGATES = ("mean", "median", "mode", "medoid")
MISSING_POLICIES = ("error", "impute", "category", "drop")


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
        Levels nested by likeness. May be given as the parent of each level and of each set, whose names are published;
        nested lists are published as their levels joined by "|".
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
        make_plain(self)
        given = self.hierarchy
        if isinstance(given, Mapping) and given and all(map(is_cell, (*given, *given.values()))):
            made = tree_of(f"The hierarchy of column {self.name!r}", given)
            object.__setattr__(self, "hierarchy", made)
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


def _value(limit: Any) -> Any:
    return limit if is_number(limit) else as_date(limit)
