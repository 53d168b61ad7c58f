"""Requests for more budget: an analyst asks, an owner decides, and the decision is an entry of the ledger."""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa

from shoal.dp.budget import epsilon
from shoal.dp.ledger.claims import Caps
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.rights import Rights
from shoal.errors import InputError, ParameterError
from shoal.server.budgets import CurrencyWords
from shoal.typing import Json

OPEN, GRANTED, REFUSED = "open", "granted", "refused"
REASON = 500  # characters
_METADATA = sa.MetaData()
_REQUESTS = sa.Table(
    "shoal_requests",
    _METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("micro", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("decided_by", sa.Text, nullable=False),
    sa.Column("decided_at", sa.Float, nullable=False),
    sa.Column("granted", sa.BigInteger, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)


@dataclass(frozen=True)
class BudgetRequest:
    """What an analyst asks for, and what became of it; amounts in millionths."""

    id: str
    dataset: str
    analyst: str
    micro: int
    reason: str
    at: float
    state: str
    decided_by: str
    decided_at: float
    granted: int
    note: str

    def to_dict(self, word: str) -> Json:
        """With its amount under the name of what the data set is counted in, epsilon or rho."""
        facts = {
            name: getattr(self, name)
            for name in ("id", "dataset", "analyst", "reason", "at", "state", "note")
        }
        decided = {"by": self.decided_by, "at": self.decided_at} if self.state != OPEN else None
        amounts = {word: epsilon(self.micro), "granted": epsilon(self.granted), "counted_in": word}
        return facts | amounts | {"decided": decided}


class BudgetRequests:
    """The book of requests, beside the accounts.

    Parameters
    ----------
    engine : sqlalchemy.Engine
    ledger : Ledger
    """

    def __init__(self, engine: sa.Engine, ledger: Ledger) -> None:
        self._engine, self._ledger = engine, ledger
        with engine.begin() as connection:
            _METADATA.create_all(connection)

    def add(self, dataset: str, analyst: str, micro: int, reason: str) -> BudgetRequest:
        """Ask for more; one request about a data set may be open at a time."""
        if not reason.strip() or len(reason) > REASON:
            raise ParameterError(f"'reason' must be a text of 1 to {REASON} characters. Got {len(reason)}.")
        if any(each.state == OPEN and each.dataset == dataset for each in self.list(analyst)):
            raise ParameterError(
                f"Your request about data set {dataset!r} is still open: wait for the owner's decision."
            )
        made = BudgetRequest(
            secrets.token_hex(6), dataset, analyst, micro, reason.strip(), time.time(), OPEN, "", 0.0, 0, ""
        )
        with self._engine.begin() as connection:
            connection.execute(_REQUESTS.insert(), asdict(made))
        return made

    def list(self, analyst: str | None = None, most: int = 200) -> list[BudgetRequest]:
        """Newest first, open ones before all others."""
        select = sa.select(_REQUESTS).order_by(_REQUESTS.c.state != OPEN, _REQUESTS.c.at.desc()).limit(most)
        if analyst is not None:
            select = select.where(_REQUESTS.c.analyst == analyst)
        with self._engine.connect() as connection:
            return [BudgetRequest(*row) for row in connection.execute(select)]

    def open_one(self, identity: str) -> BudgetRequest:
        """A request that is still to be decided."""
        found = next((each for each in self.list() if each.id == identity), None)
        if found is None or found.state != OPEN:
            raise InputError("There is no such open request: somebody may have decided it already.")
        return found

    def decide(self, identity: str, by: str, granted: int, note: str = "") -> BudgetRequest:
        """Grant so many millionths, or none; it is written in the ledger, which holds to it from then on."""
        found = self.open_one(identity)
        state = GRANTED if granted else REFUSED
        decided = replace(
            found, state=state, decided_by=by, decided_at=time.time(), granted=granted, note=note[:REASON]
        )
        if not self._settle(decided, OPEN):
            raise InputError("There is no such open request: somebody may have decided it already.")
        try:
            self._write(decided)
        except BaseException:
            self._settle(found, state)  # nothing was written, so that it is still to be decided
            raise
        return decided

    def _settle(self, wanted: BudgetRequest, state: str) -> bool:
        """Store a decision unless the request is no longer in this state."""
        facts = {
            name: getattr(wanted, name) for name in ("state", "decided_by", "decided_at", "granted", "note")
        }
        with self._engine.begin() as connection:
            done = connection.execute(
                _REQUESTS.update()
                .where(_REQUESTS.c.id == wanted.id, _REQUESTS.c.state == state)
                .values(facts)
            )
        return bool(done.rowcount)

    def _write(self, decided: BudgetRequest) -> None:
        word = CurrencyWords(self._ledger).of(decided.dataset)
        said = f"request {decided.id} of {decided.analyst} for {word} {epsilon(decided.micro):g} ({decided.reason})"
        if not decided.granted:
            text = f"{said}: refused. {decided.note}".strip()
            self._ledger.note("request", decided.decided_by, text, decided.dataset)
            return
        caps = self._ledger.caps(decided.dataset) or Caps(0, 0)

        def raised(rights: Rights) -> Rights:
            own = rights.people.get(decided.analyst)
            cap = (caps.per_analyst if own is None else own) + decided.granted
            return replace(rights, people={**rights.people, decided.analyst: cap})

        why = f"{said}: {word} {epsilon(decided.granted):g} granted. {decided.note}".strip()
        self._ledger.set_rights(decided.dataset, raised, decided.decided_by, why)
