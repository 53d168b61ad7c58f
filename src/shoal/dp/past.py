"""Answers an analyst already holds, made again from what the ledger stored: nothing is drawn or charged."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.frequent import asks_for_mode, mode_again
from shoal.dp.answering.keyed import keyed_answer, keyed_claim, plan_keyed
from shoal.dp.answering.told import answer_of
from shoal.dp.ledger.claims import Receipt
from shoal.dp.ledger.entries import ENTRIES, Entry
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.meaning.columns import UndeclaredGroupError
from shoal.dp.mechanisms.currency import CurrencyAmount
from shoal.dp.session import Session
from shoal.dp.sql.parse import parse
from shoal.dp.workload import WorkloadAnswer, asked_together, workload_again
from shoal.errors import InputError, MissingExtraError, ShoalError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None


@dataclass(frozen=True)
class Past:
    """A charge as its analyst may see it.

    Parameters
    ----------
    entry : str
        What names its entry in the ledger. Its number would tell whether somebody had asked the same before.
    at : str
    query : str
        In canonical form.
    charged : CurrencyAmount
        What this analyst was charged, epsilon or rho.
    answer : Answer, optional
        None where it cannot be made again from the canonical text, or was lost before it was stored.
    large : bool, default False
        Whether the answer is there, but too large for the list; `held` has it.
    mode : str, optional
        In which it was answered, where it can be made again.
    asked : CurrencyAmount, optional
        What was asked to be spent; less than what was charged where an answer counts several times.
    workload : WorkloadAnswer, optional
        In place of `answer`, where several queries were asked together.
    """

    entry: str
    at: str
    query: str
    charged: CurrencyAmount
    answer: Answer | None
    large: bool = False
    mode: str | None = None
    asked: CurrencyAmount | None = None
    workload: WorkloadAnswer | None = None


def past(
    sessions: list[Session],
    analyst: str,
    last: int = 50,
    *,
    text: str = "",
    before: str | None = None,
    figures: int | None = None,
) -> list[Past]:
    """The newest answers that an analyst paid for, newest first.

    Parameters
    ----------
    sessions : list of Session
        Of one data set, one per mode.
    analyst : str
    last : int, default 50
        How many at most.
    text : str, default ""
        Only questions that hold these words.
    before : str, optional
        Only what is older than the answer of this entry.
    figures : int, optional
        Numbers that the list may hold in all; answers beyond it come without them, marked as large. So do workloads then:
        making one again takes as long as choosing its strategy did.

    Examples
    --------
    >>> import polars as pl
    >>> from shoal import dp
    >>> from shoal.dp.past import past
    >>> from shoal.schema import Column, Schema
    >>> schema = Schema({"age": Column("age", bounds=(0, 110))}, id="survey")
    >>> session = dp.Session(pl.DataFrame({"age": [31, 45, 62]}), schema, budget=2.0)
    >>> answer = session.ask("SELECT COUNT(*) FROM t WHERE age >= 40", epsilon=0.5)
    >>> past([session], "me")[0].answer.value == answer.value
    True
    """
    select = _charges_of(sessions, analyst).order_by(ENTRIES.c.seq.desc()).limit(last)
    if text:
        select = select.where(sa.func.lower(ENTRIES.c.body).contains(text.lower(), autoescape=True))
    if before is not None:
        named = ENTRIES.alias("named")
        older = sa.select(sa.func.max(named.c.seq)).where(
            named.c.analyst == analyst, named.c.hash.startswith(before, autoescape=True)
        )
        select = select.where(ENTRIES.c.seq < older.scalar_subquery())
    rows = sessions[0].ledger.store.all(select)
    found, left = [], math.inf if figures is None else figures
    for row in rows:
        each, size = _past(sessions, Entry(*row), analyst, left)
        left -= 0 if each.large else size
        found.append(each)
    return found


def held(sessions: list[Session], analyst: str, entry: str) -> Past | None:
    """The answer of one entry, if this analyst paid for it.

    Parameters
    ----------
    sessions : list of Session
        Of one data set, one per mode.
    analyst : str
    entry : str
        As the answer names it.
    """
    if not re.fullmatch("[0-9a-f]{8,64}", entry):
        return None
    rows = sessions[0].ledger.store.all(
        _charges_of(sessions, analyst).where(ENTRIES.c.hash.startswith(entry)).limit(2)
    )
    return _past(sessions, Entry(*rows[0]), analyst)[0] if len(rows) == 1 else None


def _charges_of(sessions: list[Session], analyst: str) -> sa.Select[Any]:
    return sa.select(ENTRIES).where(
        ENTRIES.c.kind.in_(("charge", "receipt")),
        ENTRIES.c.dataset == sessions[0].schema.id,
        ENTRIES.c.analyst == analyst,
    )


def _past(sessions: list[Session], entry: Entry, analyst: str, most: float = math.inf) -> tuple[Past, int]:
    """A charge with its answer, unless that has more numbers than may be told here; and how many it has."""
    found = _again(sessions, entry, analyst, most)
    currency = sessions[0].currency
    large = found.answer is None and found.workload is None and found.size > 0
    asked = CurrencyAmount(found.micro, currency) if found.micro else None
    spent = CurrencyAmount(entry.micro, currency)
    made = Past(
        entry.name, entry.at, entry.body, spent, found.answer, large, found.mode, asked, found.workload
    )
    return made, found.size


def find(ledger: Ledger, entry: str) -> tuple[Entry, str | None]:
    """The charge that an answer names, and the whole numbers that were released for it; for who holds the ledger.

    Parameters
    ----------
    ledger : Ledger
    entry : str
        At least eight digits of the entry's name, or its number.
    """
    row = ledger.store.all(_named(entry))
    if len(row) != 1:
        raise InputError(
            f"'entry' must name one charge of the ledger. Got {entry!r}, which names {len(row)}."
        )
    charge = Entry(*row[0])
    return charge, ledger.stored(charge.dataset, charge.key)


def _named(entry: str) -> sa.Select[Any]:
    charges = sa.select(ENTRIES).where(ENTRIES.c.kind.in_(("charge", "receipt")))
    if re.fullmatch("[0-9]{1,15}", entry):
        of_number = ENTRIES.c.seq == int(entry)
        if len(entry) < 8:
            return charges.where(of_number)
        # So many digits may also be the beginning of a hash.
        return charges.where(sa.or_(of_number, ENTRIES.c.hash.startswith(entry))).limit(2)
    if not re.fullmatch("[0-9a-f]{8,64}", entry):
        raise InputError(f"'entry' must be 8 to 64 digits of a hash, or a number. Got {entry!r}.")
    return charges.where(ENTRIES.c.hash.startswith(entry)).limit(2)


@dataclass(frozen=True)
class _Again:
    """An answer made again, unless it is too large; how many numbers it has, its mode, and what was asked for it."""

    answer: Answer | None = None
    size: int = 0
    mode: str | None = None
    micro: int = 0
    workload: WorkloadAnswer | None = None


def _again(sessions: list[Session], entry: Entry, analyst: str, most: float) -> _Again:
    ledger = sessions[0].ledger
    body = ledger.stored(entry.dataset, entry.key)
    if body is None or not ledger.holds(entry.dataset, analyst, entry.key):
        return _Again()  # lost; that somebody else asked the same later is not told
    for session in sessions:
        try:
            found = _answered(session, entry, body, analyst, most)
        except ShoalError:
            continue
        if found.size:
            return found
    return _Again()


def _answered(session: Session, entry: Entry, body: str, analyst: str, most: float) -> _Again:
    """The answer that a stored body stands for; its size is 0 where the entry is of another session."""
    ledger, left = session.ledger, session.remaining(analyst)
    ended = ledger.ended(entry.dataset)
    receipt = Receipt(body, entry.micro, budget.micro(left) if left else 0, ended, entry=entry.name)
    if asks_for_mode(entry.body):
        times = max(1, session.protected.times(entry.unit)) if session.protected else 1
        found = mode_again(session, entry, receipt)
        return _Again(
            found, 0 if found is None else 1, session.mode, entry.micro // session.currency.times(times)
        )
    together = asked_together(entry.body)
    if together is not None:
        return _workload(session, entry, together, receipt, analyst, most)
    query = parse(entry.body)
    try:
        charged = session._plan(query, entry.micro)
    except UndeclaredGroupError as found:
        keyed = plan_keyed(session, query, found, lambda *_: entry.micro)
        if ledger.key_of(keyed_claim(session, keyed, analyst)) != entry.key:
            return _Again()
        told = keyed_answer(session, keyed, receipt)
        size = max(1, len(told.value) * len(query.aggregates))
        return _Again(told if size <= most else None, size, session.mode)
    micro = entry.micro // session.currency.times(max(1, charged.unit.times(entry.unit)))
    plan = session._plan(query, micro)
    if ledger.key_of(session._claim(plan, analyst)) != entry.key:
        return _Again()
    answer = answer_of(session, plan, receipt) if plan.size <= most else None
    return _Again(answer, plan.size, session.mode, micro)


def _workload(
    session: Session, entry: Entry, queries: list[str], receipt: Receipt, analyst: str, most: float
) -> _Again:
    """The answers of a workload; only that they are there, where a list has no room for all numbers."""
    times = max(1, session.protected.times(entry.unit)) if session.protected else 1
    micro = entry.micro // session.currency.times(times)
    if most < math.inf:
        return _Again(None, len(queries), session.mode, micro)
    found = workload_again(session, queries, micro, analyst, entry.key, receipt)
    size = 0 if found is None else len(queries)
    return _Again(None, size, session.mode, micro, found)
