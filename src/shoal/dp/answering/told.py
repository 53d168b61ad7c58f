"""From a receipt of the ledger to the answer for an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.figures import cautions
from shoal.dp.answering.noise import as_released
from shoal.dp.answering.shown import figures, notes
from shoal.dp.ledger.claims import DELTA
from shoal.dp.unit import ENDED

if TYPE_CHECKING:
    from shoal.dp.answering.plan import Plan
    from shoal.dp.ledger.claims import Receipt
    from shoal.dp.session import Session

WEAKER = "earlier answers about this data set were given in a weaker unit; the ledger's total bounds the answers since"


def answer_of(session: Session, plan: Plan, receipt: Receipt) -> Answer:
    """The answer that a receipt stands for."""
    noisy = as_released(receipt.body)
    laid, said = figures(plan, noisy), list(notes(plan, noisy))
    if receipt.charged > plan.micro:
        said.append(f"counts {receipt.charged // plan.micro} times in the unit that the ledger keeps")
    if receipt.weaker:
        said.append(WEAKER)
    return told(
        session,
        plan.protected.guarantee,
        receipt,
        laid.value,
        laid.interval,
        tuple(said),
        laid.cut,
        cautions(plan, noisy),
    )


def told(
    session: Session,
    promise: str,
    receipt: Receipt,
    value: Any,
    interval: Any,
    said: tuple[str, ...],
    cut: Any = None,
    cautioned: tuple[str, ...] = (),
) -> Answer:
    """An answer with what it cost, in the data set's currency."""
    return Answer(
        value,
        guarantee_of(session, promise, receipt.ended),
        session.currency.epsilon(receipt.charged),
        budget.epsilon(receipt.remaining),
        interval,
        said,
        cut,
        cautioned,
        receipt.entry or None,
        None if session.currency.pure else budget.epsilon(receipt.charged),
        session.currency.delta,
    )


def guarantee_of(session: Session, promise: str, ended: bool) -> str:
    """A unit's sentence as it holds here; in zCDP with what all answers together keep to."""
    caps = session.caps if session.currency.pure else session.ledger.caps(session.schema.id) or session.caps
    return session.currency.guarantee(promise, caps.total, caps.keys / DELTA) + (ENDED if ended else "")
