"""Markov chains as scenarios of a sequence, and their quilts, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from shoal.dp.pufferfish._quilt import Quilt, log_above
from shoal.dp.pufferfish._scenario import Scenario, exact
from shoal.errors import ParameterError

Matrix = list[list[Fraction]]


class MarkovChain:
    """A scenario of a sequence: each entry depends on the one before it.

    Parameters
    ----------
    start : sequence of numbers
        Distribution of the first entry over the states 0, 1, ...
    steps : sequence of sequences of numbers
        Row s: distribution of the next entry after state s.
    length : int
        Entries of the sequence.
    name : str, default "chain"

    Examples
    --------
    >>> from shoal.dp.pufferfish import MarkovChain
    >>> chain = MarkovChain(["1/2", "1/2"], [["9/10", "1/10"], ["1/10", "9/10"]], length=3)
    >>> chain.scenario().worlds[(0, 0, 1)]
    Fraction(9, 200)
    """

    def __init__(
        self, start: Sequence[Any], steps: Sequence[Sequence[Any]], length: int, name: str = "chain"
    ) -> None:
        what = f"A probability of {name!r}"
        self.start = [exact(each, what) for each in start]
        self.steps = [[exact(each, what) for each in row] for row in steps]
        self.length, self.name = length, name
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise ParameterError(f"'length' of {name!r} must be an int of at least 1. Got {length!r}.")
        if len(self.steps) != len(self.start) or any(len(row) != len(self.start) for row in self.steps):
            raise ParameterError(
                f"'steps' of {name!r} must be {len(self.start)} x {len(self.start)} numbers."
            )
        for row in (self.start, *self.steps):
            if any(each < 0 for each in row) or sum(row) != 1:
                raise ParameterError(
                    f"The probabilities of {name!r} must be at least 0 and add up to 1. Got {sum(row)}."
                )

    def scenario(self) -> Scenario:
        """All sequences with their probabilities; for short chains."""
        worlds = {}
        for world in product(range(len(self.start)), repeat=self.length):
            mass = self.start[world[0]]
            for before, after in pairwise(world):
                mass *= self.steps[before][after]
            if mass:
                worlds[world] = mass
        return Scenario(worlds, self.name)


def chain_quilts(chains: Sequence[MarkovChain], width: int = 24) -> list[list[Quilt]]:
    """Quilts of one or two entries at most `width` away from each entry of the sequence.

    Parameters
    ----------
    chains : sequence of MarkovChain
        All of one length.
    width : int, default 24
    """
    length = chains[0].length
    if any(each.length != length for each in chains):
        raise ParameterError("All chains must have one length.")
    tables = [_Influences(each, min(width, length - 1)) for each in chains]
    found = []
    for at in range(length):
        quilts = [Quilt((), length, Fraction(0))]
        lefts = [None, *range(1, min(width, at) + 1)]
        rights = [None, *range(1, min(width, length - 1 - at) + 1)]
        for left, right in product(lefts, rights):
            if left is None and right is None:
                continue
            quilt = tuple([] if left is None else [at - left]) + tuple([] if right is None else [at + right])
            near = (at if left is None else left - 1) + (length - 1 - at if right is None else right - 1) + 1
            worst = max((each.ratio(at, left, right) for each in tables), default=Fraction(1))
            quilts.append(Quilt(quilt, near, worst if worst == math.inf else log_above(Fraction(worst))))
        found.append(quilts)
    return found


class _Influences:
    """Largest likelihood ratios of entries near a place, between two states there."""

    def __init__(self, chain: MarkovChain, width: int) -> None:
        self._powers: list[Matrix] = [[]]
        for _ in range(width):
            last = self._powers[-1]
            self._powers.append(_times(last, chain.steps) if last else chain.steps)
        self._marginals = [chain.start]
        for _ in range(chain.length - 1):
            self._marginals.append(_times([self._marginals[-1]], chain.steps)[0])
        self._kept: dict[Any, Any] = {}

    def ratio(self, at: int, left: int | None, right: int | None) -> Fraction | float:
        """The largest ratio of P(quilt | state) to P(quilt | other state), over states that can be."""
        possible = [state for state, mass in enumerate(self._marginals[at]) if mass]
        worst: Fraction | float = Fraction(1)
        for mine, theirs in product(possible, repeat=2):
            if mine != theirs:
                worst = max(worst, self._left(at, left, mine, theirs) * self._right(right, mine, theirs))
        return worst

    def _right(self, right: int | None, mine: int, theirs: int) -> Fraction | float:
        if right is None:
            return Fraction(1)
        if (right, mine, theirs) not in self._kept:
            power = self._powers[right]
            self._kept[right, mine, theirs] = _largest(power[mine], power[theirs])
        return self._kept[right, mine, theirs]

    def _left(self, at: int, left: int | None, mine: int, theirs: int) -> Fraction | float:
        if left is None:
            return Fraction(1)
        before, here = self._marginals[at - left], self._marginals[at]
        power = self._powers[left]
        first = [mass * power[state][mine] / here[mine] for state, mass in enumerate(before)]
        second = [mass * power[state][theirs] / here[theirs] for state, mass in enumerate(before)]
        return _largest(first, second)


def _largest(first: Sequence[Fraction], second: Sequence[Fraction]) -> Fraction | float:
    if any(mine and not theirs for mine, theirs in zip(first, second, strict=True)):
        return math.inf
    return max(mine / theirs for mine, theirs in zip(first, second, strict=True) if theirs)


def _times(a: Matrix, b: Matrix) -> Matrix:
    return [
        [
            sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
            for column in zip(*b, strict=True)
        ]
        for row in a
    ]
