"""What a caller may choose, as rules."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

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
