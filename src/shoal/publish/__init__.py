"""The first job: turn a table of individuals into a table in which everyone is in a group.

`pipeline.protect` shows it from top to bottom. The stages are in `stages`, and `executors` knows where rows are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.lazy import loaded_when_used

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

# Loaded when first used: the command makes its options from the request, and does not need the methods for that.
__getattr__ = loaded_when_used(__name__, _LAZY)
