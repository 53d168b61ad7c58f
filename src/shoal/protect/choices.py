"""What a caller may choose, as rules, and the method that was asked for by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from sklearn.base import clone

from shoal.errors import ParameterError
from shoal.microaggregation import Microaggregator, methods
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
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def resolve_method(
    method: str | Microaggregator,
    k: int,
    time_limit: float | None,
    max_proposals: int | None,
    random_state: int | None,
) -> Microaggregator:
    """A configured method from its name."""
    options = {"time_limit": time_limit, "max_proposals": max_proposals, "random_state": random_state}
    if isinstance(method, Microaggregator):
        return clone(method).set_params(k=k)
    known = methods()
    if method not in known:
        raise ParameterError(f"'method' must be one of {', '.join(known)}. Got {method!r}.")
    chosen = known[method]
    for name in ("time_limit", "max_proposals"):
        if options[name] is not None and not chosen.takes(name):
            raise ParameterError(f"The method {method!r} takes no {name!r}: it stops by itself.")
    return chosen(
        k=k, **{name: value for name, value in options.items() if value is not None and chosen.takes(name)}
    )
