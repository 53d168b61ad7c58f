"""The words of `shoal release` as Python takes them."""

from __future__ import annotations

from typing import Any

from shoal.errors import ParameterError
from shoal.typing import Keywords


def epsilons_of(text: str | None) -> tuple[float, ...]:
    """`--against` as numbers."""
    found = []
    for word in (text or "").split(",") if text is not None else []:
        try:
            found.append(float(word))
        except ValueError:
            raise ParameterError(
                f"'--against' must be numbers by commas, such as 0.1,1,10. Got {text!r}."
            ) from None
    return tuple(found)


def bins_of(text: str | None) -> Any:
    """`--bins` as Python takes it: a number, a text, or one of them for each column."""
    if text is None:
        return None
    if "=" in text:
        pairs = [each.partition("=") for each in text.split(",")]
        return {name.strip(): bins_of(value.strip()) for name, _, value in pairs}
    try:
        return int(text)
    except ValueError:
        return text.strip()


def sets_of(text: str) -> Any:
    """`--marginals` as Python takes it."""
    text = text.strip()
    if text.lstrip("-").isdecimal():
        return int(text)
    if "+" in text:
        return [[name.strip() for name in each.split("+")] for each in text.split(",")]
    return text


def shares_of(text: str | None) -> dict[str, int] | None:
    """`--shares` as weights of columns."""
    if text is None:
        return None
    pairs = [each.strip().rpartition(":") for each in text.split(",")]
    if any(not name or not weight.isdigit() for name, _, weight in pairs):
        raise ParameterError(f"'--shares' must be column:weight,column:weight,... Got {text!r}.")
    return {name: int(weight) for name, _, weight in pairs}


def unless(value: str, usual: str) -> str | None:
    """What was asked for, if it is not what is usual."""
    return None if value == usual else value


def refuse(what: str, given: Keywords) -> None:
    """Refuse options that are of no use there."""
    for name, value in given.items():
        if value is not None:
            raise ParameterError(f"{what} does not take {name}. Got {value}.")
