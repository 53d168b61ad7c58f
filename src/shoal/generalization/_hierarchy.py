"""What a value may be coarsened to: a tree of ancestors for each column, level by level."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from shoal.errors import InputError, SchemaError
from shoal.io import named_mark
from shoal.schema.trees import set_label, tree_of

ROOT = "*"


@dataclass(frozen=True)
class Hierarchy:
    """The ancestors of each value of a column, from the value itself up to one root.

    Make one with `from_rows`, `from_csv` (ARX's files), `nested`, `from_parents` or `flat`, or let
    `from_breaks`, `from_dates` and `intervals` cut numbers and dates.

    Attributes
    ----------
    name : str
        Of the column, for messages.
    leaves : tuple
        The values, texts unless they were numbers or dates.
    up : array of int64, (n_levels, n_leaves)
        The node of each leaf at each level; leaves are nodes 0 to n_leaves - 1, the root comes last.
    labels : tuple of str
        What each node is called.
    covered : array of float64
        How many values of the domain each node stands for.
    domain : float
        How many values the whole domain has.

    Examples
    --------
    >>> from shoal.generalization import Hierarchy
    >>> regions = Hierarchy.nested("region", [["north", "east"], ["south", "west"]])
    >>> regions.leaves, regions.labels[-1], regions.up.shape
    (('north', 'east', 'south', 'west'), '*', (3, 4))
    """

    name: str
    leaves: tuple[Any, ...]
    up: np.ndarray
    labels: tuple[str, ...]
    covered: np.ndarray
    domain: float

    @property
    def n_levels(self) -> int:
        """Levels, that of the values included."""
        return self.up.shape[0]

    @property
    def n_nodes(self) -> int:
        """Values and their ancestors, each counted once."""
        return len(self.labels)

    @property
    def level_of(self) -> np.ndarray:
        """The lowest level at which each node stands."""
        lowest = np.full(self.n_nodes, self.n_levels, np.int64)
        for level in range(self.n_levels - 1, -1, -1):
            lowest[self.up[level]] = level
        return lowest

    def with_missing(self) -> Self:
        """With a missing cell as a value of its own, under the root."""
        count, last = len(self.leaves), self.n_nodes
        up = np.where(self.up >= count, self.up + 1, self.up)
        alone = np.full((self.n_levels, 1), count, np.int64)
        labels = (*self.labels[:count], "", *self.labels[count:])
        covered = np.insert(self.covered, count, 1.0)
        if self.n_levels == 1 or np.unique(self.up[-1]).size > 1 or self.up[-1, 0] < count:
            up = np.concatenate([up, np.full((1, count), last + 1)])
            alone = np.concatenate([alone, alone[:1]])
            labels, covered = (*labels, ROOT), np.append(covered, self.domain)
        alone[-1] = up[-1, 0]
        covered[up[-1, 0]] = self.domain + 1.0
        return replace(
            self, leaves=(*self.leaves, None), up=np.concatenate([up, alone], axis=1), labels=labels,
            covered=covered, domain=self.domain + 1.0,
        )  # fmt: skip

    def restricted(self, leaves: np.ndarray, level: int = 0) -> Self:
        """Only some of the leaves, or only the nodes above them from a level on; the domain stays what it is."""
        bottom = np.unique(self.up[level][leaves])
        above = np.stack([self._above(bottom, each) for each in range(level, self.n_levels)])
        kept = np.concatenate([bottom, np.setdiff1d(np.unique(above), bottom)])
        number = np.full(self.n_nodes, -1, np.int64)
        number[kept] = np.arange(kept.size)
        values = tuple(self.leaves[node] if node < len(self.leaves) else self.labels[node] for node in bottom)
        labels = tuple(self.labels[node] for node in kept)
        return replace(self, leaves=values, up=number[above], labels=labels, covered=self.covered[kept])

    def _above(self, nodes: np.ndarray, level: int) -> np.ndarray:
        """The nodes above some nodes at a level, or they themselves where they stand no lower."""
        leaf = np.zeros(self.n_nodes, np.int64)
        for each in range(self.n_levels - 1, -1, -1):
            leaf[self.up[each]] = np.arange(self.up.shape[1])
        return np.where(self.level_of[nodes] <= level, self.up[level][leaf[nodes]], nodes)

    def common_ancestors(self) -> np.ndarray:
        """The lowest node above each pair of nodes."""
        size = self.n_nodes
        leaf = np.zeros(size, np.int64)
        for level in range(self.n_levels - 1, -1, -1):
            leaf[self.up[level]] = np.arange(self.up.shape[1])
        lowest = self.level_of
        found = np.full((size, size), -1, np.int32)
        for level in range(self.n_levels):
            here = np.where(lowest <= level, self.up[level][leaf], np.arange(size))
            same = (here[:, None] == here[None, :]) & (found < 0)
            found = np.where(same, here[:, None], found)
        return found.astype(np.int32)

    @classmethod
    def from_rows(cls, name: str, rows: Iterable[Sequence[Any]]) -> Self:
        """From rows of a value and its ancestors, one for each value, as ARX keeps them.

        Examples
        --------
        >>> from shoal.generalization import Hierarchy
        >>> tree = Hierarchy.from_rows("job", [("nurse", "health"), ("doctor", "health"), ("cook", "food")])
        >>> tree.labels  # food is the cook alone
        ('nurse', 'doctor', 'cook', 'health', '*')
        """
        table = [tuple(row) for row in rows]
        if not table:
            raise SchemaError(f"The hierarchy of column {name!r} must hold values. Got none.")
        depth = len(table[0])
        for at, row in enumerate(table, 1):
            if len(row) != depth:
                raise SchemaError(
                    f"The rows of the hierarchy of column {name!r} must have the same number of levels. "
                    f"Row 1 has {depth}, row {at} has {len(row)}."
                )
            if any(cell is None or (isinstance(cell, str) and not cell.strip()) for cell in row[1:]):
                raise SchemaError(f"The hierarchy of column {name!r} must have no gap. Row {at} has one.")
        leaves = [row[0] for row in table]
        if len({_key(leaf) for leaf in leaves}) != len(leaves):
            twice = next(leaf for at, leaf in enumerate(leaves) if leaf in leaves[:at])
            raise SchemaError(
                f"The hierarchy of column {name!r} must hold each value once. Got {twice!r} twice."
            )
        _refuse_borrowed(name, table)
        return cls.built(name, leaves, [[str(row[level]) for row in table] for level in range(1, depth)])

    @classmethod
    def built(
        cls, name: str, leaves: Sequence[Any], levels: Sequence[Sequence[str]], widths: Any = None
    ) -> Self:
        """From the labels of every leaf at each level above it; equal sets of leaves are one node."""
        count = len(leaves)
        up = [np.arange(count)]
        labels = [str(leaf) for leaf in leaves]
        before = np.arange(count)
        for texts in levels:
            groups: dict[str, int] = {}
            here = np.array([groups.setdefault(text, len(groups)) for text in texts], np.int64)
            pairs = np.unique(np.stack([before, here]), axis=1)
            if np.unique(pairs[0]).size != pairs.shape[1]:
                split = int(pairs[0][np.flatnonzero(np.diff(pairs[0]) == 0)[0]])
                text = labels[int(up[-1][int(np.flatnonzero(before == split)[0])])]
                raise SchemaError(
                    f"Each value of the hierarchy of column {name!r} must have one parent. "
                    f"Got several for {text!r}."
                )
            _add_level(up, labels, before, here, list(groups))
            before = here
        if before.max(initial=0) > 0:
            _add_level(up, labels, before, np.zeros(count, np.int64), [ROOT])
        width = np.ones(count) if widths is None else np.asarray(widths, np.float64)
        covered = np.zeros(len(labels))
        for nodes in up:
            covered[nodes] = np.bincount(nodes, weights=width, minlength=len(labels))[nodes]
        return cls(name, tuple(leaves), np.stack(up), tuple(labels), covered, float(width.sum()))

    @classmethod
    def from_csv(cls, path: str | Path, name: str | None = None) -> Self:
        """From a file of rows, a value and its ancestors, separated by semicolons or commas.

        Rows that a spreadsheet program left empty are passed over. A file named `survey_hierarchy_age.csv`, as ARX has it, or `age.csv` serves column `age`.
        """
        file = Path(path)
        name = column_of(file) if name is None else name
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"The hierarchy {file.name!r} must be a readable UTF-8 file. Got: {error}."
            ) from None
        named, begin = named_mark(text)
        first, *_ = lines = text[begin:].splitlines() or [""]
        separator = named or (";" if first.count(";") >= first.count(",") else ",")
        rows = [row for row in csv.reader(lines, delimiter=separator) if any(row)]
        return cls.from_rows(name, rows)

    @classmethod
    def nested(cls, name: str, tree: Sequence[Any]) -> Self:
        """From values nested in lists; a set is called by its name, else by its members joined by "|".

        Examples
        --------
        >>> from shoal.generalization import Hierarchy
        >>> Hierarchy.nested("city", [["a", "b"], ["c"]]).labels
        ('a', 'b', 'c', 'a|b', '*')
        """
        paths = _paths(tree, ())
        depth = max(len(path) for _, path in paths)
        # Unequal depths are filled below: a value stays itself until its first set.
        rows = [(leaf, *([str(leaf)] * (depth - len(path))), *path) for leaf, path in paths]
        return cls.from_rows(name, rows)

    @classmethod
    def from_parents(cls, name: str, parents: Mapping[Any, Any]) -> Self:
        """From named parents, child to parent; whoever is nobody's parent is a value.

        Examples
        --------
        >>> from shoal.generalization import Hierarchy
        >>> tree = Hierarchy.from_parents("place", {"Bern": "CH", "Basel": "CH", "Ulm": "DE"})
        >>> tree.labels  # DE is Ulm alone
        ('Bern', 'Basel', 'Ulm', 'CH', '*')
        """
        return cls.nested(name, tree_of(f"The hierarchy of column {name!r}", parents))

    @classmethod
    def flat(cls, name: str, values: Sequence[Any]) -> Self:
        """The value itself, or nothing at all."""
        return cls.built(name, list(values), [])


def column_of(file: Path) -> str:
    """The column that a file of a hierarchy serves, by its name."""
    stem = file.stem
    return stem.split("_hierarchy_", 1)[1] if "_hierarchy_" in stem else stem


def read_hierarchies(folder: str | Path) -> dict[str, Hierarchy]:
    """Every hierarchy of a folder, by column: ARX's `data_hierarchy_age.csv` or `age.csv`.

    Parameters
    ----------
    folder : path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from shoal.generalization import read_hierarchies
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "town.csv").write_text("Bonn;West;*", encoding="utf-8")
    >>> sorted(read_hierarchies(folder))
    ['town']
    """
    place = Path(folder)
    files = sorted(place.glob("*.csv")) if place.is_dir() else []
    hierarchies = [file for file in files if "_hierarchy_" in file.stem] or files
    if not hierarchies:
        raise InputError(f"The folder of hierarchies must hold CSV files. Got none in {str(folder)!r}.")
    return {column_of(file): Hierarchy.from_csv(file) for file in hierarchies}


def _add_level(
    up: list[np.ndarray], labels: list[str], before: np.ndarray, here: np.ndarray, texts: Sequence[str]
) -> None:
    """One level more; a group with the leaves of a node below is that node."""
    last = up[-1]
    nodes = np.empty(here.size, np.int64)
    for group, text in enumerate(texts):
        inside = here == group
        below = np.unique(before[inside])
        if below.size == 1:
            nodes[inside] = last[np.flatnonzero(inside)[0]]
        else:
            nodes[inside] = len(labels)
            labels.append(text)
    up.append(nodes)


def _paths(node: Any, above: tuple[str, ...]) -> list[tuple[Any, tuple[str, ...]]]:
    """Each leaf with the names of the sets it lies in, innermost first; the outermost list is the root."""
    found: list[tuple[Any, tuple[str, ...]]] = []
    for child in node:
        if not isinstance(child, (list, tuple)):
            found.append((child, above))
        else:
            found += _paths(child, (set_label(child), *above))
    return found


def _key(leaf: Any) -> str:
    return str(leaf)


def _refuse_borrowed(name: str, table: Sequence[Sequence[Any]]) -> None:
    """Raise where a level calls other values by the name of a value: the released cell would be false."""
    leaves = {str(row[0]) for row in table}
    for row in table:
        for label in map(str, row[1:]):
            if label in leaves and label != str(row[0]):
                raise SchemaError(
                    f"A label of the hierarchy of column {name!r} that is also a value must stand for this value alone, or the "
                    f"hierarchy runs in a cycle. Got {label!r} above {str(row[0])!r}."
                )
