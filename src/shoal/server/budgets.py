"""Budgets as they are told: each amount with what it is counted in, epsilon or rho."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal.dp.budget import micro
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.mechanisms.currency import PURE, WORDS, CurrencyAmount
from shoal.errors import ParameterError
from shoal.typing import Json


@dataclass(frozen=True)
class Budget:
    """What an analyst may spend on a data set, spent, and can still spend; what others spent is not told.

    Parameters
    ----------
    dataset, analyst : str
    cap, spent, remaining : CurrencyAmount

    Examples
    --------
    >>> from shoal.dp.mechanisms.currency import Currency, CurrencyAmount
    >>> from shoal.server.budgets import Budget
    >>> rho = Currency("zcdp", 1e-6)
    >>> told = Budget("survey", "ann", *(CurrencyAmount(each, rho) for each in (6641, 1641, 5000)))
    >>> told.to_dict()["counted_in"], told.to_dict()["remaining"], told.sentence
    ('rho', 0.005, '0.005 of 0.006641 rho left')
    """

    dataset: str
    analyst: str
    cap: CurrencyAmount
    spent: CurrencyAmount
    remaining: CurrencyAmount

    @property
    def word(self) -> str:
        """What it is counted in."""
        return self.cap.word

    @property
    def sentence(self) -> str:
        """What is left, in words."""
        return f"{self.remaining.value:g} of {self.cap.value:g} {self.word} left"

    def to_dict(self) -> Json:
        """The facts as plain values."""
        amounts = {name: getattr(self, name).value for name in ("cap", "spent", "remaining")}
        return {"dataset": self.dataset, "analyst": self.analyst, **counted(self.cap), **amounts}


@dataclass(frozen=True)
class Left:
    """For the owner: what an analyst has left, and what the data set has."""

    cap: CurrencyAmount
    remaining: CurrencyAmount
    total: CurrencyAmount
    total_left: CurrencyAmount
    team_left: CurrencyAmount | None = None


class CurrencyWords:
    """What each data set of a ledger is counted in, looked up once: for lists of entries.

    Parameters
    ----------
    ledger : Ledger
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, str] = {}

    def of(self, dataset: str) -> str:
        """`epsilon` or `rho`; `epsilon` where no cap was ever stated."""
        if dataset not in self._known:
            caps = self._ledger.caps(dataset)
            self._known[dataset] = WORDS["pure" if caps is None else caps.currency]
        return self._known[dataset]


@dataclass(frozen=True)
class DatasetSpending:
    """For the owner: caps, totals, charges over time, and the day on which they will have used the cap up.

    Parameters
    ----------
    total : CurrencyAmount
        The cap of the data set.
    per_analyst, spent : float
    ended : bool
        Whether the total no longer holds.
    exhausted : str, optional
    charges : tuple of (str, float)
        When, and the total then.
    analysts : dict of str to float
    """

    total: CurrencyAmount
    per_analyst: float
    spent: float
    ended: bool
    exhausted: str | None
    charges: tuple[tuple[str, float], ...]
    analysts: dict[str, float]

    @property
    def cap(self) -> float:
        """The cap of the data set."""
        return self.total.value

    @property
    def counted_in(self) -> str:
        """`epsilon` or `rho`."""
        return self.total.word

    @property
    def meaning(self) -> str:
        """Of a cap in rho, the (epsilon, delta) that it means."""
        return self.total.meaning

    def to_dict(self) -> Json:
        """The facts as plain values."""
        told = ("meaning", "cap", "per_analyst", "spent", "ended", "exhausted", "charges", "analysts")
        return counted(self.total) | {name: getattr(self, name) for name in told}


def counted(cap: CurrencyAmount) -> Json:
    """What a data set is counted in, and, of a cap in rho, the (epsilon, delta) that it means."""
    facts: Json = {"currency": cap.currency.name, "counted_in": cap.word}
    if cap.currency.delta is not None:
        facts |= {"delta": cap.currency.delta, "cap_epsilon": cap.currency.epsilon(cap.millionths)}
    return facts


def amount_named(word: str, epsilon: float | None, rho: float | None) -> int:
    """Millionths of an amount that was named; one under the name of the other currency is refused.

    An epsilon is not turned into rho here: what is added to a cap does not convert by itself.

    Examples
    --------
    >>> from shoal.server.budgets import amount_named
    >>> amount_named("epsilon", 0.5, None), amount_named("rho", None, 0.01)
    (500000, 10000)
    """
    given, other = (epsilon, rho) if word == WORDS[PURE] else (rho, epsilon)
    if given is None or other is not None:
        raise ParameterError(f"This data set is counted in {word}: say {word!r}, and nothing else.")
    return micro(given, word) if given else 0


def number_of(text: str, name: str) -> float:
    """A number that was typed as an amount."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1_000_000:
        raise ParameterError(f"{name!r} must be a number from 0 to 1000000. Got {text.strip()[:40]!r}.")
    return found
