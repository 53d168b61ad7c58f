"""Rules of a schema's fields as data, and one function that checks them.

A field is first made plain (numpy scalars and lists become Python's own values and tuples), so that equal facts
are equal and a file reads back as it was written; then its rule speaks.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from shoal.errors import SchemaError
from shoal.params import Constraint
from shoal.schema.trees import NamedSet, leaves_of


def plain(value: Any) -> Any:
    """A value as Python's own type: numpy scalars unpacked, lists and arrays as tuples."""
    if type(value).__module__.partition(".")[0] == "numpy":
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        value = value.astype("datetime64[us]") if kind == "M" else value
        value = value.tolist()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, NamedSet):
        return NamedSet(value.name, tuple(plain(each) for each in value))
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    for own in (str, int, float):
        if isinstance(value, own) and not isinstance(value, bool):
            return own(value)
    return value


def is_text(value: Any) -> bool:
    """Whether a value is a text that UTF-8 can hold (no half of a surrogate pair)."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_number(value: Any) -> bool:
    """Whether a value is a number, not NaN, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def is_cell(value: Any) -> bool:
    """Whether a value can stand in a cell: a text, number, truth value or date."""
    return is_text(value) or is_number(value) or isinstance(value, bool | datetime.date)


def as_date(value: Any) -> datetime.datetime | None:
    """A date, a date-time or its ISO text as a date-time without zone; None if it is none."""
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime.datetime):
        return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    return None


@dataclass(frozen=True)
class Maybe(Constraint):
    """What a rule accepts, or nothing: a field may be left out."""

    rule: Constraint

    def accepts(self, value: Any) -> bool:
        """Whether the field is left out or the rule accepts it."""
        return value is None or self.rule.accepts(value)

    def __str__(self) -> str:
        return str(self.rule)


@dataclass(frozen=True)
class TextValue(Constraint):
    """A text, not blank unless allowed."""

    blank: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the value is a text that can be written down."""
        return is_text(value) and (self.blank or bool(value.strip()))

    def __str__(self) -> str:
        return "a text" if self.blank else "a non-empty text"


@dataclass(frozen=True)
class TruthValue(Constraint):
    """True or false."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is a truth value."""
        return isinstance(value, bool)

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Finite(Constraint):
    """A finite number of at least, or above, a limit."""

    low: float = -math.inf
    above: bool = False
    below: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Whether the value is a finite number within the limits."""
        if not is_number(value) or not -math.inf < value < math.inf:
            return False
        return (value > self.low if self.above else value >= self.low) and value < self.below

    def __str__(self) -> str:
        start = "" if self.low == -math.inf else f" {'above' if self.above else 'of at least'} {self.low:g}"
        return f"a finite number{start}" + ("" if self.below == math.inf else f" and below {self.below:g}")


@dataclass(frozen=True)
class Whole(Constraint):
    """An int of at least a limit."""

    low: int = 0

    def accepts(self, value: Any) -> bool:
        """Whether the value is an int of at least the limit."""
        return isinstance(value, int) and not isinstance(value, bool) and value >= self.low

    def __str__(self) -> str:
        return f"an int of at least {self.low}"


@dataclass(frozen=True)
class CellList(Constraint):
    """A list of different values that can stand in cells."""

    empty: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the value is such a list."""
        if not isinstance(value, tuple) or not (value or self.empty) or not all(map(is_cell, value)):
            return False
        return len({_key(each) for each in value}) == len(value)

    def __str__(self) -> str:
        return "a list of different values (texts, numbers, truth values or dates)"


@dataclass(frozen=True)
class TextList(Constraint):
    """A list of different non-empty texts."""

    empty: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether the value is such a list."""
        if not isinstance(value, tuple) or not (value or self.empty):
            return False
        return all(is_text(each) and each.strip() for each in value) and len(set(value)) == len(value)

    def __str__(self) -> str:
        return "a list of different texts"


@dataclass(frozen=True)
class Ascending(Constraint):
    """Numbers, or dates, that ascend; a given count of them or at least one."""

    count: int | None = None

    def accepts(self, value: Any) -> bool:
        """Whether the value is such a list."""
        if not isinstance(value, tuple) or not value or (self.count or len(value)) != len(value):
            return False
        if not all(map(is_number, value)):
            value = tuple(as_date(each) for each in value)
            if None in value:
                return False
        return all(low < high for low, high in itertools.pairwise(value))

    def __str__(self) -> str:
        return "[low, high] with low < high" if self.count == 2 else "a list of ascending numbers or dates"


@dataclass(frozen=True)
class LimitValue(Constraint):
    """A finite number, or a date."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is a finite number or a date."""
        return Finite().accepts(value) or as_date(value) is not None

    def __str__(self) -> str:
        return "a finite number or a date"


@dataclass(frozen=True)
class TreeValue(Constraint):
    """Nested lists of different levels, or the parent of each."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is such nested lists, no list empty and no level twice."""
        if not isinstance(value, tuple) or not _full(value):
            return False
        leaves = leaves_of(value)
        return all(map(is_cell, leaves)) and len({_key(each) for each in leaves}) == len(leaves)

    def __str__(self) -> str:
        return "nested lists of different levels, or the parent of each level and set"


def check_fields(owner: str, rules: Mapping[str, Constraint], values: Mapping[str, Any]) -> None:
    """Raise `SchemaError` for the first value its rule does not accept."""
    for name, rule in rules.items():
        if not rule.accepts(values[name]):
            raise SchemaError(f"{name!r} of {owner} must be {rule}. Got {shown(values[name])}.")


def check_keys(owner: str, found: Any, allowed: tuple[str, ...]) -> None:
    """Raise `SchemaError` unless something is a table whose keys are all known."""
    if not isinstance(found, Mapping):
        raise SchemaError(f"{owner} must be a table of facts. Got {shown(found)}.")
    unknown = [each for each in found if each not in allowed]
    if unknown:
        raise SchemaError(f"{owner} may have {', '.join(allowed)}. Got {unknown[0]!r}.")


def shown(value: Any) -> str:
    """A value as a message shows it: tuples as the lists they are in a file, long ones cut."""
    text = repr(_listed(value))
    return text if len(text) <= 200 else text[:200] + "..."


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _full(tree: Any) -> bool:
    return not isinstance(tree, tuple) or (bool(tree) and all(map(_full, tree)))


def _key(value: Any) -> Any:
    return (isinstance(value, bool), isinstance(value, datetime.datetime), value)


def make_plain(value: Any) -> None:
    """Set every field of a frozen value to Python's own types."""
    for each in fields(value):
        object.__setattr__(value, each.name, plain(getattr(value, each.name)))
