"""The distance between values of each sensitive column, as the schema declares it."""

from __future__ import annotations

from typing import Any

from shoal.publish.stages.roles import Roles


def distances_of(roles: Roles) -> tuple[dict[str, str], dict[str, tuple[Any, ...]]]:
    """For each sensitive column the kind of distance, and the levels or hierarchy it goes by."""
    facts = {name: roles.schema.columns[name] for name in roles.sensitive}
    # A recoded column holds other values than its hierarchy.
    distances = {name: "hierarchical" for name, each in facts.items() if each.hierarchy and not each.recode}
    ordered = {
        name: each.levels
        for name, each in facts.items()
        if each.kind == "ordered" and each.levels and not each.recode
    }
    trees = {name: each.hierarchy for name, each in facts.items() if each.hierarchy and name in distances}
    return distances, ordered | trees
