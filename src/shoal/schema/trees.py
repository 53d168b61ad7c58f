"""Hierarchies of a column's levels: nested tuples, whose sets may have names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from shoal.errors import SchemaError

HIGHEST = 100
"""Sets that may lie above a level, one in the other."""


class NamedSet(tuple[Any, ...]):
    """A set of a hierarchy, with the name under which it is published.

    Examples
    --------
    >>> from shoal.schema.trees import NamedSet
    >>> health = NamedSet("health", ("nurse", "doctor"))
    >>> health.name, list(health)
    ('health', ['nurse', 'doctor'])
    """

    name: str

    def __new__(cls, name: str, members: tuple[Any, ...]) -> Self:
        """Members under a name."""
        made = super().__new__(cls, members)
        made.name = name
        return made

    def __getnewargs__(self) -> tuple[str, tuple[Any, ...]]:
        return self.name, tuple(self)

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) and self.name == getattr(other, "name", None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, tuple(self)))


def leaves_of(tree: Any) -> list[Any]:
    """The levels in nested tuples or lists, from left to right."""
    return [leaf for each in tree for leaf in leaves_of(each)] if isinstance(tree, tuple | list) else [tree]


def set_label(members: Any) -> str:
    """What a set of a hierarchy is published as: its name, else its levels joined by "|"."""
    return members.name if isinstance(members, NamedSet) else "|".join(map(str, leaves_of(members)))


def tree_of(owner: str, parents: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Named sets from the parent of each level and of each set; whoever is nobody's parent is a level.

    Parameters
    ----------
    owner : str
        Whose hierarchy it is, for messages.

    Examples
    --------
    >>> from shoal.schema.trees import tree_of
    >>> tree = tree_of("the hierarchy", {"Bern": "CH", "Basel": "CH", "Ulm": "DE"})
    >>> [(each.name, *each) for each in tree]
    [('CH', 'Bern', 'Basel'), ('DE', 'Ulm')]
    """
    _check_heights(owner, parents)
    below: dict[str, list[Any]] = {}
    for child, parent in parents.items():
        below.setdefault(str(parent), []).append(child)
    children = {str(child) for child in parents}

    def members(child: Any) -> Any:
        inside = below.get(str(child))
        return child if inside is None else NamedSet(str(child), tuple(map(members, inside)))

    return tuple(members(top) for top in below if top not in children)


def parents_of(tree: tuple[Any, ...]) -> dict[str, str] | None:
    """The parent of each level and set, where all sets have names; else None."""
    found: dict[str, str] = {}
    for each in tree:
        if not isinstance(each, NamedSet):
            return None
        for child in each:
            found[child.name if isinstance(child, NamedSet) else str(child)] = each.name
            if isinstance(child, tuple):
                inside = parents_of((child,))
                if inside is None:
                    return None
                found |= inside
    return found


def _check_heights(owner: str, parents: Mapping[Any, Any]) -> None:
    above = {str(child): str(parent) for child, parent in parents.items()}
    for start in above:
        here, passed = start, 0
        while here in above and passed <= HIGHEST:
            here, passed = above[here], passed + 1
        if passed > HIGHEST:
            raise SchemaError(
                f"{owner} must have no cycle, and at most {HIGHEST} sets above a level. Got more above {start!r}."
            )
