"""Edit rules: what must stay true of every record; checked before and after, and repaired where it does not hold."""

from __future__ import annotations

from shoal.rules._contradiction import refuse_contradiction
from shoal.rules._edits import Edit, Linear, edits_of, refuse_texts, within_bounds
from shoal.rules._repair import KeptRule, Repaired, added, refuse_unkept, repair

__all__ = [
    "Edit",
    "KeptRule",
    "Linear",
    "Repaired",
    "added",
    "edits_of",
    "refuse_contradiction",
    "refuse_texts",
    "refuse_unkept",
    "repair",
    "within_bounds",
]
