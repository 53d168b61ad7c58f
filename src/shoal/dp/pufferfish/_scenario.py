"""Scenarios: what an observer may believe about the table before the answer, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from shoal.errors import GuaranteeError, ParameterError

Secret = Callable[[Any], bool]


def exact(value: Any, what: str) -> Fraction:
    """A number as a fraction; a float is read as the decimal number it prints as."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return Fraction(Decimal(repr(value))) if isinstance(value, float) else Fraction(value)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        raise ParameterError(f"{what} must be a number. Got {value!r}.") from None


class Scenario:
    """A finite distribution over worlds.

    Parameters
    ----------
    worlds : mapping of world to probability
        A world is the whole table as a tuple, one entry per person; probabilities are ints, fractions, texts
        such as "1/3", or decimals, and add up to one exactly.
    name : str, default "scenario"

    Examples
    --------
    >>> from shoal.dp.pufferfish import Scenario
    >>> family = Scenario({(0,) * 10: "9/10", (1,) * 10: "1/10"}, "all or none")
    >>> family.probability(lambda world: world[0] == 1)
    Fraction(1, 10)
    """

    def __init__(self, worlds: Mapping[Any, Any], name: str = "scenario") -> None:
        self.name = name
        what = f"A probability of {name!r}"
        self.worlds = {world: exact(value, what) for world, value in worlds.items()}
        if any(value < 0 for value in self.worlds.values()):
            raise ParameterError(f"{what} must be at least 0. Got {float(min(self.worlds.values()))!r}.")
        total = sum(self.worlds.values(), Fraction(0))
        if total != 1:
            raise ParameterError(f"The probabilities of {name!r} must add up to 1. Got {total}.")

    @classmethod
    def independent(cls, marginals: Iterable[Mapping[Any, Any]], name: str = "independent") -> Scenario:
        """People who do not depend on each other, each with a distribution of their own.

        Examples
        --------
        >>> from shoal.dp.pufferfish import Scenario
        >>> Scenario.independent([{0: "1/2", 1: "1/2"}] * 2).worlds[(0, 1)]
        Fraction(1, 4)
        """
        worlds: dict[tuple[Any, ...], Fraction] = {(): Fraction(1)}
        for marginal in marginals:
            worlds = {
                (*world, value): mass * exact(share, f"A probability of {name!r}")
                for world, mass in worlds.items()
                for value, share in marginal.items()
            }
        return cls(worlds, name)

    def probability(self, secret: Secret) -> Fraction:
        """How likely a secret is."""
        return sum((mass for world, mass in self.worlds.items() if secret(world)), Fraction(0))

    def given(self, secret: Secret, what: Callable[[Any], Any]) -> dict[Any, Fraction]:
        """Distribution of a function of the world, given a secret of positive probability."""
        whole = self.probability(secret)
        found: dict[Any, Fraction] = {}
        for world, mass in self.worlds.items():
            if mass and secret(world):
                value = what(world)
                found[value] = found.get(value, Fraction(0)) + mass / whole
        return found

    def support(self) -> set[Any]:
        """Worlds that can be."""
        return {world for world, mass in self.worlds.items() if mass}


def holds(person: int, entry: Any) -> Secret:
    """The secret that a person's entry is this one."""
    return lambda world: bool(world[person] == entry)


def dependence(scenario: Scenario, person: int) -> Fraction | float:
    """How much a person's entry moves the odds of all others' entries: e to the iota, exactly.

    Parameters
    ----------
    scenario : Scenario
        Over tuples.
    person : int
        Position in the tuple.

    Returns
    -------
    Fraction, or infinity where some entry makes impossible what another allows

    Examples
    --------
    >>> from shoal.dp.pufferfish import Scenario, dependence
    >>> dependence(Scenario({(0, 0): "3/8", (1, 1): "3/8", (0, 1): "1/8", (1, 0): "1/8"}), 0)
    Fraction(3, 1)
    >>> dependence(Scenario({(0, 0): "1/2", (1, 1): "1/2"}), 0)
    inf
    """
    entries = {world[person] for world in scenario.support()}
    others = [
        scenario.given(holds(person, entry), lambda world: (*world[:person], *world[person + 1 :]))
        for entry in sorted(entries, key=repr)
    ]
    worst = Fraction(1)
    for mine in others:
        for theirs in others:
            for rest, mass in mine.items():
                if not theirs.get(rest):
                    return math.inf
                worst = max(worst, mass / theirs[rest])
    return worst


def over_ledger(total: Any, scenarios: Iterable[Scenario], person: int) -> tuple[float, str]:
    """What a `dp` or `group` ledger promises about one person's entry under stated scenarios.

    Parameters
    ----------
    total : number
        The ledger's total in the unit of that person. A change of the person's entry is a removal and an
        addition, so that it counts twice.
    scenarios : iterable of Scenario
    person : int
        Position in the worlds.

    Returns
    -------
    (float, str)
        By how much the observer's log-odds about the entry can move, and the guarantee. iota is paid once, whatever
        the number of answers (docs/theory/dependence.md).

    Examples
    --------
    >>> from shoal.dp.pufferfish import Scenario, over_ledger
    >>> couple = Scenario({(0, 0): "3/8", (1, 1): "3/8", (0, 1): "1/8", (1, 0): "1/8"})
    >>> over_ledger(0.5, [couple], 0)
    (2.098..., 'guarantee: (epsilon + iota)-Pufferfish for the stated secrets and scenarios')
    """
    worst = max((dependence(each, person) for each in scenarios), default=Fraction(1))
    if worst == math.inf:
        raise GuaranteeError(
            "Under a stated scenario one entry settles others, so that no epsilon helps: use mode 'group'."
        )
    guarantee = "guarantee: (epsilon + iota)-Pufferfish for the stated secrets and scenarios"
    return 2 * float(exact(total, "'total'")) + math.log(worst), guarantee
