"""Annealing of a whole table: how hot it begins, how it is cooled down, and what is done with time that is left.

Where the records and groups are kept, and what a sweep over them is, differs between large tables
(`shoal.microaggregation._global`) and small ones (`shoal.microaggregation._pairs`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np

from shoal.microaggregation._combine import combine
from shoal.microaggregation._global_kernels import DISSOLVE, FOUND
from shoal.microaggregation._path_exchange import along_path
from shoal.microaggregation._task import SearchTask
from shoal.microaggregation._work import Shape

SWEEPS = 5
"""Sweeps over the table with the same jobs."""

LEVELS, LEAST = 40, 1 << 17
"""Levels of temperature, and proposals of each where there are more, so that what is done between takes no time."""

TRIAL = 1 << 16
"""Proposals from which the speed is measured."""

CHAINS = 2
"""Annealings of a small table side by side; a constant, so that the result does not depend on the machine."""

LAST, QUENCH = 4, (0.02, 0.01)
"""Sweeps at the end in which groups are neither founded nor dissolved, and their temperatures."""

HEATS, SMALL_HEATS = (0.9, 0.18), (1.3, 0.13)
"""First and last temperature times the root of k, in units of SSE per record, however many sweeps there are."""

FEW_DIRECTIONS, SMALL_FEW, HOTTER, HOTTEST = 6.5, 4.5, 1.9, 8.0
"""Directions in which the records of a large and of a small table spread below which it is cooled from hotter to colder, by
which power of them, and from where at most. In two directions a large table loses 8 % less than from 0.9, in three 3 to 5 %,
in four to five 0.1 to 1.6 %, with 120 to 8,000 sweeps alike; a small one with k >= 10 loses 5 % less in two directions and
0.2 to 2 % in three. Groups there are packed like tiles, and a better packing is reached through worse ones."""

LONGEST = 1_000_000
"""Sweeps beyond which annealing brings nothing."""

STEPS, SMALL_STEPS = 4.0, 2.5
"""Lengths to choose from where the clock counts, for each doubling: small tables may have millions of sweeps."""

WARM, LAPS, SHORTEST, LONGEST_LAP = 0.7, 16, 2_000, 5_000
"""First temperature of the laps that a small table is annealed again in; how many there would be in all the sweeps,
half of which are for the first annealing; and the sweeps of a lap, at least and at most."""

ROUND = 5
"""Sweeps of a round, times the square of the number of groups: with more a small table is annealed several times from
the first partition, and the best is kept."""


class CooledGroups(Protocol):
    """A partition as the kernels want it."""

    @property
    def labels(self) -> np.ndarray:
        """The group of each record, in the order of the search."""
        ...


State = TypeVar("State", bound=CooledGroups)


def screen(k: int) -> float:
    """How much farther than its own group another may be for a record to look at it, in its own units."""
    return 1.5 if k >= 5 else 1.8 if k == 4 else 2.2


MOST_LISTED = 1 << 28
"""Neighbours listed of all records together, at most: two gigabytes with their distances."""


def list_length(n: int, k: int) -> int:
    """Neighbours that are listed for each record."""
    return max(1, min(n - 1, max(12, min(2 * k + 2, MOST_LISTED // n))))


def heat_of(spread: np.ndarray) -> np.ndarray:
    """How hot it is at each record, one in the mean: in proportion to how far its nearest records are."""
    floor = np.quantile(spread, 0.05)
    spread = np.maximum(spread, floor if floor > 0 else spread.mean() * 1e-3)
    return spread / spread.mean() if spread.mean() > 0 else np.ones(spread.size)


def heats_for(directions: float, *, small: bool) -> tuple[float, float]:
    """First and last temperature where records spread in so many directions; 0 where that is not known.

    Examples
    --------
    >>> heats_for(10.0, small=False)
    (0.9, 0.18)
    >>> tuple(round(heat, 2) for heat in heats_for(2.6, small=True))
    (3.69, 0.08)
    """
    (hot, cold), few = (SMALL_HEATS, SMALL_FEW) if small else (HEATS, FEW_DIRECTIONS)
    hotter = min(HOTTEST / hot, (few / directions) ** HOTTER) if 0 < directions < few else 1.0
    return hot * hotter, cold / hotter**0.5


class CoolingSearch(ABC, Generic[State]):
    """Annealing of a table as a whole.

    A subclass sets `order`, the records in the order of the search, and `shape`, then calls `_begin`. Of every 1,024
    proposals `rates` say how many found and how many dissolve a group.
    """

    rates: tuple[int, int] = (FOUND, DISSOLVE)
    order: np.ndarray
    shape: Shape
    states: list[State]
    begun: float

    def __init__(self, task: SearchTask) -> None:
        self.k, self.first, self.given = task.k, task.labels, task.as_given
        self.work, self.workers, self.rng, self.report = task.work, task.workers, task.rng, task.report
        self.best: State | None = None

    def _begin(self) -> None:
        """Build the states, and know what is lost by the first partition."""
        self.heats = SMALL_HEATS if self.shape.small else HEATS
        self.states = self._fresh()
        self.begun = self.sse

    def _fresh(self) -> list[State]:
        """States of the first partition, to be annealed side by side."""
        return [self._build(self.first[self.order]) for _ in range(CHAINS if self.shape.small else 1)]

    @abstractmethod
    def _build(self, labels: np.ndarray) -> State:
        """The state of labels in the order of the search."""

    @abstractmethod
    def _losses(self, groups: State) -> np.ndarray:
        """What is lost by each group, by its number."""

    @abstractmethod
    def _jobs(
        self, groups: State, hot: float, cold: float, sweeps: int, found: int, dissolved: int
    ) -> list[Callable[[], object]]:
        """Sweeps over the table between two temperatures, as jobs that may run side by side."""

    def _lost(self, groups: State) -> float:
        """What is lost by a partition."""
        return float(self._losses(groups).sum())

    @property
    def groups(self) -> State:
        """The best partition as it is now."""
        known = self.states if self.best is None else [self.best, *self.states]
        return known[0] if len(known) == 1 else min(known, key=self._lost)

    @property
    def sse(self) -> float:
        """What is lost by the best partition as it is now."""
        return self._lost(self.groups)

    @property
    def labels(self) -> np.ndarray:
        """The best partition as it is now, in the order of the table."""
        labels = np.empty(self.order.size, np.int64)
        labels[self.order] = self.groups.labels
        return np.unique(labels, return_inverse=True)[1].reshape(-1)

    def run(self) -> None:
        """Cool the table down and let it settle; a small one again and again, less hot, from the best so far."""
        n = self.order.size * len(self.states)  # proposals of a sweep
        steps = SMALL_STEPS if self.shape.small else STEPS
        self.work.settle(self._seconds_per_proposal)
        per = self.work.whole_plan(self._speed, LONGEST * n, unit=LAST * n, steps=steps) // n
        if per < 1 or self.begun <= 0 or self.work.over():
            return
        if self.shape.worth_a_path(per * n):
            self.best = self._build(along_path(self.given, self.k)[self.order])
        if len(self.states) > 1:
            self._rounds(per)
        else:
            self._cool(self.heats, per)

    def _rounds(self, per: int) -> None:
        """Anneal a small table once, or several times where there are more sweeps than one annealing makes use of."""
        rounds = max(1, int(per / (ROUND * (self.order.size // self.k) ** 2)))
        length = per // rounds
        for left in range(rounds, 0, -1):
            self._round(per // left, last=left == 1)
            per -= per // left
            if self.work.over():
                return
        # Where the clock ends the run there are as many rounds as it has time for.
        while self.work.code and not self.work.over():
            self._round(length, last=True)

    def _round(self, sweeps: int, *, last: bool) -> None:
        """Anneal, then anneal the best again and again, less hot, and keep part by part what has become better.

        The last round goes on from the best of all.
        """
        lap = min(sweeps // LAPS, LONGEST_LAP)
        laps = lap >= SHORTEST
        self.states = self._fresh()
        self._cool(self.heats, sweeps // 2 if laps else sweeps)
        now, left = self.groups if last else min(self.states, key=self._lost), sweeps - sweeps // 2
        # Where the clock ends the run there are as many laps as it has time for.
        endless = bool(self.work.code) and last
        while laps and not self.work.over() and (left >= lap or endless):
            self._offer(now)
            self.states = [self._build(now.labels) for _ in self.states]
            self._cool((WARM, self.heats[1]), lap if left >= 2 * lap or endless else left)
            for groups in self.states:
                losses = self._losses(now), self._losses(groups)
                labels, fallen = combine(now.labels, groups.labels, *losses)
                now = self._build(labels) if fallen > 0 else now
            left -= lap
        self._offer(now)

    def _offer(self, groups: State) -> None:
        """Keep a partition if it is better."""
        if self.best is None or self._lost(groups) < self._lost(self.best):
            self.best = groups

    def _cool(self, heats: tuple[float, float], sweeps: int) -> None:
        """Cool all states down between two temperatures in so many sweeps, then let them settle."""
        n, last = self.order.size * len(self.states), min(LAST, sweeps)
        levels = max(1, min((sweeps - last) // SWEEPS, max(LEVELS, (sweeps - last) * n // LEAST)))
        counts = np.diff(np.linspace(0, sweeps - last, levels + 1).astype(np.int64))
        for (warm, cold), count in zip(
            pairwise(np.geomspace(*heats, levels + 1) / self.k**0.5), counts, strict=True
        ):
            if self.work.over_after(last * n):
                break
            self._level(warm, cold, int(count))
        self._level(*QUENCH, last, settle=True)

    def _seconds_per_proposal(self) -> float:
        """Seconds of one core that a proposal takes, whatever the machine does beside."""
        return self.shape.seconds_per_proposal()

    def _speed(self) -> float:
        """Proposals per second of all threads, from a short trial, after which the first partition is put back."""
        rng, self.rng, hot = self.rng, np.random.default_rng(0), self.heats[0] / self.k**0.5
        self._level(hot, hot, 1)
        self.work.proposals, started = 0, time.perf_counter()
        while self.work.proposals < TRIAL:
            self._level(hot, hot, 2)
        speed = self.work.proposals / (time.perf_counter() - started)
        self.states = self._fresh()
        self.work.proposals, self.rng = 0, rng
        return speed

    def _level(self, hot: float, cold: float, sweeps: int, *, settle: bool = False) -> None:
        """Sweep the table with jobs of a fresh draw; where it is to settle, the number of groups stays."""
        rates = (0, 0) if settle else self.rates
        jobs = [job for groups in self.states for job in self._jobs(groups, hot, cold, sweeps, *rates)]
        running = [self.workers.submit(job) for job in jobs]
        for future in running:
            future.result()
        self.work.proposals += sweeps * self.order.size * len(self.states)
        self.report(lambda: min(self.begun, self.sse))
