"""The distinguishing game: explore for the most telling event, confirm it on fresh runs.

A coin b decides which of two neighbouring tables is used. Under epsilon-DP, for every event fixed beforehand
and either guess, P(b = guess | event) <= e^epsilon / (1 + e^epsilon). The event is chosen on one set of runs
and tested on another, so that choosing cannot inflate the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

ALPHA = 1e-6
STAGES = (1_000, 4_000, 16_000, 64_000)
Sampler = Callable[[int, int], np.ndarray]


@dataclass(frozen=True)
class Mechanism:
    """A mechanism on two neighbouring tables.

    Parameters
    ----------
    name : str
    epsilon : float
        What it claims.
    sample : callable
        ``sample(b, n)`` gives n independent outputs on table b, one per row; NaN stands for no answer.
    columns : tuple of str
        What each column of the output is.
    interleaved : bool, default False
        Draws of both tables take turns in random order, so that a machine that slows down halfway
        does not speak for a table. For outputs that are times.
    rho : bool, default False
        `epsilon` is a rho: the claim is rho-zCDP.
    delta : float, default 0
        Of a claim of rho: that it holds but for events of this probability (delta-approximate zCDP).

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit import Mechanism
    >>> def coin(b, n):
    ...     return np.random.default_rng(b).integers(0, 2, (n, 1)).astype(float)
    >>> claim = Mechanism("a coin", 0.1, coin, ("answer",))
    >>> claim.sample(1, 5).shape
    (5, 1)
    """

    name: str
    epsilon: float
    sample: Sampler
    columns: tuple[str, ...]
    interleaved: bool = False
    rho: bool = False
    delta: float = 0.0


@dataclass(frozen=True)
class Event:
    """A set of outputs, fixed before it is tested."""

    column: int
    kind: str  # at least, at most, equal to, away from, none
    bound: float
    centre: float = 0.0

    def holds(self, outputs: np.ndarray) -> np.ndarray:
        """Which outputs lie in the event."""
        y = outputs[:, self.column]
        if self.kind == "none":
            return np.isnan(y)
        if self.kind == "equal to":
            return y == self.bound
        if self.kind == "away from":
            return np.abs(y - self.centre) >= self.bound
        return y >= self.bound if self.kind == "at least" else y <= self.bound

    def text(self, columns: Sequence[str]) -> str:
        """The event in words."""
        name = columns[self.column]
        if self.kind == "none":
            return f"{name} has no answer"
        if self.kind == "away from":
            return f"{name} is at least {self.bound:.6g} away from {self.centre:.6g}"
        return f"{name} is {self.kind} {self.bound:.6g}"


@dataclass(frozen=True)
class Guess:
    """Which table to guess, fixed before it is tested: an event speaks for a table, and two may speak together.

    Under epsilon-DP the guess is right with probability at most e^epsilon / (1 + e^epsilon) where one is made,
    whether one event speaks or two that exclude each other.
    """

    events: tuple[tuple[Event, int], ...]

    def guesses(self, outputs: np.ndarray) -> np.ndarray:
        """The table guessed for each output, -1 for none."""
        guessed = np.full(len(outputs), -1)
        for event, guess in self.events[::-1]:
            guessed[event.holds(outputs)] = guess
        return guessed

    def text(self, columns: Sequence[str]) -> str:
        """The rule in words."""
        return ", or ".join(
            f"{event.text(columns)}{f' (guess {guess})' if len(self.events) > 1 else ''}"
            for event, guess in self.events
        )


@dataclass(frozen=True)
class GameVerdict:
    """What the game found against one mechanism.

    Parameters
    ----------
    name : str
    epsilon : float
        Claimed.
    refuted : bool
    epsilon_lower_bound : float
        The true epsilon is at least this, at the confidence of the confirmed stage.
    runs : int
        Fresh runs of the last stage.
    event : str
        The most telling event.
    guess : int
        The table it speaks for.
    hits, of : int
        How often the guess was right among the runs in the event.
    p_value : float
        Of the claim, on fresh runs.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit import Mechanism, play
    >>> exact = Mechanism("no noise", 1.0, lambda b, n: np.full((n, 1), float(b)), ("answer",))
    >>> verdict = play(exact)
    >>> verdict.refuted, verdict.runs, verdict.epsilon_lower_bound > verdict.epsilon
    (True, 1000, True)
    """

    name: str
    epsilon: float
    refuted: bool
    epsilon_lower_bound: float
    runs: int
    event: str
    guess: int
    hits: int
    of: int
    p_value: float


def play(
    mechanism: Mechanism,
    stages: Sequence[int] = STAGES,
    alpha: float = ALPHA,
    rng: np.random.Generator | None = None,
) -> GameVerdict:
    """Try to refute a mechanism's claim, in stages of more and more runs.

    Parameters
    ----------
    mechanism : Mechanism
    stages : sequence of int
        Runs to explore, and as many fresh ones to confirm; stops at the first refutation.
    alpha : float
        Chance of refuting a true claim, over all stages together.
    rng : numpy.random.Generator, optional
        For the coins.

    Returns
    -------
    GameVerdict

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit import Mechanism, play
    >>> exact = Mechanism("no noise", 1.0, lambda b, n: np.full((n, 1), float(b)), ("answer",))
    >>> play(exact).refuted
    True
    """
    coins = rng or np.random.default_rng()
    if mechanism.rho:
        from shoal.audit._concentrated import play_rho

        return play_rho(mechanism, stages, alpha, coins)
    limit = math.exp(mechanism.epsilon) / (1 + math.exp(mechanism.epsilon))
    share = alpha / len(stages)
    best = None
    for runs in stages:
        rule = explore(*runs_of(mechanism, runs, coins), limit)
        outputs, sides = runs_of(mechanism, runs, coins)
        guessed = rule.guesses(outputs)
        of, hits = int((guessed >= 0).sum()), int((guessed == sides).sum())
        p_value = float(stats.binom.sf(hits - 1, of, limit)) if of else 1.0
        low = float(stats.beta.ppf(share, hits, of - hits + 1)) if hits else 0.0
        bound = max(0.0, math.log(low / (1 - low))) if low > 0 else 0.0
        found = GameVerdict(
            mechanism.name,
            mechanism.epsilon,
            p_value <= share,
            bound,
            runs,
            rule.text(mechanism.columns),
            rule.events[0][1],
            hits,
            of,
            p_value,
        )
        best = found if best is None or found.refuted or bound > best.epsilon_lower_bound else best
        if found.refuted:
            return found
    assert best is not None  # there is at least one stage
    return best


def explore(outputs: np.ndarray, sides: np.ndarray, limit: float) -> Guess:
    """The rule that speaks most against the claim on these runs."""
    best: dict[int, tuple[float, Event]] = {}
    for column in range(outputs.shape[1]):
        for events, totals, ones in candidates(outputs[:, column], sides, column):
            for guess, hits in ((1, ones), (0, totals - ones)):
                against = stats.binom.logsf(hits - 1, totals, limit)
                at = int(np.argmin(against))
                if guess not in best or against[at] < best[guess][0]:
                    best[guess] = (float(against[at]), events(at))
    (_, first), (_, second) = sorted(((value[0], guess) for guess, value in best.items()))
    rules = [Guess(((best[first][1], first),)), Guess(((best[first][1], first), (best[second][1], second)))]
    return min(rules, key=lambda rule: _against(rule, outputs, sides, limit))


def _against(rule: Guess, outputs: np.ndarray, sides: np.ndarray, limit: float) -> float:
    guessed = rule.guesses(outputs)
    of, hits = int((guessed >= 0).sum()), int((guessed == sides).sum())
    return float(stats.binom.logsf(hits - 1, of, limit))


def runs_of(mechanism: Mechanism, runs: int, coins: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of so many runs, and the table of each."""
    if mechanism.interleaved:
        order = coins.integers(0, 2, runs)
        return np.concatenate([mechanism.sample(int(side), 1) for side in order]), order
    ones = int(coins.binomial(runs, 0.5))
    outputs = np.concatenate([mechanism.sample(0, runs - ones), mechanism.sample(1, ones)])
    return outputs, np.repeat([0, 1], [runs - ones, ones])


