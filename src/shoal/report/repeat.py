"""The settings of a run, for reading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, type(None))
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
    "left": "columns left as they are",
    "identifiers": "identifiers",
    "hidden": "what becomes of identifiers",
    "integers": "integers",
    "on_missing": "missing cells",
    "small_strata": "small strata",
    "l": "l demanded",
    "t": "t demanded",
    "max_proposals": "proposals made",
    "search_plan": "plan of the search",
    "order": "order of the rows",
    "parts": "parts of the table",
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


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {each}" for key, each in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(each) for each in value) or "none"
    if value is None:
        return "none"
    return str(value) if isinstance(value, (str, np.generic, *_PLAIN)) else "given by the caller"
