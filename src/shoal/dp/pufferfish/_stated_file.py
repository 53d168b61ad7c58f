"""Declared models as their files write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.dp.pufferfish._chain import MarkovChain
from shoal.dp.pufferfish._coefficients import Coefficients
from shoal.dp.pufferfish._scenario import Scenario
from shoal.dp.pufferfish._stated import GroupScenarios, StatedModel, TimeChain
from shoal.dp.unit import STATED
from shoal.errors import ParameterError
from shoal.typing import Json


def stated_model(facts: Mapping[str, Any], source: str = "the model") -> StatedModel:
    """A declared model from the parts of its file.

    Parameters
    ----------
    facts : mapping
        ``{"pufferfish": {"group", "about", "scenarios"}}``, ``{"pufferfish": {"sequence", "time", "about", "states",
        "length", "chains"}}`` or ``{"dependent": {"columns", "rows", "coefficient"}}``.
    source : str
        Named in errors.

    Examples
    --------
    >>> from shoal.dp.pufferfish import stated_model
    >>> stated_model({"dependent": {"columns": ["household"], "rows": 3, "coefficient": 0.5}}).row_sum
    Fraction(2, 1)
    """
    if (
        len(facts) != 1
        or next(iter(facts)) not in STATED
        or not isinstance(next(iter(facts.values())), Mapping)
    ):
        raise ParameterError(
            f"{source} must have one part, [pufferfish] or [dependent]. Got {sorted(facts)}."
        )
    mode, parts = next(iter(facts.items()))
    if mode == "dependent":
        found = _only(parts, ("columns", "rows", "coefficient"), source)
        return Coefficients(_texts(found["columns"], "columns", source), found["rows"], found["coefficient"])
    if "group" in parts:
        found = _only(parts, ("group", "about", "scenarios"), source)
        scenarios = tuple(_scenario(each, source) for each in _list(found["scenarios"], "scenarios", source))
        return GroupScenarios(str(found["group"]), str(found["about"]), scenarios)
    found = _only(parts, ("sequence", "time", "about", "states", "length", "chains"), source)
    chains = tuple(
        MarkovChain(**_only(each, ("start", "steps"), source), length=found["length"])
        for each in _list(found["chains"], "chains", source)
    )
    sequence, time, about = (str(found[name]) for name in ("sequence", "time", "about"))
    return TimeChain(sequence, time, about, tuple(_list(found["states"], "states", source)), chains)


def _scenario(parts: Any, source: str) -> Scenario:
    found = _only(parts, ("worlds",), source, ("name",))
    worlds = {}
    for each in _list(found["worlds"], "worlds", source):
        world = _only(each, ("entries", "probability"), source)
        worlds[tuple(_list(world["entries"], "entries", source))] = world["probability"]
    return Scenario(worlds, str(found.get("name", "scenario")))


def _only(parts: Any, needed: Sequence[str], source: str, besides: Sequence[str] = ()) -> Json:
    if not isinstance(parts, Mapping) or not set(needed) <= set(parts) <= {*needed, *besides}:
        got = sorted(parts) if isinstance(parts, Mapping) else parts
        raise ParameterError(f"{source} must say {', '.join(needed)}. Got {got!r}.")
    return dict(parts)


def _list(value: Any, name: str, source: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ParameterError(f"{name!r} of {source} must be a list that is not empty. Got {value!r}.")
    return value


def _texts(value: Any, name: str, source: str) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(value, name, source))