def candidates(
    y: np.ndarray, sides: np.ndarray, column: int
) -> list[tuple[Callable[[int], Event], np.ndarray, np.ndarray]]:
    """Families of events on one column: their number of runs, and of those on table 1."""
    gone = np.isnan(y)
    families: list[tuple[Callable[[int], Event], np.ndarray, np.ndarray]] = []
    families.append(
        (lambda _: Event(column, "none", math.nan), np.array([gone.sum()]), np.array([sides[gone].sum()]))
    )
    y, sides = y[~gone], sides[~gone]
    if not len(y):
        return families
    shares = np.concatenate([[0.0, 0.001], np.linspace(0.005, 0.995, 199), [0.999, 1.0]])
    centre = float(np.median(y))
    for kind, values in (("at least", y), ("at most", -y), ("away from", np.abs(y - centre))):
        order = np.argsort(values)
        ranked, ones = values[order], np.concatenate([[0], np.cumsum(sides[order])])
        bounds = np.unique(np.quantile(values, shares, method="inverted_cdf"))
        first = np.searchsorted(ranked, bounds)
        families.append((_made(column, kind, bounds, centre), len(y) - first, ones[-1] - ones[first]))
    distinct, where, totals = np.unique(y, return_inverse=True, return_counts=True)
    common = np.argsort(-totals, kind="stable")[:50]
    ones = np.bincount(where, weights=sides).astype(np.int64)
    families.append((_made(column, "equal to", distinct[common], centre), totals[common], ones[common]))
    return families


def _made(column: int, kind: str, bounds: np.ndarray, centre: float) -> Callable[[int], Event]:
    sign = -1.0 if kind == "at most" else 1.0
    return lambda at: Event(column, kind, sign * float(bounds[at]), centre)
