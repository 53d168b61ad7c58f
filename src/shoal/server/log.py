"""The auditor's views: the log by question, found by filters, page by page; export; and a kept hash compared."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Query, Request
from fastapi.responses import Response, StreamingResponse

from shoal.dp.budget import epsilon as epsilon_of
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.entries import Entry
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.log import MOST, STATES, Filters, LogRow, read_log
from shoal.dp.ledger.signing import SigningKey, kept_head
from shoal.dp.mechanisms.currency import WORDS
from shoal.server import api, pages
from shoal.server.budgets import CurrencyWords
from shoal.server.models import SignedHeadFacts
from shoal.server.refusals import UnknownError
from shoal.typing import Json

_COLUMNS = (
    "seq",
    "at",
    "state",
    "dataset",
    "analyst",
    "counted_in",
    "spent",
    "total",
    "unit",
    "text",
    "entry",
    "hash",
)
SPENDING = ("charge", "receipt")  # kinds whose amount is one of the budget
Text = Annotated[str, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=1, le=2**62, description="'older' of the page before.")]


def _wanted(
    dataset: Text = "",
    analyst: Text = "",
    state: Text = "",
    text: Text = "",
    since: Text = "",
    until: Text = "",
) -> Filters:
    """The filters of a request; a field left empty does not narrow."""
    given = (dataset, analyst, state, text, since, until)
    return Filters(*(each.strip() or None for each in given))


Wanted = Annotated[Filters, Depends(_wanted)]


def page(
    request: Request,
    filters: Wanted,
    expects: Annotated[str, Query(max_length=1000)] = "",
    before: Before = None,
) -> Response:
    """The auditor's page: whether the chain holds, replayed now, and the questions that the filters find."""
    ledger, typed = api.service_of(request).ledger, asdict(filters)
    signing: SigningKey = request.app.state.signing
    found = read_log(ledger, filters, before=before)
    return pages.render(
        request,
        "audit.html.j2",
        check=ledger.verify(kept_head(expects, signing.public_key) if expects.strip() else None),
        public_key=signing.public_key,
        expects=expects.strip(),
        rows=_all_shown(ledger, found.rows),
        typed=typed,
        datasets=list(api.service_of(request).datasets),
        states=STATES,
        same=urlencode({name: value for name, value in typed.items() if value}),
        older=found.older,
        newest=before is None,
    )


def questions(
    request: Request,
    filters: Wanted,
    before: Before = None,
    most: int = Query(100, ge=1, le=MOST),
) -> Json:
    """For auditors: one row for each question with what became of it, newest first, page by page."""
    ledger = api.service_of(request).ledger
    found = read_log(ledger, filters, before=before, most=most)
    return {"rows": _all_shown(ledger, found.rows), "older": found.older}


def head(request: Request) -> SignedHeadFacts:
    """For auditors: the ledger's head, signed now. Keep its line elsewhere; the log and `shoal ledger verify` compare it."""
    signed = request.app.state.signing.sign(api.service_of(request).ledger.head())
    return SignedHeadFacts(**asdict(signed), line=signed.line)


def export(
    request: Request,
    name: str,
    filters: Wanted,
) -> Response:
    """All that the filters find as `log.csv` or `log.jsonl`; `entries.jsonl` is every entry, `head.txt` the signed head."""
    ledger = api.service_of(request).ledger
    made = {
        "log.csv": (lambda: _csv(ledger, filters), "text/csv; charset=utf-8"),
        "log.jsonl": (lambda: _lines(ledger, filters), "application/x-ndjson"),
        "entries.jsonl": (lambda: _entries(ledger), "application/x-ndjson"),
        "head.txt": (lambda: iter([head(request).line + "\n"]), "text/plain; charset=utf-8"),
    }
    if name not in made:
        raise UnknownError("There is no such file.")
    write, kind = made[name]
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(write(), media_type=kind, headers=headers)


def _all_shown(ledger: Ledger, rows: Iterable[LogRow]) -> list[Json]:
    words = CurrencyWords(ledger)
    return [_shown(row, words.of(row.entry.dataset)) for row in rows]


def _shown(row: LogRow, word: str) -> Json:
    entry = row.entry
    return {
        "seq": entry.seq,
        "at": entry.at,
        "state": row.state,
        "dataset": entry.dataset,
        "analyst": entry.analyst,
        "counted_in": word,
        "spent": epsilon_of(entry.micro) if entry.kind in SPENDING else 0.0,
        "total": epsilon_of(entry.dataset_total),
        "unit": entry.unit,
        "text": _words(entry),
        "entry": entry.name,
        "hash": entry.hash,
    }


def _words(entry: Entry) -> str:
    """What an entry says, in words where it holds none; the export of the chain has it as it is."""
    if entry.kind == "caps":
        caps = Caps.from_json(entry.body)
        word = WORDS[caps.currency]
        return (
            f"budget {word} {epsilon_of(caps.total):g}, per analyst {word} {epsilon_of(caps.per_analyst):g}"
        )
    if entry.kind == "delta":
        return (
            f"delta {entry.micro / 1e18:g} of groups that nobody declared, {int(entry.body) / 1e18:g} so far"
        )
    if entry.kind == "event":
        return f"{entry.key.partition(':')[2]}: {entry.body}"
    return "mark of the ledger's secret" if entry.kind == "secret" else entry.body


def _all(ledger: Ledger, filters: Filters) -> Iterator[Json]:
    """Every row, piece by piece, so that a long log is not held in memory."""
    before = None
    while True:
        found = read_log(ledger, filters, before=before, most=MOST)
        yield from _all_shown(ledger, found.rows)
        before = found.older
        if before is None:
            return


def _csv(ledger: Ledger, filters: Filters) -> Iterator[str]:
    yield _line(_COLUMNS)
    for row in _all(ledger, filters):
        yield _line([pages.escape_cell(row[name]) for name in _COLUMNS])


def _line(cells: Any) -> str:
    file = io.StringIO()
    csv.writer(file).writerow(cells)
    return file.getvalue()


def _lines(ledger: Ledger, filters: Filters) -> Iterator[str]:
    return (json.dumps(row) + "\n" for row in _all(ledger, filters))


def _entries(ledger: Ledger) -> Iterator[str]:
    return (json.dumps(asdict(each.shown())) + "\n" for each in ledger.entries())
