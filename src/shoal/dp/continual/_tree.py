"""Running totals under pure differential privacy: noise on the nodes of a tree over the periods.

A node of level l stands for base^l periods. A period lies in one node of each level, so that a row moves as many nodes as
there are levels. A running total is a signed sum of nodes: a number of periods is written in the base, with digits of
either sign where the base is odd, and each digit adds or takes away that many nodes of its level. Nodes that reach beyond
the present may be used, since what they hold of the future cancels (docs/theory/streams.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

Node = tuple[int, int]  # level, place among the nodes of its level
_BASES = (2, *range(3, 64, 2))


@dataclass(frozen=True)
class PeriodTree:
    """A tree over a number of periods.

    Parameters
    ----------
    periods : int
    base : int
        2, or odd.
    levels : int

    Examples
    --------
    >>> from shoal.dp.continual import PeriodTree
    >>> tree = PeriodTree(13, 3, 3)
    >>> tree.nodes(8)  # 9 - 1
    [(1, (2, 0)), (-1, (0, 8))]
    """

    periods: int
    base: int
    levels: int

    def nodes(self, period: int) -> list[tuple[int, Node]]:
        """The nodes whose signed sum is the total of the first so many periods, highest level first."""
        found: list[tuple[int, Node]] = []
        at = 0  # periods accounted for so far
        for level, digit in reversed(list(enumerate(self._digits(period)))):
            size = self.base**level
            for _ in range(abs(digit)):
                found.append((1, (level, at // size)) if digit > 0 else (-1, (level, at // size - 1)))
                at += size if digit > 0 else -size
        return found

    def total(self, period: int, exact: np.ndarray, noise_of: Callable[[Node], np.ndarray]) -> np.ndarray:
        """The running total after a period: the exact one and the signed noise of its nodes, each node's always the same."""
        return exact + sum(sign * noise_of(node) for sign, node in self.nodes(period))

    def _digits(self, number: int) -> list[int]:
        """Digits in the base, lowest first; of either sign and at most half of an odd base."""
        digits = []
        while number:
            digit = number % self.base
            if self.base > 2 and digit > self.base // 2:
                digit -= self.base
            digits.append(digit)
            number = (number - digit) // self.base
        return digits

    @property
    def used(self) -> int:
        """Nodes of all running totals together."""
        return sum(sum(abs(each) for each in self._digits(period)) for period in range(1, self.periods + 1))


@lru_cache(maxsize=64)
def best_tree(periods: int) -> PeriodTree:
    """The tree with the least mean variance of the running totals: levels^2 times the nodes used.

    References
    ----------
    .. [1] C. Dwork, M. Naor, T. Pitassi, G. Rothblum, "Differential privacy under continual observation", STOC 2010.
    .. [2] T.-H. H. Chan, E. Shi, D. Song, "Private and continual release of statistics", ICALP 2010.
    .. [3] J. D. Andersson, R. Pagh, S. Torkamani, "Improved counting under continual observation with pure differential
       privacy", 2024, arXiv:2408.07021.

    Examples
    --------
    >>> from shoal.dp.continual import best_tree
    >>> best_tree(1), best_tree(365)
    (PeriodTree(periods=1, base=2, levels=1), PeriodTree(periods=365, base=29, levels=2))
    """
    trees = []
    for base in _BASES:
        levels = 1
        while (base**levels - 1) // (2 if base > 2 else 1) < periods:
            levels += 1
        trees.append(PeriodTree(periods, base, levels))
    return min(trees, key=lambda tree: (tree.levels**2 * tree.used, tree.base))
