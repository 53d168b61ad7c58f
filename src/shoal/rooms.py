"""Lets a room with one main function be called by the room's own name: `shoal.protect(frame)`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def callable_as(room: str, function: Callable[..., Any]) -> None:
    """Make calling a module call one of its functions.

    A module and its function share the name, and whoever imports the module last would shadow the function.
    """

    class CallableRoom(ModuleType):
        """A module that passes calls on."""

        def __call__(self, *args: Any, **options: Any) -> Any:
            return function(*args, **options)

    module = sys.modules[room]
    module.__class__ = CallableRoom
    vars(module)["__signature__"] = inspect.signature(function)
