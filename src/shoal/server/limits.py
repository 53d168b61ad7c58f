"""Limits on what one account may take from the others: turns a minute, large questions, refusals."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from shoal.errors import QueryError, ShoalError


class TooOftenError(ShoalError):
    """Asked too often."""

    status = 429


class Buckets:
    """How often something may be done: so many times a minute per key, unused turns kept up to that number.

    Parameters
    ----------
    per_minute : float
    most : int, optional
        Turns that are kept; as many as a minute gives if left open.
    """

    def __init__(self, per_minute: float, most: int | None = None) -> None:
        self._pace, self._most = float(per_minute), float(most or per_minute)
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> bool:
        """Take a turn; False if none is left."""
        with self._lock:
            if len(self._left) > 50_000:
                self._left.clear()
            left = self._now(key)
            allowed = left >= 1
            self._left[key] = (left - 1 if allowed else left, time.monotonic())
            return allowed

    def has_turn(self, key: str) -> bool:
        """Whether a turn could be taken."""
        with self._lock:
            return self._now(key) >= 1

    def give_back(self, key: str) -> None:
        """Return a turn that was taken."""
        with self._lock:
            left, at = self._left.get(key, (self._most, time.monotonic()))
            self._left[key] = (min(self._most, left + 1), at)

    def _now(self, key: str) -> float:
        left, at = self._left.get(key, (self._most, time.monotonic()))
        return min(self._most, left + (time.monotonic() - at) * self._pace / 60)


class BoundedTurns:
    """Lets work that takes long in one after another; nobody has two turns, and few wait: each holds a thread.

    Parameters
    ----------
    at_once, waiting : int
        How much is done at a time, and how much may wait; of each account one.
    what : str
        What it is called.

    Examples
    --------
    >>> from shoal.server.limits import BoundedTurns
    >>> turns = BoundedTurns(1, 4, "list of questions")
    >>> with turns.take("ann"), turns.take("ann"):
    ...     pass
    Traceback (most recent call last):
    ...
    shoal.server.limits.TooOftenError: A list of questions of yours is being answered: wait for it.
    """

    def __init__(self, at_once: int, waiting: int, what: str) -> None:
        self._places, self._what = at_once + waiting, what
        self._turn, self._lock = threading.Semaphore(at_once), threading.Lock()
        self._inside: set[str] = set()

    @property
    def busy(self) -> int:
        """How much is done or waits."""
        return len(self._inside)

    @contextlib.contextmanager
    def take(self, who: str) -> Iterator[None]:
        """Wait for a turn; raise where the account has one, or too many wait already."""
        with self._lock:
            if who in self._inside:
                raise TooOftenError(f"A {self._what} of yours is being answered: wait for it.")
            if len(self._inside) >= self._places:
                raise TooOftenError(
                    f"Too many are waiting who asked for a {self._what}; try again in a moment."
                )
            self._inside.add(who)
        try:
            with self._turn:
                yield
        finally:
            with self._lock:
                self._inside.discard(who)


class LargeQuestions:
    """Lets questions with many numbers in one after another, so that small ones never wait for more than one of them.

    Whether a question is large, waits or is refused depends on its text, the schema and on who else asks, never on a row.

    Parameters
    ----------
    most : int
        Numbers of one question; more are refused.
    large : int
        Questions with more numbers than this wait for one another.
    at_once, waiting : int
        How many are answered at a time, and how many may wait; of each account one.

    Examples
    --------
    >>> from shoal.server.limits import LargeQuestions
    >>> pool = LargeQuestions(most=1000, large=10, at_once=1, waiting=4)
    >>> with pool.admit(500, "ann"), pool.admit(2, "ann"):
    ...     pool.busy
    1
    """

    def __init__(self, most: int, large: int, at_once: int, waiting: int) -> None:
        self.most, self.large = most, large
        self._turns = BoundedTurns(at_once, waiting, f"question with more than {large} numbers")

    @property
    def busy(self) -> int:
        """Large questions that are answered or wait."""
        return self._turns.busy

    @contextlib.contextmanager
    def admit(self, size: int, who: str) -> Iterator[None]:
        """Wait for a turn if the question is large; raise where it is too large, or too many wait already."""
        if size > self.most:
            raise QueryError(
                f"A question may ask for at most {self.most} numbers, figures times groups. Got {size}: ask for fewer "
                "groups or figures."
            )
        if size <= self.large:
            yield
            return
        with self._turns.take(who):
            yield
