"""How tables of settings are declared and read: the types of single settings, and one sentence for what is wrong."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeVar

from shoal.errors import MissingExtraError, ParameterError
from shoal.typing import Json

try:
    from pydantic import ConfigDict, Field, ValidationError
except ImportError:
    raise MissingExtraError("pydantic", "server") from None

RULES = ConfigDict(extra="forbid")
_MOST = 1_000_000_000
Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
Number = Annotated[float, Field(strict=True, gt=0, le=_MOST, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True)]
Switch = Annotated[bool, Field(strict=True)]
T = TypeVar("T")


def made(kind: type[T], facts: Json, where: str) -> T:
    """A table of settings as its dataclass, or one sentence about the first that is wrong."""
    try:
        return kind(**facts)
    except ValidationError as error:
        first = error.errors()[0]
    name, got = str(first["loc"][0]) if first["loc"] else "", first.get("input")
    if first["type"] == "unexpected_keyword_argument":
        allowed = ", ".join(sorted(each.name for each in dataclasses.fields(kind)))  # type: ignore[arg-type]
        raise ParameterError(f"{where} may have {allowed}. Got {name!r}.")
    if first["type"] in ("missing", "missing_argument"):
        raise ParameterError(f"{where} must say {name!r}.")
    said = first["msg"].replace("Input should be", "must be", 1)
    raise ParameterError(f"{name!r} in {where} {said[0].lower()}{said[1:]}. Got {got!r}.")


def require_table(found: Any, where: str) -> None:
    """Raise a sentence where settings are no table."""
    if not isinstance(found, dict):
        raise ParameterError(f"{where} must be a table of settings. Got {found!r}.")
