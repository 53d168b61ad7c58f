"""The log as an auditor reads it: one row for each question with what became of it, found by filters, page by page."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from shoal.dp.ledger.entries import ENTRIES, FIELDS, SIGN_IN, Entry
from shoal.dp.ledger.ledger import Ledger
from shoal.errors import MissingExtraError, ParameterError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

QUESTIONS, CHANGES = "questions", "changes by owners"
LOST = "charged, no answer stored"
STATES = (
    QUESTIONS,
    "answered",
    "given again",
    "refused",
    LOST,
    CHANGES,
    "caps",
    "rights",
    "event",
    "end",
    "secret",
    "delta",
)
MOST = 1000
_STATED = ("caps", "rights", "event", "end", "secret", "delta")  # kinds that are their own state
_KINDS = {"given again": "receipt", "refused": "refusal"} | {each: each for each in _STATED}


@dataclass(frozen=True)
class Filters:
    """Which rows of the log to show; what is left open does not narrow.

    Parameters
    ----------
    dataset, analyst : str, optional
    state : str, optional
        One of `STATES`; "questions" are all that were answered, given again, refused or lost.
    text : str, optional
        Words that the question or refusal holds.
    since, until : str, optional
        Days such as 2026-03-01, both included.
    """

    dataset: str | None = None
    analyst: str | None = None
    state: str | None = None
    text: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise ParameterError(f"'state' must be one of {', '.join(STATES)}. Got {self.state[:40]!r}.")
        for name in ("since", "until"):
            day = getattr(self, name)
            try:
                if day is not None:
                    datetime.date.fromisoformat(day)
            except ValueError:
                raise ParameterError(
                    f"{name!r} must be a day such as 2026-03-01. Got {day[:40]!r}."
                ) from None


@dataclass(frozen=True)
class LogRow:
    """One row of the log: an entry, and what became of its question."""

    entry: Entry
    state: str


@dataclass(frozen=True)
class Page:
    """Some rows, newest first, and the number before which the next page begins; None on the last."""

    rows: tuple[LogRow, ...]
    older: int | None


def read_log(
    ledger: Ledger, filters: Filters | None = None, *, before: int | None = None, most: int = 100
) -> Page:
    """A page of the log, newest first. Entries that store an answer are no rows: they are the state of their question.

    Parameters
    ----------
    ledger : Ledger
    filters : Filters, optional
    before : int, optional
        `older` of the page before.
    most : int, default 100
        Rows of a page, at most 1,000.

    Examples
    --------
    >>> from shoal.dp import Ledger
    >>> from shoal.dp.ledger.log import read_log
    >>> with Ledger() as ledger:
    ...     len(read_log(ledger).rows)
    0
    """
    if not 1 <= most <= MOST:
        raise ParameterError(f"'most' must be a whole number from 1 to {MOST}. Got {most!r}.")
    stored = ENTRIES.alias("stored")
    answered = sa.exists().where(
        stored.c.dataset == ENTRIES.c.dataset, stored.c.key == ENTRIES.c.key, stored.c.kind == "settle"
    )
    select = (
        sa.select(ENTRIES, answered.label("answered"))
        .where(ENTRIES.c.kind != "settle", *_conditions(filters or Filters(), answered))
        .order_by(ENTRIES.c.seq.desc())
        .limit(most + 1)
    )
    if before is not None:
        select = select.where(ENTRIES.c.seq < before)
    found = ledger.store.all(select)
    rows = tuple(_row(each) for each in found[:most])
    return Page(rows, rows[-1].entry.seq if len(found) > most else None)


def _conditions(filters: Filters, answered: Any) -> list[Any]:
    wanted: list[Any] = []
    if filters.dataset is not None:
        wanted.append(ENTRIES.c.dataset == filters.dataset)
    if filters.analyst is not None:
        wanted.append(ENTRIES.c.analyst == filters.analyst)
    if filters.text is not None:
        wanted.append(ENTRIES.c.body.contains(filters.text, autoescape=True))
    day = sa.func.substr(ENTRIES.c.at, 1, len("2026-03-01"))
    if filters.since is not None:
        wanted.append(day >= datetime.date.fromisoformat(filters.since).isoformat())
    if filters.until is not None:
        wanted.append(day <= datetime.date.fromisoformat(filters.until).isoformat())
    if filters.state == "answered":
        wanted += [ENTRIES.c.kind == "charge", answered]
    elif filters.state == LOST:
        wanted += [ENTRIES.c.kind == "charge", ~answered]
    elif filters.state == QUESTIONS:
        wanted.append(ENTRIES.c.kind.in_(("charge", "receipt", "refusal")))
    elif filters.state == CHANGES:
        wanted += [ENTRIES.c.kind.in_(_STATED), ENTRIES.c.key != SIGN_IN]
    elif filters.state is not None:
        wanted.append(ENTRIES.c.kind == _KINDS[filters.state])
    return wanted


def _row(found: Any) -> LogRow:
    entry = Entry(*found[: len(FIELDS)])
    if entry.kind == "charge":
        return LogRow(entry, "answered" if found[-1] else LOST)
    return LogRow(entry, next(state for state, kind in _KINDS.items() if kind == entry.kind))
