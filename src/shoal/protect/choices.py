"""What a caller may choose, as rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from shoal.errors import ParameterError
from shoal.params import AnyOf, Interval, Nothing, Options, Rule, check_params

Progress = Callable[[str], None]

_RULES: dict[str, Rule] = {
    "l": AnyOf((Nothing(), Interval(Integral, 2))),
    "t": AnyOf((Nothing(), Interval(Real, 0, 1))),
    "missing": AnyOf((Nothing(), Options(("error", "impute", "category", "drop")))),
    "small_strata": Options(("merge", "refuse")),
    "integers": Options(("float", "round")),
    "identifiers": Options(("drop", "hash")),
}


def check_choices(choices: dict[str, Any]) -> None:
    """Raise `ParameterError` for the first choice that is not allowed."""
    check_params("protect", _RULES, choices)


def listed(value: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    if value is None or isinstance(value, str):
        return [] if value is None else [value]
    if not isinstance(value, Iterable):
        raise ParameterError(f"Names of columns were expected. Got {value!r}.")
    return list(value)
