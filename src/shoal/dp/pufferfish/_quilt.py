"""The Markov-quilt mechanism: hide a person behind those whose own entries say little about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from shoal.dp.pufferfish._scenario import Scenario, holds
from shoal.errors import ParameterError

LARGEST_NETWORK = 12


@dataclass(frozen=True)
class Quilt:
    """Whom the noise must hide beside a person, and how much the quilt itself tells about them.

    Parameters
    ----------
    quilt : tuple of int
        People whose entries separate the person's surroundings from all the rest; empty for the trivial quilt.
    near : int
        How many people lie within, the person included and the quilt not.
    influence : Fraction or infinity
        At least the largest log-ratio of the quilt's entries between two entries of the person.
    """

    quilt: tuple[int, ...]
    near: int
    influence: Fraction | float

    def score(self, epsilon: Fraction) -> Fraction | None:
        """Noise per unit of the query's Lipschitz constant; None where the quilt tells too much."""
        if self.influence >= epsilon:
            return None
        return Fraction(self.near) / (epsilon - Fraction(self.influence))


def log_above(ratio: Fraction) -> Fraction:
    """A fraction at or above the natural logarithm of a ratio of at least one."""
    if ratio == 1:
        return Fraction(0)
    shift = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length() - 60)
    near = math.log(float(ratio / (1 << shift))) + shift * math.log(2)
    return Fraction(math.nextafter(near * (1 + 1e-14) + 1e-15, math.inf))


def noise_per_lipschitz(
    quilts: Iterable[Sequence[Quilt]], epsilon: Fraction
) -> tuple[Fraction, tuple[Quilt, ...]]:
    """The largest over people of the least score of their quilts, and the quilts that give it.

    Parameters
    ----------
    quilts : iterable of sequences of Quilt
        Per person all candidates, the trivial one among them.
    epsilon : Fraction
    """
    chosen, worst = [], Fraction(0)
    for candidates in quilts:
        scored = [
            (score, each.near, each) for each in candidates if (score := each.score(epsilon)) is not None
        ]
        score, _, best = min(scored, key=lambda entry: entry[:2])
        worst = max(worst, score)
        chosen.append(best)
    return worst, tuple(chosen)


def network_quilts(
    scenarios: Sequence[Scenario], edges: Iterable[tuple[int, int]], size: int
) -> list[list[Quilt]]:
    """All quilts of a small network, each independence checked on every scenario.

    Parameters
    ----------
    scenarios : sequence of Scenario
        Over tuples of `size` entries.
    edges : iterable of (int, int)
        Who is tied to whom; a quilt is a set of people whose removal cuts the network.
    size : int
    """
    if size > LARGEST_NETWORK:
        raise ParameterError(f"A network of at most {LARGEST_NETWORK} people can be searched. Got {size}.")
    ties = _ties(edges, size)
    found = []
    for person in range(size):
        others = [each for each in range(size) if each != person]
        quilts = [Quilt((), size, Fraction(0))]
        for count in range(1, size):
            for quilt in combinations(others, count):
                near = _reached(person, set(quilt), ties)
                if not _separates(scenarios, near, quilt, size):
                    continue
                quilts.append(Quilt(quilt, len(near), _influence(scenarios, person, quilt)))
        found.append(quilts)
    return found


def _ties(edges: Iterable[tuple[int, int]], size: int) -> list[set[int]]:
    ties: list[set[int]] = [set() for _ in range(size)]
    for a, b in edges:
        if not (0 <= a < size and 0 <= b < size) or a == b:
            raise ParameterError(f"A tie must join two of the {size} people. Got {(a, b)!r}.")
        ties[a].add(b)
        ties[b].add(a)
    return ties


def _reached(person: int, quilt: set[int], ties: list[set[int]]) -> set[int]:
    near, ahead = {person}, [person]
    while ahead:
        for other in ties[ahead.pop()] - quilt - near:
            near.add(other)
            ahead.append(other)
    return near


def _separates(scenarios: Sequence[Scenario], near: set[int], quilt: tuple[int, ...], size: int) -> bool:
    """Whether near and far are independent given the quilt, exactly, under every scenario."""
    inside, far = sorted(near), sorted(set(range(size)) - near - set(quilt))
    if not far:
        return True
    return all(
        mass * joint_q[q] == joint_nq.get((n, q), 0) * joint_rq.get((r, q), 0)
        for joint_nq, joint_rq, joint_q, full in (_joints(each, inside, far, quilt) for each in scenarios)
        for n, r, q, mass in _cases(joint_nq, joint_rq, full)
    )


def _joints(scenario: Scenario, near: list[int], far: list[int], quilt: tuple[int, ...]) -> tuple[Any, ...]:
    parts: tuple[dict[Any, Fraction], ...] = ({}, {}, {}, {})
    for world, mass in scenario.worlds.items():
        n, r, q = (tuple(world[at] for at in places) for places in (near, far, quilt))
        for table, key in zip(parts, ((n, q), (r, q), q, (n, r, q)), strict=True):
            table[key] = table.get(key, Fraction(0)) + mass
    return parts


def _cases(
    joint_nq: dict[Any, Fraction], joint_rq: dict[Any, Fraction], full: dict[Any, Fraction]
) -> Iterator[tuple[Any, Any, Any, Fraction]]:
    by_quilt: dict[Any, list[Any]] = {}
    for r, q in joint_rq:
        by_quilt.setdefault(q, []).append(r)
    for n, q in joint_nq:
        for r in by_quilt[q]:
            yield n, r, q, full.get((n, r, q), Fraction(0))


def _influence(scenarios: Sequence[Scenario], person: int, quilt: tuple[int, ...]) -> Fraction | float:
    worst = Fraction(1)
    for scenario in scenarios:
        entries = {world[person] for world in scenario.support()}
        tables = [
            scenario.given(holds(person, entry), lambda world: tuple(world[at] for at in quilt))
            for entry in entries
        ]
        for mine in tables:
            for theirs in tables:
                for key, mass in mine.items():
                    if not theirs.get(key):
                        return math.inf
                    worst = max(worst, mass / theirs[key])
    return log_above(worst)
