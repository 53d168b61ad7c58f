"""Rules for parameters as data, checked once by one function."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from shoal.errors import ParameterError


class Constraint(ABC):
    """Something a value can satisfy, and that can say what it expects."""

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether the value is allowed."""

    @abstractmethod
    def __str__(self) -> str: ...


@dataclass(frozen=True)
class Interval(Constraint):
    """A number of one type between two bounds, both allowed."""

    type: type
    low: float = -math.inf
    high: float = math.inf

    def accepts(self, value: Any) -> bool:
        """Whether the value has the type and lies within the bounds."""
        if isinstance(value, bool) or not isinstance(value, self.type):
            return False
        number: Any = value
        return not math.isnan(number) and bool(self.low <= number <= self.high)

    def __str__(self) -> str:
        name = (
            "an int"
            if self.type is Integral
            else "a number"
            if self.type is Real
            else f"a {self.type.__name__}"
        )
        return f"{name} in [{self.low}, {self.high}]"


@dataclass(frozen=True)
class Options(Constraint):
    """One of a few values."""

    values: tuple[Any, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of the options."""
        return any(
            value is option or (type(value) is type(option) and value == option) for option in self.values
        )

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(value) for value in self.values)


@dataclass(frozen=True)
class Unset(Constraint):
    """None, where a parameter may be left open."""

    def accepts(self, value: Any) -> bool:
        """Whether the value is None."""
        return value is None

    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True)
class AnyOf(Constraint):
    """Whatever one of several rules accepts."""

    rules: tuple[Constraint, ...]

    def accepts(self, value: Any) -> bool:
        """Whether any of the rules accepts the value."""
        return any(rule.accepts(value) for rule in self.rules)

    def __str__(self) -> str:
        return " or ".join(str(rule) for rule in self.rules)


@dataclass(frozen=True)
class Instance(Constraint):
    """An object of one of some types."""

    types: tuple[type, ...]

    def accepts(self, value: Any) -> bool:
        """Whether the value is an instance of one of the types."""
        return isinstance(value, self.types)

    def __str__(self) -> str:
        return " or ".join(f"a {each.__name__}" for each in self.types)


def check_params(owner: str, rules: Mapping[str, Constraint], values: Mapping[str, Any]) -> None:
    """Raise `ParameterError` for the first value its rule does not accept."""
    for name, rule in rules.items():
        if not rule.accepts(values[name]):
            raise ParameterError(f"{name!r} of {owner} must be {rule}. Got {values[name]!r}.")
