"""How to repeat a run: its settings, and the Python that says the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, type(None))
_DEFAULTS = {"missing": None, "small_strata": "merge", "integers": "float"}
# Settings that have a place of their own in the report.
_APART = ("parameters", "command", "source")
_NAMES = {
    "method": "method",
    "k": "k",
    "columns": "columns",
    "strata": "strata",
    "weights": "weights",
    "households": "households",
    "sensitive": "sensitive columns",
    "leave": "columns left as they are",
    "identifiers": "identifiers",
    "integers": "integers",
    "missing": "missing cells",
    "small_strata": "small strata",
    "l": "l",
    "t": "t",
    "max_proposals": "proposals made",
}


def settings_rows(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The settings as pairs of name and value, the method's own parameters among them."""
    rows = []
    others = {key: key.replace("_", " ") for key in settings if key not in {*_NAMES, *_APART}}
    for key, name in (_NAMES | others).items():
        if key in settings:
            rows.append((name, _shown(settings[key])))
        if key == "method":
            own = settings.get("parameters", {})
            rows += [(f"{name} · {each}", _shown(own[each])) for each in own if own[each] is not None]
    return tuple(rows)


def command_of(settings: Mapping[str, Any]) -> str:
    """The command line of the run, or nothing where it was not run from one."""
    command = settings.get("command", "")
    return command if isinstance(command, str) else shlex.join(str(word) for word in command)


def python_of(settings: Mapping[str, Any], demands: Mapping[str, Any], *, with_schema: bool) -> str:
    """Python that repeats the run.

    Parameters
    ----------
    settings : mapping
    demands : mapping
        The demands `l` and `t` where they were made.
    with_schema : bool
        Take the roles from a schema file; otherwise name the columns.

    Examples
    --------
    >>> from shoal.report.repeat import python_of
    >>> print(python_of({"method": "mdav", "k": 3, "columns": ["age"]}, {}, with_schema=False))
    import shoal
    from shoal.io import read_table
    <BLANKLINE>
    frame = read_table("table.csv")
    protection = shoal.protect(
        frame,
        k=3,
        method="mdav",
        columns=["age"],
    )
    """
    arguments = {"k": _code(settings.get("k", 5)), "method": _method_code(settings)}
    if with_schema:
        arguments["schema"] = '"schema.toml"'
    else:
        for name in ("columns", "strata", "weights", "households"):
            if settings.get(name):
                arguments[name] = _code(settings[name])
    for name in ("l", "t"):
        value = settings.get(name, demands.get(name))
        if value is not None:
            arguments[name] = _code(value)
    for name, default in _DEFAULTS.items():
        if settings.get(name, default) != default:
            arguments[name] = _code(settings[name])
    if "hash" in settings.get("identifiers", {}).values():
        arguments["identifiers"] = '"hash"'
    source = settings.get("source", "table.csv") if with_schema else "table.csv"
    lines = [
        "import shoal",
        "from shoal.io import read_table",
        "",
        f"frame = read_table({_code(str(source))})",
        "protection = shoal.protect(",
        "    frame,",
        *(f"    {name}={code}," for name, code in arguments.items()),
        ")",
    ]
    return "\n".join(lines)


def _method_code(settings: Mapping[str, Any]) -> str:
    name, parameters = settings.get("method", ""), settings.get("parameters", {})
    if not parameters:
        return _code(name)
    # A search that the clock ended is repeated by the number of proposals it made.
    if "max_proposals" in parameters and settings.get("max_proposals") is not None:
        parameters = {**parameters, "max_proposals": settings["max_proposals"]}
    told = {"k": settings.get("k", 5)} | {
        key: value for key, value in parameters.items() if value is not None
    }
    inner = ", ".join(f"{key}={_code(value)}" for key, value in told.items())
    return f"shoal.methods()[{_code(name)}]({inner})"


def _code(value: Any) -> str:
    """A value as Python code, texts in double quotes; what is no plain value is left to the reader."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_code(each) for each in value) + "]"
    return repr(value) if isinstance(value, _PLAIN) else "..."


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(each) for each in value) or "none"
    if value is None:
        return "none"
    return str(value) if isinstance(value, (str, np.generic, *_PLAIN)) else "given by the caller"
