"""The distance between values of each sensitive column, as the schema declares it."""

from __future__ import annotations

from shoal.publish.stages.roles import Roles
from shoal.typing import Keywords


def distances_of(roles: Roles) -> tuple[dict[str, str], Keywords]:
    """For each sensitive column the kind of distance, and the levels or hierarchy it goes by."""
    facts = {name: roles.schema.columns[name] for name in roles.sensitive}
    # A recoded column holds other values than its hierarchy.
    distances = {name: "hierarchical" for name, each in facts.items() if each.hierarchy and not each.recode}
    levels = {
        name: each.hierarchy if name in distances else each.levels
        for name, each in facts.items()
        if name in distances or (each.kind == "ordered" and each.levels and not each.recode)
    }
    return distances, levels
