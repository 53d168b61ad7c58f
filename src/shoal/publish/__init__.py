"""The first job: a table of individuals becomes a table in which everyone is in a group.

`pipeline.protect` tells it from top to bottom; the stages are in `stages`, and `executors` knows where rows live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.publish.calls import protect, protect_file
    from shoal.publish.request import ProtectionRequest
    from shoal.publish.result import Protection

__all__ = ["Protection", "ProtectionRequest", "protect", "protect_file"]

_LAZY = {
    "Protection": "shoal.publish.result",
    "ProtectionRequest": "shoal.publish.request",
    "protect": "shoal.publish.calls",
    "protect_file": "shoal.publish.calls",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: the command makes its options from the request, and need not wait for the methods.
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
