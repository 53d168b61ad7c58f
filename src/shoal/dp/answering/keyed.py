"""GROUP BY a column without declared values: common values are drawn first, then the figures of each.

The values are chosen by their noisy numbers of units (`shoal.dp.mechanisms.keys`), from a part of the query's rho and
an equal part of the delta that the schema reserves; the figures are then those of a column with these levels. One
charge, one stored answer. Proof: docs/theory/keys.md.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.cost import CostPart, cost_part, parts_of
from shoal.dp.answering.figures import cautions
from shoal.dp.answering.noise import add_noise, as_released, released
from shoal.dp.answering.plan import Plan
from shoal.dp.answering.shown import figures, notes
from shoal.dp.answering.told import told
from shoal.dp.ledger.claims import DELTA, Claim, delta_parts
from shoal.dp.meaning.check import level_text
from shoal.dp.meaning.columns import UndeclaredGroupError
from shoal.dp.mechanisms.keys import KeyChoice
from shoal.dp.sql.query import Query
from shoal.dp.unit import AddRemoveCell, AddRemoveUnit, Protected
from shoal.errors import QueryError

if TYPE_CHECKING:
    from shoal.dp.ledger.claims import Receipt
    from shoal.dp.session import Session

MOST_KEYS = 1_000
PARTS = (1, 2)  # of a query's rho: for the keys, for the figures


@dataclass(frozen=True)
class KeyedPlan:
    """A query with drawn groups, all of it public.

    Parameters
    ----------
    column : str
    plan : Plan
        Of the figures, for as many stand-ins as there may be keys.
    micro : int
        What the whole costs.
    choice : KeyChoice
    """

    column: str
    plan: Plan
    micro: int
    choice: KeyChoice

    @property
    def unit(self) -> Protected:
        """Whom it protects; a row of a unit counts as the unit taken out and put back."""
        unit = self.plan.unit
        return replace(unit, per_row=2) if isinstance(unit, (AddRemoveUnit, AddRemoveCell)) else unit


def plan_keyed(
    session: Session, query: str | Query, found: UndeclaredGroupError, amount: Callable[[Query, Any], int]
) -> KeyedPlan:
    """Plan a query whose groups have to be drawn, or say why it is refused; no data is looked at.

    Parameters
    ----------
    session : Session
    query : str or Query
    found : UndeclaredGroupError
        Which column declares no groups.
    amount : callable
        What to spend on the figures' query with these stand-ins, in millionths.
    """
    reserved, protected = session.schema.keys, session.protected
    if session.currency.pure or reserved is None or protected is None:
        raise found
    keys = {found.column: _stand_ins(session.schema.columns[found.column].kind)}
    try:
        asked = session._question(query, keys)
    except UndeclaredGroupError as other:
        raise QueryError(
            f"GROUP BY may have one column whose values nobody declared. Got {found.column} and {other.column}: "
            "declare the levels of one of them."
        ) from None
    micro = session._least_of(amount(asked, keys), 1 + len(asked.aggregates))
    first, rest = budget.split(micro, PARTS)
    plan = session._plan(asked, rest, keys)
    several = protected.kind in ("column", "cell")
    choice = KeyChoice(
        Fraction(first, budget.MICRO),
        Fraction(delta_parts(reserved.delta) // reserved.questions, DELTA),
        protected.rows,
        1 if several else protected.rows,
    )
    return KeyedPlan(found.column, plan, micro, choice)


def amount_with_keys(needed: int) -> int:
    """What a query costs whose figures cost so much."""
    return -(-needed * sum(PARTS) // PARTS[1]) + 1


def keyed_claim(session: Session, keyed: KeyedPlan, analyst: str) -> Claim:
    """What is charged: rho, and a part of the reserved delta."""
    text = str(keyed.plan.lowered.asked.question)
    claim = session._claim_for(text, keyed.micro, keyed.unit, analyst)
    return replace(claim, delta=int(keyed.choice.delta * DELTA))


def ask_keyed(session: Session, keyed: KeyedPlan, analyst: str) -> Answer:
    """Draw keys and figures, charged once."""

    def draw() -> str:
        values, counts = session._rows.keys(keyed.plan, keyed.column, keyed.choice.keys)
        session._hook("computed")
        keys = _shown(session, keyed.column, [values[at] for at in keyed.choice.choose(counts)])
        if not keys:
            return json.dumps([[], []])
        plan = _plan_of(session, keyed, keys)
        noisy = add_noise(plan, session._rows.exact(plan))
        session._hook("noised")
        return json.dumps([keys, json.loads(released(noisy))])

    session._rows.ready()
    with session.admit(keyed.plan.size, analyst):
        return keyed_answer(session, keyed, session.ledger.once(keyed_claim(session, keyed, analyst), draw))


def keyed_answer(session: Session, keyed: KeyedPlan, receipt: Receipt) -> Answer:
    """The answer that a receipt stands for."""
    keys, body = json.loads(receipt.body)
    choice, many = keyed.choice, keyed.plan.protected.kind in ("column", "cell")
    share = float(choice.delta)
    what = "units" if many else "rows"
    said = [
        f"groups of {keyed.column} are values whose noisy number of {what} reaches {choice.threshold}, {MOST_KEYS} at most; others are "
        f"not shown (delta {share:.3g} of what is reserved for this)"
    ]
    if many:
        said.append(
            f"a unit counts for at most {choice.keys} values of {keyed.column} when groups are chosen"
        )
    promise = keyed.plan.protected.guarantee.replace("epsilon-DP", f"{share:.3g}-approximate epsilon-DP", 1)
    if not keys:
        return told(session, promise, receipt, [], [], tuple(said))
    plan, noisy = _plan_of(session, keyed, tuple(keys)), as_released(json.dumps(body))
    laid = figures(plan, noisy)
    more = (
        each.replace("without a declared level of", "without a shown value of") for each in notes(plan, noisy)
    )
    every = (*said, *more)
    return told(session, promise, receipt, laid.value, laid.interval, every, laid.cut, cautions(plan, noisy))


def keyed_parts(keyed: KeyedPlan, word: str) -> list[CostPart]:
    """How the cost is split, for people to read."""
    first, rest = budget.split(keyed.micro, PARTS)
    part = cost_part(str(keyed.plan.lowered.asked), keyed.column, "keys", word, first, first / keyed.micro)
    part["delta"], part["noise_scale"] = float(keyed.choice.delta), float(keyed.choice.noise.scale)
    part["threshold"] = keyed.choice.threshold
    others = parts_of(keyed.plan)
    for each in others:
        each["share"] *= rest / keyed.micro
    return [part, *others]


def _plan_of(session: Session, keyed: KeyedPlan, keys: tuple[Any, ...]) -> Plan:
    rest = budget.split(keyed.micro, PARTS)[1]
    return session._plan(keyed.plan.lowered.asked, rest, {keyed.column: keys})


def _stand_ins(kind: str) -> tuple[Any, ...]:
    if kind == "date":
        return tuple(datetime.date.fromordinal(1 + each).isoformat() for each in range(MOST_KEYS))
    return tuple(range(MOST_KEYS)) if kind == "number" else tuple(f"key {each}" for each in range(MOST_KEYS))


def _shown(session: Session, column: str, values: list[Any]) -> tuple[Any, ...]:
    """Keys as an answer shows them, in order: at most so many, those of the largest noisy numbers."""
    kind, kept = session.schema.columns[column].kind, values[:MOST_KEYS]
    if kind == "date":
        return tuple(datetime.date.fromordinal(int(each)).isoformat() for each in sorted(kept))
    if kind == "number":
        return tuple(int(each) if each == int(each) else each for each in sorted(kept))
    texts = {
        level_text(each): each for each in reversed(kept)
    }  # blanks of other kinds at the ends make no other level
    return tuple(sorted(texts.values()))
