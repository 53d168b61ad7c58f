"""The first job: a table of individuals becomes a table in which everyone hides in a group.

`spine.py` tells the story from top to bottom; each stage is a file of its own.
"""

from __future__ import annotations

from shoal.protect.result import Protection
from shoal.protect.spine import protect
from shoal.rooms import callable_as

__all__ = ["Protection", "protect"]

callable_as(__name__, protect)
