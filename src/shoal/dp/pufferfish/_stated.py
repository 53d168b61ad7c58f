"""Pufferfish models that somebody declares about a table: groups with scenarios, chains by a time column."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

from shoal.dp.pufferfish._answer import PUFFERFISH_GUARANTEE
from shoal.dp.pufferfish._chain import MarkovChain, chain_quilts
from shoal.dp.pufferfish._contributions import Function, contributions
from shoal.dp.pufferfish._quilt import noise_per_lipschitz
from shoal.dp.pufferfish._scenario import Scenario, holds
from shoal.dp.pufferfish._wasserstein import w_infinity
from shoal.dp.sql.query import Query
from shoal.errors import ParameterError, QueryError
from shoal.schema import Schema

MOST_CASES = 300_000  # worlds times what rows may add, looked at for one query
LONGEST = 100_000


class StatedModel(ABC):
    """What a declared model says, all of it public.

    Attributes
    ----------
    mode : {"pufferfish", "dependent"}
    guarantee : str
    """

    mode: ClassVar[str]
    guarantee: ClassVar[str]

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """Columns that say which rows belong together; of two, their unordered pair."""

    @property
    @abstractmethod
    def most(self) -> int:
        """At most this many rows that belong together count."""

    @property
    def ordered_by(self) -> str | None:
        """The column that orders them, so that the first ones count."""
        return None

    @property
    def secret(self) -> str | None:
        """The secret column, where one is named."""
        return None

    @property
    def entries(self) -> tuple[Any, ...]:
        """Every entry of the secret column that is allowed for."""
        return ()

    @abstractmethod
    def noise(self, query: Query, schema: Schema, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Quantum of the answer and scale of its noise, in units of the answer."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of what is stated."""


def quantum_of(functions: set[Function]) -> Fraction:
    """The largest step of which everything that rows add is a whole multiple."""
    values = {each for function in functions for each in function if each}
    scale = math.lcm(*(each.denominator for each in values))
    return Fraction(math.gcd(*(int(each * scale) for each in values)), scale)


