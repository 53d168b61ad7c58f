"""Work: what a search has done, counted in proposals, and when it ends.

By default a search ends after an amount of work that depends on the table alone, so that the same table,
parameters and seed give the same groups on a busy machine and an idle one, with one thread or many. Where the
user asks for seconds, the clock ends it; the number of proposals made and the plan they followed then repeat it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

Progress = Callable[[str, float, float], None]
"""Told what is being done, how much of it is done, and of how much: both in proposals or both in seconds."""

Report = Callable[[Callable[[], float]], None]
"""Called now and then with a function that gives the SSE so far, which may take a while."""

PLANS = 50
"""Lengths of the first annealing that a plan may name; as many more plans solve regions exactly."""


class SearchWork(NamedTuple):
    """The work of a search, which repeats it: its number of proposals, and the number of their plan.

    Examples
    --------
    >>> import numpy as np
    >>> from shoal.microaggregation import Anneal
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> first = Anneal(k=3, max_proposals=1000, random_state=0).fit(X)
    >>> again = Anneal(
    ...     k=3, max_proposals=first.work_.proposals, search_plan=first.work_.plan, random_state=0
    ... ).fit(X)
    >>> bool((first.labels_ == again.labels_).all())
    True
    """

    proposals: int
    plan: int


ONE_BLOCK = 6144
"""Records up to which a table is searched as one block, with regions reheated and solved; above, globally."""

LARGE_GROUPS = 10
"""Smallest k from which small tables are searched globally too: regions bring less there, and have no prices."""

ALL_PAIRS = 2_048
"""Records up to which all their squared distances are kept by the search: 16 MB."""

LARGEST_UNEVEN = 16_000
"""Records up to which an uneven, flat or copied table is searched by regions too: what is lost is lost in few places."""

FEW_GROUPS, FEWEST_BY_PAIRS = 15, 4
"""Groups below which a small table is not: all of them are neighbours. With all distances at hand, which find more on
skewed tables of five to fifteen groups, fewer will do."""


@dataclass(frozen=True)
class Shape:
    """What the work on a table depends on: records, smallest group, numbers and categories of a record.

    And whether records lie much closer in some places than in others, whether they spread in two directions only, and
    whether most have copies, where that decides by which search.
    """

    n: int
    k: int
    numbers: int
    categories: int = 0
    uneven: bool = False
    flat: bool = False
    copied: bool = False

    @classmethod
    def of(cls, n: int, k: int, p: int, categories: Sequence[tuple[int, int]] = ()) -> Shape:
        """Of n records in p coordinates, some of which hold categories, one for each level."""
        return cls(n, k, p - sum(stop - start for start, stop in categories), len(categories))

    @property
    def small(self) -> bool:
        """Whether two annealings run side by side."""
        return self.n <= ONE_BLOCK

    @property
    def one_block(self) -> bool:
        """Whether regions are reheated and solved: on small tables of numbers, where groups are small or few.

        Also with large groups where the table is flat, or uneven or full of copies and too large for all its
        distances: a skewed one of 3,000 records lost 1.3 % less by regions, a rounded one of 4,000 2 % less, an even
        one 0.6 % more. Of larger tables those that are flat or full of copies, where up to 6 % less is lost by as
        much work, and those that are uneven, with small groups: up to 4.9 % less, of one kind (Student, two degrees)
        0.2 % more.
        """
        if self.categories:
            return False
        if not self.small:
            told = self.flat or self.copied or (self.uneven and self.k < LARGE_GROUPS)
            return told and self.n <= LARGEST_UNEVEN
        few = self.n < (FEWEST_BY_PAIRS if self.n <= ALL_PAIRS else FEW_GROUPS) * self.k
        return (
            self.k < LARGE_GROUPS or few or self.flat or ((self.uneven or self.copied) and self.n > ALL_PAIRS)
        )

    @property
    def depends(self) -> bool:
        """Whether it matters how even or flat the table is."""
        either = replace(self, uneven=False, flat=False), replace(self, uneven=True, flat=True)
        return either[0].one_block != either[1].one_block

    @property
    def by_pairs(self) -> bool:
        """Whether a small table that is not one block is searched by its squared distances."""
        return self.small and self.n <= ALL_PAIRS and not self.categories and not self.one_block

    def seconds(self) -> float:
        """Seconds of one core that the table is worth by default, on the machines at hand.

        In proportion for small tables, twenty from 800 records on, and half of it where there are categories: more
        brought 0.1 % of the loss on the bundled survey. A large table has eight, which is one thread's, and
        from 35,000 records on more, but less than in proportion: 15 for 100,000 and 55 for a million.
        """
        if self.small:
            return min(20.0, 0.025 * self.n) / (2 if self.categories else 1)
        return max(8.0, 55.0 * (self.n / 1e6) ** 0.57)

    def seconds_per_proposal(self) -> float:
        """Seconds of one core that a proposal takes, on the machines at hand.

        In one block a proposal is one move, otherwise all exchanges of a record with a group.
        """
        k, padded = min(self.k, 30), 8 * -(-self.numbers // 8)
        if self.by_pairs:
            return 1e-9 * (20.0 + 4.0 * self.k + 0.06 * self.n)
        if self.one_block:
            return 1e-9 * (25.0 + 7.0 * k) * (0.5 + 0.03125 * padded)
        return 1e-9 * (100.0 + 16.0 * k) * (0.5 + 0.03125 * padded) * (1.0 + 0.8 * self.categories**0.75)

    def usual_proposals(self, effort: float = 1.0) -> int:
        """Proposals that the table gets by default, or that times some."""
        return max(1, round(effort * self.seconds() / self.seconds_per_proposal()))

    @property
    def paths(self) -> bool:
        """Whether orders of the records may show what single exchanges do not find: small tables, large groups."""
        return self.small and not self.categories and self.k >= LARGE_GROUPS

    def worth_a_path(self, proposals: float) -> bool:
        """Whether path and exchange takes no more than a quarter of the time of so many proposals."""
        seconds = self.n * (self.n / 1000) ** 0.3 * (5e-4 + 1e-6 * self.k * self.numbers)
        return self.paths and 4 * seconds <= proposals * self.seconds_per_proposal()

    def part(self, n: int, proposals: int) -> int:
        """Proposals for n of the records where the whole has some: in proportion to the time they take."""
        seconds = proposals * self.seconds_per_proposal() * (n / self.n)
        return max(100, int(seconds / replace(self, n=n).seconds_per_proposal()))


@dataclass
class Work:
    """Proposals made, the plan they follow, and when to stop.

    The plan is a number below 100: `code`, how long the first annealing is, and 50 more if regions are solved
    exactly. A code of 0 means that the annealing is all there is and as long as the proposals that were given.

    Parameters
    ----------
    time_limit : float or None
        Seconds after which to stop.
    max_proposals : int or None
        Proposals after which to stop; goes before the seconds. One of the two is given, or the core seconds.
    given : int, optional
        The plan to follow; by default it is chosen for the table and the proposals or seconds.
    core_seconds : float, optional
        Seconds of one core that as many proposals are made as they are worth, which the search settles by counting
        what they consist of.
    """

    time_limit: float | None
    max_proposals: int | None
    given: int | None = None
    core_seconds: float | None = None
    proposals: int = 0
    code: int = 0
    exact: bool = False
    started: float = field(default_factory=time.perf_counter)
    _looked: float = 0.0
    _ended: bool = False

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def done(self) -> tuple[float, float]:
        """How much is done, and of how much: proposals, or seconds where these count."""
        if self.max_proposals is not None:
            return float(self.proposals), float(max(self.max_proposals, self.proposals))
        limit = math.inf if self.time_limit is None else self.time_limit
        return min(self.elapsed(), limit), limit

    def seconds_left(self) -> float:
        """A forecast from the pace so far; infinite where there is none yet."""
        done, of = self.done()
        if self.max_proposals is None:
            return of - done
        return self.elapsed() * (of - done) / done if done > 0 else math.inf

    def settle(self, seconds_per_proposal: Callable[[], float]) -> None:
        """Give as many proposals as the core seconds are worth, where these were given."""
        if self.max_proposals is None and self.core_seconds is not None:
            self.max_proposals = max(1, round(self.core_seconds / seconds_per_proposal()))

    def over(self) -> bool:
        """Whether the budget is used up, or will be before the next look at half the time since the last."""
        if self._ended:
            return True
        if self.max_proposals is not None:
            return self.proposals >= self.max_proposals
        if self.time_limit is None:
            return False
        now = self.elapsed()
        pace, self._looked = now - self._looked, now
        self._ended = now + 0.5 * min(pace, 0.5) >= self.time_limit
        return self._ended

    def end(self) -> None:
        """Make no more proposals."""
        self._ended = True

    def stopped(self) -> bool:
        """Whether it was ended, or the time is over."""
        return self._ended or self.remaining() == 0.0

    def remaining(self) -> float | None:
        """Seconds left, where seconds count."""
        if self.max_proposals is not None or self.time_limit is None:
            return None
        return max(0.0, self.time_limit - self.elapsed())

    def plan(
        self,
        choose: Callable[[float], tuple[float, bool]],
        speed: Callable[[], float],
        longest: int,
        *,
        unit: int,
        steps: float = 2.0,
    ) -> int:
        """Proposals for the first annealing.

        Parameters
        ----------
        choose : function
            Gives, for a number of proposals, the share that goes into annealing and whether regions are solved
            exactly.
        speed : function
            Measures how many proposals a second has room for; asked only where seconds count.
        longest : int
            Proposals beyond which annealing brings nothing.
        unit, steps : int and float
            Lengths are `unit * 2 ** (i / steps)` for i from 0 on: few enough for two digits to name them.
        """
        if self.given is not None:
            self.exact, self.code = self.given >= PLANS, self.given % PLANS
        else:
            if self.max_proposals is not None:
                total = float(self.max_proposals)
            else:
                seconds = self.remaining()
                total = (60.0 if seconds is None else min(seconds, 1e6)) * speed()
            share, self.exact = choose(total)
            length = min(share * total, longest)
            self.code = min(PLANS - 1, max(1, 2 + math.floor(steps * math.log2(max(length, 1.0) / unit))))
        return int(unit * 2 ** ((self.code - 2) / steps)) if self.code > 1 else 0

    def whole_plan(self, speed: Callable[[], float], longest: int, *, unit: int, steps: float) -> int:
        """Proposals for an annealing that is all there is: as many as were given, or as the seconds have room for."""
        if self.max_proposals is not None and not self.given:
            return min(self.max_proposals, longest)
        return self.plan(lambda _: (1.0, False), speed, longest, unit=unit, steps=steps)

    def over_after(self, proposals: int) -> bool:
        """Whether so many more proposals are all there is room for."""
        if self.max_proposals is None or self._ended:
            return self.over()
        return self.proposals + proposals >= self.max_proposals

    def made(self) -> SearchWork:
        """What repeats this run."""
        return SearchWork(self.proposals, self.code + PLANS * self.exact)
