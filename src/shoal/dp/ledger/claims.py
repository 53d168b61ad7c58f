"""What a charge asks for, what comes back, and when it is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, Self

from shoal.dp.budget import epsilon
from shoal.errors import BudgetError, LedgerError, ParameterError

CURRENCIES = {"pure": "epsilon", "zcdp": "rho"}
DELTA = 10**18  # parts of one, in which probabilities of failure are counted
NO_UNIT = "none yet"
CLOSED = (
    "The budget of this data set, or one that a team shares, does not allow this: nothing new is answered to this analyst "
    "until the owner states budgets anew. Answers received so far stay free."
)


def delta_parts(delta: float) -> int:
    """A probability of failure in whole 1e-18, rounded down.

    Examples
    --------
    >>> from shoal.dp.ledger.claims import delta_parts
    >>> delta_parts(0.5)
    500000000000000000
    """
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 <= delta < 1:
        raise ParameterError(f"A part of delta must be a number of at least 0 and below 1. Got {delta!r}.")
    return int(Fraction(delta) * DELTA)


class ClosedError(BudgetError):
    """What others spent stands against a claim: from now on its analyst is closed until the owner decides.

    Parameters
    ----------
    of_team : bool
        Whether it is a team's total, not the data set's. The sentence does not tell.
    """

    def __init__(self, of_team: bool = False) -> None:
        super().__init__(CLOSED)
        self.of_team = of_team


class CountedUnit(Protocol):
    """A unit as the ledger needs it (`shoal.dp.unit`)."""

    @property
    def key(self) -> str:
        """The unit as the ledger knows it."""

    def times(self, kept: str) -> int:
        """How often a cost counts in the unit that is kept; 0 if it promises nothing there."""

    def keep(self, kept: str) -> str:
        """The unit that is kept from now on."""


@dataclass(frozen=True)
class Amount:
    """A cost in whole millionths of a currency: of epsilon (`pure`) or of rho (`zcdp`)."""

    millionths: int
    currency: str = "pure"

    def __post_init__(self) -> None:
        if self.currency not in CURRENCIES or self.millionths < 1:
            raise ParameterError(
                f"A cost must be a whole number of millionths above 0 in one of {', '.join(CURRENCIES)}. "
                f"Got {self.millionths!r} in {self.currency!r}."
            )


@dataclass(frozen=True)
class Caps:
    """What may be spent on a data set: in all, and by each analyst; its currency is for life.

    `keys` is the part of delta, in 1e-18, that groups which are not declared may use.
    """

    total: int
    per_analyst: int
    currency: str = "pure"
    keys: int = 0

    def to_json(self) -> str:
        """As an entry keeps it."""
        facts = [self.currency, self.total, self.per_analyst]
        return json.dumps([*facts, self.keys] if self.keys else facts)

    @classmethod
    def from_json(cls, body: str) -> Self:
        """As an entry kept it."""
        currency, total, per_analyst, *keys = json.loads(body)
        return cls(int(total), int(per_analyst), str(currency), int(keys[0]) if keys else 0)

    def within(self, other: Caps | None) -> Caps:
        """The tighter of two."""
        if other is None:
            return self
        return replace(
            self, total=min(self.total, other.total), per_analyst=min(self.per_analyst, other.per_analyst)
        )


@dataclass(frozen=True)
class Claim:
    """What a charge asks for.

    Parameters
    ----------
    dataset, analyst : str
    question : str
        In canonical form, for the record.
    state : str
        Whatever else tells this answer from others: schema, model, data version. The store's key is a keyed hash of
        question, cost, unit and state; no part of it may be computed from private rows.
    cost : Amount
    unit : CountedUnit
    limit : Caps, optional
        Tighter caps that a session was opened with; the ledger's own always hold.
    delta : int, default 0
        With at most this probability, in 1e-18, the answer does not keep to its cost.
    """

    dataset: str
    analyst: str
    question: str
    state: str
    cost: Amount
    unit: CountedUnit
    limit: Caps | None = None
    delta: int = 0

    @property
    def facts(self) -> str:
        """What the store's key is made of."""
        return json.dumps(
            [self.question, self.state, self.cost.currency, self.cost.millionths, self.unit.key]
        )


