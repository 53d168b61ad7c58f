"""Public names that are loaded when first used, so that a command or a server waits only for what it needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loaded_when_used(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names live in modules that are imported when first asked for.

    Parameters
    ----------
    package : str
        Its name. No module of it may have one of the names, since importing that would replace the object.
    homes : mapping of str to str
        The module of each name; a name that is a package or module of its own has an empty home.

    Examples
    --------
    >>> from shoal.lazy import loaded_when_used
    >>> load = loaded_when_used("shoal", {"Schema": "shoal.schema"})
    >>> load("Schema").__name__
    'Schema'
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not homes[name]:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next time nobody has to look
        return value

    return load
