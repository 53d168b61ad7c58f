"""One Pufferfish answer: the noise follows from what was stated, never from the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from math import gcd, lcm
from pathlib import Path
from typing import Any

import numpy as np

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.ledger.claims import Amount, Claim, Receipt
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.secret import random_word
from shoal.dp.mechanisms.discrete_laplace import laplace, laplace_radius
from shoal.dp.pufferfish._chain import MarkovChain, chain_quilts
from shoal.dp.pufferfish._quilt import Quilt, network_quilts, noise_per_lipschitz
from shoal.dp.pufferfish._scenario import Scenario, Secret, exact
from shoal.dp.pufferfish._wasserstein import w_infinity
from shoal.dp.unit import ENDED, Stated
from shoal.errors import ParameterError

PUFFERFISH_GUARANTEE = (
    "guarantee: epsilon-Pufferfish for the stated secrets and scenarios; "
    "this one release, nothing else from this data set"
)
LARGEST_UNFOLDED = 100_000
_LARGEST = 1 << 61
_LARGEST_FLOAT = Fraction(10) ** 308


class Pufferfish:
    """Private answers under stated secrets, discriminative pairs and scenarios.

    Parameters
    ----------
    secrets : mapping of str to predicate
        Statements about a world, such as ``{"ann is ill": lambda world: world[0] == 1}``.
    pairs : iterable of (str, str)
        Secrets an observer must not tell apart; no world may satisfy both.
    scenarios : sequence of Scenario, or of MarkovChain
        Every belief that an observer may hold.
    edges : iterable of (int, int), optional
        Ties of a small network, for the quilt mechanism over `Scenario`.
    dataset : str, default "table"
        Names the data set in the ledger.
    ledger : Ledger, path or database URL, optional
        In memory if left open.
    data_version : str, optional
        The owner's word for this state of the data; drawn at random if left open.

    Notes
    -----
    The Wasserstein mechanism takes every scenario and pair of positive probability, W the largest W-infinity
    distance between the answer's two conditional distributions, and adds discrete Laplace noise of scale
    W / epsilon. The quilt mechanism protects every pair of entries of one person, whatever pairs are stated.
    Neither composes in general, so a data set gives one answer. Worked example: docs/theory/pufferfish.md.

    References
    ----------
    .. [1] D. Kifer, A. Machanavajjhala (2014). Pufferfish: a framework for mathematical privacy definitions.
       ACM TODS 39(1), 3.
    .. [2] S. Song, Y. Wang, K. Chaudhuri (2017). Pufferfish privacy mechanisms for correlated data. SIGMOD.

    Examples
    --------
    >>> from shoal import dp
    >>> from shoal.dp.pufferfish import Scenario
    >>> family = Scenario({(0,) * 10: "9/10", (1,) * 10: "1/10"}, "all or none")
    >>> ill, well = (lambda world: world[0] == 1), (lambda world: world[0] == 0)
    >>> p = dp.Pufferfish({"ill": ill, "well": well}, [("ill", "well")], [family])
    >>> p.wasserstein(sum)
    Fraction(10, 1)
    >>> p.ask(sum, 0.5, (1,) * 10, text="how many are ill").epsilon
    0.5
    """

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        pairs: Iterable[tuple[str, str]],
        scenarios: Sequence[Scenario | MarkovChain],
        *,
        edges: Iterable[tuple[int, int]] | None = None,
        dataset: str = "table",
        ledger: Ledger | str | Path | None = None,
        data_version: str | None = None,
    ) -> None:
        self._version = data_version or random_word()
        self.secrets, self.pairs, self.dataset = dict(secrets), [tuple(each) for each in pairs], dataset
        if not scenarios:
            raise ParameterError("Pufferfish needs at least one scenario.")
        self.chains = [each for each in scenarios if isinstance(each, MarkovChain)]
        if self.chains and len(self.chains) < len(scenarios):
            raise ParameterError("Scenarios must be all finite or all chains.")
        self.scenarios = [each for each in scenarios if isinstance(each, Scenario)]
        self.edges = None if edges is None else list(edges)
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._check_pairs()

    def wasserstein(self, query: Callable[[Any], Any]) -> Fraction:
        """The largest W-infinity distance of the query's answer between two secrets of a pair."""
        if not self.pairs:
            raise ParameterError("The Wasserstein mechanism needs discriminative pairs.")
        distances = []
        for scenario in self._finite():
            for first, second in self.pairs:
                mine, theirs = self.secrets[first], self.secrets[second]
                if scenario.probability(mine) and scenario.probability(theirs):
                    sides = [
                        scenario.given(each, lambda world: _value(query, world)) for each in (mine, theirs)
                    ]
                    distances.append(w_infinity(*sides))
        return max(distances)

    def quilts(self, epsilon: Any, width: int = 24) -> tuple[Fraction, tuple[Quilt, ...]]:
        """Noise per unit of a query's Lipschitz constant, and the quilt chosen for each person."""
        share = Fraction(budget.micro(epsilon), budget.MICRO)
        return noise_per_lipschitz(self._candidates(width), share)

    def noise(
        self,
        query: Callable[[Any], Any],
        epsilon: Any,
        *,
        mechanism: str = "wasserstein",
        lipschitz: Any = None,
        width: int = 24,
    ) -> tuple[Fraction, Fraction, Fraction]:
        """Base and step of the lattice on which a query is answered, and its noise scale: from what is stated alone."""
        if mechanism == "wasserstein":
            share = Fraction(budget.micro(epsilon), budget.MICRO)
            return *self._lattice(query), self.wasserstein(query) / share
        if mechanism != "quilt":
            raise ParameterError(f"'mechanism' must be 'wasserstein' or 'quilt'. Got {mechanism!r}.")
        if lipschitz is None:
            raise ParameterError("The quilt mechanism needs 'lipschitz': how much one entry moves the query.")
        constant = exact(lipschitz, "'lipschitz'")
        if constant <= 0:
            raise ParameterError(f"'lipschitz' must be above 0. Got {lipschitz!r}.")
        self._check_lipschitz(query, constant)
        quantum = constant / (1 << 20)
        # rounding to the lattice moves the query by one more step
        return Fraction(0), quantum, (constant + quantum) * self.quilts(epsilon, width)[0]

    def ask(
        self,
        query: Callable[[Any], Any],
        epsilon: Any,
        world: Any,
        *,
        mechanism: str = "wasserstein",
        lipschitz: Any = None,
        text: str = "",
        analyst: str = "me",
        width: int = 24,
    ) -> Answer:
        """Answer one query about the world, and no other one about this data set afterwards.

        Parameters
        ----------
        query : callable
            World to number.
        epsilon : float
        world : tuple
            The private table; one that some scenario allows.
        mechanism : {"wasserstein", "quilt"}
        lipschitz : number, optional
            Of the quilt mechanism: how much one entry can move the query, for any world.
        text : str
            The query in words, for the ledger.
        analyst : str, default "me"
        width : int, default 24
            Of the quilt mechanism on chains: how far a quilt may lie.
        """
        micro = budget.micro(epsilon)
        base, quantum, noise = self.noise(
            query, epsilon, mechanism=mechanism, lipschitz=lipschitz, width=width
        )
        scale = noise / quantum
        check_range(scale, abs(base), quantum)
        self._allowed(world)
        claim = self._claim(micro, analyst, mechanism, text or getattr(query, "__name__", "a query"))

        def draw() -> str:
            steps = _steps(query, world, base, quantum)
            return json.dumps(steps if not noise else int(laplace(np.array([steps]), scale)[0]))

        receipt = spend(self.ledger, claim, draw)
        noisy, radius = int(json.loads(receipt.body)), laplace_radius(scale) if noise else 0
        value, low, high = (float(base + (noisy + more) * quantum) for more in (0, -radius, radius))
        guarantee = PUFFERFISH_GUARANTEE + (ENDED if receipt.ended else "")
        return Answer(
            value, guarantee, budget.epsilon(receipt.charged), 0.0, (low, high), entry=receipt.entry or None
        )

    def _candidates(self, width: int) -> list[list[Quilt]]:
        if self.chains:
            return chain_quilts(self.chains, width)
        if self.edges is None:
            raise ParameterError("The quilt mechanism needs 'edges', or scenarios that are chains.")
        size = {len(world) for each in self.scenarios for world in each.worlds}
        if len(size) != 1:
            raise ParameterError(f"All worlds must have one number of entries. Got {sorted(size)}.")
        return network_quilts(self.scenarios, self.edges, size.pop())

    def _finite(self) -> list[Scenario]:
        """The scenarios world by world; chains are unfolded when first needed."""
        if not self.scenarios:
            if len(self.chains[0].start) ** self.chains[0].length > LARGEST_UNFOLDED:
                raise ParameterError(
                    f"The Wasserstein mechanism needs chains of at most {LARGEST_UNFOLDED} sequences: use 'quilt'."
                )
            self.scenarios = [each.scenario() for each in self.chains]
            self._check_pairs()
        return self.scenarios

    def _check_lipschitz(self, query: Callable[[Any], Any], constant: Fraction) -> None:
        """Hold the stated constant against all worlds, where they are few; else it is the owner's word."""
        worlds = sorted({world for each in self.scenarios for world in each.support()})
        if len(worlds) > 400:
            return
        answers = [_value(query, world) for world in worlds]
        for (one, mine), (other, theirs) in combinations(zip(worlds, answers, strict=True), 2):
            apart = sum(a != b for a, b in zip(one, other, strict=True))
            if abs(mine - theirs) > constant * apart:
                raise ParameterError(
                    f"'lipschitz' must be at least {abs(mine - theirs) / apart} for this query. Got {constant}."
                )

    def _check_pairs(self) -> None:
        for pair in self.pairs:
            if len(pair) != 2 or any(name not in self.secrets for name in pair):
                raise ParameterError(
                    f"A pair must name two of the secrets {sorted(self.secrets)}. Got {pair!r}."
                )
            first, second = (self.secrets[name] for name in pair)
            worlds = {world for each in self.scenarios for world in each.support()}
            if any(first(world) and second(world) for world in worlds):
                raise ParameterError(f"The secrets of a pair must exclude each other. Got {pair!r}.")
            if self.scenarios and not any(
                each.probability(first) and each.probability(second) for each in self.scenarios
            ):
                raise ParameterError(
                    f"The pair {pair!r} is impossible: under no scenario have both secrets a positive probability."
                )

    def _lattice(self, query: Callable[[Any], Any]) -> tuple[Fraction, Fraction]:
        """The lattice base + whole numbers * quantum on which all possible answers lie."""
        values = sorted({_value(query, world) for each in self._finite() for world in each.support()})
        gaps = [value - values[0] for value in values[1:]]
        if not gaps:
            return values[0], Fraction(1)
        scale = lcm(*(gap.denominator for gap in gaps))
        quantum = Fraction(gcd(*(int(gap * scale) for gap in gaps)), scale)
        check_range(gaps[-1] / quantum, abs(values[0]), quantum)
        return values[0], quantum

    def _allowed(self, world: Any) -> None:
        if self.chains:
            states = range(len(self.chains[0].start))
            allowed = len(world) == self.chains[0].length and all(each in states for each in world)
        else:
            allowed = any(each.worlds.get(world) for each in self.scenarios)
        if not allowed:
            raise ParameterError("The table must be a world that some scenario allows.")

    def _claim(self, micro: int, analyst: str, mechanism: str, text: str) -> Claim:
        worlds = [] if self.chains else [sorted(map(repr, each.worlds.items())) for each in self.scenarios]
        chains = [(each.start, each.steps, each.length) for each in self.chains]
        stated = repr([sorted(self.secrets), self.pairs, worlds, chains])
        name = "pufferfish:" + hashlib.sha256(stated.encode()).hexdigest()[:16]
        state = json.dumps([mechanism, self._version])
        return Claim(self.dataset, analyst, text, state, Amount(micro), Stated(name, PUFFERFISH_GUARANTEE))


def spend(ledger: Ledger, claim: Claim, draw: Callable[[], str]) -> Receipt:
    """One release, whose cost is all that its data set may ever spend where nobody declared more."""
    if ledger.caps(claim.dataset) is None:
        ledger.declare(claim.dataset, claim.cost.millionths)
    return ledger.once(claim, draw)


def check_range(scale: Fraction, base: Fraction, quantum: Fraction) -> None:
    """Refuse, by what was stated alone, an answer that numbers of 64 bits could not hold in some world."""
    if scale > _LARGEST or base + 2 * (1 << 63) * quantum > _LARGEST_FLOAT:
        raise ParameterError(
            "The answers that are possible lie too far apart for numbers of 64 bits: round the query."
        )


def _steps(query: Callable[[Any], Any], world: Any, base: Fraction, quantum: Fraction) -> int:
    """The query's place on the lattice; after the charge nothing fails, so a world on which it fails counts as its base."""
    try:
        steps = round((_value(query, world) - base) / quantum)
    except Exception:  # whatever a query may raise about one world
        steps = 0
    return min(max(steps, -_LARGEST), _LARGEST)


def _value(query: Callable[[Any], Any], world: Any) -> Fraction:
    return exact(query(world), "The answer of a query")
