"""The game against a claim of rho-zCDP: the Rényi divergence of an event's two probabilities, confirmed on fresh runs.

Whether an output lies in an event is post-processing, so that under rho-zCDP the two probabilities p and q of any
event fixed beforehand have a Rényi divergence of at most alpha rho, for every alpha above 1 and either way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from shoal.audit._game import Event, GameVerdict, Mechanism, candidates, runs_of
from shoal.audit._weighing import explore_weighing

_ORDERS = 1 + np.geomspace(1e-3, 100, 40)


def least_rho(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rho that two probabilities of an event need at least: the larger is at least `high`, the smaller at most `low`.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.audit._concentrated import least_rho
    >>> least_rho(np.array([0.1, 0.5]), np.array([0.9, 0.4])).round(2).tolist()
    [1.76, 0.0]
    """
    p, q = (np.clip(np.asarray(each, dtype=np.float64), 1e-12, 1 - 1e-12)[:, None] for each in (low, high))
    found = np.zeros(len(p))
    for one, other in ((q, p), (p, q)):
        logs = np.logaddexp(
            _ORDERS * np.log(one) + (1 - _ORDERS) * np.log(other),
            _ORDERS * np.log1p(-one) + (1 - _ORDERS) * np.log1p(-other),
        )
        found = np.maximum(found, (logs / (_ORDERS - 1) / _ORDERS).max(axis=1))
    return np.where(q[:, 0] > p[:, 0], np.maximum(found, 0), 0.0)


def play_rho(
    mechanism: Mechanism, stages: Sequence[int], alpha: float, coins: np.random.Generator
) -> GameVerdict:
    """Try to refute a claim of rho; `epsilon` of mechanism and verdict is that rho."""
    share, best = alpha / len(stages), None
    for runs in stages:
        first = runs_of(mechanism, runs, coins)
        event, guess = _explore(*first, mechanism.delta)
        weighing = None if mechanism.delta else explore_weighing(*first)
        outputs, sides = runs_of(mechanism, runs, coins)
        inside = event.holds(outputs)
        hits, of = int((inside & (sides == guess)).sum()), int(inside.sum())
        trials = int((sides == guess).sum()), int((sides != guess).sum())
        counted = np.array([hits]), np.array([of - hits])
        bound = float(_bounds(*counted, *trials, share / 2, mechanism.delta)[0])
        text = event.text(mechanism.columns)
        weighed = 0.0 if weighing is None else weighing.bound(outputs, sides, share / 2)
        if weighing is not None and weighed > bound:
            bound, text, guess = weighed, weighing.text(mechanism.columns), weighing.guess
        found = GameVerdict(
            mechanism.name,
            mechanism.epsilon,
            bound > mechanism.epsilon,
            bound,
            runs,
            text,
            guess,
            hits,
            of,
            share if bound > mechanism.epsilon else 1.0,
        )
        best = found if best is None or bound > best.epsilon_lower_bound else best
        if found.refuted:
            return found
    assert best is not None  # there is at least one stage
    return best


def _bounds(
    hits: np.ndarray, misses: np.ndarray, here: int, there: int, share: float, delta: float = 0.0
) -> np.ndarray:
    """Rho at least, by Clopper-Pearson bounds of the event's probability on either table, half of the chance each.

    Where the claim holds but for events of probability delta, the rest of either table's outputs has the event with a
    probability between (p - delta) / (1 - delta) and p / (1 - delta).
    """
    high = np.where(hits > 0, stats.beta.ppf(share / 2, np.maximum(hits, 1), here - hits + 1), 0.0)
    low = np.where(misses < there, stats.beta.isf(share / 2, misses + 1, np.maximum(there - misses, 1)), 1.0)
    return least_rho(np.minimum(1, low / (1 - delta)), np.maximum(0, (high - delta) / (1 - delta)))


def _explore(outputs: np.ndarray, sides: np.ndarray, delta: float) -> tuple[Event, int]:
    """The event that asks for the largest rho on these runs, and the table it speaks for."""
    ones_all, runs = int(sides.sum()), len(sides)
    best: tuple[float, Event, int] | None = None
    for events, hits, misses, guess in _families(outputs, sides):
        here, there = (ones_all, runs - ones_all) if guess else (runs - ones_all, ones_all)
        bounds = _bounds(hits, misses, here, there, 0.05, delta)
        at = int(np.argmax(bounds))
        if best is None or bounds[at] > best[0]:
            best = float(bounds[at]), events(at), guess
    assert best is not None  # every column has events
    return best[1], best[2]


def _families(outputs: np.ndarray, sides: np.ndarray) -> Iterator[tuple]:  # type: ignore[type-arg]
    for column in range(outputs.shape[1]):
        for events, totals, ones in candidates(outputs[:, column], sides, column):
            yield events, ones, totals - ones, 1
            yield events, totals - ones, ones, 0
