"""Mechanisms that hold under a stated model only, played under that model.

An observer holds the stated belief; the coin picks a secret, the world is drawn given that secret, and the
mechanism answers. The claim is about this game, and about no other belief.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from shoal.audit._declared import DECLARED, played
from shoal.audit._game import Mechanism
from shoal.dp.pufferfish import DependentDP, MarkovChain, Pufferfish, Scenario, holds

_FAMILY = Scenario({(0,) * 10: "9/10", (1,) * 10: "1/10"}, "all or none")
_CONTAGION = Scenario(
    {(0, 0, 0): "6/10", (1, 0, 0): "1/10", (1, 1, 0): "1/20", (1, 1, 1): "2/10", (0, 1, 1): "1/20"},
    "contagion",
)
_CHAIN = MarkovChain(["1/2", "1/2"], [["9/10", "1/10"], ["1/10", "9/10"]], length=8)
COPIES = Scenario({(0, 0): "1/2", (1, 1): "1/2"}, "a record and its copy")


def _pufferfish(
    name: str, epsilon: float, scenario: Scenario | MarkovChain, person: int, **options: Any
) -> Mechanism:
    secrets = {str(entry): holds(person, entry) for entry in (0, 1)}
    asked = Pufferfish(secrets, [("0", "1")], [scenario])
    finite = scenario.scenario() if isinstance(scenario, MarkovChain) else scenario
    sides = [finite.given(each, lambda world: Fraction(sum(world))) for each in secrets.values()]
    return played(name, epsilon, sides, *asked.noise(sum, epsilon, **options))


def dependent(name: str, epsilon: float, scenario: Scenario, coefficients: list[list[Any]]) -> Mechanism:
    """The sum of 0/1 records under a scenario, with noise for the stated coefficients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = DependentDP(coefficients, (0, 1))
    sides = [scenario.given(holds(0, entry), lambda world: Fraction(sum(world))) for entry in (0, 1)]
    return played(name, epsilon, sides, Fraction(0), Fraction(1, 1 << 20), asked.scale(epsilon))


STATED: dict[str, tuple[Callable[[float], Mechanism], ...]] = {
    "pufferfish": (
        lambda e: _pufferfish("Wasserstein: a family, all or none", e, _FAMILY, 0),
        lambda e: _pufferfish("Wasserstein: contagion among three", e, _CONTAGION, 1),
        lambda e: _pufferfish("quilt: the middle of a chain", e, _CHAIN, 4, mechanism="quilt", lipschitz=1),
        lambda e: _pufferfish("quilt: the end of a chain", e, _CHAIN, 0, mechanism="quilt", lipschitz=1),
        *DECLARED["pufferfish"],
    ),
    "dependent": (
        lambda e: dependent("a record and its copy", e, COPIES, [[1, 1], [1, 1]]),
        lambda e: dependent(
            "independent records", e, Scenario.independent([{0: "1/2", 1: "1/2"}] * 2), [[1, 0], [0, 1]]
        ),
        *DECLARED["dependent"],
    ),
}
