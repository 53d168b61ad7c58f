"""What a question costs: what the asker says becomes millionths of the currency, and a price before anything is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shoal.dp import budget as millionths
from shoal.dp.answering.cost import Cost, CostPart, parts_of
from shoal.dp.answering.expected import amount_for
from shoal.dp.answering.free import GAUSSIAN, LAPLACE, free_answer
from shoal.dp.answering.frequent import asks_for_mode, mode_cost
from shoal.dp.answering.keyed import KeyedPlan, amount_with_keys, keyed_claim, keyed_parts, plan_keyed
from shoal.dp.meaning.columns import UndeclaredGroupError
from shoal.dp.sql.query import Query
from shoal.dp.unit import as_it_stands
from shoal.errors import ParameterError

if TYPE_CHECKING:
    from shoal.dp.answering.answer import Answer
    from shoal.dp.answering.plan import Plan
    from shoal.dp.meaning.check import Keys
    from shoal.dp.session import Session

MOST_PARTS = 10_000  # releases of a query, so that an amount of so many can be split


@dataclass(frozen=True)
class Offer:
    """What somebody will spend: an epsilon, a rho, or what an error costs; one of them."""

    epsilon: float | None = None
    rho: float | None = None
    error: float | None = None

    @property
    def one(self) -> bool:
        """Whether it is one of them."""
        return sum(each is not None for each in (self.epsilon, self.rho, self.error)) == 1


def amount_of(session: Session, offer: Offer, query: Query | None = None) -> int:
    """What to spend, in millionths of the data set's currency."""
    if not offer.one:
        raise ParameterError("'epsilon' must be given, or 'rho' or 'error' in its place, and not both.")
    if offer.error is not None:
        if query is None:
            raise ParameterError("'error' is for COUNT and SUM: say with 'epsilon' what to spend on this.")
        plan = session._plan(query, millionths.MICRO * MOST_PARTS)
        return max(session._least, amount_for(plan, offer.error))
    if offer.rho is None:
        return session.currency.millionths(offer.epsilon)
    if session.currency.pure:
        raise ParameterError(
            f"Data set {session.schema.id!r} is counted in epsilon: 'epsilon' says what to spend, not 'rho'."
        )
    return millionths.micro(offer.rho, "rho")


def keyed_plan(session: Session, query: str | Query, found: UndeclaredGroupError, offer: Offer) -> KeyedPlan:
    """The plan of a query by a column whose values nobody declared."""

    def amount(asked: Query, keys: Keys) -> int:
        if offer.error is None or not offer.one:
            return amount_of(session, offer)
        plan = session._plan(asked, millionths.MICRO * MOST_PARTS, keys)
        return amount_with_keys(max(session._least, amount_for(plan, offer.error)))

    return plan_keyed(session, query, found, amount)


def bought_before(session: Session, query: str | Query, plan: Plan, who: str) -> Answer | None:
    """What releases answer for nothing, at least as exactly as the plan would."""
    if not session.releases:
        return None

    def widths() -> dict[str, float]:
        quantile = LAPLACE if session.currency.pure else GAUSSIAN
        return {
            each["figure"]: quantile * each["noise_scale"] for each in parts_of(plan) if "noise_scale" in each
        }

    found = free_answer(session.releases, query, session.schema.id, who, session.version, widths)
    if found is None:
        return None
    stamp = as_it_stands(found.guarantee, ended=session.ledger.ended(session.schema.id))
    return replace(found, guarantee=stamp, remaining=session.remaining(who))


def cost_of(session: Session, queries: Sequence[str | Query], offer: Offer, who: str) -> Cost:
    """What queries would cost an analyst, how it is split, and the error to expect; nothing is charged."""
    total, parts, held = 0, list[CostPart](), set[str]()
    kept, currency = session.ledger.unit(session.schema.id), session.currency
    for each in queries:
        if asks_for_mode(each):
            whole, shown, part = mode_cost(session, str(each), amount_of(session, offer), who)
            total += whole * currency.times(1 if kept is None else max(1, part))
            parts.append(shown)
            continue
        try:
            asked = session._question(each)
        except UndeclaredGroupError as found:
            keyed = keyed_plan(session, each, found, offer)
            claim = keyed_claim(session, keyed, who)
            fresh = claim.facts not in held and not session.ledger.has_received(claim)
            total += keyed.micro if fresh else 0
            held.add(claim.facts)
            parts += keyed_parts(keyed, currency.word)
            continue
        plan = session._plan(asked, amount_of(session, offer, asked))
        if bought_before(session, each, plan, who) is not None:
            continue
        claim = session._claim(plan, who)
        if claim.facts not in held and not session.ledger.has_received(claim):
            times = 1 if kept is None else max(1, plan.unit.times(kept))
            total += plan.micro * currency.times(times)
        held.add(claim.facts)
        parts += parts_of(plan)
    spent = None if currency.pure else millionths.epsilon(total)
    left = session.ledger.remaining(session.schema.id, who, session.limit)
    more = left // total if total else None
    return Cost(currency.epsilon(total), millionths.epsilon(left), tuple(parts), spent, more)
