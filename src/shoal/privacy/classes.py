"""Equivalence classes: records that agree in every quasi-identifier, found in one factorised pass.

The columns become codes, the codes one mixed-radix number per record, and the numbers class labels by
direct addressing or by open hashing on the number itself, so that no two classes can fall together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.engine.compile import kernel
from shoal.engine.frame import Frame
from shoal.errors import ParameterError
from shoal.privacy._verdict import WorstClass
from shoal.privacy.cells import CodedCells, cells_of, cells_of_both, names_of, opened

# A table of this many slots per record is addressed directly instead of hashed.
_DIRECT = 4
_WIDEST = 2**62


@dataclass(frozen=True)
class Classes:
    """The equivalence classes of a table.

    Attributes
    ----------
    names : tuple of str
    labels : array of int64, (n_records,)
        The class of each record, 0..n_classes - 1.
    sizes : array of int64, (n_classes,)
    first : array of int64, (n_classes,)
        The first record of each class.
    columns : list of CodedCells
    """

    names: tuple[str, ...]
    labels: np.ndarray
    sizes: np.ndarray
    first: np.ndarray
    columns: list[CodedCells]

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.labels.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.sizes.shape[0])

    def missing(self) -> dict[str, int]:
        """Missing cells per quasi-identifier, where there are any."""
        return {each.name: each.n_missing for each in self.columns if each.n_missing}

    def missing_records(self) -> int:
        """Records with at least one missing quasi-identifier."""
        masks = [each.missing for each in self.columns if each.missing is not None]
        return int(np.logical_or.reduce(masks).sum()) if masks else 0

    def worst(self, figures: np.ndarray, *, lowest: bool, count: int = 5) -> tuple[WorstClass, ...]:
        """The classes of lowest or highest figure, worst first; ties by the first record."""
        count = min(count, figures.shape[0])
        key = figures if lowest else -figures
        chosen = np.flatnonzero(key == key.min())
        if chosen.size > count:  # all alike: no need to sort them, which is slow where most figures are equal
            chosen = chosen[np.argpartition(self.first[chosen], count - 1)[:count]]
        elif chosen.size < count:
            chosen = np.flatnonzero(key <= np.partition(key, count - 1)[count - 1])
        chosen = chosen[np.lexsort((self.first[chosen], key[chosen]))][:count]
        return tuple(self.shown(int(c), figures[c].item()) for c in chosen)

    def shown(self, c: int, figure: float) -> WorstClass:
        """One class with its figure."""
        row = int(self.first[c])
        return WorstClass({each.name: each.show(row) for each in self.columns}, int(self.sizes[c]), figure)


def find_classes(data: Any, quasi: Sequence[str] | str) -> Classes:
    """Find the equivalence classes of a table."""
    names = names_of(quasi, "quasi")
    return classes_of(cells_of(opened(data, names), names))


def classes_of(columns: list[CodedCells]) -> Classes:
    """The classes of coded columns."""
    key, span = _key(columns)
    labels, sizes, first = _labels(key, span)
    return Classes(tuple(each.name for each in columns), labels, sizes, first, columns)


def counted_together(inner: Any, outer: Any, names: Sequence[str]) -> tuple[Classes, np.ndarray, np.ndarray]:
    """The classes of two tables together, and how many records of each one they hold."""
    classes = classes_of(cells_of_both(inner, outer, names))
    n = len(inner)
    inside = np.bincount(classes.labels[:n], minlength=classes.n_classes)
    return classes, inside, classes.sizes - inside


def refuse_overlap(quasi: Sequence[str], sensitive: Sequence[str]) -> None:
    """Raise where a column is asked to be both."""
    for name in sensitive:
        if name in quasi:
            raise ParameterError(
                f"A sensitive column may not be a quasi-identifier too. Got {name!r} as both."
            )


def prepared(data: Any, quasi: Sequence[str] | str, sensitive: str) -> tuple[Frame, Classes, CodedCells]:
    """The frame, its classes and its sensitive column, checked."""
    names, others = names_of(quasi, "quasi"), names_of(sensitive, "sensitive")
    refuse_overlap(names, others)
    frame = opened(data, [*names, *others])
    *columns, coded = cells_of(frame, [*names, others[0]])
    return frame, classes_of(columns), coded


def _key(columns: list[CodedCells]) -> tuple[np.ndarray, int]:
    """One number per record that tells its combination of codes apart from every other."""
    key = np.zeros(columns[0].codes.shape[0], np.int64)
    span = 1
    for each in columns:
        if span > _WIDEST // each.span:
            key, sizes, _ = _labels(key, span)
            span = int(sizes.shape[0])
        codes, base = each.codes, each.base
        if base > _WIDEST:  # beyond 64 bits with a sign; what is left after the base is not
            codes, base = (codes - codes.dtype.type(base)).astype(np.int64), 0
        _append(key, codes, base, each.span)
        span *= each.span
    return key, span


def _labels(key: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if span <= _DIRECT * key.shape[0] + 1024:
        return _address(key, span)
    return _hash(key)


# Kernels: int64 keys in; class labels, sizes and first records out. A slot holds class + 1, so 0 is free.


@kernel()
def _append(key, codes, base, span):
    for i in range(key.shape[0]):
        key[i] = key[i] * span + (codes[i] - base)


@kernel()
def _address(key, span):
    n = key.shape[0]
    slots = np.zeros(span, np.int32)
    labels = np.empty(n, np.int64)
    sizes = np.zeros(min(n, span), np.int64)
    first = np.empty(min(n, span), np.int64)
    c = 0
    for i in range(n):
        at = slots[key[i]]
        if at == 0:
            first[c] = i
            c += 1
            at = c
            slots[key[i]] = at
        labels[i] = at - 1
        sizes[at - 1] += 1
    return labels, sizes[:c].copy(), first[:c].copy()


@kernel()
def _hash(key):
    """Open hashing, part by part: records are first dealt out by their hash, so that a part stays in cache."""
    n = key.shape[0]
    golden = np.uint64(0x9E3779B97F4A7C15)  # Fibonacci hashing: high bits of key times 2^64 / golden ratio
    part_bits = 1
    while n >> part_bits > 4096 and part_bits < 12:
        part_bits += 1
    shift = np.uint64(64 - part_bits)
    ends = np.zeros((1 << part_bits) + 1, np.int64)
    for i in range(n):
        ends[np.int64((np.uint64(key[i]) * golden) >> shift) + 1] += 1
    largest = 0
    for here in range(1 << part_bits):
        largest = max(largest, ends[here + 1])
        ends[here + 1] += ends[here]
    at = ends.copy()
    records = np.empty(n, np.int64)
    dealt = np.empty(n, np.int64)
    for i in range(n):
        part = np.int64((np.uint64(key[i]) * golden) >> shift)
        records[at[part]] = i
        dealt[at[part]] = key[i]
        at[part] += 1
    bits = 4
    while (1 << bits) < 2 * largest:
        bits += 1
    mask = (1 << bits) - 1
    slots = np.zeros(1 << bits, np.int32)
    labels = np.empty(n, np.int64)
    sizes = np.zeros(n, np.int64)
    first = np.empty(n, np.int64)
    keys = np.empty(n, np.int64)
    c = 0
    for here in range(1 << part_bits):
        for place in range(mask + 1):
            slots[place] = 0
        for x in range(ends[here], ends[here + 1]):
            mixed = (np.uint64(dealt[x]) * golden) << np.uint64(part_bits)
            slot = np.int64(mixed >> np.uint64(64 - bits))
            while True:
                found = slots[slot]
                if found == 0:
                    first[c] = records[x]
                    keys[c] = dealt[x]
                    c += 1
                    found = c
                    slots[slot] = found
                    break
                if keys[found - 1] == dealt[x]:
                    break
                slot = (slot + 1) & mask
            labels[records[x]] = found - 1
            sizes[found - 1] += 1
    return labels, sizes[:c].copy(), first[:c].copy()