@dataclass(frozen=True)
class Receipt:
    """What `Ledger.once` gives: the answer that was drawn now, or the one that is kept.

    Parameters
    ----------
    body : str
    charged : int
        Millionths taken from this analyst; 0 for an answer already received.
    remaining : int
        Millionths that this analyst can still spend.
    ended : bool
        Whether the data set's total has ended.
    weaker : bool
        Whether earlier answers were given in a weaker unit than the ledger keeps now.
    entry : str
        What names the analyst's entry in the ledger (see `Entry.name`).
    """

    body: str
    charged: int
    remaining: int
    ended: bool
    weaker: bool = False
    entry: str = ""


@dataclass(frozen=True)
class Charge:
    """A committed charge, or a stored answer that came in its place."""

    seq: int
    at: str
    charged: int
    remaining: int
    ended: bool
    weaker: bool
    entry: str
    stored: str | None = None


@dataclass(frozen=True)
class Last:
    """Where a data set and one of its analysts stand."""

    dataset: str
    unit: str
    dataset_total: int
    analyst_total: int
    ended: int

    @property
    def new(self) -> bool:
        """Whether no answer has been given yet."""
        return self.unit in ("", NO_UNIT)


@dataclass(frozen=True)
class Price:
    """What a claim costs where the data set stands now, and the unit that is kept from then on."""

    times: int
    asked: int
    unit: str


def price(claim: Claim, last: Last) -> Price:
    """How often a claim counts in the kept unit: of rho the square, as distances add up and rho is theirs squared."""
    times = 1 if last.new else claim.unit.times(last.unit)
    times = times**2 if claim.cost.currency == "zcdp" else times
    kept = claim.unit.key if last.new else claim.unit.keep(last.unit)
    return Price(times, claim.cost.millionths * times, kept)


def refuse(claim: Claim, last: Last, caps: Caps, cost: Price, team_left: int | None = None) -> None:
    """Raise `BudgetError` unless the claim is allowed.

    The sentence tells an analyst about that analyst only: not what others have spent, and, as the data set's own cap
    is held against every answer that the analyst does not hold yet, not whether somebody has asked it before. Where
    the others' part of a total decides, the data set's or a team's, it is `ClosedError`, one sentence whatever was asked: a
    single comparison can be had of it, and no search (docs/theory/composition.md).
    """
    word = CURRENCIES[caps.currency]
    if claim.cost.currency != caps.currency:
        raise BudgetError(
            f"Data set {claim.dataset!r} is counted in {word} for life. Got a cost in "
            f"{CURRENCIES[claim.cost.currency]}."
        )
    if cost.times == 0:
        raise BudgetError(
            f"The ledger keeps data set {claim.dataset!r} in the unit {last.unit!r} for life; "
            "an answer in a weaker or different unit is refused."
        )
    again = f" In this ledger's unit, {last.unit!r}, it counts {cost.times} times." if cost.times > 1 else ""
    own = min(caps.per_analyst, caps.total)
    if last.analyst_total + cost.asked > own:
        left = epsilon(max(0, own - last.analyst_total))
        raise BudgetError(
            f"The budget of this analyst does not allow {word} {epsilon(cost.asked)}: {left} of "
            f"{epsilon(own)} is left.{again}"
        )
    if last.dataset_total + cost.asked > caps.total:
        raise ClosedError
    if team_left is not None and cost.asked > team_left:
        raise ClosedError(of_team=True)


def refuse_delta(claim: Claim, caps: Caps, cost: Price, used: int) -> None:
    """Raise `BudgetError` unless what is left of the reserved delta allows the claim.

    Every claim of a data set takes the same part of it, so that no search tells more than that all of it is used.
    """
    if not claim.delta:
        return
    if cost.times > 1:
        raise BudgetError(
            "Groups that are not declared are answered in the unit that the ledger keeps, and this is another one: "
            "declare the levels of the column."
        )
    if used + claim.delta > caps.keys:
        raise BudgetError(
            "The delta that is reserved for groups that are not declared does not allow this: declare the levels of the "
            "column, or let the owner reserve more ('keys' of the schema, 'shoal ledger cap')."
        )


def left_over(caps: Caps, analyst_total: int) -> int:
    """What an analyst can still spend, as far as it depends on that analyst."""
    return max(0, min(caps.per_analyst, caps.total) - analyst_total)


def no_caps(dataset: str) -> LedgerError:
    """The error of a data set that nobody has declared."""
    return LedgerError(f"The ledger has no budget for data set {dataset!r}: its owner declares one first.")