@dataclass(frozen=True)
class GroupScenarios(StatedModel):
    """Rows that share a group's value may depend on each other as the scenarios say; groups are independent.

    Parameters
    ----------
    group : str
        Column of the household, firm or class.
    about : str
        The secret column. Secrets: for every row, that its entry is this one and not that one.
    scenarios : tuple of Scenario
        Over the entries of one group's members, all of one length, which is the largest size a group can have; a
        smaller group is part of such a one.

    Notes
    -----
    Other groups add the same to both sides of a pair, so that W is the largest W-infinity distance of what one group
    adds: over scenarios, members, pairs of entries, and over what the rows' other columns may hold, which are
    taken as known. Noise of scale W / epsilon (docs/theory/pufferfish.md).

    Examples
    --------
    >>> from shoal.dp.pufferfish import GroupScenarios, Scenario
    >>> couple = Scenario({("yes", "yes"): "1/8", ("no", "no"): "5/8", ("yes", "no"): "1/8", ("no", "yes"): "1/8"})
    >>> GroupScenarios("household", "ill", (couple,)).most
    2
    """

    group: str
    about: str
    scenarios: tuple[Scenario, ...]
    mode: ClassVar[str] = "pufferfish"
    guarantee: ClassVar[str] = PUFFERFISH_GUARANTEE

    def __post_init__(self) -> None:
        sizes = {
            len(world) if isinstance(world, tuple) else 0 for each in self.scenarios for world in each.worlds
        }
        if len(sizes) != 1 or 0 in sizes:
            raise ParameterError(
                "The scenarios of groups must hold tuples of one length, an entry per member."
            )

    @property
    def keys(self) -> tuple[str, ...]:
        """The group's column."""
        return (self.group,)

    @property
    def most(self) -> int:
        """The largest size of a group."""
        return len(next(iter(self.scenarios[0].worlds)))

    @property
    def entries(self) -> tuple[Any, ...]:
        """Every entry that a scenario knows."""
        found = {entry for each in self.scenarios for world in each.worlds for entry in world}
        return tuple(sorted(found, key=repr))

    @property
    def secret(self) -> str | None:
        """The secret column."""
        return self.about

    def reach(self, query: Query, schema: Schema) -> Fraction:
        """W, the largest W-infinity distance of what one group adds."""
        functions = sorted(contributions(query, schema, self.about, self.entries))
        place = {entry: at for at, entry in enumerate(self.entries)}
        cases = len(functions) ** self.most * sum(len(each.worlds) for each in self.scenarios) * self.most
        if cases > MOST_CASES:
            raise QueryError(
                "The scenarios are too large for this query: fewer members, entries or conditions."
            )
        widest = Fraction(0)
        for chosen in product(functions, repeat=self.most):
            if all(len(set(each)) == 1 for each in chosen):
                continue

            def adds(world: Any, chosen: tuple[Function, ...] = chosen) -> Fraction:
                parts = (each[place[entry]] for each, entry in zip(chosen, world, strict=True))
                return sum(parts, Fraction(0))

            for scenario in self.scenarios:
                for member in range(self.most):
                    widest = max(widest, _widest(scenario, member, adds))
        return widest

    def noise(self, query: Query, schema: Schema, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Quantum of the answer and scale of its noise."""
        functions = contributions(query, schema, self.about, self.entries)
        return quantum_of(functions), self.reach(query, schema) / epsilon

    def fingerprint(self) -> str:
        """A digest of what is stated."""
        worlds = [
            sorted((repr(world), str(mass)) for world, mass in each.worlds.items()) for each in self.scenarios
        ]
        return digest(["groups", self.group, self.about, worlds])


def _widest(scenario: Scenario, member: int, adds: Any) -> Fraction:
    """The largest distance between two entries of one member."""
    entries = sorted({world[member] for world in scenario.support()}, key=repr)
    sides = [scenario.given(holds(member, entry), adds) for entry in entries]
    return max(
        (w_infinity(one, two) for at, one in enumerate(sides) for two in sides[at + 1 :]), default=Fraction(0)
    )


@dataclass(frozen=True)
class TimeChain(StatedModel):
    """Rows of one sequence, in order of a time column, depend on the one before: a Markov chain.

    Parameters
    ----------
    sequence : str
        Column that says whose sequence a row belongs to; sequences are independent.
    time : str
        Column that orders a sequence; its first `length` rows count.
    about : str
        The secret column. Secrets: for every row, that its entry is this state and not that one.
    states : tuple
        Its entries, in the order of the chains' states.
    chains : tuple of MarkovChain
        All of one length, the longest that a sequence can have.
    width : int, default 24
        How far a quilt may lie from a row.

    Notes
    -----
    Noise of scale L times the largest score of the rows' best Markov quilts, L being how much one entry can move the
    answer. A shorter sequence needs no more (docs/theory/pufferfish.md).

    Examples
    --------
    >>> from shoal.dp.pufferfish import MarkovChain, TimeChain
    >>> chain = MarkovChain(["1/2", "1/2"], [["3/5", "2/5"], ["2/5", "3/5"]], length=30)
    >>> TimeChain("person", "day", "activity", ("rest", "walk"), (chain,)).most
    30
    """

    sequence: str
    time: str
    about: str
    states: tuple[Any, ...]
    chains: tuple[MarkovChain, ...]
    width: int = 24
    mode: ClassVar[str] = "pufferfish"
    guarantee: ClassVar[str] = PUFFERFISH_GUARANTEE

    def __post_init__(self) -> None:
        sizes = {(len(each.start), each.length) for each in self.chains}
        if len(sizes) != 1 or len(self.states) != len(self.chains[0].start) or self.most > LONGEST:
            raise ParameterError(
                f"The chains must all have {len(self.states)} states, as many as are named, and one length."
            )
        if len(set(map(repr, self.states))) < len(self.states):
            raise ParameterError("The states of a chain must differ.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The sequence's column."""
        return (self.sequence,)

    @property
    def most(self) -> int:
        """The longest sequence."""
        return self.chains[0].length

    @property
    def entries(self) -> tuple[Any, ...]:
        """The states."""
        return self.states

    @property
    def secret(self) -> str | None:
        """The secret column."""
        return self.about

    @property
    def ordered_by(self) -> str | None:
        """The column of time."""
        return self.time

    def noise(self, query: Query, schema: Schema, epsilon: Fraction) -> tuple[Fraction, Fraction]:
        """Quantum of the answer and scale of its noise."""
        functions = contributions(query, schema, self.about, self.states)
        moves = max(max(each) - min(each) for each in functions)
        per_move = noise_per_lipschitz(chain_quilts(self.chains, self.width), epsilon)[0]
        return quantum_of(functions), moves * per_move

    def fingerprint(self) -> str:
        """A digest of what is stated."""
        chains = [[str(each.start), str(each.steps), each.length] for each in self.chains]
        return digest(["chain", self.sequence, self.time, self.about, list(map(repr, self.states)), chains])


def digest(facts: Any) -> str:
    """A short digest of plain values."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
