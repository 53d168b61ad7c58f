"""Answers an analyst already holds, made again from what the ledger stored: nothing is drawn or charged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from shoal.dp import budget
from shoal.dp.answer import Answer
from shoal.dp.claims import Receipt
from shoal.dp.entries import ENTRIES, Entry
from shoal.dp.ledger import Ledger
from shoal.dp.session import Session
from shoal.dp.sql import parse
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
    epsilon : float
        What this analyst was charged.
    answer : Answer, optional
        None where it cannot be made again from the canonical text, or was lost before it was stored.
    """

    entry: str
    at: str
    query: str
    epsilon: float
    answer: Answer | None


def past(sessions: list[Session], analyst: str, last: int = 50) -> list[Past]:
    """The newest answers that an analyst paid for, newest first.

    Parameters
    ----------
    sessions : list of Session
        Of one data set, one per mode.
    analyst : str
    last : int, default 50
        How many entries to look at.

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
    ledger, dataset = sessions[0].ledger, sessions[0].schema.id
    found = []
    for entry in ledger.entries(dataset=dataset, analyst=analyst, last=last):
        if entry.kind in ("charge", "receipt"):
            spent = budget.epsilon(entry.micro)
            found.append(Past(entry.name, entry.at, entry.body, spent, _again(sessions, entry, analyst)))
    return found[::-1]


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
        return charges.where(ENTRIES.c.seq == int(entry))
    if not re.fullmatch("[0-9a-f]{8,64}", entry):
        raise InputError(f"'entry' must be 8 to 64 digits of a hash, or a number. Got {entry!r}.")
    return charges.where(ENTRIES.c.hash.startswith(entry)).limit(2)


def _again(sessions: list[Session], entry: Entry, analyst: str) -> Answer | None:
    ledger = sessions[0].ledger
    body = ledger.stored(entry.dataset, entry.key)
    if body is None or not ledger.holds(entry.dataset, analyst, entry.key):
        return None  # lost; that somebody else asked the same later is not told
    for session in sessions:
        try:
            query = parse(entry.body)
            charged = session._plan(query, entry.micro)
            times = session.currency.times(max(1, charged.unit.times(entry.unit)))
            plan = session._plan(query, entry.micro // times)
        except ShoalError:
            continue
        if ledger.key_of(session._claim(plan, analyst)) == entry.key:
            left = budget.micro(session.remaining(analyst)) if session.remaining(analyst) else 0
            ended = ledger.ended(entry.dataset)
            return session._answer(plan, Receipt(body, entry.micro, left, ended, entry=entry.name))
    return None
